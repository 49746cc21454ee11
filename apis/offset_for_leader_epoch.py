"""OffsetForLeaderEpoch (23): the end offset of a leader epoch, by which clients detect truncation (KIP-101).

v0  the first
v1  the answer has the epoch (KIP-279)
v2  current leader epoch, throttle time (KIP-320)
v3  replica id
v4  flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, string


class OffsetForLeaderPartition(Struct):
    partition: int = field(int32)
    current_leader_epoch: int = field(int32, versions="2+", default=-1, ignorable=True)
    leader_epoch: int = field(int32)


class OffsetForLeaderTopic(Struct):
    topic: str = field(string)
    partitions: list[OffsetForLeaderPartition] = field(array(OffsetForLeaderPartition))


class OffsetForLeaderEpochRequest(Message, key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+"):
    replica_id: int = field(int32, versions="3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field(array(OffsetForLeaderTopic))


class EpochEndOffset(Struct):
    """The largest epoch that is not above the requested one, and the offset at which the next epoch begins."""

    error_code: int = field(int16)
    partition: int = field(int32)
    leader_epoch: int = field(int32, versions="1+", default=-1, ignorable=True)
    end_offset: int = field(int64, default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = field(string)
    partitions: list[EpochEndOffset] = field(array(EpochEndOffset))


class OffsetForLeaderEpochResponse(Message, key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+"):
    throttle_time_ms: int = field(int32, versions="2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field(array(OffsetForLeaderTopicResult))


def error(request: OffsetForLeaderEpochRequest, code: int) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic.topic, [EpochEndOffset(code, each.partition) for each in topic.partitions])
            for topic in request.topics
        ]
    )


API = Api(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    "OffsetForLeaderEpoch",
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    error,
)
