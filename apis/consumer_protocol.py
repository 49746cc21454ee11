"""The embedded protocol of consumers: JoinGroup metadata and assignments of `protocol_type` "consumer".

A subscription is the metadata of a member; an assignment is the leader's answer for a member. Both begin with a
version, an int16. The rules of classic groups treat them as opaque bytes. They are read for display, for traces, and
for one rule: offsets of a topic that a member subscribes to are neither deleted nor expired.

    v0  topics and user data
    v1  the partitions the member owns (KIP-429)
    v2  the generation in which it got them (KIP-792)
    v3  rack (KIP-881)

The assignment has the same fields in all versions. A newer version is read as version 3, because Kafka promises to
add fields only at the end.
"""

from __future__ import annotations

from typing import Final, TypeVar

from kafka_shim.apis.wire import DecodeError, Message, Struct, array, bytes_, field, int32, string
from kafka_shim.apis.wire.primitives import MAX_ELEMENTS

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
    """Encode a member's metadata. Raises EncodeError for a version that does not exist."""
    return version.to_bytes(2, "big") + subscription.encode(version)


def assignment_to_bytes(assignment: ConsumerProtocolAssignment, version: int) -> bytes:
    """Encode a member's assignment. Raises EncodeError for a version that does not exist."""
    return version.to_bytes(2, "big") + assignment.encode(version)


def subscription_from_bytes(data: bytes) -> ConsumerProtocolSubscription | None:
    """Decode a member's metadata. Returns None if it does not follow the consumer protocol."""
    return _versioned(ConsumerProtocolSubscription, data)


def assignment_from_bytes(data: bytes) -> ConsumerProtocolAssignment | None:
    """Decode a member's assignment. Returns None if `data` does not follow the consumer protocol; empty bytes do
    not.
    """
    return _versioned(ConsumerProtocolAssignment, data)


def _versioned(message: type[M], data: bytes) -> M | None:
    if len(data) < 2:
        return None
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        return None
    try:
        return message.decoder(min(version, NEWEST))(data, 2, MAX_ELEMENTS)[0]
    except DecodeError:
        return None
