"""Compares the answers of two targets to one script, without ids and times.

Ids are replaced by the number of their actor; throttle times and the wording of messages are ignored; lists without a
defined order are sorted. A choice that Kafka makes by the order of a hash table is not a difference; the comparison
ends there, because later answers depend on it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from kafka_shim.apis.consumer_protocol import assignment_from_bytes
from kafka_shim.apis.wire import Message, Struct
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.differential.play import Answer, Transcript
from kafka_shim.conformance.differential.script import Script, Step

_IGNORED_FIELDS: Final = frozenset({"throttle_time_ms", "error_message", "authorized_operations"})
_ANY_ORDER: Final = frozenset(
    {
        *("members", "groups", "topics", "partitions", "topic_partitions", "subscribed_topic_names"),
        *("client_tags", "task_offsets", "task_end_offsets"),
    }
)
_ASSIGNED: Final = frozenset({"topic_partitions", "active_tasks", "standby_tasks", "warmup_tasks"})
_SHARES: Final = frozenset({"assignment", "target_assignment", "active_tasks", "standby_tasks", "warmup_tasks"})
_FOLLOWING: Final = frozenset({"member_epoch", "group_state"})
_RANDOM: Final = re.compile(r"-[0-9a-f]{8}-[0-9a-f-]{27}$")
_DEPARTURES: Final = frozenset({"leave", "wait", "disconnect", "depart", "enter"})


@dataclass(frozen=True)
class Difference:
    """The first difference of two targets: the step, the field, and the value of each.

    Differences with the same `kind`, the request and the changed fields, probably have one cause.
    """

    step: int
    about: str
    first: str
    second: str
    kind: str


@dataclass(frozen=True)
class Outcome:
    """The result of a comparison: the difference, if any, and the number of compared steps."""

    difference: Difference | None
    steps: int


def compare(script: Script, first: Transcript, second: Transcript, group: str) -> Outcome:
    """Return the first difference."""
    alike, forgets = True, False
    for at in range(len(script)):
        views = [View(transcript, group) for transcript in (first, second)]
        alike = alike and views[0].shares(at) == views[1].shares(at)
        both = [view.answers(at) for view in views]
        for key in sorted(both[0].keys() | both[1].keys()):
            one, other = both[0].get(key, "no answer yet"), both[1].get(key, "no answer yet")
            if one == other or is_explained(script, key[0], at, one, other):
                continue
            if forgets or _is_chosen_freely(script, one, other, at) or _is_by_shares(one, other, alike=alike):
                return Outcome(None, at)
            about = f"the answer to step {key[0]} ({script[key[0]]})"
            return Outcome(_difference(at, about, script[key[0]].do, one, other), at)
        states = [view.state(at) for view in views]
        if states[0] != states[1]:
            if forgets or _is_by_shares(*states, alike=alike):
                return Outcome(None, at)
            return Outcome(_difference(at, "the group as described", "describe", *states), at)
        # Only now: the refusal itself, and the group at that step, are alike on both.
        forgets = forgets or any(_forgets_target(script[key[0]], one) for key, one in both[0].items())
    return Outcome(None, len(script))


def _is_by_shares(one: Any, other: Any, *, alike: bool) -> bool:
    """Return True if only the number of partitions per member differs.

    If members had other partitions than on the other target (not `alike`), epochs and states may differ too.
    """
    return _without(_SHARES, one) == _without(_SHARES, other) or (
        not alike and _without(_SHARES | _FOLLOWING, one) == _without(_SHARES | _FOLLOWING, other)
    )


def _forgets_target(step: Step, answer: Any) -> bool:
    """Return True for a join with the group instance id of a present member of a streams group, which is refused.

    Kafka 4.4.0 gives the target of that member to the refused one before it looks (`relabelRefinedAssignment` in
    `GroupMetadataManager.streamsGroupHeartbeat`), and makes another epoch later. That fault is not copied.
    """
    refused = isinstance(answer, dict) and answer.get("error_code") == ErrorCode.UNRELEASED_INSTANCE_ID
    return refused and step.do == "stream-join"


def is_explained(script: Script, sent: int, at: int, one: Any, other: Any) -> bool:
    """Return True for a difference that is known and compared.

    A JoinGroup or SyncGroup of a member that sent another one while it was parked, and a SyncGroup of a member that
    left: Kafka forgets it and never answers, which blocks its connection for good; ours answers REBALANCE_IN_PROGRESS,
    and UNKNOWN_MEMBER_ID to a former member.
    """
    doing = script[sent].do
    answer = next((result for result in (one, other) if isinstance(result, dict)), None)
    if answer is None or doing not in ("join", "sync") or "no answer yet" not in (one, other):
        return False
    since = {step.do for step in script[sent + 1 : at + 1]}
    return (answer["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS and doing in since) or (
        answer["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID and doing == "sync" and "leave" in since
    )


class View:
    """The answers of a target in terms that do not depend on the target.

    `exact`: with the partitions themselves; otherwise only their number is compared.
    """

    def __init__(self, transcript: Transcript, group: str, *, exact: bool = False) -> None:
        self._played = transcript
        self._group = group
        self._exact = exact

    def answers(self, at: int) -> dict[tuple[int, int], Any]:
        """Return the answers during a step, by the step of the request and the count of its answers so far."""
        answers: dict[tuple[int, int], Any] = {}
        for answer in self._played.answers:
            if answer.came == at:
                number = sum(key[0] == answer.sent for key in answers)
                answers[answer.sent, number] = self._essence(answer)
        return answers

    def state(self, at: int) -> Any:
        """Return the description of the group after a step."""
        return self._plain(self._played.states[at])

    def shares(self, at: int) -> Any:
        """Return the present and target partitions of each member after a step."""
        described = View(self._played, self._group, exact=True).state(at)
        groups = [each for each in described if "members" in each] if isinstance(described, list) else []
        return [
            {member["member_id"]: [member.get(name) for name in sorted(_SHARES)] for member in group["members"]}
            for group in groups
        ]

    def _essence(self, answer: Answer) -> Any:
        plain = self._plain(answer.message)
        if type(answer.message).__name__ == "ListGroupsResponse":
            plain["groups"] = [each for each in plain["groups"] if each["group_id"] == "the group"]
        return plain

    def _plain(self, value: Any) -> Any:
        """Return a message as dictionaries and lists."""
        if isinstance(value, (Message, Struct)):
            names: tuple[str, ...] = getattr(type(value), "__match_args__")  # noqa: B009
            compared = [name for name in names if name not in _IGNORED_FIELDS]
            return {name: self._field(name, getattr(value, name)) for name in compared}
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        return value

    def _field(self, name: str, value: Any) -> Any:
        if name in _ASSIGNED and isinstance(value, list) and not self._exact:
            # The choice of partitions follows the order of a hash table.
            return f"{sum(len(each.partitions) for each in value)} partitions"
        if (
            name in ("assignment", "member_assignment")
            and isinstance(value, bytes)
            and (assigned := assignment_from_bytes(value)) is not None
        ):
            return f"{sum(len(each.partitions) for each in assigned.assigned_partitions)} partitions"
        if isinstance(value, list):
            plain = [self._plain(each) for each in value]
            return sorted(plain, key=repr) if name in _ANY_ORDER else plain
        if name == "topic_id":
            return "topic id" if any(value) else "no topic id"
        return self._plain(value)

    def _text(self, value: str) -> str:
        if value == self._group:
            return "the group"
        return self._played.ids.get(value) or _RANDOM.sub("-?", value)


def _is_chosen_freely(script: Script, one: Any, other: Any, at: int) -> bool:
    """Return True if two join answers differ in a choice that Kafka makes by the order of a hash table.

    The leader, if the previous one may have left or a consumer group became classic; the protocol, if members voted
    differently.
    """
    before = script[: at + 1]
    if "no answer yet" in (one, other):
        # Only the JoinGroup of the leader starts a round; others are answered at once.
        answer = other if one == "no answer yet" else one
        answers_join = isinstance(answer, dict) and "leader" in answer and answer["error_code"] == ErrorCode.NONE
        return answers_join and any(step.do == "enter" for step in before)
    if not (isinstance(one, dict) and isinstance(other, dict)) or "leader" not in one or "leader" not in other:
        return False
    differing = {name for name in one if one[name] != other[name]}
    leader = any(step.do in _DEPARTURES for step in before)
    vote = len({step.variant for step in before if step.do == "join"}) > 1
    allowed = {"members", "skip_assignment"}
    return differing <= allowed | ({"leader"} if leader else set()) | ({"protocol_name"} if vote else set()) and bool(
        differing - allowed
    )


def _without(names: frozenset[str], plain: Any) -> Any:
    """Remove these fields."""
    if isinstance(plain, dict):
        return {name: _without(names, value) for name, value in plain.items() if name not in names}
    if isinstance(plain, list):
        return sorted((_without(names, each) for each in plain), key=repr)
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
