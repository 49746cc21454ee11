"""Brokers that stop, die and come back, as the network sees it: listeners and connections."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_request_header
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.server import ServerConfig
from kafka_shim.testing import CoordinatorServer


@pytest.fixture(params=[True, False], ids=["epoll", "streams"])
def server(request: pytest.FixtureRequest) -> Iterator[CoordinatorServer]:
    config = ServerConfig(brokers=2, epoll=request.param, cluster=ClusterConfig(topics={"t": 2}))
    with CoordinatorServer(server_config=config) as running:
        yield running


def connected(server: CoordinatorServer, broker: int) -> socket.socket:
    host, _, port = server.bootstrap.split(",")[broker - 1].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def answers(connection: socket.socket) -> bool:
    """Return True if a request gets an answer, False if the connection is closed instead."""
    request = frame(encode_request_header(10, 2, 1, "test") + FindCoordinatorRequest(key="g").encode(2))
    try:
        connection.sendall(request)
        return len(connection.recv(4096)) > 4
    except ConnectionError:
        return False


def is_refused(server: CoordinatorServer, broker: int) -> bool:
    try:
        with connected(server, broker) as connection:
            return not answers(connection)
    except ConnectionRefusedError:
        return True


@pytest.mark.parametrize("how", ["stop_broker", "kill_broker"])
def test_a_stopped_broker_has_no_connections_and_takes_none(server: CoordinatorServer, how: str) -> None:
    with connected(server, 1) as to_first, connected(server, 2) as to_second:
        assert answers(to_first)
        getattr(server, how)(1)
        assert not answers(to_first)
        assert is_refused(server, 1)
        assert answers(to_second)


def test_a_restarted_broker_has_its_old_address(server: CoordinatorServer) -> None:
    before = server.bootstrap
    for _ in range(2):
        server.kill_broker(1)
        assert is_refused(server, 1)
        server.restart_broker(1)
        with connected(server, 1) as connection:
            assert answers(connection)
    assert server.bootstrap == before


def test_all_brokers_may_be_down_for_a_while(server: CoordinatorServer) -> None:
    server.kill_broker(1)
    server.kill_broker(2)
    assert is_refused(server, 1)
    assert is_refused(server, 2)
    server.restart_broker(2)
    with connected(server, 2) as connection:
        assert answers(connection)
    assert server.coordinator_of("g") == 2


def test_a_broker_with_an_advertised_port_comes_back_where_it_listened() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
    config = ServerConfig(port=port, advertise="127.0.0.1", advertise_port=19_092)
    with CoordinatorServer(server_config=config) as server:
        assert server.bootstrap == "127.0.0.1:19092"
        server.kill_broker(1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        server.restart_broker(1)
        socket.create_connection(("127.0.0.1", port)).close()
