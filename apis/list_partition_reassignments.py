"""ListPartitionReassignments (46): the partitions that are moving to other brokers (KIP-455).

v0  the first; flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, string


class ListPartitionReassignmentsTopics(Struct):
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


class ListPartitionReassignmentsRequest(Message, key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"):
    """Null `topics` mean all topics."""

    timeout_ms: int = field(int32, default=60_000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        array(ListPartitionReassignmentsTopics), nullable="0+", default=None
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = field(int32)
    replicas: list[int] = field(array(int32))
    adding_replicas: list[int] = field(array(int32))
    removing_replicas: list[int] = field(array(int32))


class OngoingTopicReassignment(Struct):
    name: str = field(string)
    partitions: list[OngoingPartitionReassignment] = field(array(OngoingPartitionReassignment))


class ListPartitionReassignmentsResponse(Message, key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    topics: list[OngoingTopicReassignment] = field(array(OngoingTopicReassignment))


def error(request: ListPartitionReassignmentsRequest, code: int) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code)


API = Api(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    "ListPartitionReassignments",
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    error,
)
