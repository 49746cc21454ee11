"""Limits of connections (S35 of the scenarios), over real sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_shim.apis.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kafka_shim.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_shim.broker.admin.quotas import alter
from kafka_shim.server import reactor
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.server import ServerConfig
from kafka_shim.testing import CoordinatorServer
from tests.server.wire import Client, request
from tests.waiting import PATIENCE_S, until

LISTENERS = {
    "listeners": "LOGIN://127.0.0.1:0",
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
    "connection.failed.authentication.delay.ms": "0",
}


def is_served(client: Client) -> bool:
    try:
        return bool(client.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0)
    except (EOFError, ConnectionError):
        return False


def until_served(server: CoordinatorServer) -> Client:
    """Connect until the server serves a connection."""
    while True:
        client = Client(server.bootstrap)
        if is_served(client):
            return client
        client.close()


@pytest.fixture(params=[True, False], ids=["reactor", "streams"])
def few(request: pytest.FixtureRequest) -> Iterator[CoordinatorServer]:
    """A server with two connections for each address."""
    config = ServerConfig(epoll=request.param, cluster=ClusterConfig(settings={"max.connections.per.ip": "2"}))
    with CoordinatorServer(server_config=config) as server:
        yield server


def test_an_address_has_a_limit_of_connections(few: CoordinatorServer) -> None:
    with Client(few.bootstrap) as first, Client(few.bootstrap) as second:
        assert is_served(first)
        assert is_served(second)
        with Client(few.bootstrap) as third:
            assert third.is_closed_by_server()
        second.close()
        until_served(few).close()
        assert is_served(first)


def test_a_failed_authentication_frees_its_place() -> None:
    with CoordinatorServer(config=LISTENERS | {"max.connections.per.ip": "1"}, users={"a": "b"}) as server:
        for _ in range(5):
            while True:
                with Client(server.bootstrap) as client:
                    # Not SASL: a server that has a place reads it, and closes the connection.
                    client.socket.sendall(request(ListGroupsRequest(), 0))
                    assert client.is_closed_by_server()
                if server.call(lambda: server.server.cluster.nodes[1].refused):
                    break
            server.call(lambda: setattr(server.server.cluster.nodes[1], "refused", 0))


@pytest.mark.skipif(not reactor.AVAILABLE, reason="this platform has no epoll")
def test_a_full_broker_lets_clients_wait() -> None:
    with CoordinatorServer(config={"max.connections": "1"}) as server, Client(server.bootstrap) as first:
        assert is_served(first)
        with Client(server.bootstrap) as waiting:
            waiting.socket.sendall(request(ListGroupsRequest(), 0))
            assert is_served(first)
            assert server.call(lambda: len(server.server.cluster.nodes[1].sessions)) == 1
            first.close()
            assert waiting.read(ListGroupsResponse, 0)[1].error_code == 0


@pytest.mark.parametrize("address", ["127.0.0.1", None], ids=["address", "default"])
def test_an_address_has_a_rate_of_connections(address: str | None) -> None:
    with CoordinatorServer() as server:
        server.clock.freeze()
        entry = EntryData([EntityData("ip", address)], [OpData("connection_creation_rate", 1.0)])
        settings = server.server.cluster.topics.settings
        server.call(lambda: alter(AlterClientQuotasRequest([entry]), settings))
        # Ten in the window of ten seconds are one a second.
        for _ in range(10):
            with Client(server.bootstrap) as client:
                assert is_served(client)
        with Client(server.bootstrap) as client:
            assert not is_served(client)
        server.clock.advance(20)
        with Client(server.bootstrap) as client:
            assert is_served(client)


TWO: dict[str, str] = {
    "listeners": "FEW://127.0.0.1:0,MANY://127.0.0.1:0",
    "listener.security.protocol.map": "FEW:PLAINTEXT,MANY:PLAINTEXT",
}


@pytest.mark.parametrize("epoll", [True, False], ids=["reactor", "streams"])
def test_a_listener_has_a_limit_of_its_own(epoll: bool) -> None:
    config = TWO | {"listener.name.few.max.connections": "1"}
    with CoordinatorServer(server_config=ServerConfig(epoll=epoll), config=config) as server:
        few, many = server.server.bootstrap_of("FEW"), server.server.bootstrap_of("MANY")
        with Client(few) as first, Client(few) as waiting:
            assert is_served(first)
            waiting.socket.sendall(request(ListGroupsRequest(), 0))
            for _ in range(3):
                with Client(many) as other:
                    assert is_served(other)
            assert server.call(lambda: server.server.cluster.nodes[1].admission.count_of("FEW")) == 1
            first.close()
            assert waiting.read(ListGroupsResponse, 0)[1].error_code == 0


@pytest.mark.parametrize("epoll", [True, False], ids=["reactor", "streams"])
@pytest.mark.parametrize("setting", ["max.connection.creation.rate", "listener.name.few.max.connection.creation.rate"])
def test_connections_above_a_rate_wait(epoll: bool, setting: str) -> None:
    of_broker = {} if setting.startswith("listener") else {setting: "1"}
    server_config = ServerConfig(epoll=epoll, cluster=ClusterConfig(settings=of_broker))
    config = TWO if of_broker else TWO | {setting: "1"}
    with CoordinatorServer(server_config=server_config, config=config) as server:
        server.clock.freeze()
        few = server.server.bootstrap_of("FEW")
        for _ in range(10):
            with Client(few) as client:
                assert is_served(client)
        with Client(few) as waiting, Client(server.server.bootstrap_of("MANY")) as other:
            waiting.socket.sendall(request(ListGroupsRequest(), 0))
            if setting.startswith("listener"):
                assert is_served(other)
            admission = server.server.cluster.nodes[1].admission
            until(lambda: server.call(lambda: admission.count_of("FEW")) == 0)
            waiting.socket.setblocking(False)
            with pytest.raises(BlockingIOError):
                waiting.socket.recv(1)
            waiting.socket.settimeout(PATIENCE_S)
            server.clock.advance(20)
            assert waiting.read(ListGroupsResponse, 0)[1].error_code == 0


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_an_address_may_be_an_exception(limit: int) -> None:
    config = {"max.connections.per.ip": "2", "max.connections.per.ip.overrides": f"10.0.0.1:7, 127.0.0.1:{limit}"}
    with CoordinatorServer(config=config) as server:
        clients = [Client(server.bootstrap) for _ in range(limit)]
        assert all(is_served(client) for client in clients)
        with Client(server.bootstrap) as further:
            assert further.is_closed_by_server()
        for client in clients:
            client.close()


def test_exceptions_that_cannot_be_read_are_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match=r"overrides has '127.0.0.1', which is not of the form ADDRESS:NUMBER"):
        CoordinatorServer(config={"max.connections.per.ip.overrides": "127.0.0.1"}).start()


@pytest.mark.parametrize("name", ["max.connections", "max.connection.creation.rate"])
def test_a_limit_of_a_listener_is_a_number(name: str) -> None:
    with pytest.raises(ValueError, match=f"listener.name.few.{name} is 'many', which is not a number"):
        CoordinatorServer(config=TWO | {f"listener.name.few.{name}": "many"})
