"""Guards beside those of requests and timers (`test_failures.py`): each exception costs one thing and is counted."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_shim.apis.offset_commit import OffsetCommitResponse
from kafka_shim.groups.outbox import Outbox, WhenDurable
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.store import StoreError
from kafka_shim.security.certificates import TestAuthority
from kafka_shim.security.tls import Tls
from kafka_shim.server import reactor, session, streams
from kafka_shim.server.admission import Admission
from kafka_shim.server.computations import Computations
from kafka_shim.server.delays import Delays
from kafka_shim.server.encrypted import TlsConnection
from kafka_shim.server.failures import Failures
from kafka_shim.server.journal import Unjournaled
from kafka_shim.server.server import ServerConfig, renew
from kafka_shim.testing import CoordinatorServer
from tests.server.test_failures import caught, commit, is_served, mistaken, on_sqlite, once
from tests.server.test_session import in_group
from tests.server.wire import Client, Wire, cluster, request
from tests.waiting import until, until_in_trio

Patch = pytest.MonkeyPatch


def committed(wire: Wire, group: str = "g") -> int:
    """Commit, and return the error of the answer."""
    wire.receive(request(commit(group), 7))
    return int(wire.answer(OffsetCommitResponse, 7)[1].topics[0].partitions[0].error_code)


# The store, and effects of a batch


def test_store_in_memory_that_raises_fails_its_batch_alone(monkeypatch: Patch) -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    monkeypatch.setattr(wire.cluster.durability.store, "write", once(wire.cluster.durability.store.write))
    assert committed(wire) == 15
    wire.cluster.load_at_once()
    assert committed(wire) == 0
    assert caught(wire) == {"store": 1}


def test_effect_that_raises_loads_its_partition_alone(monkeypatch: Patch) -> None:
    wire = Wire(cluster())
    groups, ran = wire.cluster.nodes[1].groups, []

    def dispatch(effect: Any, now: float) -> None:
        ran.append(effect)
        if effect == 7:
            mistaken()

    monkeypatch.setattr(wire.cluster.durability, "_dispatch", dispatch)
    wire.cluster.outbox.effects += [WhenDurable(0, partition, partition) for partition in (7, 8)]
    wire.cluster.settle(100.0)
    assert ran == [7, 8]
    assert caught(wire) == {"effect": 1}
    assert {partition for partition, state in groups.partitions().items() if state != "active"} == {7}


def test_log_of_consumer_offsets_that_raises_costs_no_commit() -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    wire.cluster.durability.on_durable = mistaken
    assert committed(wire) == 0
    assert caught(wire) == {"effect": 1}


def test_commit_is_refused_though_its_partition_cannot_be_loaded_again(monkeypatch: Patch) -> None:
    wire = Wire(cluster(topics={"orders": 1}))

    def full(records: Any) -> None:
        raise StoreError("The disk is full.")

    monkeypatch.setattr(wire.cluster.durability.store, "write", full)
    monkeypatch.setattr(wire.cluster.durability, "_reload", mistaken)
    assert committed(wire) == 15
    assert caught(wire) == {"effect": 1}


async def test_effects_after_a_batch_run_without_another_request_once_a_tick_has_raised(
    monkeypatch: Patch, tmp_path: Path
) -> None:
    """As at the end of a transaction, where the effect of its decision has another effect."""
    store, made = on_sqlite(tmp_path)
    wire, ran = Wire(made), []

    def dispatch(effect: Any, now: float) -> None:
        ran.append(effect)
        if effect == "first":
            made.outbox.effects.append(WhenDurable(0, -1, "second"))

    monkeypatch.setattr(made.durability, "_dispatch", dispatch)
    made.outbox.effects.append(WhenDurable(made.outbox.batch, -1, "first"))
    wire.receive(request(commit("g"), 7))
    assert ran == []
    monkeypatch.setattr(made.durability, "settle", once(made.durability.settle))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.durability.run)
        await made.durability.flushed()
        nursery.cancel_scope.cancel()
    assert ran == ["first", "second"]
    assert len(wire.answers()) == 1
    assert caught(wire) == {"effect": 1}
    store.close()


async def test_tick_that_raised_is_tried_again_though_the_clock_was_moved(monkeypatch: Patch) -> None:
    made = cluster(topics={"orders": 1})
    wire, ticks = Wire(made), made.ticks
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ticks.run)
        await trio.testing.wait_all_tasks_blocked()
        monkeypatch.setattr(made.durability, "settle", once(made.durability.settle))
        wire.receive(request(commit("g"), 7), made.clock())
        assert wire.sent == b""
        ticks.rearm()
        await until_in_trio(lambda: wire.sent)
        nursery.cancel_scope.cancel()
    assert wire.answer(OffsetCommitResponse, 7)[1].topics[0].partitions[0].error_code == 0
    assert caught(wire) == {"tick": 1}


async def test_probe_that_raises_is_followed_by_the_next(
    monkeypatch: Patch, autojump_clock: trio.testing.MockClock
) -> None:
    store = MemoryStore()
    wire = Wire(cluster(store, topics={"orders": 1}))
    with monkeypatch.context() as full:
        full.setattr(store, "write", mistaken)
        assert committed(wire) == 15
    monkeypatch.setattr(store, "probe", once(store.probe))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.cluster.durability.watch)
        await until_in_trio(lambda: caught(wire) == {"store": 2})
        assert wire.cluster.durability.failing
        await until_in_trio(lambda: not wire.cluster.durability.failing)
        nursery.cancel_scope.cancel()


# Timers, computations, partitions


def test_timer_of_the_broker_that_raises_holds_up_no_timer_of_a_group(monkeypatch: Patch) -> None:
    wire = Wire(cluster())
    in_group(wire)
    monkeypatch.setattr(wire.cluster.nodes[1].broker, "expire", once(wire.cluster.nodes[1].broker.expire))
    wire.cluster.ticks.fire(1000.0)
    assert not wire.cluster.nodes[1].groups.groups["billing"].members
    assert caught(wire) == {"timer": 1}


def test_result_that_cannot_be_applied_is_counted() -> None:
    class Computed:
        finish = staticmethod(mistaken)

    outbox, failures = Outbox(), Failures()
    settle: Callable[[float], None] = lambda now: None  # noqa: E731
    computations = Computations(outbox, lambda: 1.0, settle, settle, failures, Unjournaled())
    outbox.computations = [Computed()]  # type: ignore[list-item]
    computations.take()
    computations.finish(next(iter(computations._waiting)), None, 1.0)
    assert failures.by_border == {"computation": 1}
    assert not computations._waiting


def test_owner_that_cannot_be_shown_owns_its_partition(monkeypatch: Patch) -> None:
    made = cluster()
    ownership = made.ownership
    ownership.give_up({1, 2, 3})
    monkeypatch.setattr(ownership, "_own", once(ownership._own))
    ownership.take({1, 2, 3})
    assert made.failures.by_border == {"partition": 1}
    assert {made.nodes[1].groups.partitions()[each] for each in (1, 2, 3)} == {"loading"}


# Connections


def test_end_of_a_connection_that_raises_ends_it_alone(monkeypatch: Patch) -> None:
    made = cluster()
    wire, other = Wire(made), Wire(made)
    monkeypatch.setattr(made.nodes[1].broker, "disconnected", once(made.nodes[1].broker.disconnected))
    wire.close()
    assert caught(wire) == {"connection": 1}
    assert wire.session not in made.nodes[1].sessions
    assert is_served(other)


def test_connection_that_cannot_be_closed_is_counted_twice(monkeypatch: Patch) -> None:
    made = cluster()
    wire, other = Wire(made), Wire(made)
    monkeypatch.setattr(wire, "close", mistaken)
    wire.session.failed(ValueError())
    assert caught(wire) == {"connection": 2}
    assert is_served(other)


def test_request_that_cannot_be_remembered_is_answered(monkeypatch: Patch) -> None:
    wire = Wire(cluster())
    monkeypatch.setattr(session, "remember", mistaken)
    for _ in range(2):
        wire.receive(request(HeartbeatRequest("g", 1, "m"), 4))
        assert wire.answer(HeartbeatResponse, 4)[1].error_code == 25
    assert caught(wire) == {"connection": 2}


async def test_delayed_end_that_raises_holds_up_no_other() -> None:
    failures, rung = Failures(), trio.Event()
    delays = Delays(failures)
    delays.after(0.0, mistaken)
    delays.after(0.01, rung.set)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(delays.run)
        with trio.fail_after(30):
            await rung.wait()
        nursery.cancel_scope.cancel()
    assert failures.by_border == {"connection": 1}


@pytest.fixture(scope="module")
def authority() -> TestAuthority:
    return TestAuthority()


@pytest.fixture
def tls(authority: TestAuthority, tmp_path: Path) -> Tls:
    issued, file = authority.server(), tmp_path / "server.pem"
    file.write_text(issued.key + issued.certificate)

    def make() -> ssl.SSLContext:
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.load_cert_chain(file)
        return made

    return Tls(make, (str(file),))


def wrapped(authority: TestAuthority) -> Any:
    trusting = ssl.create_default_context(cadata=authority.certificate)
    return partial(trusting.wrap_socket, server_hostname="127.0.0.1")


NEW = {
    "reactor": (True, False, reactor.Reactor, "_begin"),
    "handshake": (True, True, TlsConnection, "_enter"),
    "streams": (False, False, streams.Streams, "_carry"),
    "streams with TLS": (False, True, streams.Streams, "_carry"),
}


@pytest.mark.parametrize("name", NEW)
def test_new_connection_that_raises_is_refused_alone(
    monkeypatch: Patch, authority: TestAuthority, tls: Tls, name: str
) -> None:
    epoll, has_tls, owner, method = NEW[name]
    wrap = wrapped(authority) if has_tls else None
    config = ServerConfig(tls=tls if has_tls else None, epoll=epoll)
    with CoordinatorServer(server_config=config) as server:
        with Client(server.bootstrap, wrap) as before:
            assert before.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
            with monkeypatch.context() as patch:
                patch.setattr(owner, method, mistaken)
                with pytest.raises((EOFError, OSError)), Client(server.bootstrap, wrap) as unlucky:
                    unlucky.ask(ListGroupsRequest(), 0, ListGroupsResponse)
            assert before.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
            with Client(server.bootstrap, wrap) as after:
                assert after.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
        assert server.call(lambda: server.server.cluster.failures.by_border) == {"accept": 1}


@pytest.mark.parametrize("epoll", [True, False])
def test_connection_that_cannot_be_counted_leaves_nothing_behind(monkeypatch: Patch, epoll: bool) -> None:
    with CoordinatorServer(server_config=ServerConfig(epoll=epoll)) as server, Client(server.bootstrap) as before:
        assert before.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
        with monkeypatch.context() as patch:
            patch.setattr(Admission, "enter", mistaken)
            with pytest.raises((EOFError, OSError)), Client(server.bootstrap) as unlucky:
                unlucky.ask(ListGroupsRequest(), 0, ListGroupsResponse)
        cluster = server.server.cluster
        assert server.call(lambda: (cluster.failures.by_border, len(list(cluster.sessions())))) == ({"accept": 1}, 1)
        with Client(server.bootstrap) as after:
            assert after.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
            assert before.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0


def test_admission_that_raises_ends_no_server_and_accepts_later(monkeypatch: Patch) -> None:
    with CoordinatorServer() as server, Client(server.bootstrap) as before, Client(server.bootstrap) as leaving:

        def counts() -> dict[str, int]:
            return server.call(lambda: server.server.cluster.failures.by_border)

        for client in (before, leaving):
            assert client.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
        with monkeypatch.context() as patch:
            patch.setattr(Admission, "delay", mistaken)
            waiting = Client(server.bootstrap)
            until(lambda: counts() == {"accept": 1})
            # The end of a connection is a reason to look at the listener again.
            leaving.close()
            until(lambda: counts()["accept"] > 1)
            assert before.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
        with waiting:
            assert waiting.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0


def test_listener_that_raises_accepts_again(monkeypatch: Patch) -> None:
    serve, calls = trio.serve_listeners, []

    async def raising(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            mistaken()
        return await serve(*arguments, **named)

    monkeypatch.setattr(trio, "serve_listeners", raising)
    with CoordinatorServer(server_config=ServerConfig(epoll=False)) as server, Client(server.bootstrap) as client:
        assert client.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0
        assert server.call(lambda: server.server.cluster.failures.by_border) == {"accept": 1}


async def test_look_at_a_certificate_that_raises_is_followed_by_the_next(
    monkeypatch: Patch, autojump_clock: trio.testing.MockClock, tls: Tls
) -> None:
    failures, looks, second = Failures(), [], trio.Event()

    def look() -> bool:
        looks.append(1)
        if len(looks) == 1:
            mistaken()
        trio.from_thread.run_sync(second.set)
        return False

    monkeypatch.setattr(tls, "look", look)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(renew, tls, failures)
        await second.wait()
        nursery.cancel_scope.cancel()
    assert failures.by_border == {"security": 1}
