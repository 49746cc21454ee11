"""Waiting for conditions in the server's own thread, without polling: code that changes their state calls `check`."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio


class Conditions:
    """Tasks that wait for conditions over the same state."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], trio.Event]] = []

    @property
    def waiting(self) -> int:
        """Number of waiting tasks."""
        return len(self._waiting)

    def check(self) -> None:
        """Wake the tasks with a condition that is true now. Call it after a change."""
        if self._waiting:
            for entry in [entry for entry in self._waiting if entry[0]()]:
                self._waiting.remove(entry)
                entry[1].set()

    async def until(self, condition: Callable[[], bool], timeout: float = inf) -> bool:
        """Wait until `condition()` is true, for at most `timeout` real seconds; return False after a timeout.

        `condition` must not raise: its exception would reach the caller of `check`.
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
