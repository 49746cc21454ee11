"""Values of the records of streams groups (KIP-1071), byte for byte as Kafka 4.2 writes and reads them.

Types 17 and 19 to 23. Keys are in `keys.py`; `records.py` encodes and decodes the values.
"""

from __future__ import annotations

from kafka_shim.apis.wire import Message, Struct, array, field, int8, int16, int32, int64, string, uint16


class AssignmentConfig(Struct):
    key: str = field(string)
    value: str = field(string)


class StreamsGroupMetadataValue(Message, key=17, versions="0", flexible="0+"):
    """`validated_topology_epoch` is -1 until every topic of the topology exists as required.

    `stored_description_topology_epoch` is the epoch of the topology description that is kept, -1 for none, -2 while it
    is being stored; `failed_description_topology_epoch` that of one that was refused for good (Kafka 4.4).
    """

    epoch: int = field(int32)
    metadata_hash: int = field(int64)
    validated_topology_epoch: int = field(int32, tag=0, tagged="0+", default=-1)
    last_assignment_configs: list[AssignmentConfig] | None = field(
        array(AssignmentConfig), nullable="0+", tag=1, tagged="0+", default=None
    )
    stored_description_topology_epoch: int = field(int32, tag=2, tagged="0+", default=-1)
    failed_description_topology_epoch: int = field(int32, tag=3, tagged="0+", default=-1)


class StreamsEndpoint(Struct):
    host: str = field(string)
    port: int = field(uint16)


class ClientTag(Struct):
    key: str = field(string)
    value: str = field(string)


class StreamsGroupMemberMetadataValue(Message, key=19, versions="0", flexible="0+"):
    instance_id: str | None = field(string, nullable="0+")
    rack_id: str | None = field(string, nullable="0+")
    client_id: str = field(string)
    client_host: str = field(string)
    rebalance_timeout_ms: int = field(int32, default=-1)
    topology_epoch: int = field(int32)
    process_id: str = field(string)
    user_endpoint: StreamsEndpoint | None = field(StreamsEndpoint, nullable="0+", default=None)
    client_tags: list[ClientTag] = field(array(ClientTag))


class StreamsGroupTargetAssignmentMetadataValue(Message, key=20, versions="0", flexible="0+"):
    assignment_epoch: int = field(int32)
    assignment_timestamp: int = field(int64, tag=0, tagged="0+")


class TargetTaskIds(Struct):
    subtopology_id: str = field(string)
    partitions: list[int] = field(array(int32))


class StreamsGroupTargetAssignmentMemberValue(Message, key=21, versions="0", flexible="0+"):
    active_tasks: list[TargetTaskIds] = field(array(TargetTaskIds))
    standby_tasks: list[TargetTaskIds] = field(array(TargetTaskIds))
    warmup_tasks: list[TargetTaskIds] = field(array(TargetTaskIds))


class CurrentTaskIds(Struct):
    """`assignment_epochs`, only for active tasks: the member epoch at which each task was assigned."""

    subtopology_id: str = field(string)
    partitions: list[int] = field(array(int32))
    assignment_epochs: list[int] | None = field(array(int32), nullable="0+", tag=0, tagged="0+", default=None)


class StreamsGroupCurrentMemberAssignmentValue(Message, key=22, versions="0", flexible="0+"):
    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    active_tasks: list[CurrentTaskIds] = field(array(CurrentTaskIds))
    standby_tasks: list[CurrentTaskIds] = field(array(CurrentTaskIds))
    warmup_tasks: list[CurrentTaskIds] = field(array(CurrentTaskIds))
    active_tasks_pending_revocation: list[CurrentTaskIds] = field(array(CurrentTaskIds))
    standby_tasks_pending_revocation: list[CurrentTaskIds] = field(array(CurrentTaskIds))
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = field(array(CurrentTaskIds))


class TopicConfig(Struct):
    key: str = field(string)
    value: str = field(string)


class TopicInfo(Struct):
    """`partitions` 0: not fixed; `replication_factor` 0: the default."""

    name: str = field(string)
    partitions: int = field(int32)
    replication_factor: int = field(int16)
    topic_configs: list[TopicConfig] = field(array(TopicConfig))


class CopartitionGroup(Struct):
    """Indexes of topics in the lists of the subtopology."""

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


class StreamsGroupTopologyValue(Message, key=23, versions="0", flexible="0+"):
    epoch: int = field(int32)
    subtopologies: list[Subtopology] = field(array(Subtopology))
