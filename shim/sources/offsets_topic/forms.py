"""`Form`: the records of the three kinds of groups with epochs, read alike (KIP-848, KIP-932, KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafka_shim.apis.wire.types import uuid_text
from kafka_shim.persistence import streams_records as streams
from kafka_shim.persistence.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
)
from kafka_shim.trace.events import Shares

STABLE: Final = "STABLE"
UNKNOWN: Final = "UNKNOWN"
_STATES: Final = {0: STABLE, 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}
_STATES_OF_STREAMS: Final = {1: STABLE, 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS"}

GROUP, MEMBER, TARGET, TARGETS, CURRENT, TOPICS = ("group", "member", "target", "targets", "current", "topics")
"""Parts of a group: its epoch, a member, a member's target, the epoch of all targets, a member's assignment, and the
topics of subscriptions."""

KEYS: Final[dict[type, tuple[str, str]]] = {
    ConsumerGroupMetadataKey: ("consumer", GROUP),
    ConsumerGroupMemberMetadataKey: ("consumer", MEMBER),
    ConsumerGroupTargetAssignmentMemberKey: ("consumer", TARGET),
    ConsumerGroupTargetAssignmentMetadataKey: ("consumer", TARGETS),
    ConsumerGroupCurrentMemberAssignmentKey: ("consumer", CURRENT),
    ShareGroupMetadataKey: ("share", GROUP),
    ShareGroupMemberMetadataKey: ("share", MEMBER),
    ShareGroupTargetAssignmentMemberKey: ("share", TARGET),
    ShareGroupTargetAssignmentMetadataKey: ("share", TARGETS),
    ShareGroupCurrentMemberAssignmentKey: ("share", CURRENT),
    StreamsGroupMetadataKey: ("streams", GROUP),
    StreamsGroupMemberMetadataKey: ("streams", MEMBER),
    StreamsGroupTargetAssignmentMemberKey: ("streams", TARGET),
    StreamsGroupTargetAssignmentMetadataKey: ("streams", TARGETS),
    StreamsGroupCurrentMemberAssignmentKey: ("streams", CURRENT),
}
"""By type of a key: the kind of group, and the part that it is about."""


class Joined(NamedTuple):
    """A member's metadata. `subscription` differs after each change of a subscription."""

    client_id: str
    client_host: str
    instance_id: str | None
    rebalance_timeout_ms: int
    subscription: tuple[Any, ...]
    assignor: str


class Has(NamedTuple):
    """A member's present assignment."""

    epoch: int
    state: str
    assigned: Shares
    revoking: Shares


def joined(value: Any) -> Joined:
    """Return the metadata in a record of a member."""
    is_streams = isinstance(value, streams.StreamsGroupMemberMetadataValue)
    if is_streams:
        subscription: tuple[Any, ...] = (value.topology_epoch,)
    else:
        subscription = (*sorted(value.subscribed_topic_names), getattr(value, "subscribed_topic_regex", None) or "")
    return Joined(
        client_id=value.client_id,
        client_host=value.client_host,
        instance_id=getattr(value, "instance_id", None),
        rebalance_timeout_ms=getattr(value, "rebalance_timeout_ms", -1),
        subscription=subscription,
        assignor=getattr(value, "server_assignor", None) or "",
    )


def target(value: Any, names: Mapping[bytes, str]) -> Shares:
    """Return the target assignment in a record of a member."""
    if isinstance(value, streams.StreamsGroupTargetAssignmentMemberValue):
        return _tasks(value.active_tasks)
    return _partitions(value.topic_partitions, names)


def has(value: Any, names: Mapping[bytes, str]) -> Has:
    """Return the present assignment in a record of a member."""
    if isinstance(value, streams.StreamsGroupCurrentMemberAssignmentValue):
        states = _STATES_OF_STREAMS
        assigned, revoking = _tasks(value.active_tasks), _tasks(value.active_tasks_pending_revocation)
    else:
        states = _STATES
        assigned = _partitions(value.assigned_partitions, names)
        revoking = _partitions(getattr(value, "partitions_pending_revocation", ()), names)
    return Has(value.member_epoch, states.get(value.state, UNKNOWN), assigned, revoking)


def _partitions(topics: Iterable[Any], names: Mapping[bytes, str]) -> Shares:
    return {_name(each.topic_id, names): sorted(each.partitions) for each in topics}


def _tasks(tasks: Iterable[Any]) -> Shares:
    return {each.subtopology_id: sorted(each.partitions) for each in tasks}


def _name(topic_id: bytes, names: Mapping[bytes, str]) -> str:
    """Return the name of a topic; its id in Kafka's form if the name is unknown."""
    return names.get(topic_id) or uuid_text(topic_id)
