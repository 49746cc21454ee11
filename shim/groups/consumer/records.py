"""The records of a consumer group: which ones say what, and in which order they are deleted.

Decides the order of tombstones: a member's current assignment goes before its target assignment and that before the
member, everything before the group (semantics 5.3). A rule collects its records and writes them at its end, so that a
request that is refused half-way has changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from kafka_shim.groups.assignors.spec import Partitions
from kafka_shim.groups.consumer.group import NO_METADATA, AssignedMetadata, ConsumerGroupState
from kafka_shim.groups.consumer.member import Member, current_assignment_of, metadata_of, to_records
from kafka_shim.groups.consumer.regex import ResolvedRegex
from kafka_shim.persistence.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

Record: TypeAlias = tuple[Any, Any]

ALL_KEYS = (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
"""The classes of keys whose records are replayed by a consumer group."""


def epoch(group_id: str, group_epoch: int, metadata_hash: int) -> Record:
    return ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(group_epoch, metadata_hash)


def member_metadata(group_id: str, member: Member) -> Record:
    return ConsumerGroupMemberMetadataKey(group_id, member.member_id), metadata_of(member)


def current_assignment(group_id: str, member: Member) -> Record:
    return ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id), current_assignment_of(member)


def target_assignment(
    group_id: str, member_id: str, target: Partitions, metadata: AssignedMetadata = NO_METADATA
) -> Record:
    value = ConsumerGroupTargetAssignmentMemberValue(to_records(target), *metadata)
    return ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value


def target_epoch(group_id: str, group_epoch: int) -> Record:
    value = ConsumerGroupTargetAssignmentMetadataValue(group_epoch)
    return ConsumerGroupTargetAssignmentMetadataKey(group_id), value


def resolved_regex(group_id: str, pattern: str, resolved: ResolvedRegex) -> Record:
    value = ConsumerGroupRegularExpressionValue(sorted(resolved.topics), resolved.version, resolved.timestamp_ms)
    return ConsumerGroupRegularExpressionKey(group_id, pattern), value


def regex_gone(group_id: str, pattern: str) -> Record:
    return ConsumerGroupRegularExpressionKey(group_id, pattern), None


def partition_metadata_gone(group_id: str) -> Record:
    return ConsumerGroupPartitionMetadataKey(group_id), None


def member_gone(group_id: str, member_id: str) -> list[Record]:
    return [
        (ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        (ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        (ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


def member_replaced(group: ConsumerGroupState, old: Member, new: Member) -> list[Record]:
    """A static member takes another's place, with its assignments."""
    group_id = group.group_id
    return [
        *member_gone(group_id, old.member_id),
        member_metadata(group_id, new),
        target_assignment(
            group_id,
            new.member_id,
            group.target_of(old.member_id, None),
            group.target_metadata.get(old.member_id, NO_METADATA),
        ),
        current_assignment(group_id, new),
    ]


def group_gone(group: ConsumerGroupState, members: Iterable[str] | None = None) -> list[Record]:
    """The tombstones of a group with its members; `members` if others than those it has now."""
    group_id = group.group_id
    member_ids = list(group.members if members is None else members)
    return [
        *((ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None) for member_id in member_ids),
        *((ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None) for member_id in member_ids),
        (ConsumerGroupTargetAssignmentMetadataKey(group_id), None),
        *((ConsumerGroupMemberMetadataKey(group_id, member_id), None) for member_id in member_ids),
        *(regex_gone(group_id, pattern) for pattern in group.subscriptions.resolved),
        partition_metadata_gone(group_id),
        (ConsumerGroupMetadataKey(group_id), None),
    ]
