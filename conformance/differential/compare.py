"""Compares the answers of two targets to one script, modulo ids and times.

Decides which differences count: ids are replaced by the actor that got them, throttle times and the wording of messages
are left out, lists without a defined order are sorted. What Kafka picks by the order of a hash table is no difference
either; from such a point on the two stories may differ, and nothing is compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from kafka_shim.apis.consumer_protocol import assignment_from_bytes
from kafka_shim.apis.wire import Message, Struct
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.differential.play import Answer, Played
from kafka_shim.conformance.differential.script import Script

_UNSAID: Final = frozenset({"throttle_time_ms", "error_message", "authorized_operations"})
_ANY_ORDER: Final = frozenset(
    {"members", "groups", "topics", "partitions", "topic_partitions", "subscribed_topic_names"}
)
_SHARES: Final = frozenset({"assignment", "target_assignment", "active_tasks", "standby_tasks"})
_RANDOM: Final = re.compile(r"-[0-9a-f]{8}-[0-9a-f-]{27}$")
_DEPARTURES: Final = frozenset({"leave", "wait", "disconnect", "depart"})


@dataclass(frozen=True)
class Difference:
    """The first difference of two targets: the step, the field, and the value of each.

    `kind` is the same for differences that may well have one reason: the request, and what is different in the answers.
    """

    step: int
    about: str
    left: str
    right: str
    kind: str


@dataclass(frozen=True)
class Outcome:
    """What a comparison came to: the difference, if any, and how many steps were compared."""

    difference: Difference | None
    steps: int


def compare(script: Script, left: Played, right: Played, group: str) -> Outcome:
    """The first difference."""
    for at in range(len(script)):
        both = [_answers_of(played, at, group) for played in (left, right)]
        for key in sorted(both[0].keys() | both[1].keys()):
            one, other = both[0].get(key, "no answer yet"), both[1].get(key, "no answer yet")
            if one == other or is_explained(script, key[0], at, one, other):
                continue
            if _is_chosen_freely(script, one, other, at) or _without_shares(one) == _without_shares(other):
                return Outcome(None, at)
            about = f"the answer to step {key[0]} ({script[key[0]]})"
            return Outcome(_difference(at, about, script[key[0]].do, one, other), at)
        states = [_plain(played.states[at], played, group) for played in (left, right)]
        if states[0] != states[1]:
            if _without_shares(states[0]) == _without_shares(states[1]):
                return Outcome(None, at)
            return Outcome(_difference(at, "the group as described", "describe", *states), at)
    return Outcome(None, len(script))


def is_explained(script: Script, sent: int, at: int, one: Any, other: Any) -> bool:
    """Whether a difference is one we know and keep.

    A JoinGroup or SyncGroup whose member sent another while it was parked, and a SyncGroup whose member left: Kafka
    forgets it and never answers, which leaves its connection stuck for good; ours answers REBALANCE_IN_PROGRESS, and
    UNKNOWN_MEMBER_ID to who left.
    """
    doing = script[sent].do
    answer = next((result for result in (one, other) if isinstance(result, dict)), None)
    if answer is None or doing not in ("join", "sync") or "no answer yet" not in (one, other):
        return False
    since = {step.do for step in script[sent + 1 : at + 1]}
    return (answer["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS and doing in since) or (
        answer["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID and doing == "sync" and "leave" in since
    )


def _answers_of(played: Played, at: int, group: str) -> dict[tuple[int, int], Any]:
    """The answers that came during a step, by the step of the request and how often that one was answered."""
    found: dict[tuple[int, int], Any] = {}
    for answer in played.answers:
        if answer.came == at:
            number = sum(key[0] == answer.sent for key in found)
            found[answer.sent, number] = _essence(answer, played, group)
    return found


def _essence(answer: Answer, played: Played, group: str) -> Any:
    plain = _plain(answer.message, played, group)
    if type(answer.message).__name__ == "ListGroupsResponse":
        plain["groups"] = [each for each in plain["groups"] if each["group_id"] == "the group"]
    return plain


def _plain(value: Any, played: Played, group: str) -> Any:
    """A message as dictionaries and lists that two targets can have in common."""
    if isinstance(value, (Message, Struct)):
        names: tuple[str, ...] = getattr(type(value), "__match_args__")  # noqa: B009
        kept = [name for name in names if name not in _UNSAID]
        return {name: _field(name, getattr(value, name), played, group) for name in kept}
    if isinstance(value, str):
        return _text_of(value, played, group)
    if isinstance(value, list):
        return [_plain(each, played, group) for each in value]
    return value


def _field(name: str, value: Any, played: Played, group: str) -> Any:
    if name == "partitions" and value and all(isinstance(each, int) for each in value):
        # Which ones a coordinator assigns is its choice, by the order of a hash table.
        return f"{len(value)} partitions"
    if (
        name in ("assignment", "member_assignment")
        and isinstance(value, bytes)
        and (assigned := assignment_from_bytes(value)) is not None
    ):
        return {each.topic: f"{len(each.partitions)} partitions" for each in assigned.assigned_partitions}
    if isinstance(value, list):
        plain = [_plain(each, played, group) for each in value]
        return sorted(plain, key=repr) if name in _ANY_ORDER else plain
    if name == "topic_id":
        return "topic id" if any(value) else "no topic id"
    return _plain(value, played, group)


def _text_of(value: str, played: Played, group: str) -> str:
    if value == group:
        return "the group"
    return played.ids.get(value) or _RANDOM.sub("-?", value)


def _is_chosen_freely(script: Script, one: Any, other: Any, at: int) -> bool:
    """Whether two join answers differ in a choice that Kafka makes by the order of a hash table.

    That is the leader where the one before may be gone, and the protocol where members voted differently.
    """
    if not (isinstance(one, dict) and isinstance(other, dict)) or "leader" not in one or "leader" not in other:
        return False
    differing = {name for name in one if one[name] != other[name]}
    before = script[: at + 1]
    leader = any(step.do in _DEPARTURES for step in before)
    vote = len({step.variant for step in before if step.do == "join"}) > 1
    allowed = {"members", "skip_assignment"}
    return differing <= allowed | ({"leader"} if leader else set()) | ({"protocol_name"} if vote else set()) and bool(
        differing - allowed
    )


def _without_shares(plain: Any) -> Any:
    """Without how many partitions each member has: which of them has one more is by the order of a hash table, too."""
    if isinstance(plain, dict):
        return {name: _without_shares(value) for name, value in plain.items() if name not in _SHARES}
    if isinstance(plain, list):
        return sorted((_without_shares(each) for each in plain), key=repr)
    return plain


def _difference(at: int, about: str, do: str, one: Any, other: Any) -> Difference:
    kind = f"{do}: {_short(one)} / {_short(other)}"
    if isinstance(one, dict) and isinstance(other, dict):
        differing = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
        kind = f"{do}: " + ", ".join(
            name if name in _ANY_ORDER else f"{name} {one.get(name)!r} / {other.get(name)!r}"
            for name in sorted(differing)
        )
    return Difference(at, about, _text(one), _text(other), kind)


def _short(result: Any) -> str:
    return f"error {result.get('error_code')}" if isinstance(result, dict) else str(result)


def _text(plain: Any) -> str:
    if isinstance(plain, dict):
        return ", ".join(f"{name}={value!r}" for name, value in plain.items())
    return str(plain)
