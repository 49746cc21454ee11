"""An exception costs one exchange, one timer or one connection: a test for each border of a server."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kafka_shim.apis.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.fetches import FetchApi
from kafka_shim.control.metrics import Metrics
from kafka_shim.groups.offsets import expire as real_expire
from kafka_shim.groups.service import offsets
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence import records
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.server import events
from kafka_shim.server.cluster import Cluster
from kafka_shim.server.durability import Durability
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.reactor import Reactor
from kafka_shim.server.session import Session
from kafka_shim.server.table import Endpoint
from tests.server.test_session import heartbeat, in_group
from tests.server.wire import Wire, cluster, read, request
from tests.waiting import PATIENCE_S

Patch = pytest.MonkeyPatch


class Mistake(Exception):
    """An exception that only these tests raise."""


def mistaken(*_: Any, **__: Any) -> Any:
    raise Mistake


def once(real: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function, except that the first call raises."""
    calls: list[int] = []

    def call(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise Mistake
        return real(*arguments)

    return call


def is_served(wire: Wire, now: float = 100.0) -> bool:
    wire.receive(request(DescribeClusterRequest(), 0, 9), now)
    return bool(wire.answer(DescribeClusterResponse, 0)[0] == 9)


def caught(wire: Wire) -> dict[str, int]:
    return wire.cluster.failures.by_border


async def test_timer_that_raises_loads_its_partition_and_others_fire(
    monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    made = cluster()
    wire = Wire(made)
    in_group(wire)
    groups = made.nodes[1].groups
    partition = groups.partition_of("billing")
    monkeypatch.setattr(type(groups.shards[partition].groups["billing"]), "fire", mistaken)
    monkeypatch.setattr(offsets, "expire", once(real_expire))
    made.ticks.fire(100_000.0)
    # The timers of the group's member and of the first partition with a look at its offsets.
    assert caught(wire) == {"timer": 2}
    assert list(groups.partitions().values()).count("loading") == 2
    assert groups.partitions()[partition] == "loading"
    assert groups.next_deadline() > 100_000.0
    monkeypatch.undo()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.loader.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert set(groups.partitions().values()) == {"active"}
    assert len([record for record in caplog.records if record.exc_info]) == 2


async def test_alarm_that_raises_is_counted_and_the_next_one_rings() -> None:
    made = cluster()
    rung: list[float] = []
    made.ticks.alarms.at(1.0, mistaken)
    made.ticks.alarms.at(1.0, rung.append)
    made.ticks.fire(2.0)
    assert rung == [2.0]
    assert made.failures.by_border == {"timer": 1}


async def test_group_that_cannot_be_taken_up_leaves_the_others_active(monkeypatch: Patch) -> None:
    made = cluster(topics={"orders": 1})
    wire = Wire(made)
    in_group(wire)
    groups = made.nodes[1].groups
    partition = groups.partition_of("billing")
    sibling = next(name for name in map("billing-{}".format, range(1000)) if groups.partition_of(name) == partition)
    wire.receive(request(commit(sibling), 7))
    records = list(made.durability.store.load(partition))
    # The simple group is the first to be taken up.
    records.sort(key=lambda record: record[0].group != sibling)
    monkeypatch.setattr(type(groups.groups[sibling]), "activate", once(type(groups.groups[sibling]).activate))
    groups.unload(partition, 100.0)
    groups.load(partition, records, 100.0)
    made.settle(100.0)
    assert groups.partitions()[partition] == "active"
    assert caught(wire) == {"timer": 1}
    # The member's session ends: the group has its timers.
    made.ticks.fire(200.0)
    assert not groups.groups["billing"].members


@pytest.mark.parametrize("step", ["read", "replay"])
async def test_partition_that_raises_is_refused_until_a_later_load_succeeds(
    monkeypatch: Patch, autojump_clock: trio.testing.MockClock, step: str
) -> None:
    made = cluster(topics={"orders": 1})
    wire = Wire(made)
    wire.receive(request(commit("g"), 7))
    assert wire.answer(OffsetCommitResponse, 7)[1].topics[0].partitions[0].error_code == ErrorCode.NONE
    groups = made.nodes[1].groups
    partition = groups.partition_of("g")
    owner, name = (made.durability.store, "load") if step == "read" else (Shard, "replay")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, mistaken)
        made.ownership.reload({partition})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.loader.run)
            for failures, seconds in enumerate((0.0, 1.0, 5.0, 20.0, 60.0, 60.0), start=1):
                await trio.sleep(seconds)
                await trio.testing.wait_all_tasks_blocked()
                assert caught(wire) == {"partition": failures}
                # The ready line and the tests that wait for loads do not wait for this partition.
                assert made.loader.idle.is_set()
                assert groups.partitions()[partition] == "failed"
                wire.receive(request(commit("g"), 7))
                answer = wire.answer(OffsetCommitResponse, 7)[1]
                assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
            patch.undo()
            await trio.sleep(60.0)
            await trio.testing.wait_all_tasks_blocked()
            assert groups.partitions()[partition] == "active"
            assert "g" in groups.groups
            nursery.cancel_scope.cancel()


async def test_partition_that_moved_away_is_not_loaded_again(
    monkeypatch: Patch, autojump_clock: trio.testing.MockClock
) -> None:
    made = cluster()
    groups = made.nodes[1].groups
    monkeypatch.setattr(groups, "load", once(groups.load))
    made.ownership.reload({7})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.loader.run)
        await trio.testing.wait_all_tasks_blocked()
        made.ownership.give_up({7})
        await trio.sleep(100.0)
        nursery.cancel_scope.cancel()
    assert 7 not in groups.partitions()


async def test_partition_that_cannot_be_given_up_leaves_with_the_others(monkeypatch: Patch) -> None:
    made = cluster()
    wire = Wire(made)
    groups = made.nodes[1].groups
    monkeypatch.setattr(groups, "unload", once(groups.unload))
    made.ownership.give_up({1, 2, 3})
    assert caught(wire) == {"partition": 1}
    assert not {1, 2, 3} & made.ownership.own_partitions()


async def test_rule_that_raises_after_it_wrote_loads_its_partition(monkeypatch: Patch) -> None:
    made = cluster(topics={"orders": 1})
    wire = Wire(made)
    groups = made.nodes[1].groups
    real = groups.commit

    def raising(*arguments: Any, **named: Any) -> Any:
        real(*arguments, **named)
        raise Mistake

    monkeypatch.setattr(groups, "commit", raising)
    wire.receive(request(commit("g"), 7))
    assert wire.answer(OffsetCommitResponse, 7)[1].topics[0].partitions[0].error_code == -1
    assert groups.partitions()[groups.partition_of("g")] == "loading"
    assert not made.outbox.records
    assert caught(wire) == {"request": 1}
    assert is_served(wire)


async def test_rule_that_raises_before_it_wrote_costs_the_request_alone(monkeypatch: Patch) -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    groups = wire.cluster.nodes[1].groups
    monkeypatch.setattr(groups, "commit", mistaken)
    wire.receive(request(commit("g"), 7))
    assert wire.answer(OffsetCommitResponse, 7)[1].topics[0].partitions[0].error_code == -1
    assert set(groups.partitions().values()) == {"active"}


def commit(group: str) -> OffsetCommitRequest:
    topic = OffsetCommitRequestTopic(name="orders", partitions=[OffsetCommitRequestPartition(0, 7)])
    return OffsetCommitRequest(group, topics=[topic])


async def test_answer_that_cannot_be_encoded_is_an_error(monkeypatch: Patch) -> None:
    wire = Wire(cluster())
    listing = request(ListGroupsRequest(), 4)
    endpoint = wire.session.node.table.find(listing[4:])
    monkeypatch.setattr(endpoint, "body", once(endpoint.body))
    wire.receive(listing)
    assert wire.answer(ListGroupsResponse, 4)[1].error_code == -1
    assert caught(wire) == {"answer": 1}
    assert is_served(wire)


async def test_decoder_that_raises_costs_its_connection(monkeypatch: Patch) -> None:
    made = cluster()
    wire, other = Wire(made), Wire(made)
    monkeypatch.setattr(Endpoint, "decode", once(Endpoint.decode))
    with pytest.raises(Mistake) as raised:
        wire.session.receive(request(ListGroupsRequest(), 4), 100.0)
    wire.session.failed(raised.value)
    assert wire.is_closed
    assert caught(wire) == {"connection": 1}
    assert is_served(other)


async def test_parked_fetch_that_raises_is_answered_and_the_producer_is_not(monkeypatch: Patch) -> None:
    made = cluster(topics={"orders": 1})
    wire, other = Wire(made), Wire(made)
    topics = [FetchTopic(topic="orders", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1)])]
    for each in (wire, other):
        each.receive(request(FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics), 11))
        assert each.answers() == []
    monkeypatch.setattr(FetchApi, "_response", once(FetchApi._response))
    made.ticks.fire(101.0)
    assert wire.answer(FetchResponse, 11)[1].error_code == -1
    assert other.answer(FetchResponse, 11)[1].error_code == 0
    assert caught(wire) == {"timer": 1}


async def test_request_behind_a_parked_one_that_raises_costs_its_connection(monkeypatch: Patch) -> None:
    made = cluster(topics={"orders": 1})
    wire, other = Wire(made), Wire(made)
    topics = [FetchTopic(topic="orders", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1)])]
    wire.receive(request(FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics), 11))
    wire.receive(request(ListGroupsRequest(), 4))
    monkeypatch.setattr(Endpoint, "decode", once(Endpoint.decode))
    made.ticks.fire(101.0)
    assert wire.is_closed
    assert caught(wire) == {"connection": 1}
    assert is_served(other, 102.0)


@pytest.mark.parametrize("method", ["answer", "send"])
async def test_exchange_that_raises_when_answered_costs_its_connection(monkeypatch: Patch, method: str) -> None:
    made = cluster(topics={"orders": 1})
    wire, other = Wire(made), Wire(made)
    topics = [FetchTopic(topic="orders", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1)])]
    for each in (wire, other):
        each.receive(request(FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics), 11))
    monkeypatch.setattr(Exchange, method, once(getattr(Exchange, method)))
    made.ticks.fire(101.0)
    assert wire.is_closed
    assert other.answer(FetchResponse, 11)[1].error_code == 0


async def test_drained_connection_that_raises_is_closed(monkeypatch: Patch) -> None:
    wire = Wire(cluster())
    wire.takes_all = False
    wire.receive(request(ListGroupsRequest(), 4, 1) + request(ListGroupsRequest(), 4, 2))
    monkeypatch.setattr(Session, "_serve", mistaken)
    wire.drained()
    assert wire.is_closed
    assert caught(wire) == {"connection": 1}


async def test_listener_that_raises_is_counted_and_others_hear(monkeypatch: Patch) -> None:
    wire = Wire(cluster())
    heard: list[str] = []
    wire.cluster.events.listen(mistaken)
    wire.cluster.events.listen(lambda told, now: heard.extend(each["event"] for each in told))
    in_group(wire)
    assert heard
    assert caught(wire)["listener"] > 0


async def test_event_without_a_form_is_counted_and_requests_are_served(monkeypatch: Patch) -> None:
    wire = Wire(cluster())
    wire.cluster.events.listen(lambda told, now: None)
    monkeypatch.setattr(events, "is_of_request", mistaken)
    wire.cluster.events.listen(lambda told, now: None, requests=False)
    in_group(wire)
    assert caught(wire)["listener"] > 0
    assert is_served(wire)


async def test_tick_that_raises_is_counted(monkeypatch: Patch) -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    member_id = in_group(wire)
    monkeypatch.setattr(Durability, "settle", mistaken)
    wire.receive(request(commit("g"), 7))
    assert caught(wire) == {"tick": 1}
    monkeypatch.undo()
    wire.receive(heartbeat(member_id, 4))
    assert len(wire.answers()) == 2


class Awaited(Wire):
    """A connection that lets a test wait for its first answer."""

    def __init__(self, to: Cluster) -> None:
        super().__init__(to)
        self.first_answer = trio.Event()

    def send(self, data: bytes) -> bool:
        self.first_answer.set()
        return super().send(data)


async def test_tick_that_raises_is_tried_again_without_another_request(monkeypatch: Patch) -> None:
    wire = Awaited(cluster(topics={"orders": 1}))
    monkeypatch.setattr(Durability, "settle", once(Durability.settle))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.cluster.ticks.run)
        await trio.testing.wait_all_tasks_blocked()
        wire.receive(request(commit("g"), 7), wire.cluster.clock())
        assert wire.sent == b""
        with trio.fail_after(PATIENCE_S):
            await wire.first_answer.wait()
        nursery.cancel_scope.cancel()
    assert len(wire.answers()) == 1
    assert caught(wire) == {"tick": 1}


def on_sqlite(folder: Path) -> tuple[SqliteStore, Cluster]:
    """Return a cluster on a store that blocks, and the store, which the test closes."""
    store = SqliteStore(folder / "store.db", 50)
    store.open()
    return store, cluster(store, {"orders": 1})


async def test_record_without_bytes_costs_its_group_and_the_batch_is_written(
    monkeypatch: Patch, tmp_path: Path
) -> None:
    store, made = on_sqlite(tmp_path)
    wires = {group: Wire(made) for group in ("fine", "bad")}
    encode = records.encode_value

    def encode_value(key: Any, value: Any) -> bytes:
        if key.group == "bad":
            raise Mistake
        return encode(key, value)

    for module in ("store", "sqlite"):
        monkeypatch.setattr(f"kafka_shim.persistence.{module}.encode_value", encode_value)
    for group, wire in wires.items():
        wire.receive(request(commit(group), 7))
        assert wire.answers() == []
    groups = made.nodes[1].groups
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.durability.run)
        await made.durability.flushed()
        assert groups.partitions()[groups.partition_of("bad")] == "loading"
        nursery.start_soon(made.loader.run)
        await made.loader.idle.wait()
        nursery.cancel_scope.cancel()
    codes = {
        group: wire.answer(OffsetCommitResponse, 7)[1].topics[0].partitions[0].error_code
        for group, wire in wires.items()
    }
    assert codes == {"fine": 0, "bad": -1}
    assert set(groups.partitions().values()) == {"active"}
    assert [key.group for key, _ in store.load(groups.partition_of("fine"))] == ["fine"]
    assert made.failures.by_border == {"store": 1}
    store.close()


async def test_store_that_raises_fails_its_batch_and_takes_the_next(monkeypatch: Patch, tmp_path: Path) -> None:
    store, made = on_sqlite(tmp_path)
    wire = Wire(made)
    monkeypatch.setattr(store, "write", once(store.write))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.durability.run)
        nursery.start_soon(made.loader.run)
        for expected in (15, 0):
            wire.receive(request(commit("g"), 7))
            await made.durability.flushed()
            await made.loader.idle.wait()
            assert wire.answer(OffsetCommitResponse, 7)[1].topics[0].partitions[0].error_code == expected
        nursery.cancel_scope.cancel()
    assert made.failures.by_border == {"store": 1}
    store.close()


async def test_answers_after_a_batch_that_raise_let_the_next_batch_be_written(
    monkeypatch: Patch, tmp_path: Path
) -> None:
    store, made = on_sqlite(tmp_path)
    wire = Wire(made)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.durability.run)
        wire.receive(request(commit("g"), 7))
        with monkeypatch.context() as raising:
            raising.setattr(made.durability, "settle", mistaken)
            await made.durability.flushed()
        wire.receive(request(commit("g"), 7))
        await made.durability.flushed()
        assert len(wire.answers()) == 2
        nursery.cancel_scope.cancel()
    assert made.failures.by_border == {"effect": 2}
    store.close()


async def test_metrics_count_failures_by_border(monkeypatch: Patch) -> None:
    wire = Wire(cluster())
    listing = request(ListGroupsRequest(), 4)
    endpoint = wire.session.node.table.find(listing[4:])
    monkeypatch.setattr(endpoint, "body", once(endpoint.body))
    wire.receive(listing)
    page = (await Metrics(wire.cluster).page()).decode()
    assert 'kafka_shim_caught_exceptions_total{border="answer"} 1.0' in page
    assert 'kafka_shim_caught_exceptions_total{border="timer"} 0.0' in page


async def test_failure_of_one_line_has_its_traceback_once(caplog: pytest.LogCaptureFixture, monkeypatch: Patch) -> None:
    wire = Wire(cluster())
    monkeypatch.setattr(wire.cluster.nodes[1].groups, "heartbeat", mistaken)
    with caplog.at_level(logging.ERROR):
        for number in range(3):
            wire.receive(request(HeartbeatRequest("g", 1, f"m-{number}"), 4))
            assert read(wire.answers()[0], HeartbeatResponse, 4)[1].error_code == -1
    assert [bool(record.exc_info) for record in caplog.records] == [True, False, False]


async def test_no_descriptor_to_refuse_a_connection_with_ends_no_server(monkeypatch: Patch) -> None:
    def none_left(*_: Any) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    served = Reactor(cluster())
    try:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            with monkeypatch.context() as raising:
                raising.setattr(os, "open", none_left)
                for _ in range(2):
                    served._turn_away(listening)
            served._turn_away(listening)
    finally:
        served.close()
