"""The invariants of docs/conformance.md, checked on the trace of a run, for all cases.

Reads the schema of `docs/trace.md`. A trace cannot show I3, I4 and I5 (deadlines, durability, replay), so they are
not checked. Each violation is one line of text that begins with its invariant.

    I1  a partition has at most one owner in a generation; in a consumer group a member gets a partition only after
        its owner gave it up, by a heartbeat, by leaving or by being fenced; members of a share group share them
    I2  generations and epochs only grow
    I6  a client that is not a member never gets error 0 from Heartbeat, SyncGroup or a commit with a generation
    I7  only the leader gets the member list, and a generation has one leader
    I8  a fenced id never succeeds again
    I9  every rebalance has exactly one cause
    I10 no timer fires for a former member
    I11 a fetched offset was committed before
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from kafka_shim.trace.epochs import partitions_of
from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.members import Member
from kafka_shim.trace.moves import Partition
from kafka_shim.trace.reading import read

_PRINTED_VIOLATIONS: Final = 20
_GENERATION_FIELDS: Final = {
    "Heartbeat": "generation_id",
    "SyncGroup": "generation_id",
    "OffsetCommit": "generation_id_or_member_epoch",
}


class _Group(GroupHistory):
    """A group as its trace shows it so far, with facts that only the invariants need. Times are monotonic."""

    def __init__(self, group: str, *, was_loaded: bool = False) -> None:
        super().__init__(group)
        self.was_loaded = was_loaded
        """True if it has a past that the trace does not show."""
        self.shares = False
        """True for a share group: several members share a partition."""
        self.highest = 0
        """The newest generation or epoch."""
        self.begun: set[int] = set()
        """Generations with a round."""
        self.committed: dict[Partition, set[int]] = {}


class Checker:
    """Checks events in their order, and collects the `violations`."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._groups: dict[str, _Group] = {}

    def take(self, event: dict[str, Any]) -> None:
        """Check the next event, and add it to the history of its group."""
        name = event.get("group")
        if not name:
            return
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group(name)
        look = getattr(self, f"_{event['event']}", None)
        if look is not None:
            look(event, group)
        # The clock on the wall may jump.
        self._groups[name].add({**event, "wall": event["mono"]})

    def _violation(self, invariant: str, event: dict[str, Any], text: str) -> None:
        self.violations.append(f"{invariant} group {event['group']} at event {event['seq']}: {text}")

    def _group(self, event: dict[str, Any], group: _Group) -> None:
        if event["change"] in ("created", "deleted", "expired", "loaded"):
            new = self._groups[group.group] = _Group(group.group, was_loaded=event["change"] == "loaded")
            if not new.was_loaded:
                new.committed = group.committed

    def _state(self, event: dict[str, Any], group: _Group) -> None:
        if event["generation"] < group.highest:
            self._violation("I2", event, f"generation {event['generation']} after {group.highest}")
        group.highest = event["generation"]
        if event["to"] == "PreparingRebalance" and not event["cause"]:
            self._violation("I9", event, "a rebalance without a cause")

    def _round(self, event: dict[str, Any], group: _Group) -> None:
        if event["generation"] in group.begun:
            self._violation("I7", event, f"generation {event['generation']} was begun twice")
        group.begun.add(event["generation"])
        if not event["cause"]:
            self._violation("I9", event, "a round without a cause")

    def _epoch(self, event: dict[str, Any], group: _Group) -> None:
        before = group.highest
        if event["generation"] < before or (event["generation"] == before and group.epochs is not None):
            self._violation("I2", event, f"epoch {event['generation']} after {before}")
        group.highest = event["generation"]
        if not event["cause"]:
            self._violation("I9", event, "an epoch without a cause")

    def _member(self, event: dict[str, Any], group: _Group) -> None:
        group.shares |= event.get("rule") == "share"

    def _target(self, event: dict[str, Any], group: _Group) -> None:
        group.shares |= event["assignor"] == "simple"

    def _reconciliation(self, event: dict[str, Any], group: _Group) -> None:
        if group.shares or group.epochs is None:
            return
        assigned = partitions_of(event["assigned"])
        for other, owned in group.epochs.current.items():
            if other != event["member_id"] and (both := assigned & (owned.assigned | owned.revoking)):
                topic, number = min(both)
                self._violation("I1", event, f"{topic}-{number} goes to {event['member_id']}, while {other} has it")

    def _assignment(self, event: dict[str, Any], group: _Group) -> None:
        owners: dict[tuple[str, int], str] = {}
        for member_id, assigned in event["assignments"].items():
            for topic, partitions in assigned.items() if isinstance(assigned, dict) else ():
                for partition in partitions:
                    other = owners.setdefault((topic, partition), member_id)
                    if other != member_id:
                        self._violation("I1", event, f"{topic}-{partition} has the owners {other} and {member_id}")

    def _timer(self, event: dict[str, Any], group: _Group) -> None:
        member = group.members.get(event["member_id"])
        is_former = member is not None and member.ended is not None
        if event["change"] == "fired" and event["kind"] == "session" and is_former:
            self._violation("I10", event, f"the session of {event['member_id']} ended, but it is not a member")

    def _commit(self, event: dict[str, Any], group: _Group) -> None:
        if event["error"] == 0:
            for each in event["offsets"]:
                group.committed.setdefault((each["topic"], each["partition"]), set()).add(each["offset"])

    def _exchange(self, event: dict[str, Any], group: _Group) -> None:
        api, request, answer = event["api"], event["request"], event["answer"]
        listed = api == "JoinGroup" and event["error"] == 0 and bool(answer["members"])
        if listed and answer["leader"] != answer["member_id"]:
            self._violation("I7", event, f"{answer['member_id']} got the member list, {answer['leader']} leads")
        if api in _GENERATION_FIELDS and event["error"] == 0 and request.get(_GENERATION_FIELDS[api], -1) >= 0:
            self._accepted(event, group, request["member_id"])
        if api == "OffsetFetch":
            self._fetched(event, group)

    def _accepted(self, event: dict[str, Any], group: _Group, member_id: str) -> None:
        # A round lists its members too, but no member is in the group before its own event says so.
        member = group.members.get(member_id, Member(member_id))
        is_member = member.joined is not None and member.ended is None
        is_late = member.ended is not None and member.ended >= event["arrived"]
        if is_member or is_late:
            return
        if member.how == "fenced":
            self._violation("I8", event, f"{event['api']} of {member_id}, fenced before, was accepted")
        elif not group.was_loaded and (event["api"] != "OffsetCommit" or 0 in _partition_errors(event["answer"])):
            self._violation("I6", event, f"{event['api']} of {member_id}, no member, was accepted")

    def _fetched(self, event: dict[str, Any], group: _Group) -> None:
        for answer in event["answer"].get("groups") or [{"group_id": event["group"], **event["answer"]}]:
            if answer.get("group_id") != event["group"] or group.was_loaded:
                continue
            for topic in answer.get("topics") or []:
                for each in topic.get("partitions") or []:
                    offset = each["committed_offset"]
                    commits = group.committed.get((topic.get("name", ""), each["partition_index"]), set())
                    if offset >= 0 and topic.get("name") and commits and offset not in commits:
                        self._violation("I11", event, f"{topic['name']}-{each['partition_index']} shows {offset}")


def _partition_errors(answer: dict[str, Any]) -> Iterator[int]:
    for topic in answer.get("topics") or []:
        partitions = topic["partitions"]
        if isinstance(partitions, dict):
            yield from partitions["error_code"]
        else:
            # A trace of version 1.
            yield from (each["error_code"] for each in partitions)


def check(events: Iterable[dict[str, Any]]) -> list[str]:
    """Return the violations among events."""
    checker = Checker()
    for event in events:
        checker.take(event)
    return checker.violations


def check_trace(path: Path) -> list[str]:
    """Return the violations in a trace; none if a server ended before it wrote one. Raises UnreadableTrace."""
    return check(read([path])) if path.exists() else []


def print_violations(console: Console, violations: list[str]) -> None:
    """Print the first violations."""
    for violation in violations[:_PRINTED_VIOLATIONS]:
        console.print(f"[red]violated[/] {escape(violation)}", soft_wrap=True)
