"""Barriers: requests or answers stopped at a point until they are let go.

Decides what is held and in which order it is let go: that in which it came. Which requests are meant is a `Match`
(`interception.py`). While one is held, its connection's later requests wait behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Any, Final, Literal

from kafka_shim.lab.interception import Facts, Interception, Match, Unmatchable
from kafka_shim.server.exchange import Exchange

Point = Literal["request", "answer"]

NAMED_POINTS: Final[dict[str, tuple[Match, Point]]] = {
    "join-arrived": (Match(api="JoinGroup"), "request"),
    "join-complete": (Match(api="JoinGroup", error=0), "answer"),
    "sync-arrived": (Match(api="SyncGroup"), "request"),
    "leader-sync-arrived": (Match(api="SyncGroup", role="leader"), "request"),
    "sync-complete": (Match(api="SyncGroup", error=0), "answer"),
    "heartbeat-arrived": (Match(api="Heartbeat"), "request"),
    "leave-arrived": (Match(api="LeaveGroup"), "request"),
    "commit-arrived": (Match(api="OffsetCommit"), "request"),
    "commit-applied": (Match(api="OffsetCommit"), "answer"),
}
"""Points by name: `join-complete` is a join round that is over, its answers not sent; `commit-applied` likewise."""


@dataclass(frozen=True)
class HeldExchange:
    """A request, or its answer, that is stopped."""

    exchange: Exchange
    facts: Facts
    data: bytes | None
    """The answer; None if the request is held."""


class Barrier:
    """A barrier in force; an `Intercept`. `number` is what it is called by."""

    def __init__(self, barriers: Barriers, number: int, match: Match, point: Point) -> None:
        self.number = number
        self.match = match
        self.point = point
        self.held: list[HeldExchange] = []
        self.reached = 0
        """How many it has stopped so far."""
        self._barriers = barriers

    def __str__(self) -> str:
        matching = " ".join(f"{name}={value}" for name, value in self.match.to_json().items()) or "any"
        return f"barrier at the {self.point} of {matching}"

    def to_json(self) -> dict[str, Any]:
        """The barrier as the control API shows it."""
        return {
            "barrier": self.number,
            "point": self.point,
            **self.match.to_json(),
            "reached": self.reached,
            "held": [
                {"connection": held.exchange.session.number, "api": held.facts.api, "member": held.facts.member}
                for held in self.held
            ],
        }

    async def reached_by(self, requests: int = 1, timeout: float = inf) -> bool:
        """Wait until it holds so many; False if that takes longer than `timeout` real seconds."""
        return await self._barriers.interception.until(lambda: len(self.held) >= requests, timeout)

    def release(self, requests: int | None = None) -> int:
        """Let go what is held, or the first few; how many that were. The barrier stays in force."""
        going = self.held[:requests]
        self.held = self.held[len(going) :]
        now = self._barriers.interception.cluster.clock()
        for held in going:
            if held.data is None:
                held.exchange.run(now)
            else:
                held.exchange.deliver(held.data, now)
        self._barriers.interception.settle()
        return len(going)

    def remove(self) -> None:
        """Let go everything, and stop nothing more."""
        self._barriers.remove(self)
        self.release()

    # As an intercept

    def request(self, exchange: Exchange, facts: Facts, now: float) -> bool:
        """See `Intercept`."""
        return self.point == "request" and self._stop(exchange, facts, None)

    def answer(self, exchange: Exchange, facts: Facts, data: bytes, now: float) -> bool:
        """See `Intercept`."""
        return self.point == "answer" and self._stop(exchange, facts, data)

    def _stop(self, exchange: Exchange, facts: Facts, data: bytes | None) -> bool:
        if not self.match.fits(facts, exchange.request):
            return False
        exchange.hold()
        self.held.append(HeldExchange(exchange, facts, data))
        self.reached += 1
        self._barriers.interception.conditions.check()
        return True


class Barriers:
    """The barriers of a cluster, by number."""

    def __init__(self, interception: Interception) -> None:
        self.interception = interception
        self.barriers: dict[int, Barrier] = {}
        self._numbers = count(1)

    def add(self, match: Match, point: Point = "request") -> Barrier:
        """Put a barrier in force. Raises Unmatchable."""
        if point not in ("request", "answer"):
            raise Unmatchable(f"A barrier is at the request or at the answer, not {point!r}.")
        barrier = Barrier(self, next(self._numbers), match, point)
        self.barriers[barrier.number] = barrier
        self.interception.add(barrier)
        return barrier

    def at(self, name: str, match: Match | None = None) -> Barrier:
        """Put a barrier in force at a point of `NAMED_POINTS`, or at the requests of an API; `match` narrows it."""
        point: Point = "request"
        if name in NAMED_POINTS:
            named, point = NAMED_POINTS[name]
        else:
            try:
                named = Match(api=name)
            except Unmatchable:
                points = ", ".join(NAMED_POINTS)
                raise Unmatchable(f"{name!r} is neither an API nor a point; points are {points}.") from None
        narrowing = {} if match is None else match.to_json()
        if match is not None and match.where is not None:
            narrowing["where"] = match.where
        return self.add(replace(named, **narrowing), point)

    def remove(self, barrier: Barrier) -> None:
        """Let a barrier stop nothing more."""
        self.barriers.pop(barrier.number, None)
        self.interception.remove(barrier)

    def clear(self) -> None:
        """Let go everything, and stop nothing more."""
        for barrier in list(self.barriers.values()):
            barrier.remove()
