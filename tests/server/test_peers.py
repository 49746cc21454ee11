"""What one process asks another over the wire: here the other is a server of its own, plain or with TLS."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from kafka_shim.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_shim.apis.wire import Message
from kafka_shim.broker.topics import Node as Address
from kafka_shim.server.cluster import ClusterConfig, make_cluster
from kafka_shim.server.peers import Peers
from kafka_shim.server.server import ServerConfig, unchecked
from kafka_shim.testing import CoordinatorServer


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for a name that is nobody's address, and its key."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", "/CN=kafka.example", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


@pytest.fixture(params=["plain", "TLS"])
def other(request: pytest.FixtureRequest, certificate: tuple[Path, Path]) -> Iterator[CoordinatorServer]:
    tls = None
    if request.param == "TLS":
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*certificate)
    with CoordinatorServer(server_config=ServerConfig(tls=tls, cluster=ClusterConfig())) as server:
        yield server


@asynccontextmanager
async def peers_of(other: CoordinatorServer) -> AsyncIterator[Peers]:
    """The other processes of a cluster, of which node 2 is this server and node 3 is gone."""
    cluster = make_cluster([Address(1, "127.0.0.1", 1)], ClusterConfig())
    host, _, port = other.bootstrap.rpartition(":")
    cluster.topics.nodes |= {2: Address(2, host, int(port)), 3: Address(3, "127.0.0.1", 1)}
    peers = Peers(
        1,
        SimpleNamespace(epochs={}),
        cluster.topics,
        cluster.ownership.owners.get,
        cluster.clock,
        lambda now: None,
        cluster.settle,
        lambda purpose, answer, now: purpose.send_nowait(answer),
        unchecked() if other.server.config.tls is not None else None,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peers.run)
        yield peers
        nursery.cancel_scope.cancel()


async def ask(peers: Peers, *node_ids: int) -> list[Message | None]:
    """Ask these nodes at once for their groups; the answers in the order they came in."""
    send, receive = trio.open_memory_channel[Message | None](10)
    for node_id in node_ids:
        peers.ask(node_id, 4, ListGroupsRequest(), send)
    with trio.fail_after(10):
        return [await receive.receive() for _ in node_ids]


async def test_questions_are_answered_over_one_connection(other: CoordinatorServer) -> None:
    async with peers_of(other) as peers:
        answers = await ask(peers, 2, 2, 2)
        assert [type(answer) for answer in answers] == [ListGroupsResponse] * 3
        assert len(await trio.to_thread.run_sync(other.call, other.server.cluster.sessions)) == 1


async def test_a_connection_that_the_other_side_has_closed_is_replaced(other: CoordinatorServer) -> None:
    def close() -> None:
        for session in other.server.cluster.sessions():
            session.transport.close()

    async with peers_of(other) as peers:
        await ask(peers, 2)
        await trio.to_thread.run_sync(other.call, close)
        (answer,) = await ask(peers, 2)
        assert isinstance(answer, ListGroupsResponse)


async def test_who_asks_a_node_that_is_gone_is_told_so(other: CoordinatorServer) -> None:
    async with peers_of(other) as peers:
        assert await ask(peers, 3) == [None]
        assert await ask(peers, 4) == [None]
        assert await ask(peers, 2) != [None]
