"""Who computes the target assignment of a group: one member at a time, and another when that one is gone or too slow.

Decides to whom it is delegated, and when a delegation is over without a result. It does not look at what is
computed: that is `install.py`. After KIP-848, "Client Side Mode":

- A computation is due when the group epoch is ahead of the target epoch. The member that is heard next computes, if it
  can read what the others wrote; it hears so in every answer until it is done.
- It has its rebalance timeout. If that runs out, another is asked. The member stays in the group: it sends heartbeats.
- If it is fenced or leaves, another is asked.
- A new group epoch does not end the computation for the epoch before. It is installed, and the next one is due at once.
"""

from __future__ import annotations

from kafka_shim.groups.client_assignors import events
from kafka_shim.groups.client_assignors.choice import computers
from kafka_shim.groups.client_assignors.group import ClientAssignedGroup, Delegation
from kafka_shim.groups.consumer.member import Member


def computes(group: ClientAssignedGroup, member: Member, now: float) -> bool:
    """Whether the member, whose heartbeat is being answered, is to compute; from now on, if nobody else is."""
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
    events.delegation(group, group.delegation, "requested")
    return True


def in_flight(group: ClientAssignedGroup) -> Delegation | None:
    """The delegation whose result is waited for. One is over without a result when its member is gone, or when the
    coordinator has assigned meanwhile, for a member without assignors of its own."""
    delegation = group.delegation
    if delegation is None:
        return None
    if delegation.member_id not in group.members:
        end(group, "member gone")
    elif delegation.group_epoch <= group.target_epoch:
        end(group, "overtaken")
    return group.delegation


def time_out(group: ClientAssignedGroup) -> None:
    """The rebalance timeout of the member that computes is over."""
    delegation = in_flight(group)
    if delegation is not None:
        group.passed_over.add(delegation.member_id)
        end(group, "timed out")


def end(group: ClientAssignedGroup, change: str) -> None:
    """Nobody computes any more; `change` is for the trace."""
    assert group.delegation is not None
    delegation, group.delegation = group.delegation, None
    group.shard.cancel(group.timer_of_delegation)
    events.delegation(group, delegation, change)
