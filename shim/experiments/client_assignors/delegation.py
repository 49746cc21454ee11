"""Delegation of a group's target assignment to one member at a time, and to another if that one leaves or is too slow.

`install.py` handles the result. Source: the draft of KIP-848, "Client Side Mode":

- A computation is due when the group epoch is ahead of the target epoch. The next member that heartbeats computes,
  if it can read the metadata of the others; every answer asks it again until it is done.
- It has its rebalance timeout. After that, another member is asked. The slow one stays in the group: it heartbeats.
- If it is fenced or leaves, another member is asked.
- A new group epoch does not end the computation for the epoch before. It is installed, and the next one is due at once.
"""

from __future__ import annotations

from kafka_shim.experiments.client_assignors.choice import computers
from kafka_shim.experiments.client_assignors.group import ClientAssignedGroup, Delegation
from kafka_shim.groups.consumer.member import Member


def computes(group: ClientAssignedGroup, member: Member, now: float) -> bool:
    """Return True if this member must compute; delegate to it now if no other member computes. Call it while its
    heartbeat is answered.
    """
    delegation = in_flight(group)
    if delegation is not None:
        return delegation.member_id == member.member_id
    assignor = group.client_assignor
    if assignor is None or group.group_epoch <= group.target_epoch:
        return False
    able = computers(group.members.values(), assignor)
    if able <= group.passed_over:
        group.passed_over.clear()
    if member.member_id not in able - group.passed_over:
        return False
    group.delegation = Delegation(member.member_id, assignor, group.group_epoch)
    group.shard.arm(group.timer_of_delegation, now + member.rebalance_timeout_ms / 1000)
    report(group, group.delegation, "requested")
    return True


def in_flight(group: ClientAssignedGroup) -> Delegation | None:
    """Return the current delegation. End one without a result if its member has left, or if the coordinator has
    assigned in the meantime, for a member without assignors.
    """
    delegation = group.delegation
    if delegation is None:
        return None
    if delegation.member_id not in group.members:
        end(group, "member gone")
    elif delegation.group_epoch <= group.target_epoch:
        end(group, "overtaken")
    return group.delegation


def time_out(group: ClientAssignedGroup, now: float) -> None:
    """End a delegation at the rebalance timeout of its member."""
    delegation = in_flight(group)
    if delegation is not None:
        group.passed_over.add(delegation.member_id)
        end(group, "timed out")


def end(group: ClientAssignedGroup, change: str) -> None:
    """End the delegation; `change` is for the trace."""
    assert group.delegation is not None
    delegation, group.delegation = group.delegation, None
    group.shard.cancel(group.timer_of_delegation)
    report(group, delegation, change)


def report(group: ClientAssignedGroup, delegation: Delegation, change: str) -> None:
    """Report a change of a delegation to the trace, if there are listeners."""
    if group.shard.outbox.listening:
        group.shard.outbox.event(
            "delegation",
            group=group.group_id,
            generation=delegation.group_epoch,
            member_id=delegation.member_id,
            assignor=delegation.assignor,
            change=change,
        )
