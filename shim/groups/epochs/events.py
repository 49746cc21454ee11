"""Trace events of a group with epochs: its epochs, states, target assignments and members.

Callers check first that the trace has a listener. `shim/trace/events.py` lists the fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from kafka_shim.groups.epochs.member import EpochMember
from kafka_shim.groups.epochs.records import Target
from kafka_shim.groups.group import GroupSummary
from kafka_shim.groups.shard import Shard
from kafka_shim.trace.causes import Cause


class Traced(GroupSummary, Protocol):
    """Parts of `EpochGroup` that its events show."""

    shard: Shard
    cause: Cause | None
    trigger: str

    def wait_for_target_ms(self, now: float) -> int | None: ...

    def by_topic(self, assignment: Any) -> dict[str, list[int]]: ...


def epoch(group: Traced, now: float) -> None:
    """Report a new group epoch, and how long its assignment has to wait for the interval."""
    waits_ms = group.wait_for_target_ms(now)
    group.shard.outbox.event(
        "epoch",
        group=group.group_id,
        generation=group.generation,
        cause=_cause(group),
        trigger=group.trigger,
        **({} if waits_ms is None else {"waits_ms": waits_ms}),
    )


def state(group: Traced, before: StrEnum | None) -> None:
    """Report the state of the group if it has changed."""
    after = group.state
    if before is not None and after is not before:
        group.shard.outbox.event(
            "state",
            group=group.group_id,
            **{"from": before.value},
            to=after.value,
            generation=group.generation,
            cause=_cause(group),
            trigger=group.trigger,
            rule=group.type,
        )


def target(group: Traced, target: Target[Any]) -> None:
    """Report a new target assignment."""
    changes = target.by_topic
    if changes is None:
        changes = {member_id: group.by_topic(assignment) for member_id, assignment in target.changed.items()}
    group.shard.outbox.event(
        "target",
        group=group.group_id,
        generation=target.epoch,
        assignor=target.assignor,
        assignments=changes,
    )


def reconciliation(
    group: Traced,
    member: EpochMember,
    state: str,
    assigned: Mapping[str, Sequence[int]],
    revoking: Mapping[str, Sequence[int]],
    waits_for: Sequence[str],
) -> None:
    """Report a step of a member's reconciliation; partitions are by topic."""
    group.shard.outbox.event(
        "reconciliation",
        group=group.group_id,
        member_id=member.member_id,
        generation=member.epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
        waits_for=waits_for,
    )


def member(group: Traced, member: EpochMember, change: str) -> None:
    """Report a change of a member."""
    group.shard.outbox.event(
        "member",
        group=group.group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        change=change,
        rule=group.type,
    )


def _cause(group: Traced) -> str | None:
    return None if group.cause is None else group.cause.value
