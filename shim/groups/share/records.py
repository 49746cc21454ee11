"""The records of a share group: which ones say what, and in which order they are deleted.

Decides the order of tombstones: a member's current assignment goes before its target assignment and that before the
member, everything before the group (semantics 5.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from kafka_shim.groups.assignors.spec import Partitions
from kafka_shim.groups.share.member import Member, current_assignment_of, metadata_of, to_records
from kafka_shim.persistence.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareTopicPartitions,
)

Record: TypeAlias = tuple[Any, Any]

ALL_KEYS = (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
"""The classes of keys whose records are replayed by a share group."""


class Initialized(NamedTuple):
    """The partitions of a topic in which a group has a share state."""

    name: str
    partitions: frozenset[int]


def epoch(group_id: str, group_epoch: int, metadata_hash: int) -> Record:
    return ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(group_epoch, metadata_hash)


def member_metadata(group_id: str, member: Member) -> Record:
    return ShareGroupMemberMetadataKey(group_id, member.member_id), metadata_of(member)


def current_assignment(group_id: str, member: Member) -> Record:
    return ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id), current_assignment_of(member)


def target_assignment(group_id: str, member_id: str, target: Partitions) -> Record:
    value = ShareGroupTargetAssignmentMemberValue(to_records(target))
    return ShareGroupTargetAssignmentMemberKey(group_id, member_id), value


def target_epoch(group_id: str, group_epoch: int) -> Record:
    return ShareGroupTargetAssignmentMetadataKey(group_id), ShareGroupTargetAssignmentMetadataValue(group_epoch)


def initialized(group_id: str, topics: Mapping[bytes, Initialized]) -> Record:
    value = ShareGroupStatePartitionMetadataValue(
        initialized_topics=[
            ShareTopicPartitions(topic_id, topic.name, sorted(topic.partitions)) for topic_id, topic in topics.items()
        ]
    )
    return ShareGroupStatePartitionMetadataKey(group_id), value


def member_gone(group_id: str, member_id: str) -> list[Record]:
    return [
        (ShareGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        (ShareGroupTargetAssignmentMemberKey(group_id, member_id), None),
        (ShareGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_gone(group_id: str, member_ids: Iterable[str]) -> list[Record]:
    member_ids = list(member_ids)
    return [
        *((ShareGroupCurrentMemberAssignmentKey(group_id, member_id), None) for member_id in member_ids),
        *((ShareGroupTargetAssignmentMemberKey(group_id, member_id), None) for member_id in member_ids),
        (ShareGroupTargetAssignmentMetadataKey(group_id), None),
        *((ShareGroupMemberMetadataKey(group_id, member_id), None) for member_id in member_ids),
        (ShareGroupStatePartitionMetadataKey(group_id), None),
        (ShareGroupMetadataKey(group_id), None),
    ]
