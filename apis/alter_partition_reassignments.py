"""AlterPartitionReassignments (45): moves partitions to other brokers (KIP-455).

v0  the first; flexible
v1  the client may forbid that the number of replicas changes (KIP-860)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int16, int32, string


class ReassignablePartition(Struct):
    """A partition and its new replicas. Null replicas cancel a reassignment in progress."""

    partition_index: int = field(int32)
    replicas: list[int] | None = field(array(int32), nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: str = field(string)
    partitions: list[ReassignablePartition] = field(array(ReassignablePartition))


class AlterPartitionReassignmentsRequest(
    Message, key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+"
):
    timeout_ms: int = field(int32, default=60_000)
    allow_replication_factor_change: bool = field(boolean, versions="1+", default=True)
    topics: list[ReassignableTopic] = field(array(ReassignableTopic))


class ReassignablePartitionResponse(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


class ReassignableTopicResponse(Struct):
    name: str = field(string)
    partitions: list[ReassignablePartitionResponse] = field(array(ReassignablePartitionResponse))


class AlterPartitionReassignmentsResponse(
    Message, key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+"
):
    throttle_time_ms: int = field(int32)
    allow_replication_factor_change: bool = field(boolean, versions="1+", default=True, ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    responses: list[ReassignableTopicResponse] = field(array(ReassignableTopicResponse))


def error(request: AlterPartitionReassignmentsRequest, code: int) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                topic.name, [ReassignablePartitionResponse(each.partition_index, code) for each in topic.partitions]
            )
            for topic in request.topics
        ],
    )


API = Api(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    "AlterPartitionReassignments",
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    error,
)
