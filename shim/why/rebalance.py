"""One rebalance, as it shows in a trace: its phases, who was slow, and what it cost.

Decides how the time of a rebalance divides into phases, which are disjoint and add up to it, and whom each is put down
to. Nobody is blamed for waiting: the initial delay (`group.initial.rebalance.delay.ms`) is the broker's, and the leader
is judged by its own time alone. It does not know events; `history.py` does.

Times are seconds on the coordinator's clock. Source: the terms of `docs/trace.md`; semantics 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka_shim.why.moves import Moved, Partition

INITIAL_DELAY: Final = "initial delay"
WAITING_FOR_MEMBERS: Final = "waiting for members"
NEVER_CAME: Final = "waiting in vain"
LEADER_THINKS: Final = "leader thinks"
WAITING_FOR_SYNCS: Final = "waiting for syncs"

_SLOW_SECONDS: Final = 0.2
_SLOW_TIMES: Final = 3.0
HEARTBEAT_SECONDS: Final = 3.0
"""`heartbeat.interval.ms` of Kafka's clients unless they are told otherwise."""


class Phase(NamedTuple):
    """A part of a rebalance; `members` are whom it waited for, empty if for nobody."""

    name: str
    seconds: float
    members: tuple[str, ...] = ()


class Join(NamedTuple):
    """`member_id` joined `seconds` after the start; `called` is when it learned of the rebalance, None if unknown."""

    member_id: str
    seconds: float
    called: float | None = None


@dataclass(slots=True)
class Rebalance:
    """From the moment a group had to rebalance until its members had their assignments.

    `ended` is when the JoinGroups were answered, `assigned` when the leader's assignments arrived, `synced` when the
    last member had its own; None for what did not happen. `eager`: members gave up everything to join.
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
    """For how many seconds before the start the member that brought it about had given no sign of life."""
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
    """When each member's JoinGroup arrived, by member id."""
    resumed: dict[str, float] = field(default_factory=dict)
    """When each member had its assignment."""
    owned_before: dict[Partition, str] = field(default_factory=dict)
    owned_after: dict[Partition, str] = field(default_factory=dict)
    stopped: dict[Partition, float] = field(default_factory=dict)
    """Since when nobody has owned a partition that was given up before the rebalance."""
    moved: Moved | None = None
    """None while partitions that somebody gave up have no owner yet: they move with the follow-up."""
    faults: list[str] = field(default_factory=list)
    """What a fault injected during it."""
    superseded: float | None = None
    """When the next rebalance began, if this one was not over."""

    @property
    def over(self) -> float | None:
        """When it was over for the last member, or given up for the next; None while it goes on."""
        if self.assigned is not None:
            return max(self.assigned, self.synced or 0.0)
        return self.superseded if self.superseded is not None else (self.ended if not self.members else None)

    @property
    def seconds(self) -> float:
        """How long it took, as far as it went."""
        over = self.over
        last = over if over is not None else max(self.started, self.ended or 0.0)
        return max(0.0, last - self.started)

    @property
    def phases(self) -> list[Phase]:
        """Its time, divided; the parts add up to `seconds`."""
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
        # After the last that came, only those were waited for that never did.
        if self.dropped and whole - waited > _SLOW_SECONDS:
            return [Phase(WAITING_FOR_MEMBERS, waited, self._last()), Phase(NEVER_CAME, whole - waited, self.dropped)]
        return [Phase(WAITING_FOR_MEMBERS, whole, self._last())]

    def _last(self) -> tuple[str, ...]:
        return (self.joins[0].member_id,) if self.joins else ()

    @property
    def slow(self) -> Join | None:
        """The member that joined last, if it kept the others waiting for long. Until its next heartbeat it cannot know
        that it is to join: an interval as clients have it by default is not its fault."""
        if self.initial or len(self.joins) < 2:
            return None
        last, next_ = self.joins[0], self.joins[1]
        own = last.seconds - min(last.called or 0.0, HEARTBEAT_SECONDS)
        if own > _SLOW_SECONDS and last.seconds > _SLOW_TIMES * next_.seconds:
            return last
        return None

    @property
    def member_seconds(self) -> float:
        """Seconds that members had no valid assignment, added up: from their JoinGroup to their assignment."""
        return sum(
            max(0.0, resumed - self.arrived[member])
            for member, resumed in self.resumed.items()
            if member in self.arrived
        )

    @property
    def partition_seconds(self) -> float:
        """Seconds that partitions stood still, added up.

        A partition of a member that stayed stands still from its JoinGroup on, if the protocol is eager or it moved;
        one of a member that went, from the start of the rebalance on, or from its last sign of life.
        """
        total = 0.0
        for partition, member in self.owned_after.items():
            resumed = self.resumed.get(member, self.assigned)
            before = self.owned_before.get(partition)
            if resumed is None or before is None or (before == member and not self.eager):
                continue
            stopped = self.stopped.get(partition)
            if stopped is None:
                gone = self.started - (self.silent if before == self.trigger else 0.0)
                stopped = self.arrived.get(before, self.started) if before in self.members else gone
            total += max(0.0, resumed - stopped)
        return total
