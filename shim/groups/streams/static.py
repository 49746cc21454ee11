"""Static members of a streams group: their checks, their departure for a while, and their successors.

Since Kafka 4.4. The rules are those of consumer groups. After Kafka's `getOrMaybeCreateStaticStreamsGroupMember`,
`replaceStreamsMember` and `streamsGroupStaticMemberGroupLeave` of 4.4 (semantics 4.12).
"""

from __future__ import annotations

from dataclasses import replace

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.epochs.member import LEAVE_STATIC
from kafka_shim.groups.epochs.records import Record
from kafka_shim.groups.interface import Refusal
from kafka_shim.groups.streams import records
from kafka_shim.groups.streams.group import StreamsGroup
from kafka_shim.groups.streams.member import Member, in_order


def holder_of(group: StreamsGroup, member_id: str, instance_id: str) -> Member:
    """Return the member with the instance id; its member id must match.

    Raises `Refusal`: UNKNOWN_MEMBER_ID (25) or FENCED_INSTANCE_ID (82).
    """
    holder = group.static_member(instance_id)
    if holder is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
        )
    return holder


def check_released(holder: Member, member_id: str, instance_id: str) -> None:
    """Refuse a successor while the holder is there. Raises `Refusal`: UNRELEASED_INSTANCE_ID (111)."""
    if holder.epoch != LEAVE_STATIC:
        raise Refusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is"
            f" owned by {holder.member_id} member.",
        )


def succeed(group: StreamsGroup, holder: Member, member_id: str) -> tuple[Member, list[Record]]:
    """Return the successor of a static member at epoch 0, with its tasks, and the records of the change."""
    successor = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
    classes, group_id = group.record_classes, group.group_id
    target = group.target_of(holder.member_id)
    return successor, [
        *classes.member_tombstones(group_id, holder.member_id),
        records.member_metadata(group_id, successor),
        (classes.target_assignment(group_id, member_id), classes.target_value(target)),
        records.current_assignment(group_id, successor),
    ]


def leave_for_a_while(group: StreamsGroup, member: Member) -> None:
    """Mark a static member as away: it keeps its tasks until it returns or its session ends, which runs on."""
    before = group.state if group.shard.outbox.listening else None
    away = member.away()
    group.shard.write(*records.current_assignment(group.group_id, away))
    if before is not None:
        group.trace_reconciliation(away, away.state.name, dict(in_order(away.assigned.active)), {}, [])
        group.trace_state(before)
