"""Waiting in the server's own thread until something is so, without looking again and again.

Decides when a condition is looked at: when whoever changes what it depends on says so, by `check`. It does not know
what conditions mean.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio


class Conditions:
    """Tasks that wait for conditions over the same things."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], trio.Event]] = []

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def check(self) -> None:
        """Something has changed: wake those whose condition is so now."""
        if self._waiting:
            for entry in [entry for entry in self._waiting if entry[0]()]:
                self._waiting.remove(entry)
                entry[1].set()

    async def until(self, condition: Callable[[], bool], timeout: float = inf) -> bool:
        """Wait until `condition()` is true, for `timeout` real seconds at most; whether it became so.

        A condition that raises ends the wait of nobody else: it should not.
        """
        if condition():
            return True
        event = trio.Event()
        entry = (condition, event)
        self._waiting.append(entry)
        try:
            with trio.move_on_after(timeout):
                await event.wait()
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)
        return event.is_set()
