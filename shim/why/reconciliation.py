"""One rebalance of a consumer group (KIP-848): from a new group epoch until every member is stable at it.

Decides how its time divides into phases and whom each is put down to, as `rebalance.py` does for a classic group. Here
nobody stops to join: a member that has to give up partitions learns of it by a heartbeat, and whoever is to have them
gets them by a heartbeat after that. It does not know events; `history.py` does.

Times are seconds of Unix time. Source: KIP-848; semantics 4.5, 4.6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka_shim.why.moves import Partition
from kafka_shim.why.rebalance import Join, Phase, Rebalance

NOT_ASSIGNED: Final = "waiting for any heartbeat"
REVOKING: Final = "waiting for revocation"
HANDING_OVER: Final = "waiting for heartbeats"

_SLOW_SECONDS: Final = 0.2
AWAY: Final = -2
"""The member epoch of a static member that is away."""


class Wait(NamedTuple):
    """`member_id` could not have all of its target assignment, since `holder` still had some of it."""

    member_id: str
    holder: str


@dataclass(slots=True)
class Current:
    """What a member has: `assigned` it may use, `revoking` it is to give up first. `state` is as in the trace."""

    epoch: int = 0
    state: str = ""
    assigned: frozenset[Partition] = frozenset()
    revoking: frozenset[Partition] = frozenset()
    waits_for: tuple[str, ...] = ()
    since: float = 0.0
    """When it last changed."""


@dataclass(slots=True)
class Reconciliation(Rebalance):
    """`targeted` is when the target assignment was computed, `assigned` when the last member was stable at the epoch.
    `eager` is False: no member gives up what it keeps."""

    targeted: float | None = None
    revocation_sent: dict[str, float] = field(default_factory=dict)
    """When each member was told to give up partitions, by its id."""
    released: dict[str, float] = field(default_factory=dict)
    """When each had given them up, left or was fenced."""
    settled: dict[str, float] = field(default_factory=dict)
    """When each was stable at the epoch."""
    waits: dict[Wait, float] = field(default_factory=dict)
    """Since when each wait was known."""
    holding: tuple[str, ...] = ()
    """Who had not given up its partitions when the next epoch began."""
    stood_still: float = 0.0

    @property
    def last_release(self) -> tuple[str, float] | None:
        """Who was the last to give up its partitions, and when."""
        late = max(self.released, key=lambda member: self.released[member], default=None)
        return None if late is None else (late, self.released[late])

    @property
    def seconds(self) -> float:
        """How long it took, as far as it went."""
        times = (self.started, self.targeted or 0.0, *self.revocation_sent.values(), *self.released.values())
        over = self.over
        return max(0.0, (over if over is not None else max(*times, *self.settled.values())) - self.started)

    @property
    def phases(self) -> list[Phase]:
        """Its time, divided; the parts add up to `seconds`."""
        over = self.started + self.seconds
        targeted = min(self.targeted if self.targeted is not None else over, over)
        phases = [Phase(NOT_ASSIGNED, max(0.0, targeted - self.started))]
        last, given_up = self.last_release, targeted
        if self.holding and self.assigned is None:
            given_up = over
            phases.append(Phase(REVOKING, over - targeted, self.holding))
        elif last is not None:
            given_up = min(max(last[1], targeted), over)
            phases.append(Phase(REVOKING, given_up - targeted, (last[0],)))
        late = max(self.settled, key=lambda member: self.settled[member], default=None)
        phases.append(Phase(HANDING_OVER, over - given_up, () if late is None else (late,)))
        return [phase for phase in phases if phase.seconds > 0.0]

    @property
    def slow(self) -> Join | None:
        """The member that was the last to give up its partitions, if it took most of the time to do so after it was
        told. `seconds` are since the start, `called` when it was told."""
        last = self.last_release
        if last is None or last[0] not in self.revocation_sent or last[0] in self.dropped:
            return None
        revocation_sent = self.revocation_sent[last[0]]
        own = last[1] - revocation_sent
        if own <= _SLOW_SECONDS or own < self.seconds / 2:
            return None
        return Join(last[0], last[1] - self.started, revocation_sent - self.started)

    @property
    def member_seconds(self) -> float:
        """Nobody is without a valid assignment meanwhile."""
        return 0.0

    @property
    def partition_seconds(self) -> float:
        """Seconds that partitions stood still, added up: from when their owner was told to give them up, left or was
        last heard of, until another had them."""
        return self.stood_still
