"""Messages of designs that were neither released nor served here, in the layout of their authors.

Fields and their order are those of the proposals: the consumer rewrite of Kafka 0.9
(https://cwiki.apache.org/confluence/display/KAFKA/Kafka+0.9+Consumer+Rewrite+Design) and the edits of the client-side
assignment proposal (https://cwiki.apache.org/confluence/display/KAFKA/Kafka+Client-side+Assignment+Proposal). Released
messages are in `apis/`, those of served experiments in the folders beside this one.
"""

from __future__ import annotations

from kafka_shim.apis.wire import Message, Struct, array, bytes_, field, int8, int16, int32, string

# Assignment by the broker (Kafka 0.9 Consumer Rewrite Design).


class PartitionsOfTopic(Struct):
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


class BrokerJoinRequest(Message, versions="0"):
    """`metadata` is a broker assignor's input about a member beside its topics."""

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
    """`phase` 0 joins with `metadata`; phase 1 sends `states`, computed by the synchronizer."""

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
    """Only the leader sends `states`."""

    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    error_code: int = field(int16)
    states: list[MemberState] = field(array(MemberState))


class StateSyncResponse(Message, versions="0"):
    error_code: int = field(int16)
    generation_id: int = field(int32)
    state: bytes = field(bytes_)
