"""DeleteShareGroupOffsets (92): deletes the offsets of topics of an Empty share group (KIP-932).

v0  the first; flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, string, uuid


class RequestTopic(Struct):
    topic_name: str = field(string)


class DeleteShareGroupOffsetsRequest(Message, key=ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"):
    group_id: str = field(string)
    topics: list[RequestTopic] = field(array(RequestTopic))


class ResponseTopic(Struct):
    topic_name: str = field(string)
    topic_id: bytes = field(uuid)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Message, key=ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    responses: list[ResponseTopic] = field(array(ResponseTopic))


def error(
    request: DeleteShareGroupOffsetsRequest, code: int, message: str | None = None
) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=code, error_message=message)


API = Api(
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    "DeleteShareGroupOffsets",
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    error,
)
