"""Sessions of members of all kinds of groups, and their end before their time, of which the trace tells."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafka_shim.groups.timers import Timer
from kafka_shim.server.node import Node


def sessions_of(nodes: Iterable[Node], group: str | None = None, members: Collection[str] | None = None) -> list[Timer]:
    """Return the timers of sessions that run: of all groups or one, of all members or these member ids."""
    armed = (timer for node in nodes for timer in node.groups.timers.armed())
    return [
        timer
        for timer in armed
        if timer.kind == "session"
        and (group is None or timer.group_id == group)
        and (members is None or timer.member_id in members)
    ]


def end_sessions(node: Node, sessions: Iterable[Timer], now: float) -> None:
    """End these sessions on their node, as after a silence of each session timeout: its group removes the member."""
    for timer in sessions:
        intervened(node, timer.group_id, timer.member_id, "expired")
        node.groups.timers.arm(timer, now)
    while node.groups.next_deadline() <= now:
        node.groups.fire(now)


def intervened(node: Node, group: str, member_id: str, change: str) -> None:
    """Tell the trace of a change that a test made to a member."""
    if node.outbox.listening:
        node.outbox.event("intervention", group=group, member_id=member_id, change=change)
