"""Errors that ended the polling of a consumer: a test does not wait for a group of a consumer that takes no part.

The thread or task that polls reports its error. The waits of the process end with it, until the block of `polling`
ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_errors: dict[object, BaseException] = {}
_watchers: list[Callable[[], None]] = []


def report(block: object, error: BaseException) -> None:
    """Report the error that ended the polling of a consumer in a block."""
    with _lock:
        _errors.setdefault(block, error)
        watchers = list(_watchers)
    for watcher in watchers:
        watcher()


def forget(block: object) -> None:
    """Forget the error of a block that ends."""
    with _lock:
        _errors.pop(block, None)


def first() -> BaseException | None:
    """Return an error of a block in force, or None."""
    with _lock:
        return next(iter(_errors.values()), None)


@contextmanager
def watching(watcher: Callable[[], None]) -> Iterator[None]:
    """Call `watcher` at the first report, in the reporter's thread; at once if there is an error already."""
    with _lock:
        _watchers.append(watcher)
        is_late = bool(_errors)
    try:
        if is_late:
            watcher()
        yield
    finally:
        with _lock:
            _watchers.remove(watcher)
