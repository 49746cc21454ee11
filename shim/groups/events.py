"""Trace events of groups of every kind.

Callers check first that the trace has a listener. `shim/trace/schema.py` lists the fields.
"""

from __future__ import annotations

from kafka_shim.groups.group import GroupSummary
from kafka_shim.groups.outbox import Outbox


def group(outbox: Outbox, group: GroupSummary, change: str) -> None:
    """Report a group that was created, loaded, unloaded or deleted."""
    outbox.event(
        "group",
        group=group.group_id,
        partition=group.partition,
        change=change,
        state=group.state.value,
        generation=group.generation,
        members=group.size,
    )
