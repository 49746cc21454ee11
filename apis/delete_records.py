"""DeleteRecords (21): moves the log start offset of partitions forward (KIP-107).

v0  the first
v1  throttle time is taken after the answer is sent
v2  flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, string


class DeleteRecordsPartition(Struct):
    """Records below `offset` are deleted; -1 stands for the high watermark."""

    partition_index: int = field(int32)
    offset: int = field(int64)


class DeleteRecordsTopic(Struct):
    name: str = field(string)
    partitions: list[DeleteRecordsPartition] = field(array(DeleteRecordsPartition))


class DeleteRecordsRequest(Message, key=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = field(array(DeleteRecordsTopic))
    timeout_ms: int = field(int32)


class DeleteRecordsPartitionResult(Struct):
    """`low_watermark`: the smallest log start offset of all replicas; -1 where nothing was deleted."""

    partition_index: int = field(int32)
    low_watermark: int = field(int64)
    error_code: int = field(int16)


class DeleteRecordsTopicResult(Struct):
    name: str = field(string)
    partitions: list[DeleteRecordsPartitionResult] = field(array(DeleteRecordsPartitionResult))


class DeleteRecordsResponse(Message, key=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field(int32)
    topics: list[DeleteRecordsTopicResult] = field(array(DeleteRecordsTopicResult))


def error(request: DeleteRecordsRequest, code: int) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [DeleteRecordsPartitionResult(each.partition_index, -1, code) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


API = Api(ApiKey.DELETE_RECORDS, "DeleteRecords", DeleteRecordsRequest, DeleteRecordsResponse, error)
