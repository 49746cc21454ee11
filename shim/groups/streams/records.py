"""The records of a streams group: which ones say what, and in which order they are deleted.

Decides the order of tombstones: a member's current assignment goes before its target assignment and that before the
member, everything but the topology before the group (semantics 5.3). A rule collects its records and writes them at its
end, so that a request that is refused half-way has changed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from kafka_shim.groups.streams.group import StreamsGroupState
from kafka_shim.groups.streams.member import Member, current_assignment_of, metadata_of, target_assignment_of
from kafka_shim.groups.streams.tasks import Tasks
from kafka_shim.persistence.records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from kafka_shim.persistence.streams_records import AssignmentConfig

Record: TypeAlias = tuple[Any, Any]

ALL_KEYS = (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)
"""The classes of keys whose records are replayed by a streams group."""


def epoch(
    group_id: str, group_epoch: int, metadata_hash: int, validated_epoch: int, configs: Mapping[str, str]
) -> Record:
    value = StreamsGroupMetadataValue(
        group_epoch, metadata_hash, validated_epoch, [AssignmentConfig(*each) for each in configs.items()]
    )
    return StreamsGroupMetadataKey(group_id), value


def topology(group_id: str, value: StreamsGroupTopologyValue) -> Record:
    return StreamsGroupTopologyKey(group_id), value


def member_metadata(group_id: str, member: Member) -> Record:
    return StreamsGroupMemberMetadataKey(group_id, member.member_id), metadata_of(member)


def current_assignment(group_id: str, member: Member) -> Record:
    return StreamsGroupCurrentMemberAssignmentKey(group_id, member.member_id), current_assignment_of(member)


def target_assignment(group_id: str, member_id: str, target: Tasks) -> Record:
    return StreamsGroupTargetAssignmentMemberKey(group_id, member_id), target_assignment_of(target)


def target_epoch(group_id: str, group_epoch: int) -> Record:
    return (
        StreamsGroupTargetAssignmentMetadataKey(group_id),
        StreamsGroupTargetAssignmentMetadataValue(group_epoch),
    )


def member_gone(group_id: str, member_id: str) -> list[Record]:
    return [
        (StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        (StreamsGroupTargetAssignmentMemberKey(group_id, member_id), None),
        (StreamsGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_gone(group: StreamsGroupState) -> list[Record]:
    """The tombstones of a group with its members."""
    group_id = group.group_id
    return [
        *((StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), None) for member_id in group.members),
        *((StreamsGroupTargetAssignmentMemberKey(group_id, member_id), None) for member_id in group.members),
        (StreamsGroupTargetAssignmentMetadataKey(group_id), None),
        *((StreamsGroupMemberMetadataKey(group_id, member_id), None) for member_id in group.members),
        (StreamsGroupMetadataKey(group_id), None),
        (StreamsGroupTopologyKey(group_id), None),
    ]
