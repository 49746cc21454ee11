"""TLS connections of the reactor: slow, broken and greedy clients, and the cost of a handshake for the others."""

from __future__ import annotations

import gc
import logging
import select
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_shim.apis.metadata import MetadataRequest, MetadataResponse
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.frames import FrameSplitter
from kafka_shim.security.certificates import TestAuthority
from kafka_shim.security.tls import tls_of
from kafka_shim.server import reactor, session
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.encrypted import EARLY_BYTES, TlsConnection
from kafka_shim.server.server import ServerConfig, listen
from kafka_shim.testing import CoordinatorServer
from tests.server.wire import Client, cluster, fetch_that_waits, request, reset_at_close
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(not reactor.AVAILABLE, reason="this platform has no epoll")

Patch = pytest.MonkeyPatch
AUTHORITY = TestAuthority()
ISSUED = AUTHORITY.server()
SETTINGS = {"ssl.keystore.key": ISSUED.key, "ssl.keystore.certificate.chain": ISSUED.certificate}
LISTENERS = {
    "listeners": "OPEN://127.0.0.1:0,SECRET://127.0.0.1:0",
    "listener.security.protocol.map": "OPEN:PLAINTEXT,SECRET:SSL",
    **SETTINGS,
}


def context(version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cadata=AUTHORITY.certificate)
    if version is not None:
        made.minimum_version = made.maximum_version = version
    return made


def wrapped(sock: socket.socket) -> ssl.SSLSocket:
    return context().wrap_socket(sock, server_hostname="127.0.0.1")


@pytest.fixture(scope="module", params=[True, False], ids=["reactor", "streams"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinatorServer]:
    config = ServerConfig(epoll=request.param, cluster=ClusterConfig(topics={"orders": 1000}))
    store = f"sqlite:{tmp_path_factory.mktemp('store')}/offsets.db"
    with CoordinatorServer(server_config=config, config=LISTENERS, store=store) as made:
        yield made


def serves(server: CoordinatorServer) -> bool:
    """Return True if other clients are served, plain ones and those with TLS."""
    with Client(server.bootstrap_of("OPEN")) as plain, Client(server.bootstrap_of("SECRET"), wrapped) as secret:
        return not any(each.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code for each in (plain, secret))


class Bytes:
    """A client of TLS that sends and receives the bytes of its records by hand."""

    def __init__(self, address: str, version: ssl.TLSVersion | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context(version).wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")

    def __enter__(self) -> Bytes:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def records(self) -> bytes:
        """Return the bytes to send that TLS has made."""
        return self.outgoing.read()

    def handshake(self, send: Callable[[bytes], Any] | None = None) -> None:
        """Do the handshake; `send` sends each flight but the last, which waits in `outgoing`."""
        while True:
            try:
                self.tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                (send or self.socket.sendall)(self.records())
                self.incoming.write(self.socket.recv(65536))

    def one_by_one(self, data: bytes) -> None:
        for byte in data:
            self.socket.sendall(bytes([byte]))

    def read(self, message: Any, version: int, count: int) -> list[Any]:
        """Return so many answers."""
        splitter, answers = FrameSplitter(), []
        while len(answers) < count:
            try:
                plain = self.tls.read(65536)
            except ssl.SSLWantReadError:
                data = self.socket.recv(65536)
                assert data, "the server has closed the connection"
                self.incoming.write(data)
                continue
            answers += [message.decode(frame[4:], version) for frame in splitter.feed(plain)]
        return answers

    def is_closed_by_server(self) -> bool:
        with suppress(ConnectionError):
            while self.socket.recv(65536):
                pass
        return True


def heartbeats(count: int) -> bytes:
    return b"".join(request(HeartbeatRequest("none", 1, "m"), 3, number) for number in range(count))


UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def requests_of(first: str) -> tuple[bytes, int]:
    """Return three requests, the first of which may wait, and the bytes of all answers."""
    heartbeat = 4 + 4 + 4 + 2
    if first == "stored":
        partition = OffsetCommitRequestPartition(0, 7, committed_metadata="")
        commit = OffsetCommitRequest("none", topics=[OffsetCommitRequestTopic("orders", partitions=[partition])])
        return request(commit, 2) + heartbeats(2), 4 + 4 + 4 + (2 + 6) + 4 + (4 + 2) + 2 * heartbeat
    if first == "parked":
        size = 4 + 4 + 4 + 4 + (2 + 6) + 4 + 4 + 2 + 8 + 8 + 4 + 4
        return fetch_that_waits(20) + heartbeats(2), size + 2 * heartbeat
    return heartbeats(3), 3 * heartbeat


FIRST = ["served", "stored", "parked"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_bytes_that_come_one_by_one_are_served(server: CoordinatorServer, version: ssl.TLSVersion) -> None:
    with Bytes(server.bootstrap_of("SECRET"), version) as client:
        client.handshake(client.one_by_one)
        client.tls.write(heartbeats(1))
        client.one_by_one(client.records())
        assert [each.error_code for each in client.read(HeartbeatResponse, 3, 1)] == [UNKNOWN]


def test_requests_come_with_the_end_of_the_handshake(server: CoordinatorServer) -> None:
    with Bytes(server.bootstrap_of("SECRET"), ssl.TLSVersion.TLSv1_3) as client:
        client.handshake()
        client.tls.write(heartbeats(3))
        client.socket.sendall(client.records())
        assert len(client.read(HeartbeatResponse, 3, 3)) == 3


def test_many_requests_in_a_record_and_a_request_in_many_records(server: CoordinatorServer) -> None:
    with Bytes(server.bootstrap_of("SECRET")) as client:
        client.handshake()
        client.tls.write(heartbeats(50))
        for byte in heartbeats(1):
            client.tls.write(bytes([byte]))
        client.socket.sendall(client.records())
        assert {each.error_code for each in client.read(HeartbeatResponse, 3, 51)} == {UNKNOWN}


@pytest.mark.parametrize("ends", [False, True], ids=["farewell", "farewell and end"])
@pytest.mark.parametrize("pipelined", [session.PIPELINED, -1.0], ids=["at once", "in turns"])
@pytest.mark.parametrize("first", FIRST)
def test_a_client_that_half_closes_is_answered(
    server: CoordinatorServer, first: str, pipelined: float, ends: bool, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(session, "PIPELINED", pipelined)
    requests, size = requests_of(first)
    with Bytes(server.bootstrap_of("SECRET")) as client:
        client.handshake()
        client.tls.write(requests)
        with suppress(ssl.SSLWantReadError):
            client.tls.unwrap()
        client.socket.sendall(client.records())
        if ends:
            client.socket.shutdown(socket.SHUT_WR)
        data = b""
        while part := client.socket.recv(65536):
            data += part
        client.incoming.write(data)
        # No error of a cut stream: the server has said that this is all.
        client.incoming.write_eof()
        plain = b""
        with suppress(ssl.SSLZeroReturnError):
            while part := client.tls.read(65536):
                plain += part
    assert len(plain) == size
    assert serves(server)


@pytest.mark.parametrize("pipelined", [session.PIPELINED, -1.0], ids=["at once", "in turns"])
@pytest.mark.parametrize("first", FIRST)
def test_a_plain_client_that_half_closes_is_answered(
    server: CoordinatorServer, first: str, pipelined: float, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(session, "PIPELINED", pipelined)
    requests, size = requests_of(first)
    host, _, port = server.bootstrap_of("OPEN").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as client:
        client.sendall(requests)
        client.shutdown(socket.SHUT_WR)
        data = b""
        while part := client.recv(65536):
            data += part
    assert len(data) == size
    assert serves(server)


def test_a_spoilt_record_ends_its_connection_alone(server: CoordinatorServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), Bytes(server.bootstrap_of("SECRET")) as client:
        client.handshake()
        client.socket.sendall(client.records())
        client.tls.write(heartbeats(1))
        record = bytearray(client.records())
        record[-1] ^= 1
        client.socket.sendall(record)
        assert client.is_closed_by_server()
    assert "broken TLS" in caplog.text
    assert serves(server)


@pytest.mark.parametrize("cut", ["hello", "record"])
def test_a_connection_that_ends_inside_a_record_is_forgotten(server: CoordinatorServer, cut: str) -> None:
    with Bytes(server.bootstrap_of("SECRET")) as client:
        if cut == "record":
            client.handshake()
            client.socket.sendall(client.records())
            client.tls.write(heartbeats(1))
        else:
            with suppress(ssl.SSLWantReadError):
                client.tls.do_handshake()
        client.socket.sendall(client.records()[:-7])
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed_by_server()
    assert serves(server)
    network = server.server.network
    with Client(server.bootstrap_of("OPEN")) as plain:
        assert plain.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
        while len(server.call(lambda: list(network.connections))) > 1:
            assert plain.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl command")
@pytest.mark.parametrize(("version", "command"), [("-tls1_2", "R"), ("-tls1_3", "K"), ("-tls1_3", "k")])
def test_another_handshake_or_other_keys_disturb_nobody(server: CoordinatorServer, version: str, command: str) -> None:
    # Commands of s_client: R asks for a handshake, K and k change keys.
    done = subprocess.run(
        ["openssl", "s_client", "-connect", server.bootstrap_of("SECRET"), version],
        input=f"{command}\n" * 40 + "Q\n",
        capture_output=True,
        text=True,
    )
    assert ("RENEGOTIATING" if command == "R" else "KEYUPDATE") in done.stdout + done.stderr
    assert serves(server)


def test_a_handshake_that_goes_on_for_ever_ends(monkeypatch: Patch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(reactor, "STALLED", 0.3)
    with CoordinatorServer(config=LISTENERS) as slow, caplog.at_level(logging.WARNING):
        with Bytes(slow.bootstrap_of("SECRET")) as client, Bytes(slow.bootstrap_of("SECRET")) as silent:
            # Each byte is progress, and none of them counts.
            with suppress(ssl.SSLWantReadError):
                client.tls.do_handshake()
            hello = client.records()
            with suppress(ConnectionError):
                for number in range(100_000):
                    client.socket.sendall(hello[number : number + 1] or b"")
                    if select.select([client.socket], [], [], 0.01)[0]:
                        break
            assert client.is_closed_by_server()
            assert silent.is_closed_by_server()
        assert caplog.text.count("no TLS with 127.0.0.1") == 2
        assert "not within 0 s" in caplog.text
        assert serves(slow)


@pytest.mark.second_stage("its time")
def test_a_client_that_never_reads_is_closed(monkeypatch: Patch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(reactor, "STALLED", 0.3)
    with CoordinatorServer(topics={"orders": 2000}, config=LISTENERS) as server, caplog.at_level(logging.WARNING):
        deaf = Client(server.bootstrap_of("SECRET"), wrapped)
        whole = request(MetadataRequest(topics=None), 9)
        with suppress(OSError):
            while True:
                deaf.socket.sendall(whole * 1000)
        deaf.close()
        assert "of an answer unread" in caplog.text
        assert serves(server)


def test_a_name_without_a_rule_is_no_client(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    config = LISTENERS | {
        "ssl.client.auth": "required",
        "ssl.truststore.certificates": AUTHORITY.certificate,
        "ssl.principal.mapping.rules": "RULE:^CN=(a.*)$/$1/",
    }
    for name in ("alice", "bob"):
        issued = AUTHORITY.client(name)
        (tmp_path / f"{name}.pem").write_text(issued.key + issued.certificate)

    def of(name: str) -> Callable[[socket.socket], ssl.SSLSocket]:
        made = context()
        made.load_cert_chain(tmp_path / f"{name}.pem")
        return lambda sock: made.wrap_socket(sock, server_hostname="127.0.0.1")

    with CoordinatorServer(config=config) as strict, caplog.at_level(logging.WARNING):
        with Client(strict.bootstrap_of("SECRET"), of("alice")) as client:
            assert client.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
        with Client(strict.bootstrap_of("SECRET"), of("bob")) as client, pytest.raises((OSError, EOFError)):
            client.ask(ListGroupsRequest(), 0, ListGroupsResponse)
        assert "no rule of ssl.principal.mapping.rules" in caplog.text


@contextmanager
def served_by_hand() -> Iterator[tuple[reactor.Reactor, str, str]]:
    """Start a reactor that serves on demand; yield it with its plain address and that with TLS."""
    made = cluster(topics={"orders": 1})
    served = reactor.Reactor(made)
    plain, secret = listen("127.0.0.1", 0, 1)[0], listen("127.0.0.1", 0, 1)[0]
    served.accept(plain, made.nodes[1])
    opens = partial(TlsConnection, tls=tls_of(SETTINGS), principal_of=lambda connection: None)
    served.accept(secret, made.nodes[1], None, opens)
    try:
        yield served, *(f"127.0.0.1:{each.getsockname()[1]}" for each in (plain, secret))
    finally:
        served.close()


def until(served: reactor.Reactor, is_so: Callable[[], bool]) -> None:
    """Serve the clients that are ready, until something is so."""
    while not is_so():
        assert served.later or select.select([served.epoll], [], [], PATIENCE_S)[0], "nobody is ready"
        served.drain()


def test_a_client_that_ends_before_its_last_step_of_the_handshake_is_answered(monkeypatch: Patch) -> None:
    monkeypatch.setattr(reactor, "HANDSHAKES", 0)
    version = ssl.TLSVersion.TLSv1_3
    with served_by_hand() as (served, _, secret), Bytes(secret, version) as first, Bytes(secret, version) as second:
        clients = (first, second)
        until(served, lambda: len(served.connections) == 2)
        for each in clients:
            with suppress(ssl.SSLWantReadError):
                each.tls.do_handshake()
            each.socket.sendall(each.records())
        until(served, lambda: len(select.select([each.socket for each in clients], [], [], 0)[0]) == 2)
        for each in clients:
            each.incoming.write(each.socket.recv(65536))
            each.tls.do_handshake()
            each.tls.write(heartbeats(1))
            with suppress(ssl.SSLWantReadError):
                each.tls.unwrap()
            each.socket.sendall(each.records())
            each.socket.shutdown(socket.SHUT_WR)
        until(served, lambda: not served.connections)
        for each in clients:
            while data := each.socket.recv(65536):
                each.incoming.write(data)
            assert len(each.tls.read(65536)) == 4 + 4 + 4 + 2


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_bytes_after_the_farewell_are_not_kept(version: ssl.TLSVersion) -> None:
    with served_by_hand() as (served, _, secret), Bytes(secret, version) as client:

        def send(records: bytes) -> None:
            client.socket.sendall(records)
            until(served, lambda: bool(select.select([client.socket], [], [], 0)[0]))

        client.handshake(send)
        client.tls.write(fetch_that_waits(2**31 - 1))
        with suppress(ssl.SSLWantReadError):
            client.tls.unwrap()
        client.socket.sendall(client.records())
        (connection,) = served.connections.values()
        assert isinstance(connection, TlsConnection)
        until(served, lambda: connection.paused)
        # Bytes that the reactor has read already when the end comes.
        connection.resume()
        for _ in range(8):
            connection.used = False
            client.socket.sendall(bytes(1024))
            until(served, lambda: connection.used)
        assert connection._incoming.pending == 0
        reset_at_close(client.socket)
        client.socket.close()
        until(served, lambda: not served.connections)


def test_ready_clients_come_before_handshakes(monkeypatch: Patch) -> None:
    monkeypatch.setattr(reactor, "HANDSHAKES", 0)
    with served_by_hand() as (served, plain, secret), Client(plain) as quick:
        newcomers = [Bytes(secret) for _ in range(20)]
        until(served, lambda: len(served.connections) == 21)
        for each in newcomers:
            with suppress(ssl.SSLWantReadError):
                each.tls.do_handshake()
            each.socket.sendall(each.records())
        of_newcomers = [each.sock for each in served.connections.values() if isinstance(each, TlsConnection)]
        while len(select.select(of_newcomers, [], [], PATIENCE_S)[0]) < 20:
            pass
        quick.socket.sendall(request(ApiVersionsRequest(), 0))
        (of_quick,) = [each.sock for each in served.connections.values() if not isinstance(each, TlsConnection)]
        assert select.select([of_quick], [], [], PATIENCE_S)[0]
        served.drain()
        quick.read(ApiVersionsResponse, 0)
        assert len(served.later) == 19
        until(served, lambda: not served.later)
        for each in newcomers:
            each.socket.close()


def test_few_bytes_wait_for_a_handshake(monkeypatch: Patch) -> None:
    monkeypatch.setattr(reactor.Reactor, "_take_steps", lambda served, now: None)
    with served_by_hand() as (served, _, secret), Bytes(secret) as client:
        client.socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                client.socket.send(b"\x16" * 65536)
        until(served, lambda: any(each.paused for each in served.connections.values()))
        (connection,) = served.connections.values()
        assert isinstance(connection, TlsConnection)
        assert EARLY_BYTES < connection._incoming.pending <= EARLY_BYTES + reactor.RECEIVE_BYTES


def test_a_closed_connection_is_freed_without_the_collector() -> None:
    with served_by_hand() as (served, _, secret):
        gc.collect()
        gc.disable()
        try:
            with Bytes(secret) as client, Bytes(secret) as silent, Bytes(secret) as broken:
                broken.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
                with suppress(ssl.SSLWantReadError):
                    client.tls.do_handshake()
                client.socket.sendall(client.records())
                until(served, lambda: bool(select.select([client.socket], [], [], 0)[0]))
                client.handshake()
                client.socket.sendall(client.records())
                until(served, lambda: len(list(served.cluster.sessions())) == 1)
                silent.socket.close()
            until(served, lambda: not served.connections)
            # Not isinstance: it asks an object for its class, and the lazy settings of Django raise then.
            of_here = [each for each in gc.get_objects() if type(each) is TlsConnection and each._reactor is served]
            assert not of_here
        finally:
            gc.enable()


def test_no_newcomer_enters_a_broker_that_stops() -> None:
    with served_by_hand() as (served, _, secret), Bytes(secret) as client:
        until(served, lambda: len(served.connections) == 1)
        served.cluster.nodes[1].up = False
        with suppress(ssl.SSLWantReadError):
            client.tls.do_handshake()
        client.socket.sendall(client.records())
        until(served, lambda: bool(select.select([client.socket], [], [], 0)[0]))
        client.handshake()
        client.socket.sendall(client.records())
        until(served, lambda: not served.connections)
        assert client.is_closed_by_server()


def test_a_long_answer_is_encrypted_in_parts(server: CoordinatorServer) -> None:
    with Client(server.bootstrap_of("SECRET"), wrapped) as client:
        for correlation_id in range(60):
            client.socket.sendall(request(MetadataRequest(topics=None), 9, correlation_id))
        for correlation_id in range(60):
            found, metadata = client.read(MetadataResponse, 9)
            assert (found, sum(len(topic.partitions) for topic in metadata.topics)) == (correlation_id, 1000)
