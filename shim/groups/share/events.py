"""Trace events of share groups, of the same kinds as those of consumer groups.

Decides how they are built from state. Whether anybody listens is asked before these functions are called. What the
fields say is in `trace.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_shim.apis.wire.types import uuid_text
from kafka_shim.groups.assignors.spec import Partitions
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.member import Member
from kafka_shim.groups.share.states import GroupState


def epoch(group: ShareGroup) -> None:
    """A new group epoch has just begun."""
    group.shard.outbox.event(
        "epoch", group=group.group_id, generation=group.group_epoch, cause=_cause(group), trigger=group.trigger
    )


def state(group: ShareGroup, before: GroupState) -> None:
    """The group may be in another state than before."""
    after = group.state
    if after is not before:
        group.shard.outbox.event(
            "state",
            group=group.group_id,
            **{"from": before.value},
            to=after.value,
            generation=group.group_epoch,
            cause=_cause(group),
            trigger=group.trigger,
            rule="share",
        )


def target(group: ShareGroup, assignments: Mapping[str, Partitions]) -> None:
    """A target assignment was computed."""
    group.shard.outbox.event(
        "target",
        group=group.group_id,
        generation=group.target_epoch,
        assignor=group.protocol,
        assignments={member_id: named(group, partitions) for member_id, partitions in assignments.items()},
    )


def member(group: ShareGroup, member: Member, change: str) -> None:
    """Something happened to a member."""
    group.shard.outbox.event(
        "member",
        group=group.group_id,
        member_id=member.member_id,
        instance_id=None,
        client_id=member.client_id,
        client_host=member.client_host,
        change=change,
        rule="share",
    )


def reconciliation(group: ShareGroup, member: Member) -> None:
    """A member has what the target assignment gives it."""
    group.shard.outbox.event(
        "reconciliation",
        group=group.group_id,
        member_id=member.member_id,
        generation=member.epoch,
        state="STABLE",
        assigned=named(group, member.assigned),
        revoking={},
        waits_for=[],
    )


def named(group: ShareGroup, partitions: Partitions) -> dict[str, list[int]]:
    """Partitions by the names of topics, or the ids of those that are gone."""
    topics = group.shard.topics
    return {topics.topic_name(topic) or uuid_text(topic): sorted(numbers) for topic, numbers in partitions.items()}


def _cause(group: ShareGroup) -> str | None:
    return None if group.cause is None else group.cause.value
