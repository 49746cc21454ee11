"""StreamsGroupHeartbeat (88): a member of a streams group joins, heartbeats, receives its tasks, or leaves.

v0  the first (KIP-1071); flexible
v1  status MISSING_CLIENT_TAGS (6); the recovery lag has 64 bits; the coordinator may ask for a topology description
    (KIP-1331)
"""

from enum import IntEnum

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import (
    Message,
    Struct,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
)


class KeyValue(Struct):
    key: str = field(string)
    value: str = field(string)


class TopicInfo(Struct):
    """An internal topic. With 0 `partitions` the coordinator computes their number; `replication_factor` 0 is the
    default.
    """

    name: str = field(string)
    partitions: int = field(int32)
    replication_factor: int = field(int16)
    topic_configs: list[KeyValue] = field(array(KeyValue))


class CopartitionGroup(Struct):
    """Topics that must have the same number of partitions, as indexes into the lists of the subtopology."""

    source_topics: list[int] = field(array(int16))
    source_topic_regex: list[int] = field(array(int16))
    repartition_source_topics: list[int] = field(array(int16))


class Subtopology(Struct):
    subtopology_id: str = field(string)
    source_topics: list[str] = field(array(string))
    source_topic_regex: list[str] = field(array(string))
    state_changelog_topics: list[TopicInfo] = field(array(TopicInfo))
    repartition_sink_topics: list[str] = field(array(string))
    repartition_source_topics: list[TopicInfo] = field(array(TopicInfo))
    copartition_groups: list[CopartitionGroup] = field(array(CopartitionGroup))


class Topology(Struct):
    epoch: int = field(int32)
    subtopologies: list[Subtopology] = field(array(Subtopology))


class TaskIds(Struct):
    subtopology_id: str = field(string)
    partitions: list[int] = field(array(int32))


class Endpoint(Struct):
    host: str = field(string)
    port: int = field(uint16)


class TaskOffset(Struct):
    subtopology_id: str = field(string)
    partition: int = field(int32)
    offset: int = field(int64)


class StreamsGroupHeartbeatRequest(Message, key=ApiKey.STREAMS_GROUP_HEARTBEAT, versions="0-1", flexible="0+"):
    """A field that did not change since the last heartbeat is null, or -1. `member_epoch`: 0 joins, -1 and -2 leave."""

    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    endpoint_information_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(int32, default=-1)
    topology: Topology | None = field(Topology, nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    process_id: str | None = field(string, nullable="0+", default=None)
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] | None = field(array(KeyValue), nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = field(array(TaskOffset), nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = field(array(TaskOffset), nullable="0+", default=None)
    shutdown_application: bool = field(boolean)


class StatusCode(IntEnum):
    """Status in an answer, in addition to the tasks."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6
    """No answer of version 0 has it."""


class Status(Struct):
    """A status for the members of a group. `status_code` is a `StatusCode`."""

    status_code: int = field(int8)
    status_detail: str = field(string)


class TopicPartition(Struct):
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


class EndpointToPartitions(Struct):
    """The partitions that the tasks of one member read, for interactive queries."""

    user_endpoint: Endpoint = field(Endpoint)
    active_partitions: list[TopicPartition] = field(array(TopicPartition))
    standby_partitions: list[TopicPartition] = field(array(TopicPartition))


class StreamsGroupHeartbeatResponse(Message, key=ApiKey.STREAMS_GROUP_HEARTBEAT, versions="0-1", flexible="0+"):
    """Null tasks and endpoints did not change."""

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    heartbeat_interval_ms: int = field(int32)
    acceptable_recovery_lag_legacy: int = field(int32, versions="0", ignorable=True)
    task_offset_interval_ms: int = field(int32)
    acceptable_recovery_lag: int = field(int64, versions="1+", default=-1, ignorable=True)
    status: list[Status] | None = field(array(Status), nullable="0+")
    active_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    topology_description_required: bool = field(boolean, versions="1+", ignorable=True)
    endpoint_information_epoch: int = field(int32)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(
        array(EndpointToPartitions), nullable="0+", default=None
    )


MISSING_CLIENT_TAGS = 6
"""A status code that no answer of version 0 has."""


def shape(response: StreamsGroupHeartbeatResponse, version: int) -> StreamsGroupHeartbeatResponse:
    if version == 0 and response.status:
        response.status = [each for each in response.status if each.status_code != MISSING_CLIENT_TAGS]
    return response


def topics_of(topology: Topology | None) -> list[str]:
    """Return every topic of a topology, each once."""
    if topology is None:
        return []
    return list(
        dict.fromkeys(
            name
            for each in topology.subtopologies
            for name in (
                *each.source_topics,
                *each.repartition_sink_topics,
                *(topic.name for topic in each.repartition_source_topics),
                *(topic.name for topic in each.state_changelog_topics),
            )
        )
    )


def error(request: StreamsGroupHeartbeatRequest, code: int) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=code)


API = Api(
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    "StreamsGroupHeartbeat",
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    error,
    shape=shape,
)
