"""Members of a share group (KIP-932), and its records. After Kafka's `ShareGroupMember`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.epochs.member import EpochMember, from_records, to_records
from kafka_shim.groups.epochs.records import Record, RecordClasses
from kafka_shim.persistence.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStartsKey,
    ShareGroupStartsValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareStart,
    ShareTopicPartitions,
)


@dataclass(frozen=True, slots=True)
class Member(EpochMember):
    """One member; `assigned` are the partitions that it may fetch from. Share groups have no static members."""

    topic_names: frozenset[str] = frozenset()
    assigned: Partitions = field(default_factory=lambda: NO_PARTITIONS)


class Initialized(NamedTuple):
    """Partitions of a topic with a share state of the group."""

    name: str
    partitions: frozenset[int]


class Start(NamedTuple):
    """The offset at which the group begins in a partition, and its epoch when a request set it."""

    epoch: int
    offset: int


Starts: TypeAlias = Mapping[tuple[bytes, int], Start]
"""By topic id and partition."""


def epoch(group_id: str, group_epoch: int, metadata_hash: int) -> Record:
    return ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(group_epoch, metadata_hash)


def member_metadata(group_id: str, member: Member) -> Record:
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
    )
    return ShareGroupMemberMetadataKey(group_id, member.member_id), value


def current_assignment(group_id: str, member: Member) -> Record:
    """Return the record of a member's assignment. Its state is always STABLE (0), since nothing is revoked."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=0,
        assigned_partitions=to_records(member.assigned),
    )
    return ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id), value


def initialized(group_id: str, topics: Mapping[bytes, Initialized]) -> Record:
    value = ShareGroupStatePartitionMetadataValue(
        initialized_topics=[
            ShareTopicPartitions(topic_id, topic.name, sorted(topic.partitions)) for topic_id, topic in topics.items()
        ]
    )
    return ShareGroupStatePartitionMetadataKey(group_id), value


def starts(group_id: str, starts: Starts) -> Record:
    """Return our own record of the starts; a tombstone without any."""
    value = ShareGroupStartsValue([ShareStart(*place, *start) for place, start in starts.items()]) if starts else None
    return ShareGroupStartsKey(group_id), value


CLASSES: Final = RecordClasses(
    group=ShareGroupMetadataKey,
    member=ShareGroupMemberMetadataKey,
    current_assignment=ShareGroupCurrentMemberAssignmentKey,
    target_assignment=ShareGroupTargetAssignmentMemberKey,
    target_value=lambda target: ShareGroupTargetAssignmentMemberValue(to_records(target)),
    target_from=lambda value: from_records(value.topic_partitions),
    target_epoch=ShareGroupTargetAssignmentMetadataKey,
    target_epoch_value=ShareGroupTargetAssignmentMetadataValue,
    member_record=member_metadata,
    assignment_record=current_assignment,
    others=(ShareGroupStatePartitionMetadataKey, ShareGroupStartsKey),
)
