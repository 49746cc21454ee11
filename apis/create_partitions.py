"""CreatePartitions (37): adds partitions to topics.

v0  the first
v1  throttle time is taken after the answer is sent
v2  flexible
v3  THROTTLING_QUOTA_EXCEEDED (89) may be answered (KIP-599)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int16, int32, string


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = field(array(int32))


class CreatePartitionsTopic(Struct):
    """`count` is the new number of partitions; `assignments`, if not null, has the replicas of each new partition."""

    name: str = field(string)
    count: int = field(int32)
    assignments: list[CreatePartitionsAssignment] | None = field(array(CreatePartitionsAssignment), nullable="0+")


class CreatePartitionsRequest(Message, key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = field(array(CreatePartitionsTopic))
    timeout_ms: int = field(int32)
    validate_only: bool = field(boolean)


class CreatePartitionsTopicResult(Struct):
    name: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


class CreatePartitionsResponse(Message, key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    throttle_time_ms: int = field(int32)
    results: list[CreatePartitionsTopicResult] = field(array(CreatePartitionsTopicResult))


def error(request: CreatePartitionsRequest, code: int) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[CreatePartitionsTopicResult(each.name, code) for each in request.topics])


API = Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", CreatePartitionsRequest, CreatePartitionsResponse, error)
