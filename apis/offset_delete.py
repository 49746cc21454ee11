"""OffsetDelete (47): deletes committed offsets of single partitions (KIP-496).

v0  the first, and the only one; not flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, string


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = field(int32)


class OffsetDeleteRequestTopic(Struct):
    name: str = field(string)
    partitions: list[OffsetDeleteRequestPartition] = field(array(OffsetDeleteRequestPartition))


class OffsetDeleteRequest(Message, key=ApiKey.OFFSET_DELETE, versions="0"):
    group_id: str = field(string)
    topics: list[OffsetDeleteRequestTopic] = field(array(OffsetDeleteRequestTopic))


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)


class OffsetDeleteResponseTopic(Struct):
    name: str = field(string)
    partitions: list[OffsetDeleteResponsePartition] = field(array(OffsetDeleteResponsePartition))


class OffsetDeleteResponse(Message, key=ApiKey.OFFSET_DELETE, versions="0"):
    error_code: int = field(int16)
    throttle_time_ms: int = field(int32)
    topics: list[OffsetDeleteResponseTopic] = field(array(OffsetDeleteResponseTopic))


def error(request: OffsetDeleteRequest, code: int) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code)


API = Api(ApiKey.OFFSET_DELETE, "OffsetDelete", OffsetDeleteRequest, OffsetDeleteResponse, error)
