"""The invariants of docs/conformance.md, checked over the trace of a run: what must hold whatever the cases looked at.

Knows the trace's schema (`docs/trace.md`) and nothing of how it is written. What a trace cannot show is not checked:
answers never due, durability, replay (I3, I4, I5). Each violation is one line of text that begins with its invariant.

    I1  a partition has at most one owner in a generation; in a consumer group nobody gets one that another has not
        given up, by its heartbeat, by leaving or by being fenced; members of a share group share them
    I2  generations and epochs only grow
    I6  who is not in the group never gets error 0 from Heartbeat, SyncGroup or a commit with a generation
    I7  the leader alone gets the member list, and a generation has one
    I8  a fenced id never succeeds again
    I9  every rebalance has exactly one cause
    I10 no timer fires for a member who is gone
    I11 an offset that is shown was once committed
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

_TOLD: Final = 20
_COME: Final = frozenset({"added", "replaced"})
_GENERATION_FIELDS: Final = {
    "Heartbeat": "generation_id",
    "SyncGroup": "generation_id",
    "OffsetCommit": "generation_id_or_member_epoch",
}


@dataclass
class _Group:
    """A group as its trace shows it so far. `gone` has the time each former member went, by member id."""

    generation: int = 0
    members: set[str] = field(default_factory=set)
    gone: dict[str, float] = field(default_factory=dict)
    fenced: dict[str, float] = field(default_factory=dict)
    leaders: dict[int, str] = field(default_factory=dict)
    committed: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    loaded: bool = False
    epochs: bool = False
    shares: bool = False
    """Whether it is a share group, in which a partition has several members."""
    held: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    """By member of a consumer group: what it may use, and what it is yet to give up."""


class Checker:
    """Takes events in their order; `violations` is what was found."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._groups: dict[str, _Group] = {}

    def take(self, event: dict[str, Any]) -> None:
        """Look at the next event."""
        look = getattr(self, f"_{event['event']}", None)
        if look is not None and event.get("group"):
            look(event, self._groups.setdefault(event["group"], _Group()))

    def _found(self, invariant: str, event: dict[str, Any], text: str) -> None:
        self.violations.append(f"{invariant} group {event['group']} at event {event['seq']}: {text}")

    def _group(self, event: dict[str, Any], group: _Group) -> None:
        if event["change"] in ("created", "deleted", "expired"):
            self._groups[event["group"]] = _Group(committed=group.committed)
        elif event["change"] == "loaded":
            self._groups[event["group"]] = _Group(loaded=True)

    def _state(self, event: dict[str, Any], group: _Group) -> None:
        if event["generation"] < group.generation:
            self._found("I2", event, f"generation {event['generation']} after {group.generation}")
        group.generation = event["generation"]
        if event["to"] == "PreparingRebalance" and not event["cause"]:
            self._found("I9", event, "a rebalance without a cause")

    def _round(self, event: dict[str, Any], group: _Group) -> None:
        if event["generation"] in group.leaders:
            self._found("I7", event, f"generation {event['generation']} was begun twice")
        group.leaders[event["generation"]] = event["leader"]
        if not event["cause"]:
            self._found("I9", event, "a round without a cause")

    def _member(self, event: dict[str, Any], group: _Group) -> None:
        member_id = event["member_id"]
        group.shares |= event.get("rule") == "share"
        if event["change"] in _COME:
            group.members.add(member_id)
            # Who is in a consumer group may come back with its id, a fenced one too.
            group.gone.pop(member_id, None)
            if event.get("rule") == "consumer":
                group.fenced.pop(member_id, None)
            return
        if event["change"] != "pending":
            group.held.pop(member_id, None)
            group.members.discard(member_id)
            group.gone[member_id] = event["mono"]
        if event["change"] == "fenced":
            group.fenced[member_id] = event["mono"]

    def _epoch(self, event: dict[str, Any], group: _Group) -> None:
        if event["generation"] < group.generation or (event["generation"] == group.generation and group.epochs):
            self._found("I2", event, f"epoch {event['generation']} after {group.generation}")
        group.generation, group.epochs = event["generation"], True
        if not event["cause"]:
            self._found("I9", event, "an epoch without a cause")

    def _target(self, event: dict[str, Any], group: _Group) -> None:
        group.shares |= event["assignor"] == "simple"

    def _reconciliation(self, event: dict[str, Any], group: _Group) -> None:
        if group.shares:
            return
        member_id = event["member_id"]
        assigned, revoking = (
            {(topic, number) for topic, numbers in event[name].items() for number in numbers}
            for name in ("assigned", "revoking")
        )
        for other, held in group.held.items():
            if other != member_id and (both := assigned & held):
                topic, number = min(both)
                self._found("I1", event, f"{topic}-{number} goes to {member_id}, while {other} has it")
        group.held[member_id] = assigned | revoking

    def _assignment(self, event: dict[str, Any], group: _Group) -> None:
        owners: dict[tuple[str, int], str] = {}
        for member_id, assigned in event["assignments"].items():
            for topic, partitions in assigned.items() if isinstance(assigned, dict) else ():
                for partition in partitions:
                    other = owners.setdefault((topic, partition), member_id)
                    if other != member_id:
                        self._found("I1", event, f"{topic}-{partition} has the owners {other} and {member_id}")

    def _timer(self, event: dict[str, Any], group: _Group) -> None:
        member_id = event["member_id"]
        if event["change"] == "fired" and event["kind"] == "session" and member_id in group.gone:
            self._found("I10", event, f"the session of {member_id} ended, which is gone")

    def _commit(self, event: dict[str, Any], group: _Group) -> None:
        if event["error"] == 0:
            for each in event["offsets"]:
                group.committed.setdefault((each["topic"], each["partition"]), set()).add(each["offset"])

    def _exchange(self, event: dict[str, Any], group: _Group) -> None:
        api, request, answer = event["api"], event["request"], event["answer"]
        listed = api == "JoinGroup" and event["error"] == 0 and bool(answer["members"])
        if listed and answer["leader"] != answer["member_id"]:
            self._found("I7", event, f"{answer['member_id']} got the member list, {answer['leader']} leads")
        if api in _GENERATION_FIELDS and event["error"] == 0 and request.get(_GENERATION_FIELDS[api], -1) >= 0:
            self._accepted(event, group, request["member_id"])
        if api == "OffsetFetch":
            self._shown(event, group)

    def _accepted(self, event: dict[str, Any], group: _Group, member_id: str) -> None:
        fenced = group.fenced.get(member_id)
        if fenced is not None and fenced < event["arrived"]:
            self._found("I8", event, f"{event['api']} of {member_id}, fenced before, was accepted")
        elif member_id not in group.members and not group.loaded:
            went = group.gone.get(member_id)
            idle = event["api"] == "OffsetCommit" and 0 not in _partition_errors(event["answer"])
            if (went is None or went < event["arrived"]) and not idle:
                self._found("I6", event, f"{event['api']} of {member_id}, no member, was accepted")

    def _shown(self, event: dict[str, Any], group: _Group) -> None:
        for answer in event["answer"].get("groups") or [{"group_id": event["group"], **event["answer"]}]:
            if answer.get("group_id") != event["group"] or group.loaded:
                continue
            for topic in answer.get("topics") or []:
                for each in topic.get("partitions") or []:
                    offset = each["committed_offset"]
                    commits = group.committed.get((topic.get("name", ""), each["partition_index"]), set())
                    if offset >= 0 and topic.get("name") and commits and offset not in commits:
                        self._found("I11", event, f"{topic['name']}-{each['partition_index']} shows {offset}")


def _partition_errors(answer: dict[str, Any]) -> Iterator[int]:
    for topic in answer.get("topics") or []:
        partitions = topic["partitions"]
        if isinstance(partitions, dict):
            yield from partitions["error_code"]
        else:
            # A trace of version 1.
            yield from (each["error_code"] for each in partitions)


def check(events: Iterable[dict[str, Any]]) -> list[str]:
    """The violations among events."""
    checker = Checker()
    for event in events:
        checker.take(event)
    return checker.violations


def check_trace(path: Path) -> list[str]:
    """The violations in a trace: the file, and before it those of its run that it has grown out of."""

    def number(file: Path) -> float:
        suffix = file.name.removeprefix(f"{path.name}.")
        return int(suffix) if suffix.isdigit() else float("inf")

    def events() -> Iterator[dict[str, Any]]:
        for file in sorted(path.parent.glob(f"{path.name}*"), key=number):
            with open(file) as lines:
                for line in lines:
                    if line.endswith("\n"):
                        yield json.loads(line)

    return check(events())


def tell_violations(console: Console, violations: list[str]) -> None:
    """Print the first of them."""
    for violation in violations[:_TOLD]:
        console.print(f"[red]violated[/] {escape(violation)}", soft_wrap=True)
