"""The parts of the time of a rebalance, as clauses.

In a classic group a member learns of a rebalance by its next heartbeat, so the wait for the last to join has two parts:
until its heartbeat, and from then on until its JoinGroup. A trace without heartbeats does not tell them apart.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.trace.rebalance import (
    INITIAL_DELAY,
    LEADER_THINKS,
    NEVER_CAME,
    WAITING_FOR_MEMBERS,
    WAITING_FOR_SYNCS,
    Phase,
    Rebalance,
)
from kafka_shim.trace.reconciliation import HANDING_OVER, INTERVAL, NOT_ASSIGNED, REVOKING
from kafka_shim.why.names import Names
from kafka_shim.why.remedies import span

_SHARE: Final = 0.05
"""A part below this share of the time has no clause."""
_CLAUSES: Final = {
    INITIAL_DELAY: "the initial delay",
    WAITING_FOR_MEMBERS: "until {who} joined",
    NEVER_CAME: "in vain for {who}",
    LEADER_THINKS: "for the leader, {who}, to assign",
    WAITING_FOR_SYNCS: "until {who} had its assignment",
    INTERVAL: "for the assignment interval",
    NOT_ASSIGNED: "until any heartbeat came",
    REVOKING: "for {who} to give up partitions",
    HANDING_OVER: "for the heartbeat of {who}",
}


def waits_of(rebalance: Rebalance, names: Names) -> tuple[list[str], float | None]:
    """Return a clause for each long part of a rebalance, in order, and the seconds until a heartbeat; None if those
    do not show.
    """
    parts: list[tuple[float, str]] = []
    heartbeats: float | None = 0.0
    for phase in rebalance.phases:
        who = names(phase.members[0]) if phase.members else "all members"
        called = _called(rebalance, phase)
        if phase.name == WAITING_FOR_MEMBERS and called is not None:
            heartbeats = min(called, phase.seconds)
            parts.append((heartbeats, f"until the next heartbeat of {who}"))
            parts.append((phase.seconds - heartbeats, f"for {who} to join after its heartbeat"))
            continue
        if phase.name == WAITING_FOR_MEMBERS:
            heartbeats = None
        parts.append((phase.seconds, _CLAUSES.get(phase.name, phase.name).format(who=who)))
    long = [part for part in parts if part[0] > _SHARE * rebalance.seconds]
    return [f"{span(seconds)} {text}" for seconds, text in long], heartbeats


def _called(rebalance: Rebalance, phase: Phase) -> float | None:
    """Return the seconds until the heartbeat of the last to join; 0 for the member that began the rebalance."""
    last = rebalance.joins[0] if rebalance.joins else None
    if last is None or last.member_id not in phase.members:
        return None
    return 0.0 if last.called is None and last.member_id == rebalance.trigger else last.called
