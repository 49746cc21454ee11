"""The messages of the designs that were never released, in the bytes that their authors wrote down.

Decides layouts alone. Fields and their order are those of the proposals: the consumer rewrite of Kafka 0.9
(https://cwiki.apache.org/confluence/display/KAFKA/Kafka+0.9+Consumer+Rewrite+Design), the client rewrite
(https://cwiki.apache.org/confluence/display/KAFKA/Client+Rewrite), the edits of the client-side assignment proposal
(https://cwiki.apache.org/confluence/display/KAFKA/Kafka+Client-side+Assignment+Proposal) and KIP-848. What Kafka did
release is in `apis/`.
"""

from __future__ import annotations

from kafka_shim.apis.wire import Message, Struct, array, boolean, bytes_, field, int8, int16, int32, int64, string, uuid

# Assignment by the broker (Kafka 0.9 Consumer Rewrite Design).


class PartitionsOfTopic(Struct):
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


class BrokerJoinRequest(Message, versions="0"):
    """`metadata` is what an assignor on the broker would need to know of a member beyond its topics."""

    group_id: str = field(string)
    session_timeout: int = field(int32)
    topics: list[str] = field(array(string))
    consumer_id: str = field(string)
    assignment_strategy: str = field(string)
    metadata: bytes = field(bytes_)


class BrokerJoinResponse(Message, versions="0"):
    error_code: int = field(int16)
    generation_id: int = field(int32)
    consumer_id: str = field(string)
    partitions: list[PartitionsOfTopic] = field(array(PartitionsOfTopic))


# Metadata to every member, and each computes.


class Protocol(Struct):
    name: str = field(string)
    metadata: bytes = field(bytes_)


class MemberMetadata(Struct):
    member_id: str = field(string)
    metadata: bytes = field(bytes_)


class EveryoneJoinRequest(Message, versions="0"):
    """A protocol's metadata ends with the hash of the topics that the member sees."""

    group_id: str = field(string)
    session_timeout: int = field(int32)
    member_id: str = field(string)
    protocol_type: str = field(string)
    protocols: list[Protocol] = field(array(Protocol))


class EveryoneJoinResponse(Message, versions="0"):
    error_code: int = field(int16)
    generation_id: int = field(int32)
    member_id: str = field(string)
    protocol: str = field(string)
    members: list[MemberMetadata] = field(array(MemberMetadata))


# One assignor of a client, inside a JoinGroup of phases.


class MemberState(Struct):
    member_id: str = field(string)
    state: bytes = field(bytes_)


class PhasedJoinRequest(Message, versions="0"):
    """`phase` 0 joins with `metadata`; 1 hands in `states`, computed by the synchronizer."""

    group_id: str = field(string)
    protocol_type: str = field(string)
    phase: int = field(int8)
    session_timeout: int = field(int32)
    member_id: str = field(string)
    metadata: bytes = field(bytes_)
    error_code: int = field(int16)
    states: list[MemberState] = field(array(MemberState))


class PhasedJoinResponse(Message, versions="0"):
    """`phase` 0 brings the synchronizer all `metadata`; 1 brings a member its state and the ids of all members."""

    error_code: int = field(int16)
    generation_id: int = field(int32)
    member_id: str = field(string)
    phase: int = field(int8)
    metadata: list[MemberMetadata] = field(array(MemberMetadata))
    state: bytes = field(bytes_)
    members: list[str] = field(array(string))


# Membership first, then DescribeGroup and SyncGroup.


class MembershipJoinRequest(Message, versions="0"):
    group_id: str = field(string)
    session_timeout: int = field(int32)
    member_id: str = field(string)
    metadata: bytes = field(bytes_)


class MembershipJoinResponse(Message, versions="0"):
    error_code: int = field(int16)
    generation_id: int = field(int32)
    leader_id: str = field(string)
    member_id: str = field(string)


class DescribeGroupRequest(Message, versions="0"):
    group_id: str = field(string)


class DescribedMember(Struct):
    member_id: str = field(string)
    metadata: bytes = field(bytes_)
    state: bytes = field(bytes_)


class DescribeGroupResponse(Message, versions="0"):
    error_code: int = field(int16)
    group_state: int = field(int16)
    generation_id: int = field(int16)
    leader_id: str = field(string)
    members: list[DescribedMember] = field(array(DescribedMember))


class StateSyncRequest(Message, versions="0"):
    """`states` is empty but from the leader."""

    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    error_code: int = field(int16)
    states: list[MemberState] = field(array(MemberState))


class StateSyncResponse(Message, versions="0"):
    error_code: int = field(int16)
    generation_id: int = field(int32)
    state: bytes = field(bytes_)


# Consumers that register (the client rewrite).


class ListGroupsRequest(Message, versions="0"):
    groups: list[str] = field(array(string))


class ControllerOfGroup(Struct):
    name: str = field(string)
    members: list[str] = field(array(string))
    topics: list[str] = field(array(string))
    broker_id: int = field(int32)
    host: str = field(string)
    port: int = field(int16)
    session_timeout: int = field(int64)


class ListGroupsResponse(Message, versions="0"):
    groups: list[ControllerOfGroup] = field(array(ControllerOfGroup))
    error_code: int = field(int16)


class RegisterConsumerRequest(Message, versions="0"):
    group: str = field(string)
    consumer_id: str = field(string)


class PartitionToOwn(Struct):
    topic: str = field(string)
    partition: int = field(int16)
    offset: int = field(int64)


class RegisterConsumerResponse(Message, versions="0"):
    """Brings the offsets to start from, so a member fetches none."""

    group: str = field(string)
    generation_id: int = field(int64)
    partitions: list[PartitionToOwn] = field(array(PartitionToOwn))
    error_code: int = field(int16)


# KIP-848 with assignors of the clients.


class TopicPartitions(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


class ClientAssignor(Struct):
    name: str = field(string)
    minimum_version: int = field(int16)
    maximum_version: int = field(int16)
    reason: int = field(int8)
    metadata_version: int = field(int16)
    metadata: bytes = field(bytes_)


class ClientAssignorHeartbeatRequest(Message, versions="0", flexible="0+"):
    """What did not change since the last heartbeat is null."""

    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(int32, default=-1)
    subscribed_topic_names: list[str] | None = field(array(string), nullable="0+", default=None)
    subscribed_topic_regex: str | None = field(string, nullable="0+", default=None)
    server_assignor: str | None = field(string, nullable="0+", default=None)
    client_assignors: list[ClientAssignor] | None = field(array(ClientAssignor), nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field(array(TopicPartitions), nullable="0+", default=None)


class ClientAssignorAssignment(Struct):
    error: int = field(int8)
    assigned: list[TopicPartitions] = field(array(TopicPartitions))
    pending: list[TopicPartitions] = field(array(TopicPartitions))
    metadata_version: int = field(int16)
    metadata: bytes = field(bytes_)


class ClientAssignorHeartbeatResponse(Message, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    should_compute_assignment: bool = field(boolean)
    heartbeat_interval_ms: int = field(int32)
    assignment: ClientAssignorAssignment | None = field(ClientAssignorAssignment, nullable="0+", default=None)


class PrepareAssignmentRequest(Message, versions="0", flexible="0+"):
    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)


class PreparedMember(Struct):
    member_id: str = field(string)
    member_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    subscribed_topic_ids: list[bytes] = field(array(uuid))
    assignor: ClientAssignor = field(ClientAssignor)
    target: list[TopicPartitions] = field(array(TopicPartitions))


class PreparedTopic(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    partitions: int = field(int32)


class PrepareAssignmentResponse(Message, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    group_epoch: int = field(int32)
    assignor_name: str = field(string)
    members: list[PreparedMember] = field(array(PreparedMember))
    topics: list[PreparedTopic] = field(array(PreparedTopic))


class InstalledMember(Struct):
    member_id: str = field(string)
    error: int = field(int8)
    partitions: list[TopicPartitions] = field(array(TopicPartitions))
    metadata_version: int = field(int16)
    metadata: bytes = field(bytes_)


class InstallAssignmentRequest(Message, versions="0", flexible="0+"):
    """`group_epoch` is the epoch that the assignment was computed for."""

    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    group_epoch: int = field(int32)
    error: int = field(int8)
    members: list[InstalledMember] = field(array(InstalledMember))


class InstallAssignmentResponse(Message, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
