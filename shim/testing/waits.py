"""`awaited`: methods with a result that a test must await. A test that forgets it would wait for nothing, and pass."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

from kafka_shim.testing.calls import explained

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Coroutine[Any, Any, Any]])


class ForgottenWaits(AssertionError):
    """Waits were made and never awaited, so the test has not waited."""


class Waits:
    """The waits of a coordinator that no task has begun yet."""

    def __init__(self) -> None:
        self._new: set[Wait[Any]] = set()

    def add(self, wait: Wait[Any]) -> None:
        """Add a wait."""
        self._new.add(wait)

    def began(self, wait: Wait[Any]) -> None:
        """Remove a wait that begins."""
        self._new.discard(wait)

    def check(self) -> None:
        """Raise ForgottenWaits if a wait was never awaited."""
        forgotten, self._new = self._new, set()
        for wait in forgotten:
            wait.close()
        if forgotten:
            calls = "; ".join(sorted(wait.place for wait in forgotten))
            raise ForgottenWaits(
                f"Never awaited: {calls}. Write `await` before each; a test without `async` uses CoordinatorServer"
                " (the fixture kafka_coordinator)."
            )


class Wait(Coroutine[Any, Any, T]):
    """A coroutine that says to its coordinator when it begins. `place` is the call, with its file and line."""

    def __init__(self, waits: Waits, coroutine: Coroutine[Any, Any, T], place: str) -> None:
        self.place = place
        self._waits = waits
        self._coroutine = coroutine
        waits.add(self)

    def __await__(self) -> Generator[Any, Any, T]:
        self._waits.began(self)
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Run to the next pause."""
        self._waits.began(self)
        return self._coroutine.send(value)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        """Raise an exception at the pause."""
        self._waits.began(self)
        return self._coroutine.throw(value if isinstance(value, BaseException) else kind)

    def close(self) -> None:
        """End it."""
        self._coroutine.close()


def awaited(method: Method) -> Method:
    """Make a method whose calls the coordinator's check knows until they are awaited. Its object has `waits`."""

    begin = explained(method)

    @wraps(method)
    def call(self: Any, *arguments: Any, **named: Any) -> Coroutine[Any, Any, Any]:
        frame = sys._getframe(1)
        place = f"{method.__name__}(...) in {Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        return Wait(self.waits, begin(self, *arguments, **named), place)

    return cast("Method", call)
