"""Calls after some time, such as the late answer to a failed authentication."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio

from kafka_shim.server.failures import Border, Failures


class Delays:
    """Calls functions later, by the clock of this machine; each has a task of trio until then."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._send, self._receive = trio.open_memory_channel[tuple[float, Callable[[], None]]](inf)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call in `seconds`."""
        self._send.send_nowait((trio.current_time() + seconds, call))

    async def run(self) -> None:
        """Call each function when it is due, until cancelled."""
        async with trio.open_nursery() as nursery:
            async for due, call in self._receive:
                nursery.start_soon(self._wait, due, call)

    async def _wait(self, due: float, call: Callable[[], None]) -> None:
        await trio.sleep_until(due)
        try:
            call()
        except Exception as error:
            self._failures.note(Border.CONNECTION, "the end of a failed authentication", error)
