"""Closes idle connections: connections.max.idle.ms.

As in Kafka, only sent and received bytes count: a request that is parked for longer loses its connection too. Traffic
sets only a flag. A regular check turns the flag into a time, so a connection is closed a little late and never early.

Source: KIP-17's configuration; Kafka's Selector and its IdleExpiryManager; a running Kafka 4.2.2, which closes a parked
JoinGroup's connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import trio

LOOKS: Final = 40
"""The number of checks during the time that a connection may be idle."""

LEAST_SECONDS: Final = 0.02


class Connection(Protocol):
    """A connection that sets `used` when bytes were sent or received; `idle_since` belongs to the checker."""

    used: bool
    idle_since: float

    def close(self) -> None: ...


class Idle:
    """Closes connections that are idle for `max_idle_ms`; none if that is negative."""

    def __init__(self, max_idle_ms: int) -> None:
        self._max_idle_s = max_idle_ms / 1000

    async def run(self, connections: Callable[[], Iterable[Connection]]) -> None:
        """Check regularly, until cancelled."""
        if self._max_idle_s < 0:
            return
        while True:
            await trio.sleep(max(self._max_idle_s / LOOKS, LEAST_SECONDS))
            # Not the coordinator's clock, which a test may have stopped or put forward.
            self.look(connections(), time.monotonic())

    def look(self, connections: Iterable[Connection], now: float) -> None:
        """Close the connections that are idle for too long at `now`, monotonic seconds."""
        for connection in list(connections):
            if connection.used:
                connection.used = False
                connection.idle_since = now
            elif 0 <= self._max_idle_s <= now - connection.idle_since:
                connection.close()
