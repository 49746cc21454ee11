"""`TestClock`: a clock that can be frozen and advanced: coordinator time for tests.

Timers of groups, sessions and offsets follow it. Fetches that wait for records, and all clients, use real time, so a
coordinator with a frozen clock still serves its clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class TestClock:
    """Monotonic seconds: those of `real`, until it is frozen or advanced.

    `mover` runs the timers on the way, and `woken` tells those that sleep until a time; the owner of the timers sets
    both.
    """

    __test__ = False

    def __init__(self, real: Callable[[], float] = time.monotonic) -> None:
        self.real = real
        self._ahead = 0.0
        self._stopped_at: float | None = None
        self.mover: Callable[[float], None] = lambda seconds: self.put(self() + seconds)
        self.woken: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        if self._stopped_at is not None:
            return self._stopped_at
        return self.real() + self._ahead

    @classmethod
    def frozen_at(cls, now: float) -> TestClock:
        """Return a clock frozen at `now`, which may come from another machine."""
        clock = cls()
        clock._stopped_at = now
        return clock

    @property
    def is_frozen(self) -> bool:
        """True while it is frozen."""
        return self._stopped_at is not None

    def ahead(self) -> float:
        """Return its lead over real time in seconds; negative after it was frozen for longer than it was advanced."""
        return self() - self.real()

    def freeze(self) -> None:
        """Freeze it."""
        self._stopped_at = self()

    def resume(self) -> None:
        """Let it run again from its present time."""
        if self._stopped_at is not None:
            self._ahead = self._stopped_at - self.real()
            self._stopped_at = None
            self.woken()

    def advance(self, seconds: float) -> None:
        """Put it forward, through all timers on the way."""
        self.mover(seconds)

    def put(self, now: float) -> None:
        """Set it to `now`; it never goes back."""
        if self._stopped_at is not None:
            self._stopped_at = max(now, self._stopped_at)
        else:
            self._ahead += max(now - self(), 0.0)
