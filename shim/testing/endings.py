"""Errors that ended a consumer or an application: a test does not wait for one that takes no part.

`polling` and `watching` report them. The waits of the process end with such an error, until the block of `polling` or
`watching` ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_errors: dict[object, BaseException] = {}
_watchers: list[Callable[[], None]] = []


def report(block: object, error: BaseException) -> None:
    """Report the error that ended a consumer or an application in a block; its first one counts."""
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
