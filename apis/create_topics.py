"""CreateTopics (19): creates topics, or checks whether they could be created.

v0  the first
v1  validate only; error messages
v2  throttle time
v3  throttle time is taken after the answer is sent
v4  -1 means the broker's default for partitions and replicas (KIP-464)
v5  flexible; the answer has the topic's configuration (KIP-525)
v6  THROTTLING_QUOTA_EXCEEDED (89) may be answered (KIP-599)
v7  topic ids in the answer (KIP-516)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int8, int16, int32, string, uuid


class CreatableReplicaAssignment(Struct):
    partition_index: int = field(int32)
    broker_ids: list[int] = field(array(int32))


class CreatableTopicConfig(Struct):
    name: str = field(string)
    value: str | None = field(string, nullable="0+")


class CreatableTopic(Struct):
    """With `assignments`, the replicas of each partition, `num_partitions` and `replication_factor` are -1."""

    name: str = field(string)
    num_partitions: int = field(int32)
    replication_factor: int = field(int16)
    assignments: list[CreatableReplicaAssignment] = field(array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = field(array(CreatableTopicConfig))


class CreateTopicsRequest(Message, key=ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+"):
    topics: list[CreatableTopic] = field(array(CreatableTopic))
    timeout_ms: int = field(int32, default=60000)
    validate_only: bool = field(boolean, versions="1+")


class CreatableTopicConfigs(Struct):
    name: str = field(string, versions="5+")
    value: str | None = field(string, versions="5+", nullable="5+")
    read_only: bool = field(boolean, versions="5+")
    config_source: int = field(int8, versions="5+", default=-1, ignorable=True)
    is_sensitive: bool = field(boolean, versions="5+")


class CreatableTopicResult(Struct):
    name: str = field(string)
    topic_id: bytes = field(uuid, versions="7+", ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = field(string, versions="1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = field(int16, versions="5+", tag=0, tagged="5+", ignorable=True)
    num_partitions: int = field(int32, versions="5+", default=-1, ignorable=True)
    replication_factor: int = field(int16, versions="5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(
        array(CreatableTopicConfigs), versions="5+", nullable="5+", ignorable=True
    )


class CreateTopicsResponse(Message, key=ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+"):
    throttle_time_ms: int = field(int32, versions="2+", ignorable=True)
    topics: list[CreatableTopicResult] = field(array(CreatableTopicResult))


def error(request: CreateTopicsRequest, code: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=each.name, error_code=code, error_message=None) for each in request.topics]
    )


API = Api(ApiKey.CREATE_TOPICS, "CreateTopics", CreateTopicsRequest, CreateTopicsResponse, error)
