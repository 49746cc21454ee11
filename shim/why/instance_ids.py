"""Group instance ids that two processes want: of two that run, or of one that died without leaving and its successor.

The coordinator answers both alike, FENCED_INSTANCE_ID or UNRELEASED_INSTANCE_ID; later requests and the end of sessions
tell them apart.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.trace.history import SILENT, GroupHistory
from kafka_shim.trace.refusals import Twice
from kafka_shim.trace.unreleased import Unreleased

_AT_ONCE_S: Final = 0.1
"""Seconds between two requests that cross on their way."""
_SESSION_S: Final = 45.0
"""The default of `group.consumer.session.timeout.ms`."""


def fights_of(history: GroupHistory) -> list[Twice]:
    """Return the group instance ids of two processes that fence each other, or that both run."""
    fights = [each for each in history.refusals.twice.values() if each.is_fight]
    disputed = {each.instance_id for each in fights}
    for each in history.holders.of.values():
        if holds_and_lives(history, each) and each.instance_id not in disputed:
            fights.append(
                Twice(
                    instance_id=each.instance_id,
                    first=each.first,
                    last=each.last,
                    first_seq=each.first_seq,
                    last_seq=each.last_seq,
                    clients=each.clients,
                    count=each.count,
                    is_fight=True,
                )
            )
    return fights


def holds_and_lives(history: GroupHistory, each: Unreleased) -> bool:
    """Return True if the holder of a group instance id that another process asked for still ran, not only for the
    moment in which one process takes the place of another.
    """
    holder = history.members.get(each.holder)
    if holder is None or each.has_asked_itself:
        return False
    session = history.sessions.get(each.holder)
    seen = each.seen
    if seen is None and session is not None and holder.how in ("", "expired"):
        # Not all listeners hear of heartbeats, but a session does not outlast the last of them.
        end = history.last if holder.ended is None else holder.ended
        seen = end - session if end - session > each.first + _AT_ONCE_S else None
    if seen is None:
        return False
    if each.accepted is None:
        return each.last - seen <= SILENT * (history.heartbeat_interval_ms or 5_000) / 1000
    return seen - each.first > (session or _SESSION_S)
