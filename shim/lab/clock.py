"""A clock that can be stopped and put forward: coordinator time for tests.

Decides what the time is. Timers of groups, sessions and offsets follow it; fetches that wait for records, and all that
clients do, go on in real time, so a stopped coordinator still serves its clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import Any

from kafka_shim.broker.broker import Broker


class TestClock:
    """Monotonic seconds: those of `real`, until it is stopped or put forward."""

    __test__ = False

    def __init__(self, real: Callable[[], float] = time.monotonic) -> None:
        self.real = real
        self._ahead = 0.0
        self._stopped_at: float | None = None

    def __call__(self) -> float:
        if self._stopped_at is not None:
            return self._stopped_at
        return self.real() + self._ahead

    @property
    def is_frozen(self) -> bool:
        """Whether it stands still."""
        return self._stopped_at is not None

    def freeze(self) -> None:
        """Stop it."""
        self._stopped_at = self()

    def resume(self) -> None:
        """Let it go on from where it stands."""
        if self._stopped_at is not None:
            self._ahead = self._stopped_at - self.real()
            self._stopped_at = None

    def put(self, now: float) -> None:
        """Make it `now`, which must not be in its past."""
        if self._stopped_at is not None:
            self._stopped_at = max(now, self._stopped_at)
        else:
            self._ahead += max(now - self(), 0.0)


class RealTimeBroker:
    """A broker whose waits run in real time whatever the coordinator's clock says.

    Deadlines it shows are on the coordinator's clock, at which they would come if that clock ran on from now.
    """

    def __init__(self, broker: Broker, clock: TestClock) -> None:
        self._broker = broker
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def fetch(self, request: Any, token: object, now: float, **flags: bool) -> Any:
        """See `Broker.fetch`."""
        return self._broker.fetch(request, token, self._clock.real(), **flags)

    def next_deadline(self) -> float:
        """See `Broker.next_deadline`."""
        deadline = self._broker.next_deadline()
        return inf if deadline is None else deadline - self._clock.real() + self._clock()

    def expire(self, now: float) -> None:
        """See `Broker.expire`."""
        self._broker.expire(self._clock.real())
