"""A member of a consumer group (KIP-848), as its records have it. It is never changed, but replaced by another.

Decides nothing. Timers and what else is not in records belong to the group. After Kafka's `ConsumerGroupMember`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from kafka_shim.apis.client_assignor import ClientAssignor
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.consumer.states import MemberState
from kafka_shim.persistence.records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)


@dataclass(frozen=True, slots=True)
class Member:
    """One member. `epoch` is 0 before its first assignment, -1 once that was deleted, -2 while a static one is away."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: Partitions = field(default_factory=lambda: NO_PARTITIONS)
    """What it may use."""
    pending_revocation: Partitions = field(default_factory=lambda: NO_PARTITIONS)
    """What it is to give up and was not seen without."""
    classic: ClassicMemberMetadata | None = None
    """Session timeout and protocols of a member that speaks the classic protocol; None for others."""
    client_assignors: tuple[ClientAssignor, ...] = ()
    """Those that it has itself, the best first; only an experiment has them (`groups/client_assignors/`)."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    @property
    def regex(self) -> str | None:
        """The pattern it subscribes by, or None."""
        return self.topic_regex or None


def metadata_of(member: Member) -> ConsumerGroupMemberMetadataValue:
    """The member's metadata, as a record."""
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
        client_assignors=list(member.client_assignors),
    )


def current_assignment_of(member: Member) -> ConsumerGroupCurrentMemberAssignmentValue:
    """What the member has, as a record."""
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=to_records(member.assigned),
        partitions_pending_revocation=to_records(member.pending_revocation),
    )


def to_records(partitions: Partitions) -> list[TopicPartitions]:
    # Most have one partition of a topic, and need no sorting.
    return [
        TopicPartitions(topic, sorted(owned) if len(owned) > 1 else [*owned]) for topic, owned in partitions.items()
    ]


class _OfTopic(Protocol):
    topic_id: bytes
    partitions: list[int]


def from_records(topics: Iterable[_OfTopic]) -> Partitions:
    """Also for the same structure in requests."""
    return {each.topic_id: frozenset(each.partitions) for each in topics}
