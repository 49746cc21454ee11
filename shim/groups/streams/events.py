"""Trace events of streams groups.

Decides how they are built from state: tasks stand where other groups have partitions, by the ids of their
subtopologies, and only active ones, of which each has one owner. Whether anybody listens is asked before these
functions are called. What the fields say is in `trace.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_shim.groups import epoch_events
from kafka_shim.groups.epoch_events import epoch, member, state
from kafka_shim.groups.streams.live import StreamsGroup
from kafka_shim.groups.streams.member import Member
from kafka_shim.groups.streams.states import MemberState
from kafka_shim.groups.streams.target import Target
from kafka_shim.groups.streams.tasks import each_task, in_order

__all__ = ["epoch", "member", "reconciliation", "shown", "state", "target", "waits_for"]


def target(group: StreamsGroup, computed: Target) -> None:
    """A target assignment was computed."""
    assignments = {member_id: shown(tasks.active) for member_id, tasks in computed.changed.items()}
    epoch_events.target(group, group.protocol, assignments)


def reconciliation(group: StreamsGroup, member: Member) -> None:
    """A member has come nearer to its target assignment, or away from it."""
    group.shard.outbox.event(
        "reconciliation",
        group=group.group_id,
        member_id=member.member_id,
        generation=member.epoch,
        state=member.state.name,
        assigned=shown(member.assigned.active),
        revoking=shown(member.pending_revocation.active),
        waits_for=waits_for(group, member),
    )


def waits_for(group: StreamsGroup, member: Member) -> list[str]:
    """The members that run tasks this one waits for."""
    if member.state is not MemberState.UNRELEASED_TASKS:
        return []
    missing = set(each_task(group.target_of(member.member_id).active)) - set(each_task(member.assigned.active))
    return sorted(
        other.member_id
        for other in group.members.values()
        if other is not member
        and any(not missing.isdisjoint(each_task(tasks.active)) for tasks in (other.assigned, other.pending_revocation))
    )


def shown(tasks: Mapping[str, Iterable[int]]) -> dict[str, list[int]]:
    """Tasks as the trace has them."""
    return dict(in_order(tasks))
