"""The order of due timers and requests: a due timer comes first, unless the process itself stood still."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
import trio

from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import frame
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.server import Server, ServerConfig, serve
from tests.hostile.serving import Peer, request_bytes, serving

SESSION_S = 1.0
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}


def join(session_s: float = SESSION_S) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return JoinGroupRequest("g", round(session_s * 1000), 60_000, "", None, "consumer", protocols)


def with_sync(member_id: str) -> SyncGroupRequest:
    return SyncGroupRequest("g", 1, member_id, None, "consumer", "range", [SyncGroupRequestAssignment(member_id, b"")])


@pytest.mark.parametrize("epoll", [True, False])
async def test_due_session_ends_before_a_later_request_is_served(epoll: bool) -> None:
    ahead = 0.0
    cluster = ClusterConfig(settings=SETTINGS, clock=lambda: time.monotonic() + ahead)
    async with trio.open_nursery() as nursery:
        server: Server = await nursery.start(serve, ServerConfig(cluster=cluster, epoll=epoll))

        def ask(request: Message, version: int) -> Message:
            with Peer(socket.create_connection(("127.0.0.1", int(server.bootstrap.rpartition(":")[2])))) as peer:
                return peer.ask(request, version)

        joined = await trio.to_thread.run_sync(ask, join(6.0), 3)
        assert joined.error_code == 0
        # The clock alone moves: trio still sleeps until the original end of the session.
        ahead = 6.001
        deleted = await trio.to_thread.run_sync(ask, DeleteGroupsRequest(["g"]), 2)
        assert [result.error_code for result in deleted.results] == [0]
        server.stop()


WITHOUT_EPOLL = "from kafka_shim.server import reactor; reactor.AVAILABLE = False"


@pytest.mark.parametrize(
    ("stood_still_s", "first"),
    [(1.05, ""), (1.3, ""), (2.0, ""), (1.05, WITHOUT_EPOLL), (1.3, WITHOUT_EPOLL)],
    ids=["1.05", "1.3", "2.0", "1.05 without epoll", "1.3 without epoll"],
)
def test_heartbeat_in_the_socket_saves_its_member_when_the_process_stood_still(
    tmp_path: Path, stood_still_s: float, first: str
) -> None:
    options = [word for name, value in SETTINGS.items() for word in ("--config", f"{name}={value}")]
    with serving(tmp_path, *options, first=first) as server, server.connect() as peer:
        joined = peer.ask(join(), 3)
        assert peer.ask(with_sync(joined.member_id), 3).error_code == 0
        os.kill(server.pid, signal.SIGSTOP)
        try:
            heartbeat = HeartbeatRequest("g", 1, joined.member_id)
            peer.sock.sendall(frame(request_bytes(heartbeat, 3)))
            # The test needs real time to pass.
            threading.Event().wait(stood_still_s)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        answer = peer.read_frame()
        assert answer is not None
        assert int.from_bytes(answer[8:10], signed=True) == 0
        assert peer.ask(heartbeat, 3).error_code == 0


def test_silent_member_is_expelled_after_the_process_stood_still(tmp_path: Path) -> None:
    options = [word for name, value in SETTINGS.items() for word in ("--config", f"{name}={value}")]
    with serving(tmp_path, *options) as server, server.connect() as peer, server.connect() as other:
        joined = peer.ask(join(), 3)
        assert peer.ask(with_sync(joined.member_id), 3).error_code == 0
        os.kill(server.pid, signal.SIGSTOP)
        try:
            threading.Event().wait(2 * SESSION_S)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        deadline = time.monotonic() + 30
        while other.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code and time.monotonic() < deadline:
            pass
        assert peer.ask(HeartbeatRequest("g", 1, joined.member_id), 3).error_code == 25
