"""`watching`: the waits of a test fail at once if the application under test ends while the test waits for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from kafka_shim.testing import endings

LOOK_SECONDS: Final = 0.02
"""Time between two looks whether a thread or a process lives: neither says so when it ends."""
LAST_BYTES: Final = 64 * 1024
LAST_LINES: Final = 20
"""The most that a failed wait shows of the standard error of a process."""


class ApplicationEnded(AssertionError):
    """The application under test has ended while the test waited, without an error that the test could raise."""


class watching:
    """Let the waits in a block fail at once if the application under test ends.

        with watching(thread):
            server.group("billing").stable(members=1)

    Each argument is a thread, a future of concurrent.futures, a task of asyncio, or a process of subprocess, asyncio
    or multiprocessing. A thread that has not started is started. A wait raises the error of a thread or a task, and so
    does the end of the block; it raises ApplicationEnded for one that has ended without an error, and for a process.
    """

    def __init__(self, *applications: Any) -> None:
        wrong = [each for each in applications if _look_at(each) is None and not _has_callback(each)]
        if wrong or not applications:
            values = ", ".join(map(repr, wrong)) or "nothing"
            raise TypeError(f"watching() takes threads, futures, tasks and processes, not {values}.")
        self._applications = applications
        self._error: BaseException | None = None
        self._left = threading.Event()
        self._looker: threading.Thread | None = None
        self._hook: Callable[[Any], object] = threading.excepthook

    def __enter__(self) -> watching:
        looked_at = [each for each in self._applications if not _has_callback(each)]
        if any(isinstance(each, threading.Thread) for each in looked_at):
            self._hook, threading.excepthook = threading.excepthook, self._on_error
        for each in self._applications:
            if isinstance(each, threading.Thread) and each.ident is None:
                each.start()
            elif _has_callback(each):
                each.add_done_callback(self._on_done)
        if looked_at:
            self._looker = threading.Thread(target=self._look, args=(looked_at,), name="watching", daemon=True)
            self._looker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left.set()
        for each in self._applications:
            if hasattr(each, "remove_done_callback"):
                each.remove_done_callback(self._on_done)
        if self._looker is not None:
            self._looker.join()
        if threading.excepthook == self._on_error:
            threading.excepthook = self._hook
        endings.forget(self)
        error = self._error
        if error is None or error is failure:
            return
        if failure is not None:
            failure.add_note(f"The application had ended with {type(error).__name__}: {error}")
        elif not isinstance(error, ApplicationEnded):
            raise error

    def _end(self, application: Any, error: BaseException | None) -> None:
        """Note the first end of an application, and end the waits."""
        if self._left.is_set() or self._error is not None:
            return
        if error is None:
            error = ApplicationEnded(f"The {_name(application)} has ended{_how(application)}")
        else:
            error.add_note(f"This error ended the {_name(application)}, while the test waited.")
        self._error = error
        endings.report(self, error)

    def _on_error(self, hooked: Any) -> None:
        """Take the error of a thread, in place of `threading.excepthook`."""
        is_error = hooked.exc_value is not None and not isinstance(hooked.exc_value, SystemExit)
        if is_error and hooked.thread in self._applications and not self._left.is_set():
            self._end(hooked.thread, hooked.exc_value)
        else:
            self._hook(hooked)

    def _on_done(self, future: Any) -> None:
        self._end(future, None if future.cancelled() else future.exception())

    def _look(self, applications: list[Any]) -> None:
        looks = [(each, _look_at(each)) for each in applications]
        while self._error is None and not self._left.wait(LOOK_SECONDS):
            for each, has_ended in looks:
                if has_ended is not None and has_ended():
                    self._end(each, None)


def _has_callback(application: Any) -> bool:
    return hasattr(application, "add_done_callback")


def _look_at(application: Any) -> Callable[[], bool] | None:
    """Return the function that says whether a thread or a process has ended; None for anything else."""
    if isinstance(application, threading.Thread):
        return lambda: not application.is_alive()
    if hasattr(application, "exitcode"):
        return lambda: application.exitcode is not None
    if hasattr(application, "pid") and hasattr(application, "returncode"):
        poll = getattr(application, "poll", None)
        return lambda: (application.returncode if poll is None else poll()) is not None
    return None


def _name(application: Any) -> str:
    if isinstance(application, threading.Thread):
        return f"thread {application.name!r}"
    if _has_callback(application):
        name = getattr(application, "get_name", None)
        return "future" if name is None else f"task {name()!r}"
    return f"process {application.pid}"


def _how(application: Any) -> str:
    """Return how a process has ended: its exit code, and the last lines of its standard error if it goes to a pipe."""
    code = getattr(application, "exitcode", getattr(application, "returncode", None))
    if code is None:
        return " while the test waited."
    lines = _last_lines(application)
    return f" with exit code {code} while the test waited." + (f" Its last words:\n{lines}" if lines else "")


def _last_lines(process: Any) -> str:
    stream = getattr(process, "stderr", None)
    if stream is None or not hasattr(stream, "fileno"):
        return ""
    written = b""
    try:
        number = stream.fileno()
        os.set_blocking(number, False)  # a child of the process may have the pipe open still
        while piece := os.read(number, LAST_BYTES):
            written = (written + piece)[-LAST_BYTES:]
    except (OSError, ValueError):
        pass
    return "\n".join(written.decode(errors="replace").splitlines()[-LAST_LINES:])
