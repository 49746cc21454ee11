"""A clock that can be stopped and put forward: coordinator time for tests.

Decides what the time is. Timers of groups, sessions and offsets follow it; fetches that wait for records, and all that
clients do, go on in real time, so a stopped coordinator still serves its clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable


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

    @classmethod
    def frozen_at(cls, now: float) -> TestClock:
        """A clock that stands still at `now`, which may be of another machine."""
        clock = cls()
        clock._stopped_at = now
        return clock

    @property
    def is_frozen(self) -> bool:
        """Whether it stands still."""
        return self._stopped_at is not None

    def ahead(self) -> float:
        """By how many seconds it is ahead of real time; negative once it stood still for longer than it was."""
        return self() - self.real()

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
