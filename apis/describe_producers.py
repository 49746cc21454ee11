"""DescribeProducers (61): the producers of a partition, and their open transactions (KIP-664).

v0  the first; flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, string


class TopicRequest(Struct):
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


class DescribeProducersRequest(Message, key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    topics: list[TopicRequest] = field(array(TopicRequest))


class ProducerState(Struct):
    """-1 stands for a missing value: no batch of this epoch, no marker yet, no open transaction."""

    producer_id: int = field(int64)
    producer_epoch: int = field(int32)
    last_sequence: int = field(int32, default=-1)
    last_timestamp: int = field(int64, default=-1)
    coordinator_epoch: int = field(int32)
    current_txn_start_offset: int = field(int64, default=-1)


class PartitionResponse(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    active_producers: list[ProducerState] = field(array(ProducerState))


class TopicResponse(Struct):
    name: str = field(string)
    partitions: list[PartitionResponse] = field(array(PartitionResponse))


class DescribeProducersResponse(Message, key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    topics: list[TopicResponse] = field(array(TopicResponse))


def error(request: DescribeProducersRequest, code: int) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(topic.name, [PartitionResponse(index, code) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


API = Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", DescribeProducersRequest, DescribeProducersResponse, error)
