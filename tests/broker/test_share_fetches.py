"""ShareFetch and ShareAcknowledge on a broker: sessions, waiting, locks, and members that are gone."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from kafka_shim.apis.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from kafka_shim.apis.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.broker.share_reading import duration
from kafka_shim.groups.interface import PARKED
from kafka_shim.groups.share.persister import Place

from .context import EPOCH_MS, Cluster, batch, records_of

GROUP = "g"
ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]


class Shared(Cluster):
    """A topic `t` of which the group has share states, and which it reads from the beginning."""

    def __init__(self, partitions: int = 1, *, nodes: int = 1, reset: str = "earliest", **settings: str) -> None:
        super().__init__(nodes, **settings)
        self.topic = self.topics.create("t", [[1] for _ in range(partitions)])
        self.topics.settings.groups[GROUP] = {"share.auto.offset.reset": reset}
        for index in range(partitions):
            self.broker.share.persister.initialize(Place(GROUP, self.topic.id, index))

    def member(self, member_id: str, *partitions: int) -> Sharer:
        return Sharer(self, member_id, partitions or (0,))


class Sharer:
    """A member with a share session of its own on a connection of its own."""

    def __init__(self, cluster: Shared, member_id: str, partitions: tuple[int, ...]) -> None:
        self.cluster = cluster
        self.member_id = member_id
        self.partitions = partitions
        self.connection = object()
        self.epochs = count()
        self.epoch = 0

    def fetch(self, *acks: tuple[int, int, list[int]], epoch: int | None = None, **fields: Any) -> Any:
        """One ShareFetch; the first one names the partitions. `acks` are of partition 0."""
        self.epoch = next(self.epochs) if epoch is None else epoch
        request = ShareFetchRequest(GROUP, self.member_id, self.epoch, 500, 1, 2**20, 100, 100)
        batches = [AcknowledgementBatch(*each) for each in acks]
        named = self.partitions if self.epoch == 0 else (0,) if acks else ()
        request.topics = [FetchTopic(self.cluster.topic.id, [FetchPartition(each, batches) for each in named])]
        for name, value in fields.items():
            setattr(request, name, value)
        return self.cluster.broker.share_fetch(request, self, self.connection, self.cluster.now)

    def acknowledge(self, *acks: tuple[int, int, list[int]], epoch: int | None = None, renews: bool = False) -> Any:
        """One ShareAcknowledge of partition 0."""
        epoch = next(self.epochs) if epoch is None else epoch
        batches = [AcknowledgementBatch(*each) for each in acks]
        topics = [AcknowledgeTopic(self.cluster.topic.id, [AcknowledgePartition(0, batches)])] if acks else []
        request = ShareAcknowledgeRequest(GROUP, self.member_id, epoch, renews, topics)
        return self.cluster.broker.share_acknowledge(request, self.cluster.now)


def acquired(response: Any) -> list[tuple[int, int, int, int]]:
    """Partition, first and last offset and delivery count of what a member was given."""
    return [
        (data.partition_index, each.first_offset, each.last_offset, each.delivery_count)
        for topic in response.responses
        for data in topic.partitions
        for each in data.acquired_records
    ]


def test_members_of_a_group_get_different_records() -> None:
    cluster = Shared()
    cluster.send("t", 0, batch(b"a", b"b"))
    one, other = cluster.member("a"), cluster.member("b")
    first = one.fetch()
    assert acquired(first) == [(0, 0, 1, 1)]
    assert first.acquisition_lock_timeout_ms == 30_000
    assert [each.value for each in records_of(first.responses[0].partitions[0].records)] == [b"a", b"b"]
    assert other.fetch() is PARKED
    cluster.send("t", 0, batch(b"c"))
    ((token, answer),) = cluster.replies()
    assert token is other
    assert acquired(answer) == [(0, 2, 2, 1)]


def test_a_fetch_waits_for_records_and_no_longer_than_it_says() -> None:
    cluster = Shared()
    member = cluster.member("a")
    assert member.fetch(max_wait_ms=0).responses[0].partitions[0].acquired_records == []
    assert member.fetch(min_bytes=1000) is PARKED
    cluster.send("t", 0, batch(b"a"))
    assert cluster.replies() == []
    cluster.advance(0.5)
    ((_, answer),) = cluster.replies()
    assert acquired(answer) == [(0, 0, 0, 1)]
    assert member.fetch() is PARKED
    cluster.broker.forget(member)
    cluster.advance(1)
    assert cluster.replies() == []


def test_released_records_wake_who_waits_for_them() -> None:
    cluster = Shared()
    cluster.send("t", 0, batch(b"a", b"b", b"c"))
    one, other = cluster.member("a"), cluster.member("b")
    one.fetch()
    assert other.fetch() is PARKED
    one.acknowledge((0, 0, ACCEPT), (1, 2, [2, 3]))
    ((_, answer),) = cluster.replies()
    assert acquired(answer) == [(0, 1, 1, 2)]


@pytest.mark.parametrize("ending", ["connection", "fetch", "acknowledge"])
def test_what_a_member_has_is_available_when_its_session_ends(ending: str) -> None:
    cluster = Shared()
    cluster.send("t", 0, batch(b"a"))
    one, other = cluster.member("a"), cluster.member("b")
    one.fetch()
    assert other.fetch() is PARKED
    if ending == "connection":
        cluster.broker.disconnected(one.connection)
        cluster.advance(0)
    elif ending == "fetch":
        assert one.fetch(epoch=-1, topics=[]).error_code == 0
    else:
        assert one.acknowledge(epoch=-1).error_code == 0
    ((_, answer),) = cluster.replies()
    assert acquired(answer) == [(0, 0, 0, 2)]
    assert one.acknowledge((0, 0, ACCEPT)).error_code == E.SHARE_SESSION_NOT_FOUND


def test_a_lock_runs_out_unless_it_is_renewed() -> None:
    cluster = Shared()
    cluster.send("t", 0, batch(b"a", b"b"))
    one, other = cluster.member("a"), cluster.member("b")
    one.fetch()
    cluster.advance(20)
    assert one.acknowledge((1, 1, RENEW), renews=True).responses[0].partitions[0].error_code == 0
    assert other.fetch(max_wait_ms=60_000) is PARKED
    cluster.advance(9.9)
    assert cluster.replies() == []
    cluster.advance(0.1)
    ((_, answer),) = cluster.replies()
    assert acquired(answer) == [(0, 0, 0, 2)]
    assert other.fetch(max_wait_ms=60_000) is PARKED
    cluster.advance(20)
    ((_, answer),) = cluster.replies()
    assert acquired(answer) == [(0, 1, 1, 2)]


def test_sessions_have_epochs() -> None:
    cluster = Shared()
    member = cluster.member("a")
    assert member.acknowledge(epoch=0).error_code == E.INVALID_SHARE_SESSION_EPOCH
    assert member.fetch(epoch=3).error_code == E.SHARE_SESSION_NOT_FOUND
    assert member.fetch((0, 0, ACCEPT), epoch=0).error_code == E.INVALID_REQUEST
    assert member.fetch(max_wait_ms=0).error_code == 0
    assert member.fetch(epoch=2).error_code == E.INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge((0, 0, [9])).responses[0].partitions[0].error_code == E.INVALID_REQUEST
    assert member.fetch(max_wait_ms=0).error_code == 0
    assert member.fetch(epoch=-1, topics=[]).error_code == 0
    assert member.fetch(epoch=-1, topics=[]).error_code == E.SHARE_SESSION_NOT_FOUND


def test_there_are_so_many_sessions_at_most() -> None:
    cluster = Shared(group_share_max_share_sessions="1")
    one, other = cluster.member("a"), cluster.member("b")
    assert one.fetch(max_wait_ms=0).error_code == 0
    assert other.fetch().error_code == E.SHARE_SESSION_LIMIT_REACHED
    assert one.fetch(epoch=0, max_wait_ms=0).error_code == 0, "the member's own session makes room"
    cluster.broker.disconnected(one.connection)
    assert other.fetch(epoch=0, max_wait_ms=0).error_code == 0


def test_a_forgotten_partition_keeps_its_locks() -> None:
    cluster = Shared(2)
    cluster.send("t", 0, batch(b"a"))
    one, other = cluster.member("a", 0, 1), cluster.member("b")
    one.fetch()
    assert one.fetch(max_wait_ms=0, forgotten_topics_data=[ForgottenTopic(cluster.topic.id, [0])]).responses == []
    one.acknowledge(epoch=-1)
    assert other.fetch(max_wait_ms=0).responses[0].partitions[0].acquired_records == []
    cluster.advance(30)
    assert acquired(other.fetch()) == [(0, 0, 0, 2)]


@pytest.mark.parametrize(
    ("acks", "error"),
    [
        ([(0, 0, [])], E.INVALID_REQUEST),
        ([(0, 2, [1, 1])], E.INVALID_REQUEST),
        ([(1, 0, [1])], E.INVALID_REQUEST),
        ([(1, 1, [1]), (0, 0, [1])], E.INVALID_REQUEST),
        ([(0, 0, [4])], E.INVALID_REQUEST),
        ([(0, 0, [5])], E.INVALID_REQUEST),
        ([(0, 7, [1])], E.INVALID_REQUEST),
        ([(0, 1, [1]), (1, 2, [1])], E.INVALID_RECORD_STATE),
        ([(0, 2, [0, 1, 3])], E.NONE),
    ],
)
def test_acknowledgements_are_well_formed(acks: list[tuple[int, int, list[int]]], error: E) -> None:
    cluster = Shared()
    cluster.send("t", 0, batch(b"a", b"b", b"c"))
    member = cluster.member("a")
    member.fetch()
    (topic,) = member.acknowledge(*acks).responses
    assert topic.partitions[0].error_code == error


def test_a_fetch_may_bring_acknowledgements_and_their_results() -> None:
    cluster = Shared()
    cluster.send("t", 0, batch(b"a"))
    member = cluster.member("a")
    member.fetch()
    answer = member.fetch((0, 0, RELEASE))
    assert acquired(answer) == [(0, 0, 0, 2)]
    data = member.fetch((0, 0, ACCEPT)).responses[0].partitions[0]
    assert (data.acknowledge_error_code, data.acquired_records) == (0, [])
    refused = member.fetch((5, 5, ACCEPT)).responses[0].partitions[0]
    assert refused.acknowledge_error_code == E.INVALID_REQUEST
    renewal = {"is_renew_ack": True, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    assert member.fetch((0, 0, RENEW), epoch=9, is_renew_ack=True).error_code == E.INVALID_REQUEST
    assert member.fetch((0, 0, RENEW), **renewal).error_code == 0


def test_what_does_not_exist_is_said_at_once() -> None:
    cluster = Shared(nodes=2)
    nowhere = bytes([9]) * 16
    member = cluster.member("a", 0, 7)
    topics = [FetchTopic(nowhere, [FetchPartition(0)]), FetchTopic(cluster.topic.id, [FetchPartition(7)])]
    answer = member.fetch(topics=topics)
    errors = {each.topic_id: each.partitions[0].error_code for each in answer.responses}
    assert errors == {nowhere: E.UNKNOWN_TOPIC_ID, cluster.topic.id: E.UNKNOWN_TOPIC_OR_PARTITION}
    cluster.topics.lead(cluster.topic, 0, 2)
    data = cluster.member("b").fetch()
    assert data.responses[0].partitions[0].error_code == E.NOT_LEADER_OR_FOLLOWER
    assert data.responses[0].partitions[0].current_leader.leader_id == 2
    assert [each.node_id for each in data.node_endpoints] == [2]
    cluster.broker.share.persister.delete(Place(GROUP, cluster.topic.id, 0))
    cluster.topics.lead(cluster.topic, 0, 1)
    data = cluster.member("c").fetch()
    assert data.responses[0].partitions[0].error_code == E.UNKNOWN_SERVER_ERROR


def test_a_topic_that_is_deleted_wakes_who_waits_for_it() -> None:
    cluster = Shared()
    member = cluster.member("a")
    assert member.fetch() is PARKED
    cluster.topics.delete(cluster.topic)
    cluster.topics.settle(cluster.now)
    ((_, answer),) = cluster.replies()
    assert answer.responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("reset", "expected"), [("earliest", 0), ("latest", 3), ("by_duration:PT1.5S", 2), ("by_duration:P1D", 0)]
)
def test_a_group_begins_where_it_is_told_to(reset: str, expected: int) -> None:
    cluster = Shared(reset=reset)
    cluster.now = 3.0
    for index in range(3):
        cluster.send("t", 0, batch(b"x", timestamp=EPOCH_MS + index * 1000))
    member = cluster.member("a")
    found = acquired(member.fetch(max_wait_ms=0))
    if not found:
        cluster.send("t", 0, batch(b"new"))
        found = acquired(member.fetch())
    assert found[0][1] == expected


def test_durations_are_read_as_iso_8601_has_them() -> None:
    assert duration("by_duration:P1DT2H3M4.5S") == 93_784.5
    assert duration("by_duration:PT10M") == 600
    for nothing in ("latest", "by_duration:", "by_duration:P", "by_duration:10"):
        assert duration(nothing) is None


def test_progress_is_what_was_acknowledged_and_what_is_left() -> None:
    cluster = Shared()
    cluster.send("t", 0, batch(b"a", b"b", b"c"))
    place, partition = Place(GROUP, cluster.topic.id, 0), cluster.topic.partition(0)
    share = cluster.broker.share
    assert share.progress(place, partition) == (-1, -1)
    member = cluster.member("a")
    member.fetch()
    assert share.progress(place, partition) == (-1, -1)
    member.acknowledge((0, 1, ACCEPT))
    assert share.progress(place, partition) == (0, 1)
    share.persister.reset(place, 1)
    assert share.progress(place, partition) == (1, 2)
    assert acquired(cluster.member("b").fetch()) == [(0, 1, 2, 1)], "whoever altered the offsets is obeyed"


def test_a_new_leader_goes_on_with_what_was_acknowledged() -> None:
    cluster = Shared(nodes=2)
    cluster.broker.share.persister = cluster.brokers[2].share.persister
    cluster.broker.share.persister.initialize(Place(GROUP, cluster.topic.id, 0))
    cluster.send("t", 0, batch(b"a", b"b", b"c"))
    member = cluster.member("a")
    member.fetch()
    member.acknowledge((0, 0, ACCEPT), (1, 1, RELEASE))
    cluster.topics.lead(cluster.topic, 0, 2)
    cluster.broker = cluster.brokers[2]
    assert acquired(cluster.member("b").fetch()) == [(0, 1, 1, 2), (0, 2, 2, 1)]
