"""`Reconciliation`: one rebalance of a group with epochs (KIP-848), from a new group epoch until all members are
stable.

Its time divides into phases, as in `rebalance.py`. Here no member stops to join: a member learns from a heartbeat which
partitions to revoke, and the new owner gets them in a later heartbeat.

Times are seconds of Unix time. Source: KIP-848; semantics 4.5, 4.6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka_shim.trace.moves import Partition
from kafka_shim.trace.rebalance import Join, Phase, Rebalance

NOT_ASSIGNED: Final = "waiting for any heartbeat"
INTERVAL: Final = "waiting for the assignment interval"
REVOKING: Final = "waiting for revocation"
HANDING_OVER: Final = "waiting for heartbeats"

_SLOW_SECONDS: Final = 0.2
AWAY: Final = -2
"""The member epoch of a static member that has left for a while."""


class Wait(NamedTuple):
    """`member_id` could not get its whole target assignment, since `holder` still had a part of it."""

    member_id: str
    holder: str


@dataclass(slots=True)
class Current:
    """A member's current assignment: `assigned` partitions it may use, `revoking` ones it must revoke first. `state` is
    as in the trace.
    """

    epoch: int = 0
    state: str = ""
    assigned: frozenset[Partition] = frozenset()
    revoking: frozenset[Partition] = frozenset()
    waits_for: tuple[str, ...] = ()
    since: float = 0.0
    """Time of its last change."""


@dataclass(slots=True)
class Reconciliation(Rebalance):
    """One rebalance with an epoch. `interval_ended` is the time from which on its target assignment could be computed,
    None if that did not wait; `targeted` is the time of the target assignment, `assigned` the time at which the
    last member was stable. `eager` is False: no member revokes partitions that it keeps.
    """

    interval_ended: float | None = None
    targeted: float | None = None
    revocation_sent: dict[str, float] = field(default_factory=dict)
    """By member id, the time at which it was asked to revoke partitions."""
    released: dict[str, float] = field(default_factory=dict)
    """By member id, the time at which it had revoked them, left or was fenced."""
    settled: dict[str, float] = field(default_factory=dict)
    """By member id, the time at which it was stable at the epoch."""
    waits: dict[Wait, float] = field(default_factory=dict)
    """Start of each wait."""
    holding: tuple[str, ...] = ()
    """Members that had not revoked their partitions when the next epoch began."""
    stood_still: float = 0.0

    @property
    def is_snapshot(self) -> bool:
        """False: the record of an epoch comes at its beginning."""
        return False

    @property
    def has_revoked(self) -> bool:
        """False: one rebalance both revokes partitions and assigns them."""
        return False

    @property
    def last_release(self) -> tuple[str, float] | None:
        """The last member to revoke its partitions, and the time."""
        late = max(self.released, key=lambda member: self.released[member], default=None)
        return None if late is None else (late, self.released[late])

    @property
    def seconds(self) -> float:
        """Its duration, or the duration so far."""
        times = (self.started, self.targeted or 0.0, *self.revocation_sent.values(), *self.released.values())
        over = self.over
        return max(0.0, (over if over is not None else max(*times, *self.settled.values())) - self.started)

    @property
    def phases(self) -> list[Phase]:
        """Its phases; their durations add up to `seconds`."""
        over = self.started + self.seconds
        targeted = min(self.targeted if self.targeted is not None else over, over)
        due = self.started if self.interval_ended is None else min(self.interval_ended, targeted)
        phases = [Phase(INTERVAL, due - self.started), Phase(NOT_ASSIGNED, max(0.0, targeted - due))]
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
        """The last member to revoke its partitions, if that took most of the time. `seconds` and `called`, the time of
        the request to revoke, are since the start.
        """
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
        """0: members always have a valid assignment."""
        return 0.0

    @property
    def partition_seconds(self) -> float:
        """Sum of the seconds of partitions without an owner: from the request to revoke, the departure or the last
        heartbeat of the old owner until the new owner has them.
        """
        return self.stood_still
