"""OffsetCommit (8): a member, or an admin client, stores offsets of a group.

v0  the first; stored in ZooKeeper then
v1  generation and member, a timestamp per partition
v2  one retention time in place of the timestamps
v3  throttle time
v4  throttle time is taken after the answer is sent
v5  no retention time any more (KIP-211)
v6  leader epoch (KIP-320)
v7  group instance id (KIP-345)
v8  flexible
v9  for members of KIP-848 groups too; STALE_MEMBER_EPOCH (113) and GROUP_ID_NOT_FOUND (69) may be answered
v10 topic ids in place of names, in both directions
"""

from kafka_shim.apis.api import Api, unshaped
from kafka_shim.apis.call import Broker, Call
from kafka_shim.apis.merge import merge
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, string, uuid
from kafka_shim.apis.wire.errors import ErrorCode


class OffsetCommitRequestPartition(Struct):
    """`commit_timestamp` is milliseconds since the epoch; a `committed_leader_epoch` of -1 means not known."""

    partition_index: int = field(int32)
    committed_offset: int = field(int64)
    committed_leader_epoch: int = field(int32, versions="6+", default=-1, ignorable=True)
    commit_timestamp: int = field(int64, versions="1", default=-1)
    committed_metadata: str | None = field(string, nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: str = field(string, versions="0-9", ignorable=True)
    topic_id: bytes = field(uuid, versions="10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field(array(OffsetCommitRequestPartition))


class OffsetCommitRequest(Message, key=8, versions="0-10", flexible="8+"):
    """A `generation_id_or_member_epoch` of -1 with an empty `member_id` commits from outside of the group."""

    group_id: str = field(string)
    generation_id_or_member_epoch: int = field(int32, versions="1+", default=-1, ignorable=True)
    member_id: str = field(string, versions="1+", ignorable=True)
    group_instance_id: str | None = field(string, versions="7+", nullable="7+", default=None)
    retention_time_ms: int = field(int64, versions="2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field(array(OffsetCommitRequestTopic))


class OffsetCommitResponsePartition(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)


class OffsetCommitResponseTopic(Struct):
    name: str = field(string, versions="0-9", ignorable=True)
    topic_id: bytes = field(uuid, versions="10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field(array(OffsetCommitResponsePartition))


class OffsetCommitResponse(Message, key=8, versions="0-10", flexible="8+"):
    throttle_time_ms: int = field(int32, versions="3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(array(OffsetCommitResponseTopic))


def error(request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[OffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def handle(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    """Refuse what does not exist, UNKNOWN_TOPIC_OR_PARTITION (3) or UNKNOWN_TOPIC_ID (100); the rest is the group's.

    If nothing is left the group is not asked at all (semantics 3.1).
    """
    refused = _take_unknown_ids(request, call.broker) if call.version >= 10 else []
    refused += _take_unknown_partitions(request, call.broker)
    if refused and not request.topics:
        return OffsetCommitResponse(topics=merge(refused, _name_and_id))
    response = call.groups.commit(request, call.now, unknown_group_is_69=call.version >= 9)
    if refused:
        response.topics = merge(refused + response.topics, _name_and_id)
    return response


def _take_unknown_ids(request: OffsetCommitRequest, broker: Broker) -> list[OffsetCommitResponseTopic]:
    """Give every topic its name; those without one are taken out of the request and refused."""
    known, refused = [], []
    for topic in request.topics:
        topic.name = broker.topic_name(topic.topic_id) or ""
        if topic.name:
            known.append(topic)
        else:
            refused.append(_refuse(topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_ID))
    request.topics = known
    return refused


def _take_unknown_partitions(request: OffsetCommitRequest, broker: Broker) -> list[OffsetCommitResponseTopic]:
    """Take partitions that do not exist out of the request and refuse them."""
    refused = []
    for topic in request.topics:
        there = range(broker.partitions_of(topic.name))
        unknown = [each for each in topic.partitions if each.partition_index not in there]
        if unknown:
            topic.partitions = [each for each in topic.partitions if each.partition_index in there]
            refused.append(_refuse(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if refused:
        request.topics = [topic for topic in request.topics if topic.partitions]
    return refused


def _refuse(
    topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition], code: int
) -> OffsetCommitResponseTopic:
    answers = [OffsetCommitResponsePartition(each.partition_index, int(code)) for each in partitions]
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, answers)


def _name_and_id(topic: OffsetCommitResponseTopic) -> tuple[str, bytes]:
    return topic.name, topic.topic_id


API = Api(8, "OffsetCommit", OffsetCommitRequest, OffsetCommitResponse, handle, unshaped, error)
