"""A member of a share group, as its records have it. It is never changed, but replaced by another.

Decides nothing. After Kafka's `ShareGroupMember`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.persistence.records import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    TopicPartitions,
)


@dataclass(frozen=True, slots=True)
class Member:
    """One member. `epoch` is 0 before its first assignment; `assigned` is what it may fetch from."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    assigned: Partitions = field(default_factory=lambda: NO_PARTITIONS)

    @property
    def instance_id(self) -> None:
        """A share group has no static members."""


def metadata_of(member: Member) -> ShareGroupMemberMetadataValue:
    """What the member told of itself, as a record."""
    return ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
    )


def current_assignment_of(member: Member) -> ShareGroupCurrentMemberAssignmentValue:
    """What the member has, as a record. Its state is always STABLE (0): nothing is ever revoked first."""
    return ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=0,
        assigned_partitions=to_records(member.assigned),
    )


def to_records(partitions: Partitions) -> list[TopicPartitions]:
    return [TopicPartitions(topic, sorted(numbers)) for topic, numbers in partitions.items()]


def from_records(topics: Iterable[TopicPartitions]) -> Partitions:
    return {each.topic_id: frozenset(each.partitions) for each in topics}
