"""Cases about share groups (KIP-932): members, epochs, share sessions, acquired records, acknowledgements, offsets."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_shim.apis.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kafka_shim.apis.alter_share_group_offsets import RequestPartition as AlteredPartition
from kafka_shim.apis.alter_share_group_offsets import RequestTopic as AlteredTopic
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kafka_shim.apis.delete_share_group_offsets import RequestTopic as DeletedTopic
from kafka_shim.apis.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, RequestGroup
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.share_fetch import FetchPartition, FetchTopic
from kafka_shim.apis.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.share_member import ShareMember, acquired, produce
from kafka_shim.conformance.trial import Trial

heartbeat_case = partial(case, api="ShareGroupHeartbeat")
fetch_case = partial(case, api="ShareFetch", uses=("ShareGroupHeartbeat", "ShareAcknowledge", "Produce"))
acknowledge_case = partial(case, api="ShareAcknowledge", uses=("ShareGroupHeartbeat", "ShareFetch", "Produce"))


def described(t: Trial) -> DescribedGroup:
    group: DescribedGroup = t.call(ShareGroupDescribeRequest([t.group])).groups[0]
    return group


def prepared(t: Trial, *values: bytes, lock_ms: int = 30_000) -> tuple[str, ShareMember]:
    """Create a topic of one partition with these records in one batch, and a member that starts at its beginning."""
    topic = t.new_topic(1)
    t.configure(share_auto_offset_reset="earliest", share_record_lock_duration_ms=lock_ms)
    member = ShareMember(t, topic).joined()
    if values:
        produce(t, topic, *values)
    return topic, member


# -- members


@heartbeat_case(
    "share/join/1", "What cannot be meant is an invalid request (42)", source="KIP-932; semantics 4.13 step 1"
)
def invalid(t: Trial) -> None:
    member = ShareMember(t, t.topic())
    wrong: list[dict[str, Any]] = [
        {"member_id": " "},
        {"member_id": ""},
        {"member_id": "a" * 37},
        {"group_id": ""},
        {"rack_id": ""},
        {"subscribed_topic_names": []},
        {"subscribed_topic_names": None},
        {"member_epoch": -2},
    ]
    for changes in wrong:
        t.expect(member.heartbeat(**{"subscribed_topic_names": member.topics} | changes), error_code=E.INVALID_REQUEST)


@heartbeat_case("share/join/2", "An unknown group is 69, an unknown member 25", source="KIP-932; semantics 4.13 step 2")
def unknown(t: Trial) -> None:
    member, stranger = ShareMember(t, t.topic()), ShareMember(t, t.topic())
    t.expect(member.leave(), error_code=E.GROUP_ID_NOT_FOUND)
    t.expect(member.heartbeat(member_epoch=3), error_code=E.GROUP_ID_NOT_FOUND)
    t.expect(member.join(), error_code=0)
    t.expect(stranger.heartbeat(member_epoch=1), error_code=E.UNKNOWN_MEMBER_ID)
    t.expect(stranger.leave(), error_code=E.UNKNOWN_MEMBER_ID)


@heartbeat_case(
    "share/join/3",
    "The first epoch assigns nothing; a topic that is created makes one epoch, its partitions another",
    source="KIP-932; semantics 4.13 step 3",
)
def initialized(t: Trial) -> None:
    name = f"later-{t.group}"
    member = ShareMember(t, name)
    t.expect(member.join(), member_epoch=t.first_epoch, member_id=member.id)
    t.equal(member.assigned, set(), "its assignment")
    t.expect(member.heartbeat(), member_epoch=t.first_epoch, assignment=None)
    t.new_topic(2, name)
    t.until(lambda: (member.heartbeat(), member.assigned)[1], bool, "the partitions never came")
    t.equal(member.assigned, {(name, 0), (name, 1)}, "its assignment")
    t.equal(member.epoch, t.first_epoch + 2, "its epoch")


@heartbeat_case(
    "share/join/4",
    "Members that are more than partitions share them, and each has one",
    source="KIP-932; semantics 4.13 step 5",
)
def shared(t: Trial) -> None:
    topic = t.new_topic(2)
    members = [ShareMember(t, topic) for _ in range(3)]
    for member in members:
        t.expect(member.join(), error_code=0)

    def settled() -> bool:
        for member in members:
            t.expect(member.heartbeat(), error_code=0)
        return all(member.assigned for member in members) and len({member.epoch for member in members}) == 1

    t.until(settled, bool, "not every member has a partition")
    owners = [sum((topic, number) in member.assigned for member in members) for number in (0, 1)]
    t.equal(owners, [2, 2], "how many members each partition has")


@heartbeat_case(
    "share/join/5",
    "Topics are spread together; each is spread by itself as soon as one member subscribes to others",
    source="KIP-932; semantics 4.9 step 4",
)
def alone(t: Trial) -> None:
    topics = [t.new_topic(1), t.new_topic(1)]
    one, two, third = ShareMember(t, *topics), ShareMember(t, *topics), ShareMember(t, t.new_topic(1))

    def counts(*members: ShareMember) -> list[int]:
        for member in members:
            t.expect(member.heartbeat(), error_code=0)
        return [len(member.assigned) for member in members]

    t.expect(one.join(), error_code=0)
    t.expect(two.join(), error_code=0)
    t.until(lambda: counts(one, two), lambda now: now == [1, 1], "not every member has a partition")
    t.equal(one.assigned | two.assigned, {(topic, 0) for topic in topics}, "the partitions of both")
    t.expect(third.join(), error_code=0)
    t.until(lambda: counts(one, two, third), lambda now: now == [2, 2, 1], "the members do not share each topic")


@heartbeat_case(
    "share/join/6",
    "A topic stays in the assignment of a member, without partitions, when it loses the last one",
    source="KIP-932; semantics 4.9 step 4; proved on Apache Kafka 4.4.0",
    uses=("ShareGroupDescribe",),
)
def emptied(t: Trial) -> None:
    topics = [t.new_topic(1), t.new_topic(1)]
    one, two = ShareMember(t, *topics), ShareMember(t, *topics)
    t.expect(one.join(), error_code=0)
    t.until(lambda: (one.heartbeat(), len(one.assigned))[1], lambda count: count == 2, "it never had both topics")
    t.expect(two.join(), error_code=0)
    answer = t.until(one.heartbeat, lambda got: got.assignment is not None, "it has no other assignment")
    assert answer.assignment is not None
    numbers = sorted(each.partitions for each in answer.assignment.topic_partitions)
    t.equal(numbers, [[], [0]], "the partitions of its topics")
    (member,) = (each for each in described(t).members if each.member_id == one.id)
    numbers = sorted(each.partitions for each in member.assignment.topic_partitions)
    t.equal(numbers, [[], [0]], "the partitions described")


@heartbeat_case(
    "share/epoch/1",
    "The member epoch and the one before are accepted, any other is fenced (110); epoch 0 joins again",
    source="KIP-932; semantics 4.13 step 4",
)
def epochs(t: Trial) -> None:
    member = ShareMember(t, t.new_topic(1)).joined()
    epoch = member.epoch
    t.expect(member.heartbeat(member_epoch=epoch + 1), error_code=E.FENCED_MEMBER_EPOCH)
    t.expect(member.heartbeat(member_epoch=epoch - 1), error_code=0, member_epoch=epoch, assignment=None)
    other = ShareMember(t, *member.topics)
    t.expect(other.join(), error_code=0)
    t.until(lambda: member.heartbeat().member_epoch, lambda now: now > epoch, "the epoch never grew")
    t.expect(member.heartbeat(member_epoch=epoch - 1), error_code=E.FENCED_MEMBER_EPOCH)
    answer = t.expect(member.join(), error_code=0, member_epoch=member.epoch)
    t.check(answer.assignment is not None, "no assignment for who joins again")
    answer = t.expect(member.heartbeat(subscribed_topic_names=member.topics), error_code=0, member_epoch=member.epoch)
    t.check(answer.assignment is not None, "no assignment for who names its topics")


@heartbeat_case(
    "share/leave/1",
    "Who leaves is answered with epoch -1; the next heartbeat of another assigns, before 4.3 in one more epoch",
    source="KIP-932; semantics 4.13 step 6",
    uses=("ShareGroupDescribe",),
)
def leaves(t: Trial) -> None:
    topic = t.new_topic(2)
    one, other = ShareMember(t, topic).joined(), ShareMember(t, topic)
    t.expect(other.join(), error_code=0)
    t.until(lambda: (one.heartbeat(), len(one.assigned))[1], lambda count: count == 1, "partitions were never shared")
    epoch = one.epoch
    t.expect(other.leave(), error_code=0, member_epoch=-1, heartbeat_interval_ms=0)
    t.equal(described(t).group_epoch, epoch + 1, "the group epoch")
    epoch += 1 if t.rules.initialized_in_waiting_epoch else 2
    t.expect(one.heartbeat(), member_epoch=epoch)
    t.equal(len(one.assigned), 2, "how many partitions it has")
    one.leave()
    t.expect(described(t), group_state="Empty", group_epoch=epoch + 1, assignor_name="simple")


@heartbeat_case(
    "share/leave/2",
    "An Empty share group stays one, and accepts no commits, until it is deleted",
    source="KIP-932; semantics 4.13 step 6, 4.13 step 7",
    uses=("ConsumerGroupHeartbeat", "OffsetCommit", "DeleteGroups"),
)
def stays(t: Trial) -> None:
    topic = t.new_topic(1)
    member = ShareMember(t, topic).joined()
    t.expect(t.call(DeleteGroupsRequest([t.group])).results[0], error_code=E.NON_EMPTY_GROUP)
    member.leave()
    request = ConsumerGroupHeartbeatRequest(
        t.group, "c", 0, rebalance_timeout_ms=1000, subscribed_topic_names=[topic], topic_partitions=[]
    )
    t.expect(t.call(request), error_code=E.GROUP_ID_NOT_FOUND)
    commit = OffsetCommitRequest(
        t.group, topics=[OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 1)])]
    )
    t.expect(t.call(commit, 9).topics[0].partitions[0], error_code=E.GROUP_ID_NOT_FOUND)
    t.expect(t.call(DeleteGroupsRequest([t.group])).results[0], error_code=0)
    t.expect(described(t), error_code=E.GROUP_ID_NOT_FOUND)


@case(
    "share/describe/1",
    "An empty group id is 24, before all other groups",
    source="KIP-932; semantics 4.13 step 7",
    api="ShareGroupDescribe",
)
def nameless(t: Trial) -> None:
    answer = t.call(ShareGroupDescribeRequest([f"none-{t.group}", ""]))
    t.equal(
        [(each.group_id, each.error_code) for each in answer.groups],
        [("", E.INVALID_GROUP_ID), (f"none-{t.group}", E.GROUP_ID_NOT_FOUND)],
        "groups and their errors",
    )


# -- sessions


@fetch_case(
    "share/session/1",
    "A share session has an epoch: 122 without a session, 123 with another epoch, 42 for acknowledgements in the first",
    source="KIP-932; semantics 4.13 step 8",
)
def sessions(t: Trial) -> None:
    _, member = prepared(t)
    t.expect(member.fetch(share_session_epoch=3), error_code=E.SHARE_SESSION_NOT_FOUND)
    t.expect(member.acknowledge((0, 0, [1]), share_session_epoch=3), error_code=E.SHARE_SESSION_NOT_FOUND)
    t.expect(member.acknowledge((0, 0, [1]), share_session_epoch=0), error_code=E.INVALID_SHARE_SESSION_EPOCH)
    t.expect(member.fetch((0, 0, [1])), error_code=E.INVALID_REQUEST)
    t.expect(member.fetch(max_wait_ms=0), error_code=0)
    t.expect(member.fetch(share_session_epoch=2), error_code=E.INVALID_SHARE_SESSION_EPOCH)
    t.expect(member.fetch(max_wait_ms=0), error_code=0)
    t.expect(member.acknowledge(share_session_epoch=-1), error_code=0)
    t.expect(member.fetch(share_session_epoch=2), error_code=E.SHARE_SESSION_NOT_FOUND)


@fetch_case(
    "share/session/2",
    "An unknown topic id is 100 and an unknown partition 3, each in its partition",
    source="KIP-932; semantics 4.13 step 9",
)
def nowhere(t: Trial) -> None:
    topic, member = prepared(t)
    t.expect(member.fetch(max_wait_ms=0), error_code=0)
    unknown_id = bytes(range(16))
    topics = [FetchTopic(unknown_id, [FetchPartition(0)]), FetchTopic(t.topic_id(topic), [FetchPartition(7)])]
    answer = t.expect(member.fetch(topics=topics), error_code=0)
    errors = {
        (each.topic_id, data.partition_index): data.error_code for each in answer.responses for data in each.partitions
    }
    t.equal(errors.get((unknown_id, 0)), int(E.UNKNOWN_TOPIC_ID), "the error of the unknown topic")
    t.equal(errors.get((t.topic_id(topic), 7)), int(E.UNKNOWN_TOPIC_OR_PARTITION), "the error of the unknown partition")


@fetch_case(
    "share/session/3",
    "Records of a session that is closed are somebody else's at once",
    source="KIP-932; semantics 4.13 step 13",
)
def closed_session(t: Trial) -> None:
    topic, one = prepared(t, b"a")
    other = ShareMember(t, topic)
    t.equal(one.acquire(), [(0, 0, 1)], "the records of the first member")
    t.equal(acquired(other.fetch()), [], "the records of another member")
    t.expect(one.acknowledge(share_session_epoch=-1), error_code=0)
    t.equal(other.acquire(), [(0, 0, 2)], "the records of another member after the session closed")


# -- fetching


@fetch_case(
    "share/fetch/1",
    "Acquired records belong to one member, and the answer has the lock duration",
    source="KIP-932; semantics 4.13 step 10",
)
def locked(t: Trial) -> None:
    topic, one = prepared(t, b"a", b"b", b"c")
    answer = t.until(one.fetch, lambda fetched: bool(acquired(fetched)), "nothing was acquired")
    t.expect(answer, acquisition_lock_timeout_ms=30_000)
    t.equal(acquired(answer), [(0, 2, 1)], "its records")
    other = ShareMember(t, topic)
    t.equal(acquired(other.fetch()), [], "the records of another member")
    produce(t, topic, b"d")
    t.equal(other.acquire(), [(3, 3, 1)], "the new records of another member")


@fetch_case(
    "share/fetch/2",
    "A batch is acquired whole beyond the limit of records, but for acquire mode 1",
    source="KIP-1206; semantics 4.13 step 10",
)
def limited(t: Trial) -> None:
    _, member = prepared(t, *(b"%d" % number for number in range(6)))
    t.equal(member.acquire(max_records=2, batch_size=2), [(0, 5, 1)], "what it acquired of one batch")
    if t.version < 2:
        return
    t.equal(member.said_of((0, 5, [2])), 0, "the error of releasing them")
    t.equal(member.acquire(max_records=2, share_acquire_mode=1), [(0, 1, 2)], "what it acquired by mode 1")


@fetch_case(
    "share/fetch/4",
    "Of a batch that its member has released in part, another acquires that part alone",
    source="KIP-932; semantics 4.13 step 10",
)
def released_in_part(t: Trial) -> None:
    topic, member = prepared(t, b"a", b"b", b"c")
    other = ShareMember(t, topic)
    t.equal(member.acquire(), [(0, 2, 1)], "what the first acquires")
    t.equal(member.said_of((1, 1, [2])), E.NONE, "the error of a release")
    t.equal(other.acquire(), [(1, 1, 2)], "what the other acquires")


@fetch_case(
    "share/fetch/11",
    "Of two batches that a member has, and of which it has released the first, another acquires that one alone",
    source="KIP-932; semantics 4.13 step 10",
)
def one_of_two_batches(t: Trial) -> None:
    topic, one = prepared(t, b"a", b"b")
    other = ShareMember(t, topic)
    t.equal(one.acquire(), [(0, 1, 1)], "what the first acquires")
    produce(t, topic, b"c", b"d")
    t.equal(one.acquire(), [(2, 3, 1)], "what the first acquires then")
    t.equal(one.said_of((0, 1, [2])), 0, "the error of the release")
    t.equal(other.acquire(), [(0, 1, 2)], "what the other acquires")


@fetch_case(
    "share/fetch/3",
    "A group begins at the end unless share.auto.offset.reset is earliest",
    source="KIP-932; semantics 4.13 step 14",
)
def begins(t: Trial) -> None:
    topic = t.new_topic(1)
    produce(t, topic, b"old")
    member = ShareMember(t, topic).joined()
    t.equal(acquired(member.fetch()), [], "what it acquired of what was there")

    def news() -> list[tuple[int, int, int]]:
        produce(t, topic, b"new")
        return acquired(t.expect(member.fetch(), error_code=0))

    (first, *_) = t.until(news, bool, "nothing new was acquired")
    t.check(first[0] >= 1, "the record that was there before the group was delivered")


# -- acknowledging


@acknowledge_case(
    "share/acknowledge/1",
    "Acknowledgements are well formed, or 42; of records that are not acquired, 121; all of a partition count or none",
    source="KIP-932; semantics 4.13 step 11",
)
def refused(t: Trial) -> None:
    topic, member = prepared(t, b"a", b"b", b"c", b"d")
    t.equal(member.acquire(), [(0, 3, 1)], "its records")
    other = ShareMember(t, topic)
    t.equal(acquired(t.expect(other.fetch(max_wait_ms=100), error_code=0)), [], "what is left for another")
    t.equal(other.said_of((0, 3, [1])), int(E.INVALID_RECORD_STATE), "the error of a batch that is another's")
    for batch in ((0, 0, []), (0, 2, [1, 1]), (1, 0, [1]), (0, 0, [7]), (9, 9, [1]), (2, 5, [1]), (0, 0, [4])):
        t.equal(member.said_of(batch), int(E.INVALID_REQUEST), f"the error of {batch}")
    t.equal(member.said_of((2, 2, [1]), (1, 1, [1])), int(E.INVALID_REQUEST), "the error of batches out of order")
    t.equal(member.said_of((3, 3, [1])), 0, "the error of the last record")
    t.equal(member.said_of((0, 0, [1]), (3, 3, [1])), int(E.INVALID_RECORD_STATE), "the error of a record that is done")
    t.equal(member.said_of((0, 2, [1, 2, 0])), 0, "the error of one type for each offset")
    t.equal(member.said_of((0, 0, [1])), 0, "the error of what is past")
    t.equal(other.acquire(), [(1, 1, 2)], "what was released")
    t.equal(member.said_of((1, 1, [1])), int(E.INVALID_RECORD_STATE), "the error of what is another's")


@acknowledge_case(
    "share/acknowledge/2",
    "A lock is renewed only by a request that says that it renews",
    source="KIP-1222; semantics 4.13 step 11",
    versions=(2, 2),
)
def renewed(t: Trial) -> None:
    _, member = prepared(t, b"a")
    t.equal(member.acquire(), [(0, 0, 1)], "its records")
    t.equal(member.said_of((0, 0, [4])), int(E.INVALID_REQUEST), "the error without the flag")
    t.equal(member.said_of((0, 0, [4]), is_renew_ack=True), 0, "the error with the flag")
    answer = member.fetch((0, 0, [4]), is_renew_ack=True)
    t.expect(answer, error_code=E.INVALID_REQUEST)
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0, "batch_size": 0}
    t.expect(member.fetch((0, 0, [4]), is_renew_ack=True, **nothing), error_code=0)
    t.equal(member.said_of((0, 0, [1])), 0, "the error of accepting it")


@acknowledge_case(
    "share/acknowledge/3",
    "A released record is delivered again, five times at most",
    source="KIP-932; semantics 4.13 step 12",
)
def released(t: Trial) -> None:
    topic, member = prepared(t, b"a")
    for count in range(1, 6):
        t.equal(member.acquire(), [(0, 0, count)], "its records")
        t.equal(member.said_of((0, 0, [2])), 0, "the error of releasing it")
    t.equal(acquired(member.fetch()), [], "what it acquired after five deliveries")
    produce(t, topic, b"b")
    t.equal(member.acquire(), [(1, 1, 1)], "what it acquired next")


# -- offsets


@case(
    "share/offsets/1",
    "What a group has done is its start offset and lag; -1 before it has done anything",
    source="KIP-932; semantics 4.13 step 15",
    api="DescribeShareGroupOffsets",
    uses=("ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge", "Produce"),
)
def progress(t: Trial) -> None:
    topic, member = prepared(t, b"a", b"b", b"c")

    def start_and_lag() -> tuple[int, int]:
        answer = t.call(DescribeShareGroupOffsetsRequest([RequestGroup(t.group, None)]))
        t.equal([each.topic_name for each in answer.groups[0].topics], [topic], "the topics of the group")
        (partition,) = answer.groups[0].topics[0].partitions
        t.expect(partition, error_code=0, leader_epoch=0)
        return partition.start_offset, partition.lag

    lag = (lambda number: number) if t.version >= 1 else (lambda number: -1)
    t.equal(start_and_lag(), (-1, -1), "start offset and lag")
    t.equal(member.acquire(), [(0, 2, 1)], "its records")
    t.equal(start_and_lag(), (-1, -1), "start offset and lag while nothing was acknowledged")
    t.equal(member.said_of((0, 1, [1])), 0, "the error of accepting two")
    t.until(start_and_lag, lambda now: now == (0, lag(1)), "two accepted records never showed")
    t.equal(member.said_of((2, 2, [1])), 0, "the error of accepting the last")
    t.until(start_and_lag, lambda now: now == (2, lag(0)), "the last record never showed")


@case(
    "share/offsets/2",
    "Offsets are altered while the group has no members, and the group begins there",
    source="KIP-932; semantics 4.13 step 16",
    api="AlterShareGroupOffsets",
    uses=("ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge", "Produce", "DescribeShareGroupOffsets"),
)
def altered(t: Trial) -> None:
    topic, member = prepared(t, b"a", b"b", b"c")

    def alter(group: str, offset: int) -> Any:
        partitions = [AlteredPartition(0, offset), AlteredPartition(9, offset)]
        return t.call(AlterShareGroupOffsetsRequest(group, [AlteredTopic(topic, partitions)]))

    t.expect(alter(t.group, 1), error_code=E.NON_EMPTY_GROUP)
    t.equal(member.acquire(), [(0, 2, 1)], "its records")
    t.equal(member.said_of((0, 2, [1])), 0, "the error of accepting it")
    t.expect(member.acknowledge(share_session_epoch=-1), error_code=0)
    t.expect(member.leave(), error_code=0)
    answer = t.expect(alter(t.group, 1), error_code=0)
    errors = {each.partition_index: each.error_code for each in answer.responses[0].partitions}
    t.equal(errors, {0: 0, 9: int(E.UNKNOWN_TOPIC_OR_PARTITION)}, "the errors of the partitions")
    start_and_lag = t.call(DescribeShareGroupOffsetsRequest([RequestGroup(t.group, None)])).groups[0]
    t.equal(
        [each.start_offset for each in start_and_lag.topics[0].partitions], [1], "the start offset after the change"
    )


@case(
    "share/offsets/3",
    "Offsets of topics are deleted while the group has no members; a topic it has nothing of is 3",
    source="KIP-932; semantics 4.13 step 16",
    api="DeleteShareGroupOffsets",
    uses=("ShareGroupHeartbeat",),
)
def deleted(t: Trial) -> None:
    topic = t.new_topic(1)
    request = DeleteShareGroupOffsetsRequest(t.group, [DeletedTopic(topic), DeletedTopic("nowhere")])
    t.expect(t.call(request), error_code=E.GROUP_ID_NOT_FOUND)
    member = ShareMember(t, topic).joined()
    t.expect(t.call(request), error_code=E.NON_EMPTY_GROUP)
    t.expect(member.leave(), error_code=0)
    answer = t.expect(t.call(request), error_code=0)
    errors = {each.topic_name: each.error_code for each in answer.responses}
    t.equal(errors, {topic: 0, "nowhere": int(E.UNKNOWN_TOPIC_OR_PARTITION)}, "the errors of the topics")
    t.expect(t.call(request).responses[0], error_code=E.UNKNOWN_TOPIC_OR_PARTITION)
