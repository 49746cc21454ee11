"""Events in each design, and their bill: bytes, messages, rounds, time until the group settles, time stopped.

An event comes half a heartbeat interval after the group has settled; the bill counts from the event until the group has
settled again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from kafka_shim.experiments.designs.eager import (
    BrokerAssigns,
    Eager,
    EveryoneComputes,
    JoinAndSync,
    MembershipFirst,
    Phased,
    Registering,
)
from kafka_shim.experiments.designs.reconciling import ClientAssigns, ServerAssigns
from kafka_shim.experiments.designs.world import Process, Settings, World

Design = type[Eager] | type[ServerAssigns]

DESIGNS: Final[dict[str, Design]] = {
    design.letter: design
    for design in (
        BrokerAssigns,
        EveryoneComputes,
        Phased,
        MembershipFirst,
        JoinAndSync,
        ServerAssigns,
        ClientAssigns,
        Registering,
    )
}

EVENTS: Final = {
    "form": "all members start at once",
    "join": "one more member joins",
    "death": "the leader dies",
    "growth": "the topic grows by a partition for each member",
}

LIMIT: Final = 600.0
"""Seconds after which a group counts as never settled."""


@dataclass(frozen=True, kw_only=True)
class Bill:
    """Cost of an event. Sizes are bytes, times seconds; `stopped` is the mean time of a partition without an owner."""

    design: str
    event: str
    members: int
    metadata: int
    requests: int
    bytes_in: int
    bytes_out: int
    largest: int
    rounds: int
    seconds: float | None
    """None if the group did not settle within ten minutes."""
    stopped: float
    conflicts: int
    """How often a member took a partition while another consumed it."""


@dataclass(frozen=True, kw_only=True)
class DeathAtStep:
    """Cost of the leader's death right after its `number`th request since the event."""

    design: str
    number: int
    request: str
    bill: Bill


class Laboratory:
    """One group of one design, already formed."""

    def __init__(self, design: str, settings: Settings) -> None:
        self.design, self.settings = design, settings
        self.world = World(settings, DESIGNS[design])
        self.coordinator = self.world.coordinator
        for number in range(settings.members):
            self._start(number)
        self._settled = self.world.run(self.world.settled, LIMIT)

    def form(self) -> Bill:
        """Return the cost of forming the group."""
        return self._bill("form", self._settled)

    def join(self) -> Bill:
        """Let one more member join."""
        self._wait()
        self._start(self.settings.members)
        return self._bill("join", self._settle())

    def death(self) -> Bill:
        """Let the leader of the settled group die, or the first member if there is no leader."""
        self._wait()
        self._leader().die()
        return self._bill("death", self._settle())

    def growth(self, lag: float = 0.0) -> Bill:
        """Let the topic grow; half of the members see it `lag` seconds later."""
        self._wait()
        self.world.lag = lambda member_id: lag if int(member_id[-3:]) % 2 else 0.0
        self.world.grow(self.settings.members)
        self.coordinator.topic_grew()
        return self._bill("growth", self._settle())

    def death_at_steps(self) -> Iterator[DeathAtStep]:
        """Let one more member join and the leader die right after its 1st, 2nd, 3rd request, in a new group each
        time.
        """
        self._wait()
        victim = self._leader()
        sent_before = len(victim.sent)
        self._start(self.settings.members)
        self._settle()
        steps = victim.sent[sent_before:]
        for number, request in enumerate(steps, 1):
            other = Laboratory(self.design, self.settings)
            other._wait()
            leader = other._leader()
            leader.dies_after = len(leader.sent) + number
            other._start(self.settings.members)
            other.world.run(partial(_dead, leader), LIMIT)
            yield DeathAtStep(
                design=self.design, number=number, request=request, bill=other._bill("death", other._settle())
            )

    def _start(self, number: int) -> None:
        Process(self.world, f"member-{number:03}", self.coordinator.behave)

    def _leader(self) -> Process:
        return self.world.processes[self.coordinator.leader]

    def _wait(self) -> None:
        self.world.run(lambda: False, self.settings.heartbeat / 2)
        self.world.start_account()

    def _settle(self) -> bool:
        return self.world.run(self.world.settled, LIMIT)

    def _bill(self, event: str, settled: bool) -> Bill:
        world = self.world
        return Bill(
            design=self.design,
            event=event,
            members=self.settings.members,
            metadata=self.settings.metadata,
            requests=world.requests,
            bytes_in=world.bytes[0],
            bytes_out=world.bytes[1],
            largest=world.largest,
            rounds=world.coordinator.generation - world.rounds_before,
            seconds=world.now - world.began if settled else None,
            stopped=world.stopped / world.partitions,
            conflicts=world.conflicts,
        )


def _dead(process: Process) -> bool:
    return not process.alive


def bills(design: str, settings: Settings) -> list[Bill]:
    """Return the cost of each event."""
    return [getattr(Laboratory(design, settings), event)() for event in EVENTS]


def disagreement(settings: Settings, lags: tuple[float, ...]) -> Iterator[tuple[str, float, Bill]]:
    """Let the topic grow, with half of the members seeing it late by each lag, in the designs with client assignors."""
    for design in "bce":
        for lag in lags:
            yield design, lag, Laboratory(design, settings).growth(lag)
