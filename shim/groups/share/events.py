"""Trace events of share groups, of the same kinds as those of consumer groups.

Decides how they are built from state. Whether anybody listens is asked before these functions are called. What the
fields say is in `trace.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_shim.apis.wire.types import uuid_text
from kafka_shim.groups import epoch_events
from kafka_shim.groups.assignors.spec import Partitions
from kafka_shim.groups.epoch_events import epoch, member, state
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.member import Member

__all__ = ["epoch", "member", "named", "reconciliation", "state", "target"]


def target(group: ShareGroup, assignments: Mapping[str, Partitions]) -> None:
    """A target assignment was computed."""
    names = {member_id: named(group, partitions) for member_id, partitions in assignments.items()}
    epoch_events.target(group, group.protocol, names)


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
