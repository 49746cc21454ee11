"""Waiting for conditions in the server's own thread, without polling: code that changes their state calls `check`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import inf
from typing import Any, TypeVar

import trio

T = TypeVar("T")


class Conditions:
    """Tasks that wait for conditions over the same state."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], trio.Event]] = []
        self._views: dict[Hashable, Any] | None = None
        """The views of the conditions during a check."""

    @property
    def waiting(self) -> int:
        """Number of waiting tasks."""
        return len(self._waiting)

    def check(self) -> None:
        """Wake the tasks with a condition that is true now. Call it after a change."""
        if not self._waiting:
            return
        self._views = {}
        try:
            true_now = [entry for entry in self._waiting if entry[0]()]
        finally:
            self._views = None
        for entry in true_now:
            self._waiting.remove(entry)
            entry[1].set()

    def view(self, key: Hashable, look: Callable[[], T]) -> T:
        """Return the result of `look()`; the conditions of one check share it by its key, since nothing changes in
        between."""
        if self._views is None:
            return look()
        if key not in self._views:
            self._views[key] = look()
        view: T = self._views[key]
        return view

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
