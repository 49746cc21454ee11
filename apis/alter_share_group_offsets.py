"""AlterShareGroupOffsets (91): sets the start offsets of an Empty share group (KIP-932).

v0  the first; flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, string, uuid


class RequestPartition(Struct):
    partition_index: int = field(int32)
    start_offset: int = field(int64)


class RequestTopic(Struct):
    topic_name: str = field(string)
    partitions: list[RequestPartition] = field(array(RequestPartition))


class AlterShareGroupOffsetsRequest(Message, key=ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"):
    group_id: str = field(string)
    topics: list[RequestTopic] = field(array(RequestTopic))


class ResponsePartition(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


class ResponseTopic(Struct):
    topic_name: str = field(string)
    topic_id: bytes = field(uuid)
    partitions: list[ResponsePartition] = field(array(ResponsePartition))


class AlterShareGroupOffsetsResponse(Message, key=ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    responses: list[ResponseTopic] = field(array(ResponseTopic))


def error(
    request: AlterShareGroupOffsetsRequest, code: int, message: str | None = None
) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=code, error_message=message)


API = Api(
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    "AlterShareGroupOffsets",
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    error,
)
