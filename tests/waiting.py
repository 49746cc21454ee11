"""Waits for what has no event: another process, the system, a thread of the store. A test that can await an event does.

Every such wait is one of these two: it ends with the test's failure when the time is up, and does not keep the
processor from whatever it waits for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import trio

PATIENCE_S = 30.0
_PAUSE_S = 0.01

_Found = TypeVar("_Found")


def until(holds: Callable[[], _Found], what: Callable[[], object] = str, seconds: float = PATIENCE_S) -> _Found:
    """Ask until it holds; what it is then. `what()` says what was waited for in vain."""
    limit = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < limit, what()
        time.sleep(_PAUSE_S)
    return found


async def until_in_trio(holds: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """The same for what threads bring about while other tasks go on."""
    with trio.fail_after(seconds):
        while not holds():
            await trio.sleep(_PAUSE_S / 10)
