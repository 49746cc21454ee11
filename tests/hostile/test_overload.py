"""Clients that send without reading, or connect without sending, or send much: others notice nothing, memory comes
back."""

from __future__ import annotations

import resource
import socket
import struct
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_shim.apis.metadata import MetadataRequest
from kafka_shim.apis.wire.frames import frame
from tests.hostile.serving import Peer, Serving, request_bytes, serving

MIB = 1 << 20


def still_served(peer: Peer) -> bool:
    return peer.ask(HeartbeatRequest("nobody", 1, "m"), 4).error_code == 25


def test_a_client_that_never_reads_holds_one_answer_and_delays_no_other(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.connect() as witness, server.connect() as greedy:
        wide = [CreatableTopic(f"topic-{n:03}", 100, 1) for n in range(100)]
        witness.ask(CreateTopicsRequest(wide, 30_000), 7)
        question = frame(request_bytes(MetadataRequest(topics=None), 13))
        answer = len(greedy_answer(server))
        before = server.resident
        # Never reading, it asks until its own socket takes no more: the server has stopped reading it.
        greedy.sock.settimeout(1.0)
        sent = ask_until_stuck(greedy.sock, question)
        assert still_served(witness)
        assert sent * answer > 100 * MIB
        assert server.resident - before < 16 * MIB


def ask_until_stuck(sock: socket.socket, question: bytes) -> int:
    """Return the number of requests until the connection took no more for a second."""
    sent = 0
    try:
        while True:
            sock.sendall(question * 1000)
            sent += 1000
    except TimeoutError:
        return sent


def greedy_answer(server: Serving) -> bytes:
    with server.connect() as peer:
        peer.sock.sendall(frame(request_bytes(MetadataRequest(topics=None), 13)))
        data = peer.read_frame()
        assert data is not None
        return data


@pytest.mark.second_stage("ten thousand connections")
def test_ten_thousand_silent_connections_are_served_and_freed(tmp_path: Path) -> None:
    count = 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 500:
        pytest.skip(f"this machine lets a process open {hard} files at most")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with serving(tmp_path) as server, server.connect() as witness:
            assert still_served(witness)
            before = server.resident
            grown = []
            for _ in range(2):
                with ExitStack() as silent:
                    for _ in range(count):
                        sock = socket.create_connection(("127.0.0.1", server.port), 30)
                        # Closed with a reset, or twenty thousand ports of this machine would wait for a minute.
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        silent.callback(sock.close)
                    assert still_served(witness)
                    grown.append(server.resident - before)
                assert still_served(witness)
            assert grown[0] < 100 * MIB
            # The second ten thousand use the memory of the first.
            assert grown[1] - grown[0] < 8 * MIB
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ten_megabytes_of_metadata_come_and_go(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.connect() as witness:
        assert still_served(witness)
        sizes = []
        for turn in range(6):
            with server.connect() as peer:
                join = JoinGroupRequest(
                    f"heavy-{turn}",
                    10_000,
                    10_000,
                    protocol_type="heavy",
                    protocols=[JoinGroupRequestProtocol("p", bytes(10 * MIB))],
                )
                joined = peer.ask(join, 3)
                assert joined.error_code == 0
                assert len(joined.members[0].metadata) == 10 * MIB
                left = peer.ask(LeaveGroupRequest(f"heavy-{turn}", members=[MemberIdentity(joined.member_id)]), 3)
                assert left.members[0].error_code == 0
            assert still_served(witness)
            sizes.append(server.resident)
        assert max(sizes[3:]) - max(sizes[:3]) < 12 * MIB


def test_unfinished_frames_cost_only_their_sent_bytes(tmp_path: Path) -> None:
    """A frame may announce 100 MiB; only its sent bytes cost memory, and only while the connection lasts."""
    with serving(tmp_path) as server, server.connect() as witness:
        assert still_served(witness)
        before = server.resident
        with ExitStack() as stack:
            for _ in range(200):
                peer = stack.enter_context(server.connect())
                peer.sock.sendall((100 * MIB).to_bytes(4) + bytes(10_000))
            assert still_served(witness)
            assert server.resident - before < 24 * MIB


def test_unfinished_frames_of_one_client_are_bounded(tmp_path: Path) -> None:
    """A connection that announces a large frame and sends it slowly holds no more than the frame."""
    with serving(tmp_path) as server, server.connect() as witness:
        assert still_served(witness)
        before = server.resident
        for _ in range(3):
            with server.connect() as peer:
                peer.sock.sendall((60 * MIB).to_bytes(4) + bytes(30 * MIB))
                assert still_served(witness)
        assert server.resident - before < 96 * MIB
