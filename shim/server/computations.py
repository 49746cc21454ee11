"""Long computations in a worker thread, one part at a time, outside the event loop.

Two computations take turns for the next part: that with the fewest parts behind it, because a short one waits for few
parts of a long one then, and that which waits longest, because many short ones stop no long one then. A computation
that nothing awaits any more ends. More threads would share the interpreter's lock with the event loop, and each would
take its share from all clients.

The rules choose the computations and apply the results. A journal notes the moment of each result, so a replay computes
it again and delivers it at that moment.

While a thread computes, the interpreter changes threads often: a loop that gets its turn every `SWITCH_SECONDS` goes on
with its clients. By default it would wait 5 ms after each of its system calls.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Final

import trio

from kafka_shim.groups.assignors.spec import AssignorError
from kafka_shim.groups.interface import MORE, Computation
from kafka_shim.groups.outbox import Outbox
from kafka_shim.server.failures import Border, Failures
from kafka_shim.server.journal import Inputs

log: Final = logging.getLogger("kafka_shim.server")

SWITCH_SECONDS: Final = 0.0005
STOP_SECONDS: Final = 2.0
"""Seconds that the end of the process waits for a computing thread."""


@dataclass(slots=True)
class _Waiting:
    """Computation with the number of its parts that have begun."""

    computation: Computation
    parts: int = 0


class Computations:
    """The running computations of a process. `check(now)` is called before each takes effect, since the process may
    have slept, and `settle(now)` after."""

    def __init__(
        self,
        outbox: Outbox,
        clock: Callable[[], float],
        check: Callable[[float], None],
        settle: Callable[[float], None],
        failures: Failures,
        inputs: Inputs,
    ) -> None:
        self._outbox = outbox
        self._clock = clock
        self._check = check
        self._settle = settle
        self._failures = failures
        self._inputs = inputs
        self._waiting: OrderedDict[int, _Waiting] = OrderedDict()
        """By number; that which waits longest is first."""
        self._fewest: list[tuple[int, int]] = []
        """A heap of parts and numbers of those in `_waiting`; an entry may be out of date."""
        self._is_for_longest = False
        self._numbers = 0
        self._more = trio.Event()

    def take(self) -> None:
        """Take the computations from the outbox."""
        computations, self._outbox.computations = self._outbox.computations, []
        for each in computations:
            self._numbers += 1
            self._waiting[self._numbers] = _Waiting(each)
            heappush(self._fewest, (0, self._numbers))
        self._more.set()

    async def run(self) -> None:
        """Compute, until cancelled. The rules rely on this task if `Outbox.offloads`."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            while (number := self._next()) is not None:
                waiting = self._waiting[number]
                with switching_often():
                    result = await self._elsewhere(waiting)
                if result is MORE:
                    self._waiting.move_to_end(number)
                    heappush(self._fewest, (waiting.parts, number))
                    continue
                now = self._clock()
                self._check(now)
                with self._inputs.input("computed", now, number=number):
                    self.finish(number, result, now)
                self._settle(now)

    def _next(self) -> int | None:
        """Return the number of the computation with the next part, None without any. One that nothing awaits ends."""
        self._is_for_longest = not self._is_for_longest
        while self._waiting:
            number = next(iter(self._waiting)) if self._is_for_longest else self._with_fewest_parts()
            if self._waiting[number].computation.is_awaited:
                return number
            del self._waiting[number]
        self._fewest.clear()
        return None

    def _with_fewest_parts(self) -> int:
        while True:
            parts, number = self._fewest[0]
            waiting = self._waiting.get(number)
            if waiting is not None and waiting.parts == parts:
                return number
            heappop(self._fewest)

    async def _elsewhere(self, waiting: _Waiting) -> Any:
        """Return the result of a part from a worker thread.

        A thread inside a library aborts the process when the interpreter ends, so a cancelled caller waits for the
        thread, up to a limit.
        """
        results: list[Any] = []
        ended = trio.Event()
        limit = trio.CancelScope(shield=True)

        async def compute() -> None:
            with limit:
                try:
                    results.append(await trio.to_thread.run_sync(self._part, waiting, abandon_on_cancel=True))
                except Exception as error:
                    # The system has no thread left. `_part` catches all errors of the computation itself.
                    self._failures.note(Border.COMPUTATION, "the thread of a computation", error)
                    results.append(error)
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(compute)
            try:
                await ended.wait()
            except trio.Cancelled:
                limit.deadline = trio.current_time() + STOP_SECONDS
                raise
        return results[0]

    def result(self, number: int) -> Any:
        """Compute all parts; return the result or the exception."""
        while (result := self._part(self._waiting[number])) is MORE:
            pass
        return result

    def _part(self, waiting: _Waiting) -> Any:
        waiting.parts += 1
        try:
            return waiting.computation.compute()
        except AssignorError as error:
            return error
        except Exception as error:
            self._failures.note(Border.COMPUTATION, "a computation", error)
            return error

    def finish(self, number: int, result: Any, now: float) -> None:
        """Apply a result."""
        try:
            self._waiting.pop(number).computation.finish(result, now)
        except Exception as error:
            self._failures.note(Border.COMPUTATION, "what waited for a computation", error)


_turns = threading.Lock()
_usual: list[float] = []
"""The interval before the first block, once for each block that is entered."""


@contextmanager
def switching_often() -> Iterator[None]:
    """Let the interpreter change threads often during a block, which waits for a thread that computes."""
    with _turns:
        _usual.append(_usual[0] if _usual else sys.getswitchinterval())
        sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        with _turns:
            usual = _usual.pop()
            if not _usual:
                sys.setswitchinterval(usual)
