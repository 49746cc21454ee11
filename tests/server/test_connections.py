"""Connections over real sockets: the reactor, trio streams, TLS, and clients that behave badly."""

import gc
import logging
import select
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest

from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_shim.apis.metadata import MetadataRequest, MetadataResponse
from kafka_shim.persistence.partition import partition_for
from kafka_shim.security.tls import Tls
from kafka_shim.server import reactor
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.server import ServerConfig, listen
from kafka_shim.server.session import Session
from kafka_shim.testing import CoordinatorServer
from tests.server.conversation import join
from tests.server.wire import Client, cluster, fetch_that_waits, request, reset_at_close


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


Wrap = Callable[[socket.socket], socket.socket] | None


@pytest.fixture(params=["reactor", "streams", "TLS", "TLS over streams"])
def served(request: pytest.FixtureRequest, certificate: tuple[Path, Path]) -> Iterator[tuple[CoordinatorServer, Wrap]]:
    """Start a server for each type of connection; yield it with the function that turns a socket into a client's."""
    tls, wrap = None, None
    if request.param.startswith("TLS"):
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*certificate)
        trusting = ssl.create_default_context(cafile=str(certificate[0]))

        def wrap(plain: socket.socket) -> socket.socket:
            return trusting.wrap_socket(plain, server_hostname="127.0.0.1")

    config = ServerConfig(
        tls=tls and Tls(lambda: tls), epoll="streams" not in request.param, cluster=ClusterConfig(topics={"orders": 2})
    )
    server = CoordinatorServer(server_config=config)
    server.start()
    yield server, wrap
    server.stop()


def test_requests_are_answered(served: tuple[CoordinatorServer, Wrap]) -> None:
    server, wrap = served
    with Client(server.bootstrap, wrap) as client:
        versions = client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert {18, 3, 11, 12} <= {each.api_key for each in versions.api_keys}
        for _ in range(3):
            assert client.ask(HeartbeatRequest("none", 1, "m"), 4, HeartbeatResponse).error_code == 25


def test_answers_larger_than_any_buffer_arrive_whole(served: tuple[CoordinatorServer, Wrap]) -> None:
    server, wrap = served
    server.call(lambda: [server.server.cluster.topics.declare(f"topic-{n:04}", 20) for n in range(400)])
    with Client(server.bootstrap, wrap) as client:
        for correlation_id in range(3):
            client.socket.sendall(request(MetadataRequest(topics=None), 9, correlation_id))
        for correlation_id in range(3):
            found, metadata = client.read(MetadataResponse, 9)
            assert found == correlation_id
            assert sum(len(topic.partitions) for topic in metadata.topics) == 400 * 20 + 2


def test_a_large_request_arrives_whole(served: tuple[CoordinatorServer, Wrap]) -> None:
    server, wrap = served
    with Client(server.bootstrap, wrap) as client:
        heartbeat = HeartbeatRequest("none", 1, "m" * 32_000, "i" * 32_000)
        assert client.ask(heartbeat, 3, HeartbeatResponse).error_code == 25
        many = FindCoordinatorRequest(coordinator_keys=[f"group-{n}" * 20 for n in range(20_000)])
        assert len(client.ask(many, 4, FindCoordinatorResponse).coordinators) == 20_000


def test_a_bad_frame_ends_its_connection_alone(
    served: tuple[CoordinatorServer, Wrap], caplog: pytest.LogCaptureFixture
) -> None:
    server, wrap = served
    with (
        Client(server.bootstrap, wrap) as bad,
        Client(server.bootstrap, wrap) as good,
        caplog.at_level(logging.WARNING),
    ):
        bad.socket.sendall(b"\xff\xff\xff\xfe")
        assert bad.is_closed_by_server()
        assert "a frame of -2 bytes" in caplog.text
        assert good.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0


def test_an_unexpected_exception_costs_its_connection_alone(
    served: tuple[CoordinatorServer, Wrap], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server, wrap = served

    def spoilt(frame: bytes) -> NoReturn:
        raise RuntimeError("a mistake of ours")

    with Client(server.bootstrap, wrap) as unlucky, Client(server.bootstrap, wrap) as other:
        with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
            patch.setattr("kafka_shim.server.session.decode_request_header", spoilt)
            unlucky.socket.sendall(request(ListGroupsRequest(), 0))
            assert unlucky.is_closed_by_server()
        assert "a mistake of ours" in caplog.text
        assert other.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0


def test_an_exception_once_an_answer_is_sent_costs_its_connection_alone(
    served: tuple[CoordinatorServer, Wrap], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, wrap = served
    server.call(lambda: [server.server.cluster.topics.declare(f"topic-{n:04}", 20) for n in range(400)])

    def spoilt(session: Session, now: float) -> NoReturn:
        raise RuntimeError("a mistake of ours")

    with Client(server.bootstrap, wrap) as unlucky, Client(server.bootstrap, wrap) as other:
        with monkeypatch.context() as patch:
            patch.setattr(Session, "drained", spoilt)
            # More than all buffers on the way take.
            unlucky.socket.sendall(request(MetadataRequest(topics=None), 9) * 50)
            network, failures = server.server.network, server.server.cluster.failures
            # Not just `stalled`: a handshake of TLS that the server has not finished is among them.
            while isinstance(network, reactor.Reactor) and not server.call(
                lambda: any(each.unsent for each in network.stalled) or failures.by_border
            ):
                assert other.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
            with suppress(ConnectionResetError):
                while unlucky.socket.recv(1 << 16):
                    pass
        assert other.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
    assert server.call(lambda: dict(failures.by_border)) == {"connection": 1}


def test_stopping_ends_connections(served: tuple[CoordinatorServer, Wrap]) -> None:
    server, wrap = served
    with Client(server.bootstrap, wrap) as client:
        client.ask(ListGroupsRequest(), 0, ListGroupsResponse)
        port = _port_of(server)
        server.stop()
        assert client.is_closed_by_server()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def _port_of(server: CoordinatorServer) -> int:
    return int(server.bootstrap.rpartition(":")[2])


def test_a_tls_server_survives_a_client_that_speaks_none(
    certificate: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*certificate)
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    with (
        CoordinatorServer(server_config=ServerConfig(tls=Tls(lambda: tls))) as server,
        caplog.at_level(logging.WARNING),
    ):
        with Client(server.bootstrap) as plain:
            plain.socket.sendall(request(ListGroupsRequest(), 0))
            while plain.socket.recv(1000):
                pass
        assert "no TLS with 127.0.0.1" in caplog.text
        with Client(server.bootstrap, lambda s: trusting.wrap_socket(s, server_hostname="127.0.0.1")) as client:
            assert client.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0


@pytest.mark.second_stage("its time")
def test_a_client_that_never_reads_is_closed(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(reactor, "STALLED", 0.2)
    with CoordinatorServer(topics={"orders": 2000}) as server, caplog.at_level(logging.WARNING):
        deaf = Client(server.bootstrap)
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        whole = request(MetadataRequest(topics=None), 9)
        with suppress(ConnectionError):
            while True:
                deaf.socket.sendall(whole * 1000)
        deaf.close()
        assert "of an answer unread" in caplog.text
        with Client(server.bootstrap) as client:
            assert client.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0


@contextmanager
def _reactor() -> Iterator[tuple[reactor.Reactor, str]]:
    """Start a reactor that serves on demand; yield it with its address. Skips without epoll."""
    if not reactor.AVAILABLE:
        pytest.skip("this platform has no epoll")
    made = cluster(topics={"orders": 1})
    listener = listen("127.0.0.1", 0, 1)[0]
    served = reactor.Reactor(made)
    served.accept(listener, made.nodes[1])
    try:
        yield served, f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        served.close()


def _serve_who_is_ready(served: reactor.Reactor) -> None:
    assert select.select([served.epoll], [], [], 10)[0], "nobody is ready"
    served.drain()


def test_requests_are_served_in_order_of_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    with _reactor() as (served, address), Client(address) as quick, Client(address) as patient:
        while len(served.connections) < 2:
            _serve_who_is_ready(served)
        monkeypatch.setattr(reactor, "EVENTS", 1)
        quick.socket.sendall(request(ListGroupsRequest(), 0))
        _serve_who_is_ready(served)
        quick.read(ListGroupsResponse, 0)
        for client in (patient, quick):
            client.socket.sendall(request(ListGroupsRequest(), 0))
            host, port = client.socket.getsockname()
            (of_client,) = [each for each in served.connections.values() if each.peer == f"{host}:{port}"]
            assert select.select([of_client.sock], [], [], 10)[0], "the request has not arrived"
        _serve_who_is_ready(served)
        patient.read(ListGroupsResponse, 0)
        _serve_who_is_ready(served)
        quick.read(ListGroupsResponse, 0)


def test_a_client_that_sends_and_leaves_is_answered_and_forgotten() -> None:
    with _reactor() as (served, address), Client(address) as client:
        while not served.connections:
            _serve_who_is_ready(served)
        client.socket.sendall(request(ListGroupsRequest(), 0))
        client.socket.shutdown(socket.SHUT_WR)
        while served.connections:
            _serve_who_is_ready(served)
        client.read(ListGroupsResponse, 0)
        assert client.is_closed_by_server()


def test_a_client_that_waits_is_not_read_because_it_has_closed_its_side() -> None:
    with _reactor() as (served, address), Client(address) as client:
        while not served.connections:
            _serve_who_is_ready(served)
        (connection,) = served.connections.values()
        connection.pause()
        connection.used = False
        client.socket.sendall(request(ListGroupsRequest(), 0))
        client.socket.shutdown(socket.SHUT_WR)
        _serve_who_is_ready(served)
        assert not connection.used
        connection.resume()
        while served.connections:
            _serve_who_is_ready(served)
        client.read(ListGroupsResponse, 0)
        assert client.is_closed_by_server()


@pytest.mark.parametrize("half_closes", [False, True], ids=["reset", "end, then reset"])
def test_a_client_that_waits_and_breaks_its_connection_is_forgotten(half_closes: bool) -> None:
    with _reactor() as (served, address), Client(address) as client:
        while not served.connections:
            _serve_who_is_ready(served)
        (connection,) = served.connections.values()
        connection.pause()
        connection.used = False
        client.socket.sendall(request(ListGroupsRequest(), 0))
        if half_closes:
            client.socket.shutdown(socket.SHUT_WR)
        reset_at_close(client.socket)
        client.close()
        while served.connections:
            _serve_who_is_ready(served)
        assert not connection.used


def test_a_client_with_a_parked_request_is_forgotten_when_its_connection_breaks() -> None:
    with _reactor() as (served, address), Client(address) as client:
        while not served.connections:
            _serve_who_is_ready(served)
        (connection,) = served.connections.values()
        session = connection.session
        client.socket.sendall(fetch_that_waits(2**31 - 1))
        while session.exchange is None:
            _serve_who_is_ready(served)
        client.socket.shutdown(socket.SHUT_WR)
        while not connection.paused:
            _serve_who_is_ready(served)
        assert not session.closed
        reset_at_close(client.socket)
        client.close()
        while served.connections:
            _serve_who_is_ready(served)
        assert session.closed


def test_silent_connections_cost_nothing() -> None:
    with CoordinatorServer() as server:
        silent = [Client(server.bootstrap) for _ in range(400)]
        with Client(server.bootstrap) as client:
            assert client.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
        assert server.call(lambda: len(list(server.server.cluster.sessions()))) >= 400
        for each in silent:
            each.close()
        with Client(server.bootstrap) as client:
            while server.call(lambda: len(list(server.server.cluster.sessions()))) > 1:
                client.ask(ListGroupsRequest(), 0, ListGroupsResponse)


def test_running_out_of_descriptors_refuses_connections_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    resource = pytest.importorskip("resource", reason="this platform has no limit of open files")
    with CoordinatorServer() as server, Client(server.bootstrap) as client, caplog.at_level(logging.ERROR):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        gc.collect()
        lonely = socket.socket()
        try:
            # The lowest limit at which no descriptor is free.
            resource.setrlimit(resource.RLIMIT_NOFILE, (lonely.fileno() + 1, before[1]))
            lonely.connect(("127.0.0.1", _port_of(server)))
            lonely.settimeout(10)
            assert lonely.recv(1) == b""
            assert client.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            lonely.close()
        assert "a connection was refused" in caplog.text


def test_a_fetch_is_answered_when_its_wait_is_over() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server, Client(server.bootstrap) as client:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        waiting = FetchRequest(
            max_wait_ms=50, min_bytes=1, session_epoch=-1, topics=[FetchTopic("orders", partitions=[partition])]
        )
        for correlation_id in range(4):
            client.socket.sendall(request(waiting, 11, correlation_id))
            assert client.read_frame()[:4] == correlation_id.to_bytes(4, "big")


def test_every_broker_names_the_coordinator_of_a_group() -> None:
    with CoordinatorServer(brokers=3) as server:
        addresses = server.bootstrap.split(",")
        assert len(set(addresses)) == 3
        for group in ("a", "b", "c", "grp", "test-group"):
            coordinators = set()
            for address in addresses:
                with Client(address) as client:
                    found = client.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4, FindCoordinatorResponse)
                    (coordinator,) = found.coordinators
                    coordinators.add((coordinator.node_id, f"{coordinator.host}:{coordinator.port}"))
            ((node_id, address),) = coordinators
            assert address == addresses[node_id - 1]
            for number, each in enumerate(addresses, 1):
                with Client(each) as client:
                    error = client.ask(HeartbeatRequest(group, 1, "m"), 4, HeartbeatResponse).error_code
                    assert error == (25 if number == node_id else 16)
        assert len({partition_for(group, 50) % 3 for group in ("a", "b", "c", "grp", "test-group")}) > 1


def test_an_invalid_configuration_is_refused_in_one_sentence() -> None:
    with (
        pytest.raises(ValueError, match=r"group\.max\.size must be an integer"),
        CoordinatorServer(config={"group.max.size": "many"}),
    ):
        pass


def test_an_idle_connection_is_closed_even_with_a_parked_request(
    served: tuple[CoordinatorServer, Wrap],
) -> None:
    server, wrap = served
    network = server.server.network
    node = server.server.cluster.nodes[1]
    assert network is not None

    def look(at: float) -> int:
        """Check for idle connections at this second; return the number of connections that remain."""

        def there() -> int:
            connections = network.connections
            network.idle.look(connections.values() if isinstance(connections, dict) else connections, at)
            return sum(not session.closed for session in node.sessions)

        return server.call(there)

    with (
        Client(server.bootstrap, wrap) as silent,
        Client(server.bootstrap, wrap) as parked,
        Client(server.bootstrap, wrap) as lively,
    ):
        parked.socket.sendall(request(join(), 3))
        for client in (silent, lively):
            client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        while not server.call(lambda: any(session.exchange for session in node.sessions)):
            lively.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert look(0.0) == 3
        lively.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert look(599.9) == 3
        assert look(600.0) == 1
        assert silent.is_closed_by_server()
        assert parked.is_closed_by_server()
        lively.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)


def test_a_running_server_closes_idle_connections() -> None:
    with (
        CoordinatorServer(config={"connections.max.idle.ms": "50"}) as server,
        Client(server.bootstrap) as client,
    ):
        assert client.is_closed_by_server()
    with (
        CoordinatorServer(config={"connections.max.idle.ms": "-1"}) as server,
        Client(server.bootstrap) as client,
    ):
        network = server.server.network
        assert server.call(lambda: [network.idle.look(network.connections.values(), at) for at in (1.0, 1e9)])
        client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
