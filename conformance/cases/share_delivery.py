"""Cases about share groups (KIP-932): redelivery, several partitions, and lost members, connections and records."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kafka_shim.apis.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kafka_shim.apis.alter_share_group_offsets import RequestPartition as AlteredPartition
from kafka_shim.apis.alter_share_group_offsets import RequestTopic as AlteredTopic
from kafka_shim.apis.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_shim.apis.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, RequestGroup
from kafka_shim.apis.fetch import FetchPartition as PlainPartition
from kafka_shim.apis.fetch import FetchRequest
from kafka_shim.apis.fetch import FetchTopic as PlainTopic
from kafka_shim.apis.share_fetch import FetchPartition, FetchTopic, ShareFetchResponse
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.share import prepared
from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.share_member import Acquired, ShareMember, acquired, produce
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level, Skipped

fetch_case = partial(case, api="ShareFetch", uses=("ShareGroupHeartbeat", "ShareAcknowledge", "Produce"))
acknowledge_case = partial(case, api="ShareAcknowledge", uses=("ShareGroupHeartbeat", "ShareFetch", "Produce"))
offsets_case = partial(
    case,
    api="AlterShareGroupOffsets",
    uses=("ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge", "Produce", "DescribeShareGroupOffsets"),
)


def by_partition(answer: ShareFetchResponse) -> dict[int, list[Acquired]]:
    """Return the acquired batches of a ShareFetch by partition, without partitions that have none."""
    return {
        data.partition_index: [(each.first_offset, each.last_offset, each.delivery_count) for each in batches]
        for topic in answer.responses
        for data in topic.partitions
        if (batches := data.acquired_records)
    }


MOST_TOPICS: Final = 60
"""Three partitions have one leader of three in one topic of nine: 60 fail in one run of a thousand."""


def topic_of_one_leader(t: Trial, partitions: int, leader: Endpoint | None = None) -> str:
    """Return a new topic with one leader for all its partitions: a share session is at one broker.

    Targets of several brokers choose the leaders by themselves, so topics are made until one fits.
    """
    for _ in range(MOST_TOPICS):
        topic = t.new_topic(partitions)
        leaders = {t.peer.routes.leader(topic, index) for index in range(partitions)}
        if len(leaders) == 1 and leader in {None, *leaders}:
            return topic
    raise Skipped(f"none of {MOST_TOPICS} topics had the leader that the case needs")


def several(t: Trial) -> tuple[str, ShareMember]:
    """Return a topic of three partitions, and a member that has fetched all of them twice."""
    topic = topic_of_one_leader(t, 3)
    t.configure(share_auto_offset_reset="earliest")
    member = ShareMember(t, topic).joined()
    member.partitions = 3
    for _ in range(2):
        t.expect(member.fetch(max_wait_ms=100), error_code=0)
    return topic, member


def alter(t: Trial, topic: str, offset: int) -> None:
    request = AlterShareGroupOffsetsRequest(t.group, [AlteredTopic(topic, [AlteredPartition(0, offset)])])
    answer = t.expect(t.call(request), error_code=0)
    t.expect(answer.responses[0].partitions[0], error_code=0)


def start_and_lag(t: Trial) -> tuple[int, int]:
    """Return start offset and lag of partition 0."""
    answer = t.call(DescribeShareGroupOffsetsRequest([RequestGroup(t.group, None)]))
    (partition,) = answer.groups[0].topics[0].partitions
    return partition.start_offset, partition.lag


# -- redelivery


@fetch_case(
    "share/fetch/5",
    "From the third delivery on a batch comes in halves, and at its last delivery record by record",
    source="KIP-1240; semantics 4.13 step 17",
)
def poisoned(t: Trial) -> None:
    _, member = prepared(t, *(b"%d" % number for number in range(8)))
    for expected in [(0, 7, 1), (0, 7, 2), (0, 7, 3), (0, 3, 4), (0, 0, 5), (1, 1, 5), (2, 2, 5), (3, 3, 5), (4, 7, 4)]:
        t.equal(member.acquire(), [expected], "what it acquired")
        first, last, _ = expected
        t.equal(member.said_of((first, last, [2])), 0, "the error of releasing it")


@fetch_case(
    "share/fetch/6",
    "Records acquired together are released and acquired as one batch, others are not joined",
    source="KIP-932; semantics 4.13 step 18",
)
def shapes(t: Trial) -> None:
    topic, member = prepared(t)
    produce(t, topic, b"a", b"b")
    produce(t, topic, b"c", b"d")
    t.equal(member.acquire(), [(0, 3, 1)], "what it acquired of two batches")
    produce(t, topic, b"e", b"f")
    t.equal(member.acquire(), [(4, 5, 1)], "what it acquired of the third")
    t.expect(member.acknowledge(share_session_epoch=-1), error_code=0)
    t.equal(member.acquire(max_records=1), [(0, 3, 2)], "what it acquired after it was released")
    t.equal(member.acquire(), [(4, 5, 2)], "what it acquired then")


@fetch_case(
    "share/fetch/7",
    "By mode 1 batches of the log are one batch, and the limit of records divides it",
    source="KIP-1206; semantics 4.13 step 18",
    versions=(2, 2),
)
def joined_by_mode_1(t: Trial) -> None:
    topic, member = prepared(t)
    for value in (b"a", b"b", b"c"):
        produce(t, topic, value, value)
    t.equal(member.acquire(share_acquire_mode=1, batch_size=1, max_records=3), [(0, 2, 1)], "what it acquired")
    t.equal(member.acquire(share_acquire_mode=1, batch_size=1), [(3, 3, 1), (4, 5, 1)], "what it acquired next")


# -- several partitions


@fetch_case(
    "share/fetch/8",
    "Another partition comes first each time: by the epoch, then those that a fetch has looked at without giving",
    source="KIP-932; semantics 4.13 step 19",
)
def turns(t: Trial) -> None:
    topic, member = several(t)
    for index in (0, 1, 2) * 3:
        produce(t, topic, b"a", partition=index)
    first = [by_partition(t.expect(member.fetch(max_records=1), error_code=0)) for _ in range(5)]
    t.equal([list(each) for each in first], [[2], [0], [2], [1], [0]], "the partitions that gave a record")


@fetch_case(
    "share/fetch/9",
    "The limit of bytes is divided evenly over the partitions",
    source="KIP-932; semantics 4.13 step 19",
)
def equal_parts(t: Trial) -> None:
    topic, member = several(t)
    for index in (0, 1, 2) * 4:
        produce(t, topic, b"a" * 930, partition=index)
    answer = t.expect(member.fetch(max_bytes=7_500), error_code=0)
    t.equal(by_partition(answer), {0: [(0, 1, 1)], 1: [(0, 1, 1)], 2: [(0, 1, 1)]}, "what it acquired")


# -- losses


@fetch_case(
    "share/fetch/10",
    "Records that were compacted away are done, and the group goes on after them",
    source="KIP-932; semantics 4.13 step 20",
)
def compacted(t: Trial) -> None:
    topic = f"compacted-{t.group}"
    configs = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0"}
    creatable = CreatableTopic(topic, 1, 1, [], [CreatableTopicConfig(*each) for each in configs.items()])
    t.expect(t.call(CreateTopicsRequest([creatable], 10_000)).topics[0], error_code=0)
    t.new_topic(1, topic)
    t.configure(share_auto_offset_reset="earliest")
    member = ShareMember(t, topic).joined()
    # In one batch, because two may lie in two segments of the log, and a fetch ends with a segment.
    produce(t, topic, b"a", b"b", key=b"k")
    t.equal(member.acquire(), [(0, 1, 1)], "what it acquired")
    t.equal(member.said_of((0, 1, [2])), 0, "the error of releasing it")
    for value in (b"c", b"d"):
        t.lapse(150)
        produce(t, topic, value, key=b"k")

    def first_offset() -> int:
        partition = PlainPartition(0, fetch_offset=0, partition_max_bytes=2**20)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[PlainTopic(topic, partitions=[partition])])
        records = t.call(request, 12).responses[0].partitions[0].records or b""
        return int.from_bytes(records[:8], "big")

    t.until(first_offset, lambda offset: offset > 1, "the log was never compacted")
    expected = 2
    while expected < 4:
        # A fetch may end at the end of a log segment.
        for first, last, count in member.acquire():
            t.equal((first, count), (expected, 1), "the first offset of a batch, and its delivery count")
            t.equal(member.said_of((first, last, [1])), 0, "the error of accepting it")
            expected = last + 1
    produce(t, topic, b"e", key=b"k")
    t.equal(member.acquire(), [(4, 4, 1)], "what it acquired next")
    t.equal(member.said_of((4, 4, [1])), 0, "the error of accepting it")
    t.until(lambda: start_and_lag(t), lambda now: now == (4, 0), "the start offset is not after what was compacted")


@fetch_case(
    "share/session/4",
    "The last fetch of a session may name partitions, without acknowledgements too",
    source="KIP-932; semantics 4.13 step 8",
)
def last_fetch(t: Trial) -> None:
    topic, member = prepared(t, b"a")
    t.equal(member.acquire(), [(0, 0, 1)], "what it acquired")
    topics = [FetchTopic(t.topic_id(topic), [FetchPartition(0)])]
    t.expect(member.fetch(topics=topics, share_session_epoch=-1), error_code=0)
    t.equal(member.acquire(), [(0, 0, 2)], "what it acquired in its next session")


@acknowledge_case(
    "share/session/5",
    "A topic that was deleted is 3 in a fetch of the session, and its id 100 in an acknowledgement",
    source="KIP-932; semantics 4.13 step 9",
)
def deleted_topic(t: Trial) -> None:
    topic, member = prepared(t, b"a")
    t.equal(member.acquire(), [(0, 0, 1)], "what it acquired")
    t.call(DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=10_000))

    def error() -> int:
        answer = t.expect(member.fetch(max_wait_ms=100), error_code=0)
        return answer.responses[0].partitions[0].error_code if answer.responses else 0

    t.until(error, lambda code: code == E.UNKNOWN_TOPIC_OR_PARTITION, "the topic never was unknown")
    t.equal(member.said_of((0, 0, [1])), int(E.UNKNOWN_TOPIC_ID), "the error of an acknowledgement")
    t.expect(member.fetch(share_session_epoch=-1), error_code=0)


@acknowledge_case(
    "share/session/6",
    "A group that is deleted under a session is read on, but nothing can be acknowledged (-1)",
    source="KIP-932; semantics 4.13 step 21",
)
def deleted_group(t: Trial) -> None:
    topic, member = prepared(t, b"a")
    t.equal(member.acquire(), [(0, 0, 1)], "what it acquired")
    t.expect(member.leave(), error_code=0)
    t.expect(t.call(DeleteGroupsRequest([t.group])).results[0], error_code=0)
    t.equal(acquired(t.expect(member.fetch(max_wait_ms=100), error_code=0)), [], "what it acquired then")
    t.equal(member.said_of((0, 0, [1])), int(E.UNKNOWN_SERVER_ERROR), "the error of an acknowledgement")
    produce(t, topic, b"b")
    t.equal(member.acquire(), [(1, 1, 1)], "what it acquired of what is new")


@fetch_case(
    "share/session/7",
    "A group whose connections are gone begins at the end again, if it has acknowledged nothing",
    source="KIP-932; semantics 4.13 step 21",
)
def without_connections(t: Trial) -> None:
    topic = t.new_topic(1)
    produced = 0

    def news_of(member: ShareMember) -> list[Acquired]:
        # A leader may set the start of a group to the end of its log later than it answers the first fetch.
        def batches() -> list[Acquired]:
            nonlocal produced
            produce(t, topic, b"a")
            produced += 1
            return acquired(t.expect(member.fetch(), error_code=0))

        return t.until(batches, bool, "nothing was ever acquired")

    member = ShareMember(t, topic).joined()
    t.expect(member.fetch(max_wait_ms=100), error_code=0)
    t.equal({deliveries for _, _, deliveries in news_of(member)}, {1}, "deliveries of what it acquired")
    member.close()

    def begins_anew() -> bool:
        # The broker learns of a closed connection a moment later. Until then the records are locked, and a session that
        # was opened by then keeps them.
        before = produced
        other = ShareMember(t, topic)
        batches = acquired(t.expect(other.fetch(max_wait_ms=100), error_code=0)) or news_of(other)
        other.close()
        return all(first >= before and deliveries == 1 for first, _, deliveries in batches)

    t.until(begins_anew, bool, "the group never began anew")


@acknowledge_case(
    "share/acknowledge/4",
    "While nothing is in flight an offset is not acquired (121); where the group never fetched there is nothing (3)",
    source="KIP-932; semantics 4.13 step 11",
)
def nothing_in_flight(t: Trial) -> None:
    topic, member = prepared(t)
    other = topic_of_one_leader(t, 1, t.peer.routes.leader(topic, 0))
    t.expect(member.fetch(max_wait_ms=100), error_code=0)
    t.equal(member.said_of((0, 0, [1])), int(E.INVALID_RECORD_STATE), "the error while nothing was ever fetched")
    produce(t, topic, b"a", b"b")
    t.equal(member.acquire(), [(0, 1, 1)], "what it acquired")
    t.equal(member.said_of((2, 2, [1])), int(E.INVALID_REQUEST), "the error of what is past")
    t.equal(member.said_of((0, 1, [1])), 0, "the error of accepting it")
    t.equal(member.said_of((2, 2, [1])), int(E.INVALID_RECORD_STATE), "the error once all is done")
    member.topics = [other]
    t.equal(member.said_of((0, 0, [1])), int(E.UNKNOWN_TOPIC_OR_PARTITION), "the error where it never fetched")


# -- offsets


@offsets_case(
    "share/offsets/4",
    "A broker that has the partition in memory goes on as before, until an acknowledgement is refused (6)",
    source="KIP-932; semantics 4.13 step 16",
)
def altered_in_memory(t: Trial) -> None:
    topic, member = prepared(t, b"a", b"b", b"c")
    t.equal(member.acquire(), [(0, 2, 1)], "what it acquired")
    t.equal(member.said_of((0, 1, [1])), 0, "the error of accepting two")
    t.expect(member.leave(), error_code=0)
    alter(t, topic, 0)
    t.equal(start_and_lag(t), (0, 3), "start offset and lag")
    produce(t, topic, b"d")
    t.equal(member.acquire(), [(3, 3, 1)], "what it acquired then")
    t.equal(member.said_of((2, 2, [1])), int(E.NOT_LEADER_OR_FOLLOWER), "the error of an acknowledgement")
    t.equal(member.said_of((3, 3, [1])), int(E.UNKNOWN_TOPIC_OR_PARTITION), "the error of the next")
    t.equal(member.acquire(), [(0, 3, 1)], "what it acquired from the new start")
    t.equal(member.said_of((0, 3, [1])), 0, "the error of accepting it")


@offsets_case(
    "share/offsets/5",
    "A start offset may be any number, and a lag that does not fit into 64 bits goes round",
    source="KIP-932; semantics 4.13 step 16",
)
def any_offset(t: Trial) -> None:
    topic = t.new_topic(1)
    produce(t, topic, b"a", b"b", b"c")
    most = 2**63 - 1
    expected: dict[int, Any] = {-2: 5, 1: 2, 99: -96, most: 3 - most, -most - 1: -most + 2}
    for offset, lag in expected.items():
        alter(t, topic, offset)
        t.equal(start_and_lag(t), (offset, lag), "start offset and lag")


@offsets_case(
    "share/offsets/6",
    "The text of a write that is refused for its state epoch: that of the error 124, with another sentence from 4.4 on",
    source="semantics 4.10",
    level=Level.MAY,
)
def text_of_refused_write(t: Trial) -> None:
    topic, member = prepared(t, b"a")
    t.equal(member.acquire(), [(0, 0, 1)], "what it acquired")
    t.expect(member.leave(), error_code=0)
    alter(t, topic, 0)
    answer = t.expect(member.acknowledge((0, 0, [1])), error_code=0).responses[0].partitions[0]
    t.expect(answer, error_code=E.NOT_LEADER_OR_FOLLOWER)
    since = "The coordinator rejected the request because the state epoch did not match."
    before = "The share coordinator rejected the request because the share-group state epoch did not match."
    sentence = since if t.rules.fenced_text_without_group else before
    t.equal(answer.error_message, f"Error in write state RPC. {sentence}", "the message")
