"""What takes too long for the event loop: it is computed in a worker thread, one computation after another.

Decides where and when it is computed; which computations take too long, and what follows from a result, the rules
decide. A journal has the moment when a result came in, so a replay computes it anew and lets it come in then.

While a thread computes, the interpreter changes threads often: a loop that is served every `SWITCH_SECONDS` goes on
with its clients, where the usual 5 ms would pass after each of its system calls.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import trio

from kafka_shim.groups.assignors.spec import AssignorError
from kafka_shim.groups.interface import Computation
from kafka_shim.groups.outbox import Outbox

log: Final = logging.getLogger("kafka_shim.server")

SWITCH_SECONDS: Final = 0.0005


class Computations:
    """The computations of a process that are under way. `check(now)` is called before each has an effect, since the
    process may have slept meanwhile, and `settle(now)` after it."""

    def __init__(
        self,
        outbox: Outbox,
        clock: Callable[[], float],
        check: Callable[[float], None],
        settle: Callable[[float], None],
    ) -> None:
        self._outbox = outbox
        self._clock = clock
        self._check = check
        self._settle = settle
        self._waiting: dict[int, Computation] = {}
        self._numbers = 0
        self._more = trio.Event()

    def take(self) -> None:
        """Take over those that the rules have left in the outbox."""
        computations, self._outbox.computations = self._outbox.computations, []
        for each in computations:
            self._numbers += 1
            self._waiting[self._numbers] = each
        self._more.set()

    async def run(self) -> None:
        """Compute, until cancelled. Rules rely on that if `Outbox.offloads`."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            while self._waiting:
                number = min(self._waiting)
                with _switching_often():
                    result = await trio.to_thread.run_sync(self.result, number, abandon_on_cancel=True)
                now = self._clock()
                self._check(now)
                self.finish(number, result, now)
                self._settle(now)

    def result(self, number: int) -> Any:
        """Compute it: the result, or the exception."""
        try:
            return self._waiting[number].compute()
        except AssignorError as error:
            return error
        except Exception as error:
            log.exception("a computation failed")
            return error

    def finish(self, number: int, result: Any, now: float) -> None:
        """Let the rules go on with a result."""
        try:
            self._waiting.pop(number).finish(result, now)
        except Exception:
            log.exception("what waited for a computation failed")


@contextmanager
def _switching_often() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
