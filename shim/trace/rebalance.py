"""`Rebalance`: one rebalance of a classic group: its phases, its slowest member, and its cost.

Its time divides into disjoint phases, each attributed to the members it waited for. Waiting is no member's fault: the
initial delay (`group.initial.rebalance.delay.ms`) is the broker's, and the leader is judged by its own time alone.

Times are seconds on the coordinator's clock. Source: the terms of `docs/trace.md`; semantics 2.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafka_shim.trace.moves import Moved, Partition

INITIAL_DELAY: Final = "initial delay"
WAITING_FOR_MEMBERS: Final = "waiting for members"
NEVER_CAME: Final = "waiting in vain"
LEADER_THINKS: Final = "leader thinks"
WAITING_FOR_SYNCS: Final = "waiting for syncs"

OF_TOPIC: Final = "__consumer_offsets-"
"""The begin of a `where` that is a record, not a line of a log."""
_SLOW_SECONDS: Final = 0.2
_SLOW_TIMES: Final = 3.0
_LONG_SECONDS: Final = 1.0
HEARTBEAT_SECONDS: Final = 3.0
"""Default `heartbeat.interval.ms` of Kafka's clients, in seconds."""


class Phase(NamedTuple):
    """A part of a rebalance; `members` are those it waited for, perhaps none."""

    name: str
    seconds: float
    members: tuple[str, ...] = ()


class Join(NamedTuple):
    """`member_id` joined `seconds` after the start; `called` is the time at which it learned of the rebalance, None if
    unknown.
    """

    member_id: str
    seconds: float
    called: float | None = None


@dataclass(slots=True)
class Rebalance:
    """One rebalance, from its cause until all members have their assignments.

    `ended` is the time of the answers to JoinGroup, `assigned` of the leader's assignments, `synced` of the last
    member's assignment; None if it did not happen. `eager`: members revoked all partitions to join.
    """

    group: str
    cause: str
    trigger: str
    started: float
    wall: float
    first_seq: int
    last_seq: int
    initial: bool = False
    eager: bool = True
    inferred: bool = False
    silent: float = 0.0
    """Seconds of silence, before the start, of the member that triggered it."""
    generation_before: int | None = None
    generation: int | None = None
    ended: float | None = None
    assigned: float | None = None
    synced: float | None = None
    leader: str = ""
    protocol: str = ""
    members: tuple[str, ...] = ()
    joins: list[Join] = field(default_factory=list)
    called: dict[str, float] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    arrived: dict[str, float] = field(default_factory=dict)
    """Arrival of each member's JoinGroup, by member id."""
    resumed: dict[str, float] = field(default_factory=dict)
    """Time at which each member had its assignment."""
    subscriptions: dict[str, list[str]] = field(default_factory=dict)
    """The topics that each member subscribes to; empty if all subscribe to the same."""
    owned_before: dict[Partition, str] = field(default_factory=dict)
    owned_after: dict[Partition, str] = field(default_factory=dict)
    stopped: dict[Partition, float] = field(default_factory=dict)
    """Start of the time without an owner, of partitions revoked before the rebalance."""
    moved: Moved | None = None
    """None while revoked partitions have no owner yet: they move with the follow-up."""
    faults: list[str] = field(default_factory=list)
    """Faults injected during it."""
    superseded: float | None = None
    """Start of the next rebalance, if this one had not ended."""
    by_test: bool = False
    """True if a test ended the session of the member that triggered it."""
    lines: tuple[str, ...] = ()
    """Of a rebalance from a log, the first and the last line about it, or the record of `__consumer_offsets`."""
    size: int | None = None
    """Number of members, if a log has it; `members` may lack some."""

    def end_round(self, event: Mapping[str, Any], shift: float) -> None:
        """Take a `round` event; `shift` is the difference of its clock to Unix time."""
        self.ended = event["ended"] + shift
        self.generation = event["generation"]
        self.leader = event["leader"]
        self.protocol = event["protocol"] or ""
        self.eager = "cooperative" not in self.protocol
        self.members = tuple(event["members"])
        self.size = event.get("size")
        self.dropped = tuple(event["dropped"])
        self.joins = [
            Join(each["member_id"], each["ms"] / 1000, self.called.get(each["member_id"]))
            for each in event["waited_for"]
        ]

    @property
    def is_of_topic(self) -> bool:
        """True if it was concluded from records of `__consumer_offsets`: it has its assignments."""
        return bool(self.lines) and self.lines[0].startswith(OF_TOPIC)

    @property
    def is_snapshot(self) -> bool:
        """True if its beginning does not show: the record of a classic group comes at the end."""
        return self.is_of_topic

    @property
    def lacks_standstill(self) -> bool:
        """True if it does not show how long partitions stood still: its source has no assignments, or no beginning."""
        return bool(self.lines) and (self.is_snapshot or not self.is_of_topic)

    @property
    def has_revoked(self) -> bool:
        """True if members gave up partitions that the next rebalance assigns, as with a cooperative protocol."""
        return self.assigned is not None and self.moved is None and bool(self.members)

    @property
    def over(self) -> float | None:
        """The time at which it ended for the last member, or the next one began; None while it lasts."""
        if self.assigned is not None:
            return max(self.assigned, self.synced or 0.0)
        if self.ended is not None and not self.members:
            # The group is Empty until the next one begins.
            return self.ended
        return self.superseded

    @property
    def seconds(self) -> float:
        """Its duration, or the duration so far."""
        over = self.over
        last = over if over is not None else max(self.started, self.ended or 0.0)
        return max(0.0, last - self.started)

    @property
    def phases(self) -> list[Phase]:
        """Its phases; their durations add up to `seconds`."""
        over = self.started + self.seconds
        ended = min(self.ended if self.ended is not None else over, over)
        assigned = min(self.assigned if self.assigned is not None else over, over)
        phases = self._joining(ended)
        phases.append(Phase(LEADER_THINKS, max(0.0, assigned - ended), (self.leader,) if self.leader else ()))
        late = max(self.resumed, key=lambda member: self.resumed[member], default=None)
        phases.append(Phase(WAITING_FOR_SYNCS, max(0.0, over - assigned), () if late is None else (late,)))
        return [phase for phase in phases if phase.seconds > 0.0]

    def _joining(self, ended: float) -> list[Phase]:
        whole = max(0.0, ended - self.started)
        if self.initial:
            return [Phase(INITIAL_DELAY, whole)]
        last = self.joins[0].seconds if self.joins else 0.0
        waited = min(last, whole)
        # After the last member joined, it waited only for those that never did.
        if self.dropped and whole - waited > _SLOW_SECONDS:
            return [Phase(WAITING_FOR_MEMBERS, waited, self._last()), Phase(NEVER_CAME, whole - waited, self.dropped)]
        return [Phase(WAITING_FOR_MEMBERS, whole, self._last())]

    def _last(self) -> tuple[str, ...]:
        return (self.joins[0].member_id,) if self.joins else ()

    @property
    def slow(self) -> Join | None:
        """The member that joined last, if the others waited long for it. It cannot know of the rebalance before its
        next heartbeat: one default heartbeat interval is not counted.
        """
        if self.initial or len(self.joins) < 2:
            return None
        last, next_ = self.joins[0], self.joins[1]
        own = last.seconds - min(last.called or 0.0, HEARTBEAT_SECONDS)
        if own > _SLOW_SECONDS and last.seconds > _SLOW_TIMES * next_.seconds:
            return last
        # Late heartbeats of the others hide a member that takes its time after its own.
        begin = HEARTBEAT_SECONDS if last.called is None else last.called
        return last if last.seconds - max(begin, next_.seconds) > _LONG_SECONDS else None

    @property
    def member_seconds(self) -> float | None:
        """Sum of the seconds of members without a valid assignment: from their JoinGroup to their assignment. None if
        no JoinGroup was seen.
        """
        if not self.arrived and self.members:
            return None
        return sum(
            max(0.0, resumed - self.arrived[member])
            for member, resumed in self.resumed.items()
            if member in self.arrived
        )

    @property
    def partition_seconds(self) -> float:
        """Sum of the seconds of partitions without consumption.

        A partition of a remaining member stops at its JoinGroup, if the protocol is eager or the partition moved; one
        of a lost member stops at the start of the rebalance, or at the member's last request.
        """
        total = 0.0
        for partition, member in self.owned_after.items():
            resumed = self.resumed.get(member, self.assigned)
            before = self.owned_before.get(partition)
            if resumed is None or before is None or (before == member and not self.eager):
                continue
            stopped = self.stopped.get(partition)
            if stopped is None:
                lost_at = self.started - (self.silent if before == self.trigger else 0.0)
                stopped = self.arrived.get(before, self.started) if before in self.members else lost_at
            total += max(0.0, resumed - stopped)
        return total
