"""Trace events of target assignments that members compute. `trace/schema.py` describes the fields."""

from __future__ import annotations

from kafka_shim.experiments.client_assignors.group import ClientAssignedGroup, Delegation


def delegation(group: ClientAssignedGroup, delegation: Delegation, change: str) -> None:
    """Emit a change of a delegation, if there are listeners."""
    if group.shard.outbox.listening:
        group.shard.outbox.event(
            "delegation",
            group=group.group_id,
            generation=delegation.group_epoch,
            member_id=delegation.member_id,
            assignor=delegation.assignor,
            change=change,
        )
