"""Requests of one process to another over the wire: here the other is a server, plain or with TLS."""

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
from kafka_shim.security.certificates import HOSTS, TestAuthority
from kafka_shim.security.tls import Tls, tls_of
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.compose import make_cluster
from kafka_shim.server.peers import Peers
from kafka_shim.server.server import ServerConfig, unchecked
from kafka_shim.testing import CoordinatorServer
from tests.server.test_failures import Mistake, mistaken
from tests.waiting import PATIENCE_S
from tests.waiting import until_in_trio as until


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Return a certificate for a name without an address, and its key."""
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
    with CoordinatorServer(server_config=ServerConfig(tls=tls and Tls(lambda: tls), cluster=ClusterConfig())) as server:
        yield server


@asynccontextmanager
async def peers_of(other: CoordinatorServer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Peers]:
    """The other processes of a cluster: node 2 is this server, and node 3 has ended."""
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
        None if other.server.config.tls is None else Tls(lambda: tls or unchecked()),
        cluster.failures,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peers.run)
        yield peers
        nursery.cancel_scope.cancel()


async def ask(peers: Peers, *node_ids: int) -> list[Message | None]:
    """Ask these nodes at once for their groups; return the answers in the order of arrival."""
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


async def test_a_connection_closed_by_the_other_side_is_replaced(other: CoordinatorServer) -> None:
    def close() -> None:
        for session in other.server.cluster.sessions():
            session.transport.close()

    async with peers_of(other) as peers:
        await ask(peers, 2)
        await trio.to_thread.run_sync(other.call, close)
        (answer,) = await ask(peers, 2)
        assert isinstance(answer, ListGroupsResponse)


async def test_a_request_to_a_dead_node_is_answered_none(other: CoordinatorServer) -> None:
    async with peers_of(other) as peers:
        assert await ask(peers, 3) == [None]
        assert await ask(peers, 4) == [None]
        assert await ask(peers, 2) != [None]


async def test_a_process_that_cannot_prove_its_name_is_not_asked() -> None:
    authority = TestAuthority()
    for hosts, trusted, is_answered in (
        (HOSTS, authority, True),
        (HOSTS, TestAuthority(), False),
        (["other.test"], authority, False),
    ):
        issued = authority.server(hosts)
        settings = {"ssl.keystore.key": issued.key, "ssl.keystore.certificate.chain": issued.certificate}
        config = ServerConfig(tls=tls_of(settings), cluster=ClusterConfig())
        with CoordinatorServer(server_config=config) as server:
            async with peers_of(server, ssl.create_default_context(cadata=trusted.certificate)) as peers:
                (answer,) = await ask(peers, 2)
                assert (answer is not None) is is_answered


class Purpose:
    """The purpose of a request, which takes no answer but None."""

    def __init__(self) -> None:
        self.answers: list[Message | None] = []
        self.is_over = trio.Event()

    def send_nowait(self, answer: Message | None) -> None:
        self.answers.append(answer)
        if answer is not None:
            raise Mistake
        self.is_over.set()


async def test_answer_that_raises_counts_as_none(other: CoordinatorServer) -> None:
    async with peers_of(other) as peers:
        purpose = Purpose()
        peers.ask(2, 4, ListGroupsRequest(), purpose)
        with trio.fail_after(PATIENCE_S):
            await purpose.is_over.wait()
        assert [type(answer) for answer in purpose.answers] == [ListGroupsResponse, type(None)]
        assert peers._failures.by_border == {"peer": 1}
        assert len(await ask(peers, 2)) == 1


async def test_connection_of_a_request_that_raised_is_replaced(
    other: CoordinatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def number() -> int:
        (session,) = await trio.to_thread.run_sync(other.call, other.server.cluster.sessions)
        return int(session.number)

    async with peers_of(other) as peers:
        await ask(peers, 2)
        first = await number()
        with monkeypatch.context() as patch:
            patch.setattr("kafka_shim.server.peers.decode_response_header", mistaken)
            assert await ask(peers, 2) == [None]
        (answer,) = await ask(peers, 2)
        assert isinstance(answer, ListGroupsResponse)
        await until(lambda: len(list(other.server.cluster.sessions())) == 1)
        assert await number() > first


async def test_request_that_raises_is_answered_none(other: CoordinatorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with peers_of(other) as peers:
        with monkeypatch.context() as patch:
            patch.setattr("kafka_shim.server.peers._Connection.ask", mistaken)
            assert await ask(peers, 2) == [None]
        assert peers._failures.by_border == {"peer": 1}
        assert await ask(peers, 2) != [None]
