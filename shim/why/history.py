"""What happened to groups, gathered from the events of a trace.

Decides which events belong to one rebalance, and what is remembered of members. How a rebalance is judged is in
`rebalance.py`. It takes events in order, from a file or as they happen; the schema is `docs/trace.md`.

All times are seconds of Unix time, so that traces of several brokers can be told together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.causes import Cause
from kafka_shim.why.epochs import Epochs
from kafka_shim.why.moves import Partition, compare, owners_of
from kafka_shim.why.rebalance import Join, Rebalance

REBALANCES: Final = 10_000
"""Rebalances remembered of a group; the oldest go first."""
COMMITS: Final = 1_000
"""Commits remembered of a member."""
_JOINED: Final = frozenset({"added", "replaced"})
_GONE: Final = frozenset({"left", "expired", "removed", "fenced"})


@dataclass(slots=True)
class Commit:
    """`records` were committed at `at`, as far as the offsets of the commit before tell."""

    at: float
    records: int


class Life(NamedTuple):
    """From when a member joined until it was gone, None if it is there; `how` and `reason` are those of `Member`."""

    member_id: str
    joined: float
    gone: float | None
    how: str
    reason: str


@dataclass(slots=True)
class Member:
    """What is known of a member. Timeouts are milliseconds, None if no JoinGroup of it was seen."""

    member_id: str
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    joined: float | None = None
    gone: float | None = None
    how: str = ""
    """How it went: left, expired, removed or fenced."""
    reason: str = ""
    """What its LeaveGroup said."""
    commits: deque[Commit] = field(default_factory=lambda: deque(maxlen=COMMITS))
    refused: int = 0
    """Commits that were refused."""
    earlier: list[Life] = field(default_factory=list)
    """Its lives before this one: a consumer of KIP-848 that was fenced comes back under its member id."""

    @property
    def lives(self) -> list[Life]:
        """All its lives of which the beginning is known."""
        if self.joined is None:
            return self.earlier
        return [*self.earlier, Life(self.member_id, self.joined, self.gone, self.how, self.reason)]

    @property
    def batch(self) -> tuple[float, float] | None:
        """Records and seconds between two of its commits, medians; None where too few are known."""
        commits = list(self.commits)
        gaps = [(b.records, b.at - a.at) for a, b in pairwise(commits) if b.records]
        if len(gaps) < 3:
            return None
        middle = len(gaps) // 2
        return sorted(records for records, _ in gaps)[middle], sorted(seconds for _, seconds in gaps)[middle]


class GroupHistory:
    """One group: its rebalances, oldest first, its members, and who owns what now."""

    def __init__(self, group: str) -> None:
        self.group: str = group
        self.state = ""
        self.generation: int | None = None
        self.protocol = ""
        self.rebalances: deque[Rebalance] = deque(maxlen=REBALANCES)
        self.members: dict[str, Member] = {}
        self.present: dict[str, None] = {}
        """Ids of the members it has now."""
        self.owners: dict[Partition, str] = {}
        self.revoked: dict[Partition, tuple[str, float]] = {}
        """Partitions that nobody owns: who gave each up, and when."""
        self.first = self.last = 0.0
        self.current: Rebalance | None = None
        """The newest rebalance."""
        self.epochs: Epochs | None = None
        """What only a consumer group (KIP-848) has; None for a classic one."""
        self.heartbeat_interval_ms: int | None = None
        """What a consumer group was last told to keep to; None if no such answer was seen."""
        self.sessions: dict[str, float] = {}
        """Seconds that each member may be silent, by its id, where timers are in the trace."""
        self._generation_members: tuple[str, ...] = ()
        self._offsets: dict[Partition, int] = {}
        self._reasons: dict[str, str] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Take the next event of this group."""
        if event["event"] == "timer":
            self._timer(event)
            return
        at = float(event["wall"])
        self.first = self.first or at
        self.last = at
        take = getattr(self, f"_{event['event']}", None)
        if take is not None:
            take(event, at, at - float(event["mono"]))
        if self.current is not None:
            self.current.last_seq = event.get("seq", 0)

    def member(self, member_id: str) -> Member:
        """What is known of a member; nothing yet if it is new."""
        found = self.members.get(member_id)
        if found is None:
            found = self.members[member_id] = Member(member_id)
        return found

    @property
    def kind(self) -> str:
        """The kind of group, as far as the trace tells it."""
        return "classic" if self.epochs is None else self.epochs.kind

    # Rebalances

    def begin(self, rebalance: Rebalance) -> None:
        """A rebalance began."""
        self.current = rebalance
        self.rebalances.append(rebalance)

    def _begin(self, event: Mapping[str, Any], started: float, *, initial: bool) -> Rebalance:
        before = self.current
        if before is not None and before.assigned is None:
            before.superseded = started
        rebalance = Rebalance(
            group=self.group,
            cause=event["cause"] or "",
            trigger=event["trigger"],
            started=started,
            wall=started,
            first_seq=event.get("seq", 0),
            last_seq=event.get("seq", 0),
            initial=initial,
            inferred=bool(event.get("inferred")),
            generation_before=self.generation,
        )
        trigger = self.members.get(rebalance.trigger)
        if rebalance.cause == Cause.SESSION_EXPIRED and trigger is not None:
            rebalance.silent = (trigger.session_timeout_ms or 0) / 1000
        self.begin(rebalance)
        return rebalance

    def _state(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        self.state = event["to"]
        if event["to"] == "PreparingRebalance":
            self._begin(event, at, initial=event["from"] == "Empty")
        elif self.epochs is not None:
            self.epochs.state(event, at)
        elif event["to"] == "Empty" and self.current is not None and self.current.generation is None:
            # Nobody is left who could join.
            self.current.generation, self.current.ended = event["generation"], at

    def _of_epochs(self) -> Epochs:
        if self.epochs is None:
            self.epochs = Epochs(self)
        return self.epochs

    def _epoch(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        self._of_epochs().epoch(event, at)

    def _target(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        self._of_epochs().target(event, at)

    def _reconciliation(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        self._of_epochs().reconciliation(event, at)

    def _round(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        current = self.current
        started = event["started"] + shift
        if current is None or current.ended is not None:
            # A relay writes no `state` event: the round is the first that is known of the rebalance.
            current = self._begin(event, started, initial=bool(event.get("inferred")) and not self._generation_members)
        current.ended = event["ended"] + shift
        self.generation = current.generation = event["generation"]
        current.leader = event["leader"]
        self.protocol = current.protocol = event["protocol"] or ""
        current.eager = "cooperative" not in self.protocol
        current.members = self._generation_members = tuple(event["members"])
        current.dropped = tuple(event["dropped"])
        current.joins = [
            Join(each["member_id"], each["ms"] / 1000, current.called.get(each["member_id"]))
            for each in event["waited_for"]
        ]
        self.present = dict.fromkeys(event["members"])
        if not current.members:
            self.owners, self.revoked = {}, {}

    def _assignment(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        after = owners_of(event["assignments"])
        current = self.current
        if current is not None and current.generation == event["generation"]:
            current.assigned = at
            before = {partition: member for partition, (member, _) in self.revoked.items()} | self.owners
            current.owned_before, current.owned_after = before, after
            current.stopped = {partition: since for partition, (_, since) in self.revoked.items()}
            # What nobody owns yet moves with the follow-up.
            if current.eager or before.keys() <= after.keys():
                current.moved = compare(before, after, current.members)
        for partition, member in self.owners.items():
            if partition not in after:
                self.revoked[partition] = (member, at)
        for partition in after:
            self.revoked.pop(partition, None)
        self.owners = after

    # Members

    def _member(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        member = self.member(event["member_id"])
        member.client_id = event["client_id"] or member.client_id
        member.client_host = event["client_host"] or member.client_host
        member.instance_id = event["instance_id"]
        change = event["change"]
        if change in _JOINED:
            if member.gone is not None:
                member.earlier = member.lives
                member.gone, member.how, member.reason = None, "", ""
            member.joined = at
            self.present[member.member_id] = None
            if self.epochs is not None:
                self.epochs.took_place(member.member_id, member.instance_id)
        elif change in _GONE:
            member.gone, member.how = at, change
            member.reason = self._reasons.pop(member.member_id, member.reason)
            self.present.pop(member.member_id, None)
            if self.epochs is not None:
                self.epochs.gone(member.member_id, member.instance_id, change, at)

    def _timer(self, event: Mapping[str, Any]) -> None:
        """The first timer of a session is armed for as long as the session is."""
        if _is_session(event):
            self.sessions.setdefault(event["member_id"], event["deadline"] - event["mono"])

    # Requests

    def _fault(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        if self.current is not None:
            self.current.faults.append(f"{event['action']} of {event['api']}")

    def _exchange(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        api, error, member_id = event["api"], event["error"], event["member"] or ""
        current = self.current
        if api == "JoinGroup":
            self._joined(event, shift)
        elif api == "SyncGroup":
            generation = event["request"]["generation_id"]
            # A member that syncs again, or came after the round, delayed nobody.
            if not error and current is not None and generation == current.generation and member_id in current.members:
                current.resumed.setdefault(member_id, at)
                current.synced = max(current.resumed.values())
        elif api == "Heartbeat":
            if error == ErrorCode.REBALANCE_IN_PROGRESS and current is not None:
                current.called.setdefault(member_id, max(0.0, event["arrived"] + shift - current.started))
        elif api == "ConsumerGroupHeartbeat":
            if member_id and event["request"]["rebalance_timeout_ms"] >= 0:
                self.member(member_id).rebalance_timeout_ms = event["request"]["rebalance_timeout_ms"]
            if not error:
                self.heartbeat_interval_ms = event["answer"]["heartbeat_interval_ms"]
        elif api == "LeaveGroup":
            for leaver in event["request"]["members"] or ():
                self._left(leaver["member_id"], leaver.get("reason") or "")
        elif api == "OffsetCommit" and error and member_id:
            self.member(member_id).refused += 1

    def _joined(self, event: Mapping[str, Any], shift: float) -> None:
        request, member_id = event["request"], event["member"] or ""
        if not member_id:
            return
        member = self.member(member_id)
        member.client_id = member.client_id or event["client_id"]
        member.session_timeout_ms = request["session_timeout_ms"]
        timeout = request["rebalance_timeout_ms"]
        member.rebalance_timeout_ms = timeout if timeout >= 0 else request["session_timeout_ms"]
        current = self.current
        if not event["error"] and current is not None and event["answer"]["generation_id"] == current.generation:
            current.arrived[member_id] = event["arrived"] + shift

    def _left(self, member_id: str, reason: str) -> None:
        member = self.members.get(member_id)
        if member is not None and member.gone is not None:
            member.reason = reason
        elif reason:
            self._reasons[member_id] = reason

    def _commit(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        records = 0
        for each in event["offsets"]:
            partition = (each["topic"], each["partition"])
            before = self._offsets.get(partition)
            self._offsets[partition] = each["offset"]
            if before is not None:
                records += max(0, each["offset"] - before)
        if event["member_id"] and not event["error"]:
            self.member(event["member_id"]).commits.append(Commit(at, records))

    def _group(self, event: Mapping[str, Any], at: float, shift: float) -> None:
        self.state = event["state"]
        self.generation = event["generation"]
        if event["change"] in ("deleted", "expired"):
            # What comes after it may be a group of another kind.
            self.epochs = None


class History:
    """All groups of a trace, by name."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupHistory] = {}
        self.first = self.last = 0.0
        """Wall-clock time of the first and the last event."""

    def add(self, event: Mapping[str, Any]) -> None:
        """Take the next event."""
        wall = float(event.get("wall", 0.0))
        self.first = self.first or wall
        self.last = wall
        if event["event"] == "trace":
            return
        group = event.get("group")
        if group and event["event"] != "parked" and (event["event"] != "timer" or _is_session(event)):
            history = self.groups.get(group)
            if history is None:
                history = self.groups[group] = GroupHistory(group)
            history.add(event)


def _is_session(event: Mapping[str, Any]) -> bool:
    return bool(event["kind"] == "session" and event["change"] == "armed")
