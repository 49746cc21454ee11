"""Trace events of timers and of groups of every kind.

Decides how they are built from state. Callers check first whether anybody listens. `trace.py` says what the fields are.
"""

from __future__ import annotations

from kafka_shim.groups.group import GroupSummary
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.timers import Timer


def timer(outbox: Outbox, timer: Timer, change: str, deadline: float | None = None) -> None:
    """A timer was armed, fired or is about to be cancelled."""
    outbox.event(
        "timer",
        change=change,
        kind=timer.kind.value,
        partition=timer.partition,
        group=timer.group_id,
        member_id=timer.member_id,
        deadline=deadline,
    )


def group(outbox: Outbox, group: GroupSummary, change: str) -> None:
    """A group came or went."""
    outbox.event(
        "group",
        group=group.group_id,
        partition=group.partition,
        change=change,
        state=group.state.value,
        generation=group.generation,
        members=group.size,
    )
