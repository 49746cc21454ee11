"""The bytes of requests and answers, while somebody watches, and the row of the table that a request met."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupResponse
from kafka_shim.server import frames as frames_module
from kafka_shim.server.frames import FrameHistory
from tests.server.conversation import join, sync
from tests.server.wire import Wire, cluster, request

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
    """A group with one member; its id."""
    wire.receive(request(join("billing"), 2, 1))
    wire.cluster.ticks.fire(100.0)
    member_id: str = wire.answer(JoinGroupResponse, 2)[1].member_id
    wire.receive(request(sync(1, member_id, group="billing"), 2, 2))
    wire.answers()
    return member_id


def test_the_bytes_are_those_that_came_and_went(wire: Wire, watch: FrameHistory) -> None:
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


def test_the_row_is_the_one_that_the_request_met(wire: Wire, watch: FrameHistory) -> None:
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
        again = ConsumerGroupHeartbeatRequest("new", "m" * 22, 1, topic_partitions=None)
        wire.receive(request(again, 0, 2))
        joined, steady = history
        assert joined.row is None
        assert steady.row is not None
        assert steady.row.name == "a heartbeat in STABLE"
        assert len(steady.row.cells) == 2


def test_nothing_is_kept_of_what_came_before_or_after(wire: Wire) -> None:
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
    shown = found.shown()
    assert shown["answer"] is None
    assert shown["request"]["pieces"][-1]["text"] == "bytes of no field"


def test_a_correlation_id_that_is_given_twice_is_told_apart_by_the_time(wire: Wire, watch: FrameHistory) -> None:
    member_id = stable(wire)
    for now in (101.0, 102.0):
        wire.receive(request(HeartbeatRequest("billing", 1, member_id, None), VERSION, 7), now)
    pairs = [watch.find(1, 7, now) for now in (101.0, 102.0)]
    assert [pair.arrived for pair in pairs if pair] == [101.0, 102.0]
    assert watch.find(1, 7) is pairs[1]
    assert watch.find(1, 7, 103.0) is None


def test_only_so_many_bytes_are_kept(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
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
