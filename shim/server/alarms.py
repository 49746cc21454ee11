"""Alarms on the coordinator's clock: calls at a time, which the ticks of the process make."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf


class Alarm:
    """One call that is due later; none once it was made or cancelled."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[float], None]) -> None:
        self.call: Callable[[float], None] | None = call


class Alarms:
    """Calls that are due later. `due` is the time of the next one, seconds of the coordinator's clock."""

    def __init__(self) -> None:
        self.due = inf
        self._order = count()
        self._waiting: list[tuple[float, int, Alarm]] = []
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def at(self, when: float, call: Callable[[float], None]) -> Alarm:
        """Call with the time then, at `when` or a little later."""
        alarm = Alarm(call)
        heappush(self._waiting, (when, next(self._order), alarm))
        self.due = self._waiting[0][0]
        return alarm

    def cancel(self, alarm: Alarm) -> None:
        """Make this call no more, and keep nothing for it: it may be due in years."""
        if alarm.call is None:
            return
        alarm.call = None
        self._cancelled += 1
        if 2 * self._cancelled > len(self._waiting):
            self._waiting = [each for each in self._waiting if each[2].call is not None]
            heapify(self._waiting)
            self._cancelled = 0
            self.due = self._waiting[0][0] if self._waiting else inf

    def ring(self, now: float) -> None:
        """Make the calls that are due. An exception of one ends this; the next `ring` goes on with the others."""
        while self._waiting and self._waiting[0][0] <= now:
            alarm = heappop(self._waiting)[2]
            self.due = self._waiting[0][0] if self._waiting else inf
            call, alarm.call = alarm.call, None
            if call is None:
                self._cancelled -= 1
            else:
                call(now)
