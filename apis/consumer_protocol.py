"""The embedded protocol of consumers: what `protocol_type` "consumer" puts into JoinGroup metadata and assignments.

A subscription is a member's metadata, an assignment is what the leader gives it; both begin with a version, an int16.
To the rules of classic groups they are opaque. They are read for what people see, for traces, and for the rule that the
offsets of a topic somebody subscribes to are neither deleted nor expire.

    v0  topics and user data
    v1  the partitions the member owns (KIP-429)
    v2  the generation in which it got them (KIP-792)
    v3  rack (KIP-881)

The assignment has the same fields in all versions. A version newer than these begins with the fields of the newest one
known, because Kafka promises to add fields at the end only; so it is read as that.
"""

from __future__ import annotations

from typing import Final, TypeVar

from kafka_shim.apis.wire import DecodeError, Message, Struct, array, bytes_, field, int32, string

M = TypeVar("M", bound=Message)

NEWEST: Final = 3


class TopicPartition(Struct):
    """Several partitions of one topic, in spite of its name."""

    topic: str = field(string)
    partitions: list[int] = field(array(int32))


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = field(array(string))
    user_data: bytes | None = field(bytes_, nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = field(array(TopicPartition), versions="1+", ignorable=True)
    generation_id: int = field(int32, versions="2+", default=-1, ignorable=True)
    rack_id: str | None = field(string, versions="3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[TopicPartition] = field(array(TopicPartition))
    user_data: bytes | None = field(bytes_, nullable="0+", default=None)


def subscription_to_bytes(subscription: ConsumerProtocolSubscription, version: int) -> bytes:
    """A member's metadata. Raises EncodeError for a version that does not exist."""
    return version.to_bytes(2, "big") + subscription.encode(version)


def assignment_to_bytes(assignment: ConsumerProtocolAssignment, version: int) -> bytes:
    """A member's assignment. Raises EncodeError for a version that does not exist."""
    return version.to_bytes(2, "big") + assignment.encode(version)


def subscription_from_bytes(data: bytes) -> ConsumerProtocolSubscription | None:
    """What a member subscribes to, or None when its metadata is not of the consumer protocol."""
    return _versioned(ConsumerProtocolSubscription, data)


def assignment_from_bytes(data: bytes) -> ConsumerProtocolAssignment | None:
    """What a member was given, or None when `data` is not of the consumer protocol; empty bytes are not."""
    return _versioned(ConsumerProtocolAssignment, data)


def _versioned(message: type[M], data: bytes) -> M | None:
    if len(data) < 2:
        return None
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        return None
    try:
        return message.decoder(min(version, NEWEST))(data, 2)[0]
    except DecodeError:
        return None
