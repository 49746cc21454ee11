"""Remedies for a static consumer (KIP-848) that is refused, since its old process has not left the group.

Its finding names the group instance id, which the old and the new process share. Source: KIP-848, KIP-345.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kafka_shim.trace import clients
from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.unreleased import Unreleased
from kafka_shim.why.finding import Finding
from kafka_shim.why.past import Change
from kafka_shim.why.remedies import LIKELY, Remedy, process, round_ms

_BEATS: Final = 3
"""A session of fewer heartbeat intervals ends if one heartbeat is lost."""
_SHORTER: Final = 0.9
"""A session must be shorter by a tenth to be worth a change."""


def after_unreleased(history: GroupHistory, finding: Finding) -> list[Remedy]:
    """Return the remedies for a process that is refused the group instance id of another."""
    cases = [each for each in history.holders.of.values() if each.instance_id == finding.client]
    newest = max(cases, key=lambda each: each.first)
    seen, proposed, is_over = _of_holder(history, newest)
    session = history.sessions.get(newest.holder, 0.0)
    until = f" of {session:g} s" if session else ""
    stood = f"; {_partitions(finding.partitions)} stood still" if finding.partitions and is_over else ""
    why = f"a new process is refused until the old one leaves, or its session{until} ends{stood}"
    remedies = [replace(each, grade=LIKELY) for each in process(finding, seen=seen, proposed=proposed, why=why)]
    return [*remedies, *_shorter_session(history, session)] if is_over else remedies


def _of_holder(history: GroupHistory, each: Unreleased) -> tuple[str, str, bool]:
    """Return the last act of the holder, the act that would have spared the refusals, and true if it ran no more."""
    member = history.members.get(each.holder)
    leave = "close the consumer when the process stops: a static consumer then leaves with epoch -2"
    if each.has_asked_itself:
        return (
            "it holds the group.instance.id itself, and asked for it again with epoch 0",
            "find out why it forgot its epoch",
            False,
        )
    if member is not None and member.departure_refused:
        return (
            "its old process left without its group.instance.id, and that was refused",
            "let it leave with its group.instance.id and epoch -2",
            True,
        )
    if history.has_died(each.holder):
        return "its old process ended without leaving", leave, True
    if each.seen is not None and not history.is_silent(each.holder):
        return "its old process still ran", "start the new process when the old one has left", False
    if history.is_silent(each.holder):
        return "its old process is silent, and has not left", leave, True
    return (
        "another process has this group.instance.id, and has not left",
        "find out whether that process still runs: the requests do not show it",
        False,
    )


def _shorter_session(history: GroupHistory, session: float) -> list[Remedy]:
    """Suggest a session of half the length, if that has enough heartbeats."""
    interval = (history.heartbeat_interval_ms or 0) / 1000
    if not session or not interval:
        return []
    limit = f"group.{history.kind}.min.{clients.SESSION}"
    least = history.broker_limits.get(limit)
    shorter = round_ms(max(1000 * max(session / 2, _BEATS * interval), least or 0))
    is_shorter = shorter <= _SHORTER * 1000 * session
    is_at_limit = least is not None and least > 1000 * max(_SHORTER * session, _BEATS * interval)
    first = limit if is_at_limit else f"{history.kind}.heartbeat.interval.ms"
    proposed = str(shorter) if is_shorter else f"shorter, with a shorter {first}"
    return [
        Remedy(
            who=history.group,
            side="broker",
            setting=f"{history.kind}.{clients.SESSION}",
            key=f"{history.kind}.{clients.SESSION}",
            seen=f"{1000 * session:.0f}",
            proposed=proposed,
            why="a process that died without leaving is missed sooner, and its successor let in",
            price="a process that is silent for longer is expelled though it runs"
            + (f"; {limit} must allow it" if least is None else ""),
            change=Change(session_timeout=shorter / 1000) if is_shorter else None,
        )
    ]


def _partitions(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"
