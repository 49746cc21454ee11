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

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, string, uuid


class OffsetCommitRequestPartition(Struct):
    """`commit_timestamp` is milliseconds since the epoch; a `committed_leader_epoch` of -1 is unknown."""

    partition_index: int = field(int32)
    committed_offset: int = field(int64)
    committed_leader_epoch: int = field(int32, versions="6+", default=-1, ignorable=True)
    commit_timestamp: int = field(int64, versions="1", default=-1)
    committed_metadata: str | None = field(string, nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: str = field(string, versions="0-9", ignorable=True)
    topic_id: bytes = field(uuid, versions="10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field(array(OffsetCommitRequestPartition))


class OffsetCommitRequest(Message, key=ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+"):
    """A `generation_id_or_member_epoch` of -1 with an empty `member_id` is a commit from outside the group."""

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


class OffsetCommitResponse(Message, key=ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+"):
    throttle_time_ms: int = field(int32, versions="3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(array(OffsetCommitResponseTopic))


def accepted(request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Return the answer that every offset is committed."""
    return OffsetCommitResponse(
        0,
        [
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(each.partition_index, 0) for each in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def error(request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
    response = accepted(request)
    for topic in response.topics:
        for each in topic.partitions:
            each.error_code = code
    return response


API = Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", OffsetCommitRequest, OffsetCommitResponse, error)
