"""TxnOffsetCommit (28): stores offsets of a group within a transaction.

v0  the first
v1  throttle time is taken after the answer is sent
v2  leader epoch (KIP-320); COORDINATOR_LOAD_IN_PROGRESS (14) may be answered; before, COORDINATOR_NOT_AVAILABLE (15)
v3  flexible; generation, member and group instance id (KIP-447)
v4  TRANSACTION_ABORTABLE (120) may be answered (KIP-890)
v5  the offsets partition is added to the transaction implicitly (KIP-890)
v6  topic ids in place of names, in both directions; GROUP_ID_NOT_FOUND (69), UNKNOWN_TOPIC_ID (100) and
    STALE_MEMBER_EPOCH (113) may be answered (KIP-1319)
"""

from collections.abc import Sequence

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.merge import merge
from kafka_shim.apis.wire import ErrorCode, Message, Struct, array, field, int16, int32, int64, string, uuid


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = field(int32)
    committed_offset: int = field(int64)
    committed_leader_epoch: int = field(int32, versions="2+", default=-1, ignorable=True)
    committed_metadata: str | None = field(string, nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    name: str = field(string, versions="0-5", ignorable=True)
    topic_id: bytes = field(uuid, versions="6+", ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = field(array(TxnOffsetCommitRequestPartition))


class TxnOffsetCommitRequest(Message, key=ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+"):
    transactional_id: str = field(string)
    group_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    generation_id: int = field(int32, versions="3+", default=-1)
    member_id: str = field(string, versions="3+")
    group_instance_id: str | None = field(string, versions="3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(array(TxnOffsetCommitRequestTopic))


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)


class TxnOffsetCommitResponseTopic(Struct):
    name: str = field(string, versions="0-5", ignorable=True)
    topic_id: bytes = field(uuid, versions="6+", ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = field(array(TxnOffsetCommitResponsePartition))


class TxnOffsetCommitResponse(Message, key=ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+"):
    throttle_time_ms: int = field(int32)
    topics: list[TxnOffsetCommitResponseTopic] = field(array(TxnOffsetCommitResponseTopic))


def shape(response: TxnOffsetCommitResponse, version: int) -> TxnOffsetCommitResponse:
    """Before version 2, replace COORDINATOR_LOAD_IN_PROGRESS, which such clients do not retry."""
    if version < 2:
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return response


def error(request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[TxnOffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def complete(
    response: TxnOffsetCommitResponse, refused: Sequence[TxnOffsetCommitResponseTopic]
) -> TxnOffsetCommitResponse:
    """Put the topics that were refused before the rule ran in front of `response.topics`. Changes `response` in
    place.
    """
    if refused:
        response.topics = merge([*refused, *response.topics], _name_and_id)
    return response


def _name_and_id(topic: TxnOffsetCommitResponseTopic) -> tuple[str, bytes]:
    return topic.name, topic.topic_id


API = Api(
    ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", TxnOffsetCommitRequest, TxnOffsetCommitResponse, error, shape=shape
)
