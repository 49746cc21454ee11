"""Barriers: hold requests or answers that match, and release them in their order of arrival.

While a request is held, later requests of its connection wait behind it. `interception.py` has the `Match`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Any, Final, Literal

from kafka_shim.lab.interception import Block, Facts, Interception, Match, Unmatchable
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
"""Points by name. `join-complete` is the end of a round, `commit-applied` of a commit, before the answers leave."""


@dataclass(frozen=True)
class HeldExchange:
    """A held request or answer."""

    exchange: Exchange
    facts: Facts
    data: bytes | None
    """The answer; None if the request is held."""


class Barrier(Block):
    """A barrier in force, also until the end of a block of `with`; an `Intercept`. `number` is its id."""

    def __init__(self, barriers: Barriers, number: int, match: Match, point: Point) -> None:
        self.number = number
        self.match = match
        self.point = point
        self.held: list[HeldExchange] = []
        self.reached = 0
        """How many it has held so far."""
        self._barriers = barriers

    def __str__(self) -> str:
        matching = " ".join(f"{name}={value}" for name, value in self.match.to_json().items()) or "any"
        return f"barrier at the {self.point} of {matching}"

    def to_json(self) -> dict[str, Any]:
        """Return the barrier in the form of the control API."""
        return {
            "barrier": self.number,
            "point": self.point,
            **self.match.to_json(),
            "reached": self.reached,
            "held": [
                {"connection": each.exchange.session.number, "api": each.facts.api, "member": each.facts.member}
                for each in self.held
            ],
        }

    async def reached_by(self, requests: int = 1, timeout: float = inf) -> bool:
        """Wait until it holds `requests` exchanges; return False after `timeout` real seconds."""
        return await self._barriers.interception.until(lambda: len(self.held) >= requests, timeout)

    def release(self, requests: int | None = None) -> int:
        """Release the held exchanges, or the first few; return their number. The barrier stays in force."""
        cluster = self._barriers.interception.cluster
        with cluster.inputs.input("released", number=self.number, requests=requests):
            released = self.held[:requests]
            self.held = self.held[len(released) :]
            now = cluster.clock()
            for each in released:
                if each.data is None:
                    each.exchange.run(now)
                else:
                    each.exchange.deliver(each.data, now)
            self._barriers.interception.settle()
        return len(released)

    def remove(self) -> None:
        """Release all held exchanges, and hold no more."""
        self._barriers.remove(self)
        self.release()

    _end = remove

    # `Intercept`

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
        """Set up a barrier. Raises Unmatchable."""
        if point not in ("request", "answer"):
            raise Unmatchable(f"A barrier must be at the request or at the answer, not {point!r}.")
        if match.where is not None:
            self.interception.end_journal("a function of the test chooses the requests of a barrier")
        with self.interception.cluster.inputs.input("barrier", match=match.to_json(), point=point):
            barrier = Barrier(self, next(self._numbers), match, point)
            self.barriers[barrier.number] = barrier
            self.interception.add(barrier)
        return barrier

    def at(self, name: str, match: Match | None = None) -> Barrier:
        """Set up a barrier at a point of `NAMED_POINTS`, or at the requests of an API; `match` narrows it."""
        point: Point = "request"
        if name in NAMED_POINTS:
            base, point = NAMED_POINTS[name]
        else:
            try:
                base = Match(api=name)
            except Unmatchable:
                points = ", ".join(NAMED_POINTS)
                raise Unmatchable(f"{name!r} is neither an API nor a point; points are {points}.") from None
        narrowing = {} if match is None else match.to_json()
        if match is not None and match.where is not None:
            narrowing["where"] = match.where
        return self.add(replace(base, **narrowing), point)

    def remove(self, barrier: Barrier) -> None:
        """Stop a barrier from holding more; a second call does nothing."""
        if self.barriers.pop(barrier.number, None) is not None:
            with self.interception.cluster.inputs.input("barrier-removed", number=barrier.number):
                self.interception.remove(barrier)

    def clear(self) -> None:
        """Remove all barriers and release all held exchanges."""
        for barrier in list(self.barriers.values()):
            barrier.remove()
