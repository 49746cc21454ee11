"""Trace events of target assignments that members compute. What the fields say is in `groups/trace.py`."""

from __future__ import annotations

from kafka_shim.groups.client_assignors.group import ClientAssignedGroup, Delegation


def delegation(group: ClientAssignedGroup, delegation: Delegation, change: str) -> None:
    """Something became of a delegation; nothing happens where nobody listens."""
    if group.shard.outbox.listening:
        group.shard.outbox.event(
            "delegation",
            group=group.group_id,
            generation=delegation.group_epoch,
            member_id=delegation.member_id,
            assignor=delegation.assignor,
            change=change,
        )
