"""Waits without an event: for another process, the system, a thread of the store. A test awaits an event if it can.

Every such wait is `until` or `until_in_trio`: the test fails when the time is up, and the wait leaves the processor to
other processes.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

PATIENCE_S = 60.0
_PAUSE_S = 0.01

_Found = TypeVar("_Found")


def until(holds: Callable[[], _Found], what: Callable[[], object] = str, seconds: float = PATIENCE_S) -> _Found:
    """Ask until the value is true, and return it. `what()` describes the value for a failed wait."""
    limit = time.monotonic() + seconds
    while not (value := holds()):
        assert time.monotonic() < limit, what()
        time.sleep(_PAUSE_S)
    return value


async def until_in_trio(holds: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Ask until the value is true while other tasks continue: for results of threads."""
    with trio.fail_after(seconds):
        while not holds():
            await trio.sleep(_PAUSE_S / 10)


@asynccontextmanager
async def turns_of_others() -> AsyncIterator[Callable[[], int]]:
    """Count the turns of another task. The order of tasks is a draw: a turn counts when it begins."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        yield lambda: turns
        nursery.cancel_scope.cancel()
