"""Trace events of consumer groups.

Decides how they are built from state. Callers check first whether anybody listens. What the
fields say is in `trace.py`.
"""

from __future__ import annotations

from kafka_shim.apis.wire.types import uuid_text
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.states import GroupState, MemberState
from kafka_shim.groups.consumer.target import Target


def epoch(group: ConsumerGroup) -> None:
    """A new group epoch has just begun."""
    cause = None if group.cause is None else group.cause.value
    group.shard.outbox.event(
        "epoch", group=group.group_id, generation=group.group_epoch, cause=cause, trigger=group.trigger
    )


def state(group: ConsumerGroup, before: GroupState) -> None:
    """The group may be in another state than before."""
    after = group.state
    if after is not before:
        group.shard.outbox.event(
            "state",
            group=group.group_id,
            **{"from": before.value},
            to=after.value,
            generation=group.group_epoch,
            cause=None if group.cause is None else group.cause.value,
            trigger=group.trigger,
            rule="consumer",
        )


def target(group: ConsumerGroup, computed: Target) -> None:
    """A target assignment was computed."""
    group.shard.outbox.event(
        "target",
        group=group.group_id,
        generation=group.target_epoch,
        assignor=computed.assignor,
        assignments={member_id: named(group, partitions) for member_id, partitions in computed.changed.items()},
    )


def member(group: ConsumerGroup, member: Member, change: str) -> None:
    """Something happened to a member."""
    group.shard.outbox.event(
        "member",
        group=group.group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        change=change,
        rule="consumer",
    )


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
