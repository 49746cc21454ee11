"""ListOffsets (2): the first, the last, or the offset at a given time, of partitions.

v0  the first; a list of segment offsets before a time
v1  one offset and its timestamp
v2  isolation level, throttle time
v3  throttle time is taken after the answer is sent
v4  leader epoch (KIP-320)
v5  OFFSET_NOT_AVAILABLE (78) may be answered (KIP-207)
v6  flexible
v7  timestamp -3: the record with the largest timestamp (KIP-734)
v8  timestamp -4: the first local offset of a tiered log (KIP-405)
v9  timestamp -5: the last offset in remote storage (KIP-1005)
v10 timeout for offsets in remote storage (KIP-1075)
v11 timestamp -6: the earliest offset that is not yet in remote storage (KIP-1023)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int8, int16, int32, int64, string


class ListOffsetsPartition(Struct):
    """`timestamp` is milliseconds since the epoch, or a special value: -1 the end, -2 the start, others as above."""

    partition_index: int = field(int32)
    current_leader_epoch: int = field(int32, versions="4+", default=-1, ignorable=True)
    timestamp: int = field(int64)
    max_num_offsets: int = field(int32, versions="0", default=1)


class ListOffsetsTopic(Struct):
    name: str = field(string)
    partitions: list[ListOffsetsPartition] = field(array(ListOffsetsPartition))


class ListOffsetsRequest(Message, key=ApiKey.LIST_OFFSETS, versions="0-11", flexible="6+"):
    """`isolation_level`: 0 reads to the high watermark, 1 to the last stable offset. `replica_id` is -1 for
    consumers.
    """

    replica_id: int = field(int32)
    isolation_level: int = field(int8, versions="2+")
    topics: list[ListOffsetsTopic] = field(array(ListOffsetsTopic))
    timeout_ms: int = field(int32, versions="10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    old_style_offsets: list[int] = field(array(int64), versions="0")
    timestamp: int = field(int64, versions="1+", default=-1)
    offset: int = field(int64, versions="1+", default=-1)
    leader_epoch: int = field(int32, versions="4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = field(string)
    partitions: list[ListOffsetsPartitionResponse] = field(array(ListOffsetsPartitionResponse))


class ListOffsetsResponse(Message, key=ApiKey.LIST_OFFSETS, versions="0-11", flexible="6+"):
    throttle_time_ms: int = field(int32, versions="2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field(array(ListOffsetsTopicResponse))


def shape(response: ListOffsetsResponse, version: int) -> ListOffsetsResponse:
    """In version 0, answer with a list of offsets instead of one offset and its timestamp; before version 4, without
    epoch.
    """
    if version == 0:
        for topic in response.topics:
            for partition in topic.partitions:
                partition.old_style_offsets = [partition.offset] if partition.offset >= 0 else []
                partition.offset = partition.timestamp = -1
    if version < 4:
        for topic in response.topics:
            for partition in topic.partitions:
                partition.leader_epoch = -1
    return response


def error(request: ListOffsetsRequest, code: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[ListOffsetsPartitionResponse(each.partition_index, code) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


API = Api(ApiKey.LIST_OFFSETS, "ListOffsets", ListOffsetsRequest, ListOffsetsResponse, error, shape=shape)
