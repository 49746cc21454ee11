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
from kafka_shim.broker.offset_reset import OffsetReset, offset_reset
from kafka_shim.broker.share_partition import SharePartition
from kafka_shim.groups.interface import PARKED
from kafka_shim.groups.outbox import Failure
from kafka_shim.groups.share.persister import Place
from kafka_shim.persistence.batch import Record, write_batch

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
            self.broker.share.partitions.persister.initialize(Place(GROUP, self.topic.id, index), 1)

    def member(self, member_id: str, *partitions: int, group_id: str = GROUP, connection: object = None) -> Sharer:
        return Sharer(self, member_id, partitions or (0,), group_id, connection or object())


class Sharer:
    """A member with a share session of its own."""

    def __init__(
        self, cluster: Shared, member_id: str, partitions: tuple[int, ...], group_id: str, connection: object
    ) -> None:
        self.cluster = cluster
        self.member_id = member_id
        self.partitions = partitions
        self.group_id = group_id
        self.connection = connection
        self.epochs = count()
        self.epoch = 0

    def fetch(self, *acks: tuple[int, int, list[int]], epoch: int | None = None, **fields: Any) -> Any:
        """One ShareFetch; the first one names the partitions. `acks` are of partition 0."""
        self.epoch = next(self.epochs) if epoch is None else epoch
        request = ShareFetchRequest(self.group_id, self.member_id, self.epoch, 500, 1, 2**20, 100, 100)
        batches = [AcknowledgementBatch(*each) for each in acks]
        named = self.partitions if self.epoch == 0 else (0,) if acks else ()
        request.topics = [FetchTopic(self.cluster.topic.id, [FetchPartition(each, batches) for each in named])]
        for name, value in fields.items():
            setattr(request, name, value)
        return self.cluster.broker.share.fetch(request, self, self.connection, self.cluster.now)

    def acknowledge(self, *acks: tuple[int, int, list[int]], epoch: int | None = None, renews: bool = False) -> Any:
        """One ShareAcknowledge of partition 0."""
        epoch = next(self.epochs) if epoch is None else epoch
        batches = [AcknowledgementBatch(*each) for each in acks]
        topics = [AcknowledgeTopic(self.cluster.topic.id, [AcknowledgePartition(0, batches)])] if acks else []
        request = ShareAcknowledgeRequest(self.group_id, self.member_id, epoch, renews, topics)
        return self.cluster.broker.share.acknowledge(request, self.cluster.now)


def error_of(response: Any) -> int:
    """The error of the one partition in the answer to a ShareAcknowledge."""
    return int(response.responses[0].partitions[0].error_code)


def acquired(response: Any) -> list[tuple[int, int, int, int]]:
    """Partition, first and last offset and delivery count of each batch that a member acquired."""
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


def test_released_records_wake_waiting_fetches() -> None:
    cluster = Shared()
    cluster.send("t", 0, batch(b"a", b"b", b"c"))
    one, other = cluster.member("a"), cluster.member("b")
    one.fetch()
    assert other.fetch() is PARKED
    one.acknowledge((0, 0, ACCEPT), (1, 2, [2, 3]))
    ((_, answer),) = cluster.replies()
    assert acquired(answer) == [(0, 1, 1, 2)]


@pytest.mark.parametrize("ending", ["connection", "fetch", "acknowledge"])
def test_the_end_of_a_session_releases_its_records(ending: str) -> None:
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


def test_a_group_without_renewals_keeps_the_lock_as_it_is() -> None:
    cluster = Shared()
    cluster.topics.settings.groups[GROUP]["share.renew.acknowledge.enable"] = "false"
    cluster.send("t", 0, batch(b"a"))
    one, other = cluster.member("a"), cluster.member("b")
    one.fetch()
    cluster.advance(20)
    assert error_of(one.acknowledge((0, 0, RENEW), renews=True)) == E.INVALID_RECORD_STATE
    assert other.fetch(max_wait_ms=60_000) is PARKED
    cluster.advance(10)
    ((_, answer),) = cluster.replies()
    assert acquired(answer) == [(0, 0, 0, 2)]


def test_a_new_delivery_limit_counts_from_the_next_acquisition() -> None:
    cluster = Shared()
    cluster.send("t", 0, batch(b"a"))
    member = cluster.member("a")
    assert acquired(member.fetch()) == [(0, 0, 0, 1)]
    assert error_of(member.acknowledge((0, 0, RELEASE))) == 0
    assert acquired(member.fetch()) == [(0, 0, 0, 2)]
    cluster.topics.settings.groups[GROUP]["share.delivery.count.limit"] = "2"
    assert error_of(member.acknowledge((0, 0, RELEASE))) == 0
    assert member.fetch() is PARKED


def test_an_exception_in_a_lock_timer_reloads_the_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Shared()
    cluster.send("t", 0, batch(b"a", b"b"))
    one, other = cluster.member("a"), cluster.member("b")
    one.fetch()

    def raising(partition: SharePartition, now: float) -> bool:
        raise ValueError

    with monkeypatch.context() as patch:
        patch.setattr(SharePartition, "expire", raising)
        cluster.advance(30)
    assert [type(each.effect) for each in cluster.outbox.effects] == [Failure]
    assert acquired(other.fetch(max_wait_ms=0)) == [(0, 0, 1, 1)]


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


def test_sessions_are_bounded() -> None:
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
    assert refused.acknowledge_error_code == E.INVALID_RECORD_STATE
    renewal = {"is_renew_ack": True, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    assert member.fetch((0, 0, RENEW), epoch=9, is_renew_ack=True).error_code == E.INVALID_REQUEST
    assert member.fetch((0, 0, RENEW), **renewal).error_code == 0


def test_a_missing_partition_is_answered_at_once() -> None:
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
    cluster.broker.share.partitions.persister.delete(Place(GROUP, cluster.topic.id, 0))
    cluster.topics.lead(cluster.topic, 0, 1)
    data = cluster.member("c").fetch()
    assert data.responses[0].partitions[0].error_code == E.UNKNOWN_SERVER_ERROR


def test_a_deleted_topic_wakes_waiting_fetches() -> None:
    cluster = Shared()
    member = cluster.member("a")
    assert member.fetch() is PARKED
    cluster.topics.delete(cluster.topic)
    cluster.topics.settle(cluster.now)
    ((_, answer),) = cluster.replies()
    assert answer.responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        ("earliest", 0),
        ("latest", 3),
        ("by_duration:PT1.5S", 2),
        ("by_duration:P1D", 0),
        # The longest that is accepted.
        ("by_duration:P106751991167300D", 0),
    ],
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


def test_durations_are_read_as_java_does() -> None:
    """Each of these was tried on a running Kafka 4.2.2."""
    assert offset_reset("by_duration:P1DT2H3M4.5S") == OffsetReset(back_ms=93_784_500)
    assert offset_reset("by_duration:PT10M") == OffsetReset(back_ms=600_000)
    assert offset_reset("by_duration:PT-1H+90M") == OffsetReset(back_ms=1_800_000)
    for known in ("+PT1H", "pt1h", "PT0S", "P0D", "PT1.S", "PT9223372036854775807S", "P106751991167300D"):
        assert offset_reset(f"by_duration:{known}") is not None, known
    for unknown in ("", "P", "PT", "1h", "P1Y", "P1DT", "PT.5S", "PT1H1S1M", "-PT1H", "PT-1H", "P106751991167301D"):
        assert offset_reset(f"by_duration:{unknown}") is None, unknown


def test_a_group_begins_at_the_end_or_the_start_by_name() -> None:
    assert offset_reset(" latest ") == OffsetReset()
    assert offset_reset("earliest") == OffsetReset(earliest=True)
    for unknown in ("LATEST", "Earliest", "BY_DURATION:PT1H", "none", ""):
        assert offset_reset(unknown) is None, unknown


def test_progress_counts_acknowledged_and_remaining_records() -> None:
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
    share.partitions.persister.reset(place, 2, 1)
    assert share.progress(place, partition) == (1, 2)
    for start in (2**63 - 1, -(2**63)):
        share.partitions.persister.reset(place, 2, start)
        assert -(2**63) <= share.progress(place, partition)[1] < 2**63, "a lag has 64 bits"


def test_altered_offsets_count_from_the_next_acknowledgement_on() -> None:
    cluster = Shared()
    cluster.send("t", 0, batch(b"a", b"b"))
    member = cluster.member("a")
    assert acquired(member.fetch()) == [(0, 0, 1, 1)]
    member.acknowledge((0, 0, ACCEPT))
    cluster.broker.share.partitions.persister.reset(Place(GROUP, cluster.topic.id, 0), 2, 0)
    cluster.send("t", 0, batch(b"c"))
    assert acquired(member.fetch()) == [(0, 2, 2, 1)], "the broker has the partition in memory"
    assert error_of(member.acknowledge((1, 1, ACCEPT))) == E.NOT_LEADER_OR_FOLLOWER
    assert error_of(member.acknowledge((2, 2, ACCEPT))) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert acquired(member.fetch()) == [(0, 0, 2, 1)]
    assert error_of(member.acknowledge((0, 2, ACCEPT))) == 0


def test_a_topic_that_is_deleted_is_unknown_to_acknowledgements() -> None:
    cluster = Shared()
    cluster.send("t", 0, batch(b"a"))
    member = cluster.member("a")
    member.fetch()
    cluster.topics.delete(cluster.topic)
    assert error_of(member.acknowledge((0, 0, ACCEPT))) == E.UNKNOWN_TOPIC_ID
    assert member.fetch().responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION


def test_a_last_fetch_may_name_partitions() -> None:
    cluster = Shared()
    member = cluster.member("a")
    member.fetch(max_wait_ms=0)
    topics = [FetchTopic(cluster.topic.id, [FetchPartition(0)])]
    assert member.fetch(epoch=-1, topics=topics).error_code == 0


def test_a_record_that_was_never_fetched_cannot_be_acknowledged() -> None:
    cluster = Shared()
    member = cluster.member("a")
    member.fetch(max_wait_ms=0)
    assert error_of(member.acknowledge((0, 0, ACCEPT))) == E.INVALID_RECORD_STATE


def test_a_waiting_fetch_gets_the_remaining_records_of_a_compacted_log() -> None:
    cluster = Shared()
    named = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0"}
    cluster.topics.configure(cluster.topic, named)

    def write(value: bytes) -> None:
        cluster.advance(2)
        record = Record(0, EPOCH_MS + round(cluster.now * 1000), b"k", value)
        assert cluster.send("t", 0, write_batch([record])).error_code == 0

    write(b"a")
    member, other = cluster.member("a"), cluster.member("b")
    assert acquired(member.fetch()) == [(0, 0, 0, 1)]
    assert other.fetch(min_bytes=10_000, max_wait_ms=60_000) is PARKED
    cluster.broker.disconnected(member.connection)
    for value in (b"b", b"c"):
        write(value)
    cluster.advance(20)
    assert cluster.topic.partition(0).log.read(0, 1, first_whole=True)[:8] != bytes(8), "the log was compacted"
    assert cluster.replies() == []
    cluster.advance(60)
    ((_, answer),) = cluster.replies()
    assert acquired(answer) == [(0, 1, 2, 1)]
    assert error_of(other.acknowledge((2, 2, ACCEPT))) == 0


def test_partitions_take_turns() -> None:
    """The epoch says where a fetch begins; those that gave records, and those not looked at yet, come last."""
    cluster = Shared(3)
    member = cluster.member("a", 0, 1, 2)
    member.fetch(max_wait_ms=0)
    for index in (0, 1, 2) * 4:
        cluster.send("t", index, batch(b"a"))
    turns = [acquired(member.fetch(max_records=1))[0][0] for _ in range(6)]
    assert turns == [1, 0, 2, 0, 1, 2]


def test_partitions_have_equal_parts_of_the_bytes() -> None:
    cluster = Shared(3)
    member = cluster.member("a", 0, 1, 2)
    member.fetch(max_wait_ms=0)
    one = batch(b"a" * 300)
    for index in (0, 1, 2) * 3:
        cluster.send("t", index, one)
    taken = acquired(member.fetch(max_bytes=len(one) * 6))
    assert sorted(taken) == [(0, 0, 1, 1), (1, 0, 1, 1), (2, 0, 1, 1)]
    assert len(acquired(member.fetch(max_bytes=len(one)))) == 1, "no part is large enough, so one comes whole"


def test_a_new_leader_goes_on_from_the_acknowledged_records() -> None:
    cluster = Shared(nodes=2)
    cluster.broker.share.partitions.persister = cluster.brokers[2].share.partitions.persister
    cluster.broker.share.partitions.persister.initialize(Place(GROUP, cluster.topic.id, 0), 1)
    cluster.send("t", 0, batch(b"a", b"b", b"c"))
    member = cluster.member("a")
    member.fetch()
    member.acknowledge((0, 0, ACCEPT), (1, 1, RELEASE))
    cluster.topics.lead(cluster.topic, 0, 2)
    cluster.broker = cluster.brokers[2]
    assert acquired(cluster.member("b").fetch()) == [(0, 1, 1, 2), (0, 2, 2, 1)]
