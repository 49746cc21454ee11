"""Events of a log and of `__consumer_offsets` as one story: reasons from the log, members and assignments from the
topic.

A generation that the log has is told by the log, with the members and assignments of its record; one that it lacks by
its record alone. Of a group with epochs the records tell the steps, and the log says why an epoch began and how a
member went.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any, Final

from kafka_shim.sources.story import numbered
from kafka_shim.trace.causes import Cause

Event = dict[str, Any]

_IN: Final = frozenset({"added", "replaced", "loaded"})
_OUT: Final = frozenset({"left", "expired", "removed", "fenced", "gone"})
_NEAR_S: Final = 5.0
"""The line about a member and its record come within this time."""
_QUARTER_S: Final = 900.0
_ZONE_S: Final = 300.0
"""Clocks of one broker differ by less, unless one is of another zone."""
_OF_ROUND: Final = ("leader", "protocol", "members", "size")
_OF_ASSIGNMENT: Final = ("leader", "assignments", "subscriptions")
_OF_MEMBER: Final = ("client_host", "session_timeout_ms", "rebalance_timeout_ms", "instance_id")
_VAGUE: Final = frozenset({"", Cause.LEADER_REJOINED, Cause.SUBSCRIPTION_CHANGED})
"""Causes of a log that say no more than that a member joined again."""
_SHOWN: Final = frozenset(
    {Cause.SUBSCRIPTION_CHANGED, Cause.TOPIC_METADATA_CHANGED, Cause.COOPERATIVE_FOLLOWUP, Cause.STATIC_REPLACED}
)
"""Causes that the difference of two records proves."""
_STEPS: Final = frozenset({"epoch", "target", "state"})


def zone_offset(of_log: Iterable[Event], of_topic: Iterable[Event]) -> float:
    """Return the seconds by which the stamps of a log are ahead of the records: full quarters of an hour, 0.0 if they
    have one zone.
    """
    starts = {_mark(each): each["wall"] for each in of_topic if each["event"] in ("assignment", "epoch")}
    gaps = [
        each["wall"] - starts[_mark(each)]
        for each in of_log
        if each["event"] in ("assignment", "epoch") and _mark(each) in starts
    ]
    if not gaps or abs(median(gaps)) < _ZONE_S:
        return 0.0
    quarters = round(median(gaps) / _QUARTER_S)
    return quarters * _QUARTER_S if abs(median(gaps) - quarters * _QUARTER_S) < _NEAR_S else 0.0


def together(of_log: list[Event], of_topic: list[Event], offset: float = 0.0) -> list[Event]:
    """Return the events of both in order of time, numbered from 1 on. `offset` is that of the log's zone."""
    if offset:
        of_log = [_in_utc(each, -offset) for each in of_log]
    groups = dict.fromkeys(each.get("group", "") for each in (*of_log, *of_topic))
    events: list[Event] = []
    for group in groups:
        lines = [each for each in of_log if each.get("group", "") == group]
        records = [each for each in of_topic if each.get("group", "") == group]
        if not group:
            events += (lines or records)[:1]
        elif any(each["event"] == "epoch" for each in records):
            events += _epochs(lines, records)
        else:
            events += _generations(lines, records)
    events.sort(key=lambda each: each["wall"] if each["event"] != "trace" else 0.0)
    return list(numbered(events))


def _mark(event: Event) -> tuple[str, int]:
    return event["group"], event["generation"]


def _in_utc(event: Event, seconds: float) -> Event:
    times = ("mono", "wall", "started", "ended", "arrived")
    return {name: value + seconds if name in times else value for name, value in event.items()}


def _generations(lines: list[Event], records: list[Event]) -> Iterator[Event]:
    """Yield the events of a classic group."""
    in_log = {each["generation"] for each in lines if each["event"] in ("round", "assignment")}
    in_log |= {each["generation"] for each in lines if each["event"] == "state" and each["to"] == "Empty"}
    names = {(each["member_id"], each["change"] in _OUT) for each in lines if each["event"] == "member"}
    rounds = {each["generation"]: each for each in records if each["event"] == "round"}
    assignments = {each["generation"]: each for each in records if each["event"] == "assignment"}
    members = {each["member_id"]: each for each in records if each["event"] == "member"}
    generations = {
        each["where"]: each["generation"] for each in records if each["event"] in ("round", "group", "state")
    }
    for each in records:
        is_told = generations.get(each["where"]) in in_log
        is_named = each["event"] == "member" and (each["member_id"], each["change"] in _OUT) in names
        if not is_named and (not is_told or each["event"] == "member"):
            yield each
    for each in _explained(lines, rounds):
        if each["event"] == "round":
            yield _filled(each, rounds.get(each["generation"]), _OF_ROUND)
        elif each["event"] == "assignment":
            yield _filled(each, assignments.get(each["generation"]), _OF_ASSIGNMENT)
        elif each["event"] == "member":
            yield _filled(each, members.get(each["member_id"]), _OF_MEMBER)
        else:
            yield each


def _explained(lines: list[Event], rounds: dict[int, Event]) -> list[Event]:
    """Return the lines; where the log only says that a member joined again, with the cause that the records show.

    A `state` has the generation before: the cause of a round is found first.
    """
    explained: list[Event] = []
    record: Event | None = None
    for each in reversed(lines):
        if each["event"] == "round":
            record = rounds.get(each["generation"])
        if record is not None and each.get("cause") in _VAGUE and record["cause"] in _SHOWN:
            each = each | {"cause": record["cause"], "trigger": record["trigger"] or each["trigger"]}
        if each["event"] == "state" and each["to"] == "PreparingRebalance":
            record = None
        explained.append(each)
    # Events after a round are of its generation too.
    explained.reverse()
    causes: tuple[str, str] | None = None
    for place, each in enumerate(explained):
        if each["event"] == "round":
            causes = (each["cause"], each["trigger"])
        elif each["event"] == "state" and each["to"] == "PreparingRebalance":
            causes = None
        elif causes is not None and each["event"] in ("state", "assignment") and each.get("cause") in _VAGUE:
            explained[place] = each | {"cause": causes[0], "trigger": causes[1]}
    return explained


def _filled(event: Event, record: Event | None, fields: Iterable[str]) -> Event:
    """Return an event of the log with the fields that its record has."""
    if record is None:
        return event
    return event | {name: record[name] for name in fields if record.get(name) not in (None, "")}


def _epochs(lines: list[Event], records: list[Event]) -> Iterator[Event]:
    """Yield the events of a group with epochs."""
    epochs = {each["generation"] for each in records if each["event"] == "epoch"}
    causes = {each["generation"]: each for each in lines if each["event"] == "epoch" and each["cause"]}
    moves = [each for each in lines if each["event"] == "member" and each["change"] in _IN | _OUT]
    used: set[int] = set()
    for each in records:
        if each["event"] == "member":
            line = _of_move(each, moves)
            if line is not None:
                used.add(id(line))
                reason = {"reason": line["reason"]} if "reason" in line else {}
                each = each | {"change": line["change"], **reason}
        elif each["event"] in ("epoch", "state") and each["cause"] is not None and each["generation"] in causes:
            record = causes[each["generation"]]
            each = each | {"cause": record["cause"], "trigger": record["trigger"]}
            if each["event"] == "epoch":
                each["where"] = record["where"]
        yield each
    for each in lines:
        is_step = each["event"] in _STEPS and each["generation"] in epochs
        if not is_step and id(each) not in used:
            yield each


def _of_move(record: Event, moves: list[Event]) -> Event | None:
    """Return the line about the same coming or going of a member."""
    is_out = record["change"] in _OUT
    same = (each for each in moves if each["member_id"] == record["member_id"] and (each["change"] in _OUT) == is_out)
    near = (each for each in same if abs(each["wall"] - record["wall"]) <= _NEAR_S)
    return min(near, key=lambda each: abs(each["wall"] - record["wall"]), default=None)
