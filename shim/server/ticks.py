"""The tick of a process: in which order what requests and timers have left behind is handed on, and when timers run.

Decides that records go to the store before the answers that show them, that events go last, and when trio is woken for
the next timer. It does not know what a timer does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import inf
from typing import Final

import trio

from kafka_shim.groups.outbox import Outbox
from kafka_shim.server.computations import Computations
from kafka_shim.server.durability import Durability
from kafka_shim.server.events import EventFeed
from kafka_shim.server.leases import Leases
from kafka_shim.server.node import Node

TIMER_GRAIN: Final = 0.001
"""Seconds that timers may be late, as in Kafka's own timer."""


class Ticks:
    """The ticks of the `nodes` of a process. All times are seconds of `clock`, unless the docstring says trio's."""

    def __init__(
        self,
        nodes: Collection[Node],
        outbox: Outbox,
        durability: Durability,
        computations: Computations,
        events: EventFeed,
        leases: Leases | None,
        clock: Callable[[], float],
    ) -> None:
        self._nodes = nodes
        self._outbox = outbox
        self._durability = durability
        self._computations = computations
        self._events = events
        self._leases = leases
        self._clock = clock
        self._sleep = trio.CancelScope()
        self._wake_at = -inf

    def settle(self, now: float) -> None:
        """Hand on what requests or timers have left in the outbox: records, answers, events."""
        outbox = self._outbox
        if outbox.computations:
            self._computations.take()
        if outbox.records or outbox.replies or outbox.effects:
            self._durability.settle(now)
        if outbox.events:
            self._events.publish(now)
        deadline = self.next_deadline()
        if deadline < self._wake_at:
            self._wake_at = deadline
            self._sleep.deadline = self._trio_time(deadline)

    def fire(self, now: float) -> None:
        """Run what is due, and settle."""
        if self._leases is not None:
            self._leases.check(now)
        for node in self._nodes:
            node.groups.fire(now)
            node.broker.expire(now)
        self._durability.expire(now)
        self.settle(now)

    def next_deadline(self) -> float:
        """When `fire` is due next; infinity if never."""
        # Every tick asks this, and there may be a tick for each request: so no `min`, which costs more than a request.
        deadline = self._durability.next_deadline()
        if self._leases is not None and self._leases.lapses_at < deadline:
            deadline = self._leases.lapses_at
        for node in self._nodes:
            of_groups = node.groups.next_deadline()
            if of_groups < deadline:
                deadline = of_groups
            of_broker = node.broker.next_deadline()
            if of_broker < deadline:
                deadline = of_broker
        return deadline

    async def run(self) -> None:
        """Run timers when they are due, until cancelled."""
        while True:
            self._wake_at = self.next_deadline()
            with trio.CancelScope() as self._sleep:
                self._sleep.deadline = self._trio_time(self._wake_at)
                await trio.sleep_forever()
            self.fire(self._clock())

    def rearm(self) -> None:
        """The clock was stopped, put forward or resumed: what is due comes at another of trio's times."""
        self._wake_at = self.next_deadline()
        self._sleep.deadline = self._trio_time(self._wake_at)

    def _trio_time(self, deadline: float) -> float:
        """When trio should wake us: what is due within the same millisecond is done together."""
        return trio.current_time() + max(deadline - self._clock(), 0.0) + TIMER_GRAIN
