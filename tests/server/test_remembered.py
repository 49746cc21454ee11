"""Requests remembered by their bytes: answers, records and events are the same as without the shortcut."""

import gc
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_shim.apis.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_shim.apis.sync_group import SyncGroupRequest
from kafka_shim.broker.topics import Node as Address
from kafka_shim.lab.failing_store import BreakableStore
from kafka_shim.server.cluster import Cluster, ClusterConfig
from kafka_shim.server.compose import make_cluster
from kafka_shim.server.remembered import MAX_BYTES, MAX_REQUESTS
from kafka_shim.server.remembered.commits import MAX_COMMIT_BYTES, RememberedCommit
from kafka_shim.server.trace_file import TraceFile
from kafka_shim.trace.schema import problems
from tests.examples import examples
from tests.server.test_trace_file import events_of
from tests.server.wire import Wire, read, request

TOPICS = {"orders": 3, "payments": 2}
IDS = {"orders": b"o" * 16, "payments": b"p" * 16, "nowhere": b"n" * 16}
NOW = 100.0


def alike(store: Any = None) -> Cluster:
    """Start a cluster that repeats itself exactly: ids are counted, Unix time begins at 1000."""
    numbers = count(1)
    named = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "offset.metadata.max.bytes": "5",
    }
    config = ClusterConfig(settings=named, new_uuid=lambda: UUID(int=next(numbers)), clock=lambda: NOW)
    cluster = make_cluster([Address(1, "localhost", 9092)], config, store)
    for name, partitions in TOPICS.items():
        cluster.topics.create(name, [[1]] * partitions, id=IDS[name])
    for node in cluster.nodes.values():
        node.groups._parts = replace(node.groups._parts, wall_offset=1000.0)
    cluster.load_at_once()
    return cluster


class Side:
    """A member of a group on its own cluster. With `forgetful`, every request is served without the shortcut."""

    def __init__(self, forgetful: bool, listened: bool = True, store: Any = None) -> None:
        self.forgetful = forgetful
        self.cluster = alike(store)
        self.wire = Wire(self.cluster)
        self.events: list[dict[str, Any]] = []
        self.answers: list[bytes] = []
        if listened:
            self.cluster.events.listen(lambda events, now: self.events.extend(dict(event) for event in events))
        self.member_id = ""
        self.join()

    @property
    def session(self) -> Any:
        return self.wire.session

    def join(self, now: float = NOW) -> None:
        """Be the one member of a stable group, or begin a round if there are others."""
        protocols = [JoinGroupRequestProtocol("range", b"")]
        joining = JoinGroupRequest("billing", 30_000, 60_000, self.member_id, None, "consumer", protocols)
        self.answers += self.wire.answers()
        self.receive(request(joining, 5), now)
        (answer,) = self.wire.answers()
        self.member_id = read(answer, JoinGroupResponse, 5)[1].member_id
        joining.member_id = self.member_id
        self.receive(request(joining, 5), now)
        self.fire(now + 0.001)
        self.wire.answers()
        self.generation = self.group.generation
        self.receive(request(SyncGroupRequest("billing", self.generation, self.member_id), 1), now)
        self.wire.answers()

    @property
    def group(self) -> Any:
        return self.cluster.nodes[1].groups.groups["billing"]

    def receive(self, data: bytes, now: float) -> None:
        if self.forgetful:
            self.session.forget()
        self.wire.receive(data, now)

    def fire(self, now: float) -> None:
        self.cluster.ticks.fire(now)

    def commit(
        self, rows: list[tuple[str, int, str | None]], offset: int, version: int, number: int, **other: Any
    ) -> bytes:
        """Commit to these topics, partitions, with this metadata; the offsets count from `offset`."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for place, (name, index, metadata) in enumerate(rows):
            topic = topics.setdefault(name, OffsetCommitRequestTopic(name, IDS[name]))
            topic.partitions.append(OffsetCommitRequestPartition(index, offset + place, 4, committed_metadata=metadata))
        fields = {"generation_id_or_member_epoch": self.generation, "member_id": self.member_id} | other
        return request(OffsetCommitRequest("billing", topics=list(topics.values()), **fields), version, number)

    def seen(self) -> tuple[Any, ...]:
        """Return all visible results: answers, records and events."""
        service = self.cluster.nodes[1].groups
        store = self.cluster.durability.store
        stored = {partition: dict(store.load(partition)) for partition in range(self.cluster.ownership.partitions)}
        shown = {
            (partition, key.topic, key.partition): shard.offsets.of("billing")[key.topic][key.partition]
            for partition, shard in service.shards.items()
            for key in shard.offsets.keys_of("billing")
        }
        group = service.groups.get("billing")
        sessions = {} if group is None else {name: each.session_timer.deadline for name, each in group.members.items()}
        calls = {str(each): each.calls for each in self.session.node.table.endpoints.values()}
        counted = (service.counters.offset_commits, self.cluster.durability.batches, calls)
        self.answers += self.wire.answers()
        return self.answers, self.wire.is_closed, self.events, stored, shown, sessions, counted


ROWS = st.sampled_from(
    [
        [("orders", 0, "")],
        [("orders", 0, ""), ("orders", 1, None)],
        [("orders", 0, "here"), ("payments", 1, "")],
        [("orders", 2, "too large")],
        [("orders", 7, ""), ("payments", 0, "")],
        [("nowhere", 0, "")],
        [("orders", 1, ""), ("orders", 1, "")],
    ]
)
OFFSETS = st.integers(-(2**40), 2**40)
VERSIONS = st.integers(2, 10)
AGAIN = st.tuples(st.just("again"), st.integers(-(2**63), 2**63 - 1))
ELSEWHERE = st.tuples(st.just("elsewhere"), st.integers(0, 1000), st.lists(st.integers(-1, 4), min_size=2, max_size=2))
OTHER = st.one_of(
    AGAIN,
    ELSEWHERE,
    st.tuples(st.just("changed"), st.integers(0, 400), st.integers(1, 255)),
    st.tuples(st.just("split"), st.integers(1, 100)),
    st.tuples(st.just("twice")),
    st.tuples(st.just("heartbeat")),
    st.tuples(st.just("other member")),
    st.tuples(st.just("leave")),
    st.tuples(st.just("rejoin")),
    st.tuples(st.just("grow")),
    st.tuples(st.just("delete")),
    st.tuples(st.just("later"), st.floats(0.001, 40)),
)


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Generate commits, each repeated until it is remembered, and again after other requests."""
    steps: list[tuple[Any, ...]] = []
    for rows, offset, version in draw(st.lists(st.tuples(ROWS, OFFSETS, VERSIONS), min_size=1, max_size=3)):
        steps += [("commit", rows, offset, version), draw(AGAIN), draw(AGAIN)]
        for other in draw(st.lists(OTHER, max_size=5)):
            steps += [other, draw(AGAIN)]
    return steps


def play(side: Side, steps: list[tuple[Any, ...]]) -> None:
    """Do the same on both sides."""
    now = NOW
    newest: tuple[list[Any], int] | None = None
    numbers = count(10)

    def committing(offset: int) -> bytes:
        assert newest is not None
        return side.commit(newest[0], offset, newest[1], next(numbers))

    for step, *values in steps:
        if side.wire.is_closed:
            return
        if step == "commit":
            newest = (values[0], values[2])
            side.receive(committing(values[1]), now)
        elif step == "again" and newest is not None:
            side.receive(committing(min(values[0], 2**63 - 4)), now)
        elif step == "elsewhere" and newest is not None:
            topics = [(name, metadata) for name, _, metadata in newest[0]]
            rows = [(name, values[1][n], metadata) for n, (name, metadata) in enumerate(topics)]
            side.receive(side.commit(rows, values[0], newest[1], next(numbers)), now)
        elif step == "changed" and newest is not None:
            data = bytearray(committing(5))
            data[8 + values[0] % (len(data) - 8)] ^= values[1]
            side.receive(bytes(data), now)
        elif step == "split" and newest is not None:
            data = committing(6)
            side.receive(data[: values[0]], now)
            side.receive(data[values[0] :], now)
        elif step == "twice" and newest is not None:
            side.receive(committing(7) + committing(8), now)
        elif step == "heartbeat":
            beat = HeartbeatRequest("billing", side.generation, side.member_id)
            side.receive(request(beat, 4, next(numbers)), now)
        elif step == "other member":
            protocols = [JoinGroupRequestProtocol("range", b"")]
            joining = JoinGroupRequest("billing", 30_000, 60_000, "", None, "consumer", protocols)
            Wire(side.cluster).receive(request(joining, 1), now)
        elif step == "leave":
            side.receive(request(LeaveGroupRequest("billing", members=[MemberIdentity(side.member_id)]), 4), now)
        elif step == "rejoin" and not side.cluster.nodes[1].groups.groups["billing"].members:
            side.member_id = ""
            side.join(now)
        elif step in ("grow", "delete"):
            topic = side.cluster.topics.named("orders")
            if topic is not None and step == "delete":
                side.cluster.topics.delete(topic)
            elif topic is not None:
                side.cluster.topics.grow(topic, [[1]])
            side.cluster.settle(now)
        elif step == "later":
            now += values[0]
            side.fire(now)


@settings(max_examples=examples(120), deadline=None)
@given(steps=stories(), listened=st.booleans())
def test_a_remembered_request_is_served_as_any_other(steps: list[tuple[Any, ...]], listened: bool) -> None:
    remembering, forgetful = Side(False, listened), Side(True, listened)
    for side in (remembering, forgetful):
        play(side, steps)
    assert remembering.seen() == forgetful.seen()
    assert [problem for event in remembering.events for problem in problems(event)] == []


def remembered(side: Side, version: int = 7) -> Callable[[int], bytes]:
    """Let the side remember a commit of two partitions; return a function for more of them. Fails if it was not
    remembered."""

    def made(offset: int) -> bytes:
        return side.commit([("orders", 0, ""), ("payments", 1, "at 1")], offset, version, offset)

    for offset in (1, 2):
        side.receive(made(offset), NOW)
    assert [type(each) for each in side.session.remembered.values()] == [RememberedCommit]
    side.wire.answers()
    return made


@pytest.mark.parametrize("version", range(2, 11))
async def test_the_third_commit_to_the_same_partitions_is_not_decoded(version: int) -> None:
    side = Side(False, listened=False)
    made = remembered(side, version)
    endpoint = side.session.node.table.endpoints[made(3)[4:8]]
    endpoint._decode = lambda data, offset: pytest.fail("decoded")
    side.receive(made(3), NOW)
    number, answer = side.wire.answer(OffsetCommitResponse, version)
    assert number == 3
    assert [each.error_code for topic in answer.topics for each in topic.partitions] == [0, 0]
    stored = side.cluster.ownership.owner_of("billing").groups._route("billing").offsets.of("billing")
    assert (stored["orders"][0].offset, stored["payments"][1].offset) == (3, 4)
    assert stored["payments"][1].metadata == "at 1"


@pytest.mark.parametrize("version", [2, 7, 8, 10])
@pytest.mark.parametrize("listened", [False, True])
async def test_a_commit_to_other_partitions_of_the_same_topics_is_remembered(version: int, listened: bool) -> None:
    results = []
    for forgetful in (False, True):
        side = Side(forgetful, listened)
        for number, (one, other) in enumerate([(0, 1), (0, 1), (2, 0), (1, 0), (1, 0), (0, 1), (2, 1)]):
            if number == 2 and not forgetful and not listened:
                (endpoint,) = [each for each in side.session.node.table.endpoints.values() if each.key == 8]
                endpoint._decode = lambda data, offset: pytest.fail("decoded")
            rows: list[tuple[str, int, str | None]] = [("orders", one, "x"), ("payments", other, None)]
            side.receive(side.commit(rows, 10 * number, version, number), NOW)
        results.append(side.seen())
    assert results[0] == results[1]


async def test_a_commit_to_a_partition_that_does_not_exist_is_refused_though_the_rest_is_remembered() -> None:
    side = Side(False)
    made = remembered(side)
    side.receive(side.commit([("orders", 3, ""), ("payments", 1, "at 1")], 9, 7, 9), NOW)
    _, answer = side.wire.answer(OffsetCommitResponse, 7)
    errors = {topic.name: [each.error_code for each in topic.partitions] for topic in answer.topics}
    assert errors == {"orders": [3], "payments": [0]}
    side.receive(made(10), NOW)
    _, answer = side.wire.answer(OffsetCommitResponse, 7)
    assert [each.error_code for topic in answer.topics for each in topic.partitions] == [0, 0]


async def test_other_requests_do_not_displace_a_remembered_commit() -> None:
    side = Side(False, listened=False)
    made = remembered(side)
    side.receive(request(HeartbeatRequest("billing", side.generation, side.member_id), 3), NOW)
    assert len(side.session.remembered) == 2
    side.session.node.table.endpoints[made(3)[4:8]]._decode = lambda data, offset: pytest.fail("decoded")
    side.receive(made(3), NOW)
    assert len(side.wire.answers()) == 2


async def test_a_commit_to_a_deleted_topic_is_refused() -> None:
    side = Side(False)
    made = remembered(side)
    orders = side.cluster.topics.named("orders")
    assert orders is not None
    side.cluster.topics.delete(orders)
    side.receive(made(3), NOW)
    _, answer = side.wire.answer(OffsetCommitResponse, 7)
    errors = {topic.name: [each.error_code for each in topic.partitions] for topic in answer.topics}
    assert errors == {"orders": [3], "payments": [0]}


async def test_two_commits_in_one_read_are_two() -> None:
    side = Side(False)
    made = remembered(side)
    side.receive(made(3) + made(4), NOW)
    assert [read(each, OffsetCommitResponse, 7)[0] for each in side.wire.answers()] == [3, 4]


async def test_a_session_remembers_a_limited_number_of_requests() -> None:
    side = Side(False)
    for length in range(20):
        rows: list[tuple[str, int, str | None]] = [("orders", 0, "")] * (length + 1)
        for offset in (1, 2):
            side.receive(side.commit(rows, offset, 7, 1), NOW)
            assert len(side.session.remembered) <= MAX_REQUESTS
    rows = [("orders", 0, "")] * (MAX_COMMIT_BYTES // 18)
    before = dict(side.session.remembered)
    for offset in (1, 2, 3):
        side.receive(side.commit(rows, offset, 7, 1), NOW)
    assert side.session.remembered == before
    assert len(side.wire.answers()) == 43
    for length in (3_000, 5_000, 7_000, 9_000, 15_000, 17_000):
        side.receive(request(HeartbeatRequest("g" * length, 1, side.member_id), 4), NOW)
        assert sum(int.from_bytes(head[:4]) for head in side.session.remembered) <= MAX_BYTES
    assert len(side.session.remembered) == 1


async def test_a_refused_commit_in_a_trace_shows_the_sent_fields() -> None:
    store = BreakableStore()
    side = Side(False, store=store)
    made = remembered(side)
    store.fail()
    side.receive(made(77), NOW)
    _, answer = side.wire.answer(OffsetCommitResponse, 7)
    assert {each.error_code for topic in answer.topics for each in topic.partitions} == {15}
    exchange = side.events[-1]
    assert (exchange["event"], exchange["error"], exchange["correlation_id"]) == ("exchange", 15, 77)
    offsets = [topic["partitions"]["committed_offset"] for topic in exchange["request"]["topics"]]
    assert offsets == [[77], [78]]


@pytest.mark.parametrize("topic", ["orders", "payments"])
async def test_a_remembered_commit_in_a_trace_is_as_any_other(tmp_path: Path, topic: str) -> None:
    results = []
    rows: list[tuple[str, int, str | None]] = [("orders", 0, "%d"), (topic, 1, '"\0\1')]
    for forgetful in (False, True):
        side = Side(forgetful, listened=False)
        path = tmp_path / f"{forgetful}.jsonl"
        with TraceFile(path, side.cluster):
            for number, offset in enumerate((3, -4, 2**62, 0, -(2**63))):
                side.receive(side.commit(rows, offset, 8, number), NOW + 1)
        results.append(events_of(path))
    ours, theirs = ([{k: v for k, v in e.items() if k not in ("run", "seq", "wall")} for e in each] for each in results)
    assert ours == theirs
    assert sum(event["event"] == "commit" for event in ours) == 5
    offsets = [event["offsets"][0]["offset"] for event in ours if event["event"] == "commit"]
    assert offsets == [3, -4, 2**62, 0, -(2**63)]
    assert [problem for event in results[0] for problem in problems(event)] == []


async def test_a_listener_that_starts_while_an_answer_is_held_sees_the_request() -> None:
    class Looking:
        def requested(self, exchange: Any, now: float) -> bool:
            return False

        def answering(self, exchange: Any, data: bytes, now: float) -> bool:
            seen.extend(each.committed_offset for topic in exchange.request.topics for each in topic.partitions)
            return False

    seen: list[int] = []
    side = Side(False)
    made = remembered(side)
    side.session.receive(made(50), NOW)
    side.cluster.intercept(Looking())
    side.cluster.settle(NOW)
    assert seen == [50, 51]
    assert len(side.wire.answers()) == 1


def test_a_repeated_heartbeat_and_the_tick_it_comes_in_are_a_few_calls() -> None:
    """Count the calls, of our functions and of the interpreter: on a busy machine a clock cannot measure the cost."""
    side = Side(forgetful=False, listened=False)
    data = request(HeartbeatRequest("billing", side.generation, side.member_id), 4)
    for _ in range(2):
        side.receive(data, NOW)
    calls: list[int] = []

    def count_calls(frame: object, event: str, _: object) -> None:
        calls[-1] += event in ("call", "c_call")

    # The collector calls its listeners at any time.
    gc.disable()
    try:
        for action in (lambda: side.session.receive(data, NOW), lambda: side.cluster.settle(NOW)):
            calls.append(0)
            sys.setprofile(count_calls)
            try:
                action()
            finally:
                sys.setprofile(None)
    finally:
        gc.enable()
    # Two calls each belong to the action and to the end of the count.
    heartbeat, tick = calls
    assert heartbeat <= 13
    assert tick <= 10
