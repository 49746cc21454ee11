"""Trace events of consumer groups.

Decides how they are built from state. Callers check first whether anybody listens. What the
fields say is in `trace.py`.
"""

from __future__ import annotations

from kafka_shim.apis.wire.types import uuid_text
from kafka_shim.groups import epoch_events
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.states import MemberState
from kafka_shim.groups.consumer.target import Target
from kafka_shim.groups.epoch_events import epoch, member, state

__all__ = ["epoch", "member", "named", "reconciliation", "state", "target", "waits_for"]


def target(group: ConsumerGroup, computed: Target) -> None:
    """A target assignment was computed."""
    assignments = None if computed.ahead is None else computed.ahead.shown
    if assignments is None:
        assignments = {member_id: named(group, partitions) for member_id, partitions in computed.changed.items()}
    epoch_events.target(group, computed.assignor, assignments)


def reconciliation(group: ConsumerGroup, member: Member) -> None:
    """A member has come nearer to its target assignment, or away from it."""
    group.shard.outbox.event(
        "reconciliation",
        group=group.group_id,
        member_id=member.member_id,
        generation=member.epoch,
        state=member.state.name,
        assigned=named(group, member.assigned),
        revoking=named(group, member.pending_revocation),
        waits_for=waits_for(group, member),
    )


def waits_for(group: ConsumerGroup, member: Member) -> list[str]:
    """The members that have partitions this one waits for."""
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return []
    target = group.targets.get(member.member_id, NO_PARTITIONS)
    owners = (
        group.owners.get(topic, {}).get(number)
        for topic, aim in target.items()
        for number in aim - member.assigned.get(topic, frozenset())
    )
    return sorted({owner for owner in owners if owner is not None})


def named(group: ConsumerGroup, partitions: Partitions) -> dict[str, list[int]]:
    """Partitions by the names of topics, or the ids of those that are gone."""
    topics = group.shard.topics
    return {topics.topic_name(topic) or uuid_text(topic): sorted(owned) for topic, owned in partitions.items()}
