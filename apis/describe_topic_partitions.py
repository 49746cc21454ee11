"""DescribeTopicPartitions (75): partitions with their replicas, in pages (KIP-966).

v0  the first; flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int16, int32, string, uuid


class TopicRequest(Struct):
    name: str = field(string)


class Cursor(Struct):
    """The first partition of the next page."""

    topic_name: str = field(string)
    partition_index: int = field(int32)


class DescribeTopicPartitionsRequest(Message, key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"):
    """An empty `topics` list means all topics."""

    topics: list[TopicRequest] = field(array(TopicRequest))
    response_partition_limit: int = field(int32, default=2000)
    cursor: Cursor | None = field(Cursor, nullable="0+", default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = field(int16)
    partition_index: int = field(int32)
    leader_id: int = field(int32)
    leader_epoch: int = field(int32, default=-1)
    replica_nodes: list[int] = field(array(int32))
    isr_nodes: list[int] = field(array(int32))
    eligible_leader_replicas: list[int] | None = field(array(int32), nullable="0+", default=None)
    last_known_elr: list[int] | None = field(array(int32), nullable="0+", default=None)
    offline_replicas: list[int] = field(array(int32))


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = field(int16)
    name: str | None = field(string, nullable="0+")
    topic_id: bytes = field(uuid)
    is_internal: bool = field(boolean)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(array(DescribeTopicPartitionsResponsePartition))
    topic_authorized_operations: int = field(int32, default=-(2**31))


class DescribeTopicPartitionsResponse(Message, key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(array(DescribeTopicPartitionsResponseTopic))
    next_cursor: Cursor | None = field(Cursor, nullable="0+", default=None)


def error(request: DescribeTopicPartitionsRequest, code: int) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(code, each.name) for each in request.topics]
    )


API = Api(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    "DescribeTopicPartitions",
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    error,
)
