"""The bytes of requests and answers for a page that watches, and the row of the table for each request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupResponse
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_shim.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from kafka_shim.broker.topics import Node as Address
from kafka_shim.experiments.client_assignors.messages import ClientAssignorHeartbeatRequest
from kafka_shim.experiments.registered.messages import (
    ControllerCreateGroupRequest,
    ControllerHeartbeatRequest,
    RegisterConsumerRequest,
)
from kafka_shim.server import frames as frames_module
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.compose import make_cluster
from kafka_shim.server.frames import FrameHistory
from tests.server.conversation import join, sync
from tests.server.turns import Turns
from tests.server.wire import Wire, cluster, read, request

VERSION = 4


@pytest.fixture
def wire() -> Wire:
    return Wire(cluster())


@pytest.fixture
def watch(wire: Wire) -> Iterator[FrameHistory]:
    history = FrameHistory(wire.cluster.nodes.values)
    with history.watching():
        yield history


def stable(wire: Wire) -> str:
    """Create a group with one member; return its id."""
    wire.receive(request(join("billing"), 2, 1))
    wire.cluster.ticks.fire(100.0)
    member_id: str = wire.answer(JoinGroupResponse, 2)[1].member_id
    wire.receive(request(sync(1, member_id, group="billing"), 2, 2))
    wire.answers()
    return member_id


def test_frames_keep_the_bytes_of_requests_and_answers(wire: Wire, watch: FrameHistory) -> None:
    member_id = stable(wire)
    sent = request(HeartbeatRequest("billing", 1, member_id, None), VERSION, 7)
    wire.receive(sent)
    found = watch.find(1, 7)
    assert found is not None
    assert (found.request, found.answer, found.api, found.client_id) == (sent, wire.sent, "Heartbeat", "test")
    assert found.concerns == ("READ of group billing",)
    # The same bytes again do not take the shortcut for repeated requests.
    wire.receive(request(HeartbeatRequest("billing", 1, member_id, None), VERSION, 8))
    assert watch.find(1, 8) is not None


def test_frames_name_the_row_of_each_request(wire: Wire, watch: FrameHistory) -> None:
    wire.receive(request(join("billing"), 2, 1))
    first = watch.find(1, 1)
    assert first is not None
    assert first.answer == b""
    assert first.row is not None
    assert (first.row.name, first.row.does) == (
        "JoinGroup without an id, dynamic, before v4",
        "Add the member, park its request, start a rebalance.",
    )
    assert [(cell.column, cell.does) for cell in first.row.cells if cell.here] == [("Empty", "add")]
    wire.cluster.ticks.fire(100.0)
    member_id = wire.answer(JoinGroupResponse, 2)[1].member_id
    assert first.answer
    wire.receive(request(HeartbeatRequest("billing", 1, member_id, None), VERSION, 2))
    wire.receive(request(sync(1, member_id, group="billing"), 2, 3))
    rows = [pair.row for pair in watch]
    assert [next(cell.column for cell in row.cells if cell.here) for row in rows if row] == [
        "Empty",
        "CompletingRebalance",
        "CompletingRebalance",
    ]
    assert [row.error for row in rows if row] == [0, 0, 0]


def test_a_heartbeat_of_a_consumer_group_met_the_steps_of_its_members_state() -> None:
    wire = Wire(cluster(topics={"orders": 2}))
    history = FrameHistory(wire.cluster.nodes.values)
    with history.watching():
        first = ConsumerGroupHeartbeatRequest("new", "m" * 22, 0, None, None, 60_000, ["orders"], None, None, [])
        wire.receive(request(first, 0, 1))
        again = ConsumerGroupHeartbeatRequest("new", "m" * 22, 2, topic_partitions=None)
        wire.receive(request(again, 0, 2))
        gone = ConsumerGroupHeartbeatRequest("new", "m" * 22, -1, topic_partitions=None)
        wire.receive(request(gone, 0, 3))
        assert rows(history) == [
            ("a member of a consumer group", "a heartbeat in STABLE", "", "", 0),
            ("a member of a consumer group", "a heartbeat in STABLE", "", "", 0),
            None,
        ]
        assert all(pair.row is None or len(pair.row.cells) == 2 for pair in history)


def rows(history: FrameHistory) -> list[tuple[str, str, str, str, int] | None]:
    """Return the row of each request: table, trigger, state, action and error."""
    met = [pair.row for pair in history]
    return [
        None
        if row is None
        else (row.table, row.name, next((cell.column for cell in row.cells if cell.here), ""), row.does, row.error)
        for row in met
    ]


def errors(wire: Wire, kind: type[Any]) -> list[int]:
    return [read(answer, kind, kind.versions[-1])[1].error_code for answer in wire.answers()]


def test_a_heartbeat_of_a_share_group_met_the_row_that_answered_it() -> None:
    wire = Wire(cluster(topics={"orders": 2}, group_share_max_size="1"))
    history = FrameHistory(wire.cluster.nodes.values)
    beats = [
        (0, "a", ["orders"]),
        (2, "a", None),
        (0, "b", ["orders"]),
        (9, "a", None),
        (-1, "a", None),
        (-1, "a", None),
    ]
    stable(wire)
    with history.watching():
        for number, (epoch, member_id, topics) in enumerate(beats):
            beat = ShareGroupHeartbeatRequest("shared", member_id, epoch, None, topics)
            wire.receive(request(beat, 1, number))
        wire.receive(request(ShareGroupHeartbeatRequest("billing", "a", 1), 1, 7))
        wire.receive(request(ShareGroupHeartbeatRequest("shared", "", 1), 1, 8))
        met = rows(history)
        assert [None if row is None else row[2] for row in met] == [
            "no group",
            "the member, at this epoch or the next one",
            "a full group without this member",
            "the member, at another epoch",
            "the member, at another epoch",
            "a group without this member",
            "a group of another kind",
            None,
        ]
        assert met[0] is not None
        assert met[0][3:] == ("create the group with this member", 0)
        assert [row and row[4] for row in met[:-1]] == errors(wire, ShareGroupHeartbeatResponse)[:-1]


def test_a_heartbeat_of_a_streams_group_met_the_steps_of_its_members_state() -> None:
    wire = Wire(cluster(topics={"lines": 2}))
    history = FrameHistory(wire.cluster.nodes.values)
    topology = Topology(0, [Subtopology("0", source_topics=["lines"])])
    with history.watching():
        joins = StreamsGroupHeartbeatRequest(
            "app", "m" * 22, 0, 0, None, None, 60_000, topology, [], [], [], "process", None, [], None, None
        )
        wire.receive(request(joins, 0, 1))
        (joined,) = wire.answers()
        epoch = read(joined, StreamsGroupHeartbeatResponse, 0)[1].member_epoch
        for number, each in enumerate((epoch, epoch + 7), 2):
            wire.receive(request(StreamsGroupHeartbeatRequest("app", "m" * 22, each), 0, number))
        steady = ("a member of a streams group", "a heartbeat in STABLE", "", "", 0)
        assert rows(history) == [steady, steady, None]
        assert epoch > 0


def test_a_request_of_an_experiment_met_a_row_of_its_own_kind() -> None:
    config = ClusterConfig(topics={"orders": 2}, experimental=("designs", "client-assignors"))
    made = make_cluster([Address(1, "localhost", 9092)], config)
    made.load_at_once()
    wire = Wire(made)
    history = FrameHistory(wire.cluster.nodes.values)
    with history.watching():
        wire.receive(request(ControllerCreateGroupRequest("fixed", 10_000, ["orders"], False), 0, 1))
        wire.receive(request(RegisterConsumerRequest("fixed", "a"), 0, 2))
        for number, generation in enumerate((1, 8), 3):
            wire.receive(request(ControllerHeartbeatRequest("fixed", "a", generation, 0), 0, number))
        wire.receive(request(RegisterConsumerRequest("other", "a"), 0, 5))
        beat = ClientAssignorHeartbeatRequest("own", "m" * 22, 0, None, None, 60_000, ["orders"], None, None, [], [])
        wire.receive(request(beat, 0, 6))
        assert [row and row[1:3] for row in rows(history)] == [
            None,
            ("RegisterConsumer", "a group that it is not in"),
            ("ControllerHeartbeat", "the member, which nobody awaits"),
            ("ControllerHeartbeat", "the member, in another generation"),
            ("RegisterConsumer", "no group of this kind"),
            ("a heartbeat in STABLE", ""),
        ]
        assert [row and row[4] for row in rows(history)] == [None, 0, 0, 22, 69, 0]


def test_frames_keep_only_requests_while_a_page_watches(wire: Wire) -> None:
    history = FrameHistory(wire.cluster.nodes.values)
    member_id = stable(wire)
    wire.receive(request(HeartbeatRequest("billing", 1, member_id, None), VERSION, 3))
    with history.watching():
        assert history.find(1, 3) is None
        wire.receive(request(HeartbeatRequest("billing", 1, member_id, None), VERSION, 4))
        assert history.find(1, 4) is not None
    wire.receive(request(HeartbeatRequest("billing", 1, member_id, None), VERSION, 5))
    assert list(history) == []
    assert all(node.frames is None for node in wire.cluster.nodes.values())


def test_a_malformed_request_is_kept_too(wire: Wire, watch: FrameHistory) -> None:
    data = request(HeartbeatRequest("billing", 1, "m", None), VERSION, 9)[4:-5]
    wire.receive(len(data).to_bytes(4) + data)
    assert wire.is_closed
    found = watch.find(1, 9)
    assert found is not None
    shown = found.as_dict()
    assert shown["answer"] is None
    assert shown["request"]["pieces"][-1]["text"] == "bytes of no field"


def test_time_tells_apart_frames_with_equal_correlation_ids(wire: Wire, watch: FrameHistory) -> None:
    member_id = stable(wire)
    for now in (101.0, 102.0):
        wire.receive(request(HeartbeatRequest("billing", 1, member_id, None), VERSION, 7), now)
    pairs = [watch.find(1, 7, now) for now in (101.0, 102.0)]
    assert [pair.arrived for pair in pairs if pair] == [101.0, 102.0]
    assert watch.find(1, 7) is pairs[1]
    assert watch.find(1, 7, 103.0) is None


def test_frames_keep_a_limited_number_of_bytes(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    history = FrameHistory(wire.cluster.nodes.values, kept_bytes=3000)
    monkeypatch.setattr(frames_module, "LARGEST", 200)
    with history.watching():
        for number in range(100):
            wire.receive(request(HeartbeatRequest("billing", 1, "m", None), VERSION, number))
        kept = [pair.correlation_id for pair in history]
        assert kept == list(range(100 - len(kept), 100))
        assert 0 < len(kept) < 6
        wire.receive(request(HeartbeatRequest("billing", 1, "m" * 200, None), VERSION, 200))
        assert history.find(1, 200) is None


def test_names_beyond_a_hundred_are_counted_in_the_concerns(wire: Wire, watch: FrameHistory) -> None:
    names = [f"g{number}" for number in range(102)]
    wire.receive(request(DescribeGroupsRequest(names), 5, 1))
    (pair,) = watch
    assert pair.concerns == (f"DESCRIBE of group {', '.join(names[:100])} and 2 more",)


def test_concerns_count_in_the_bytes_that_are_kept(wire: Wire) -> None:
    size = len(request(DescribeGroupsRequest(["g" * 100] * 90), 5))
    history = FrameHistory(wire.cluster.nodes.values, kept_bytes=10 * size)
    with history.watching():
        for number in range(1, 20):
            wire.receive(request(DescribeGroupsRequest(["g" * 100] * 90), 5, number))
        assert sum(pair.size for pair in history) <= 10 * size
        assert 2 <= len(list(history)) <= 4, "request, answer and names take 9,000 bytes each"


def test_long_answer_is_not_joined_for_the_watch(wire: Wire) -> None:
    lengths = list[int]()

    class Watch(FrameHistory):
        def answered(self, connection: int, data: bytes, *, is_whole: bool = True) -> None:
            lengths.append(len(data))
            super().answered(connection, data, is_whole=is_whole)

    turns, watch = Turns(wire), Watch(wire.cluster.nodes.values)
    with watch.watching():
        wire.receive(request(DescribeGroupsRequest(["x" * 30_000] * 12), 5, 7))
        turns.all()
        pair = watch.find(1, 7)
        assert len(wire.answers()[0]) > 300_000
        assert pair is None or not pair.answer
    assert max(lengths) < 100
