"""End of a tick: flush records, then replies, then events; run due timers.

Records go to the store before the answers that show them. A due timer fires before a request that came later; of many
that are due together, those of a tick have about 10 ms (`GroupService.fire`), and requests are served between. If the
process itself stood still, timely requests lie in the sockets, so these are read first. To know of it, the process
wakes up `STOOD_STILL` before a timer is due: a wake-up that comes that late shows a standstill. A timer that raises
costs its partition a load, and the others nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import inf
from typing import Final

import trio

from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.timers import TimerFailed
from kafka_shim.server.alarms import Alarms
from kafka_shim.server.computations import Computations
from kafka_shim.server.durability import Durability
from kafka_shim.server.events import EventFeed
from kafka_shim.server.failures import Border, Failures
from kafka_shim.server.journal import Inputs
from kafka_shim.server.leases import Leases
from kafka_shim.server.node import Node

TIMER_GRAIN: Final = 0.001
"""Seconds that timers may be late, as in Kafka's own timer."""

STOOD_STILL: Final = 0.1
"""A wake-up this many seconds late, or later, is late because the process stood still."""
READING: Final = 0.1
"""Seconds to read the sockets after a standstill, before timers fire."""
RETRY: Final = 0.05
"""Seconds until a tick that raised is tried again."""


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
        failures: Failures,
        alarms: Alarms,
        inputs: Inputs,
    ) -> None:
        self.alarms = alarms
        self._nodes = nodes
        self._outbox = outbox
        self._durability = durability
        self.computations = computations
        self._events = events
        self._leases = leases
        self._clock = clock
        self._failures = failures
        self._inputs = inputs
        self._sleep = trio.CancelScope()
        self.wake_at = -inf
        """When the next timer fires; minus infinity before `run`."""
        self._retry_at = inf
        """When to settle again after an exception."""

    def settle(self, now: float) -> None:
        """Flush the outbox: records, answers, events."""
        outbox = self._outbox
        if self._inputs.listening and (
            outbox.records or outbox.replies or outbox.effects or outbox.computations or outbox.events
        ):
            with self._inputs.input("settle", now):
                self.settle(now)
            return
        try:
            if outbox.computations:
                self.computations.take()
            if outbox.records or outbox.replies or outbox.effects:
                self._durability.settle(now)
        except Exception as error:
            self._failures.note(Border.TICK, "handing on records and answers", error)
            # The rest is still in the outbox, and there may be no other request that hands it on.
            self._retry_at = now + RETRY
        if outbox.events:
            try:
                self._events.publish(now)
            except Exception as error:
                self._failures.note(Border.LISTENER, "the trace events of a tick", error)
        deadline = self.next_deadline()
        if self._retry_at < deadline:
            deadline = self._retry_at
        if deadline < self.wake_at:
            self.wake_at = deadline
            self._sleep.deadline = self._wake_up(deadline)

    def fire(self, now: float) -> None:
        """Run due timers, and settle. If many are due, `next_deadline` is not after `now`: the next call goes on."""
        if self._inputs.listening:
            with self._inputs.input("fire", now):
                self.fire(now)
            return
        if self._leases is not None:
            self._leases.check(now)
        for node in self._nodes:
            is_done = False
            while not is_done:
                try:
                    node.groups.fire(now)
                    is_done = True
                except TimerFailed as error:
                    self._failures.note(Border.TIMER, repr(error.timer), error.__cause__ or error)
                    self._durability.distrust({error.timer.partition}, now)
            try:
                node.broker.expire(now)
            except Exception as error:
                self._failures.note(Border.TIMER, "a timer of the broker", error)
        if self._durability.held:
            self._durability.expire(now)
        while self.alarms.due <= now:
            try:
                self.alarms.ring(now)
            except Exception as error:
                self._failures.note(Border.TIMER, "an alarm", error)
        # This is the retry.
        self._retry_at = inf
        self.settle(now)

    def catch_up(self, now: float) -> None:
        """Fire due timers before the requests of `now` are served, unless the process stood still.

        Call it from `wake_at` on.
        """
        if self.wake_at != -inf and not self._stood_still():
            self.fire(now)
            self.rearm()

    def _stood_still(self) -> bool:
        return trio.current_time() - self._sleep.deadline > STOOD_STILL

    def next_deadline(self) -> float:
        """Return the next time for `fire`; infinity if there is none."""
        # Every tick calls this, and a tick may serve one request only: each call and each `min` is a part of its cost.
        deadline = self._durability.next_deadline() if self._durability.held else inf
        if self._leases is not None and self._leases.lapses_at < deadline:
            deadline = self._leases.lapses_at
        if self.alarms.due < deadline:
            deadline = self.alarms.due
        for node in self._nodes:
            of_groups = node.groups.timers.next_deadline()
            if of_groups < deadline:
                deadline = of_groups
            of_broker = node.broker.next_deadline()
            if of_broker < deadline:
                deadline = of_broker
        return deadline

    async def run(self) -> None:
        """Run timers when they are due, until cancelled."""
        while True:
            self.wake_at = min(self.next_deadline(), self._retry_at)
            with trio.CancelScope() as self._sleep:
                self._sleep.deadline = self._wake_up(self.wake_at)
                await trio.sleep_forever()
            if self._stood_still():
                await trio.sleep(READING)
            # A retry does not wait for a clock that stands still.
            if self._retry_at < inf or self.wake_at <= self._clock():
                self.fire(self._clock())

    def rearm(self) -> None:
        """Compute the wake-up time again, because the clock was stopped, put forward or resumed."""
        self.wake_at = min(self.next_deadline(), self._retry_at)
        self._sleep.deadline = self._wake_up(self.wake_at)

    def _wake_up(self, deadline: float) -> float:
        """Return the time on trio's clock of the wake-up before a deadline, or at it when it is near; rounded so that
        timers within a millisecond fire together.
        """
        seconds = max(deadline - self._clock(), 0.0)
        if seconds > 2 * STOOD_STILL:
            seconds -= STOOD_STILL
        return trio.current_time() + seconds + TIMER_GRAIN
