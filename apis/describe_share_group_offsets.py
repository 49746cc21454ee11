"""DescribeShareGroupOffsets (90): the start offsets of share groups in their partitions (KIP-932).

v0  the first; flexible
v1  lag (KIP-1226)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, string, uuid


class RequestTopic(Struct):
    topic_name: str = field(string)
    partitions: list[int] = field(array(int32))


class RequestGroup(Struct):
    """Null `topics` mean all topics of the group."""

    group_id: str = field(string)
    topics: list[RequestTopic] | None = field(array(RequestTopic), nullable="0+")


class DescribeShareGroupOffsetsRequest(Message, key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions="0-1", flexible="0+"):
    groups: list[RequestGroup] = field(array(RequestGroup))


class ResponsePartition(Struct):
    """A `start_offset` of -1 means that no member has fetched yet; a `lag` of -1 that the lag is unknown."""

    partition_index: int = field(int32)
    start_offset: int = field(int64)
    leader_epoch: int = field(int32)
    lag: int = field(int64, versions="1+", default=-1, ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


class ResponseTopic(Struct):
    topic_name: str = field(string)
    topic_id: bytes = field(uuid)
    partitions: list[ResponsePartition] = field(array(ResponsePartition))


class ResponseGroup(Struct):
    group_id: str = field(string)
    topics: list[ResponseTopic] = field(array(ResponseTopic))
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(
    Message, key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions="0-1", flexible="0+"
):
    throttle_time_ms: int = field(int32)
    groups: list[ResponseGroup] = field(array(ResponseGroup))


def error(request: DescribeShareGroupOffsetsRequest, code: int) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[ResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups]
    )


API = Api(
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    "DescribeShareGroupOffsets",
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    error,
)
