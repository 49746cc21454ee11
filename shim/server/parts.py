"""Turns of long requests and long answers, so that other clients are served in between.

Decides for how long one exchange keeps the process, how long an answer may become, and how much memory the long
requests and the long answers of all clients take. The answer to a part of a divided request (`division.py`) is encoded
before the next part begins. Requests of many bytes wait here too, until they are decoded, and so do long answers that a
client reads (`long_answers.py`), also those to requests that are not divided. A run with a journal answers each request
at once, so that it can be replayed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import trio

from kafka_shim.apis.wire.frames import MAX_REQUEST_BYTES
from kafka_shim.server.connection import Call, Connection

TURN: Final = 0.002
"""Seconds after which other clients get their turn."""
MAX_ANSWER_BYTES: Final = MAX_REQUEST_BYTES
"""An answer that becomes longer is not sent: its client loses the connection."""
MAX_HELD_BYTES: Final = 256 * 1024 * 1024
"""The memory of all long answers that are made, or sent and not read yet. Beyond it the client with the most loses its
connection."""
MAX_COMING_BYTES: Final = 512 * 1024 * 1024
"""The same of all long requests that are not there as a whole, or wait for their turn."""


class LongExchange(Protocol):
    """An exchange with an answer in parts, a long request that is not decoded yet, or a long answer that is sent;
    `exchange.py`, `session.py` and `long_answers.py` have them."""

    def go_on(self, now: float) -> bool:
        """Answer or send the next part; False once there is none."""

    def broken(self, error: Exception) -> None:
        """`go_on` has raised: the connection ends."""


class _Taken:
    """A turn that a long request has had already."""

    def go_on(self, now: float) -> bool:
        return False

    def broken(self, error: Exception) -> None:
        pass


_TAKEN: Final = _Taken()


class _Bytes:
    """The bytes that each client takes for `what`; `total` is their sum."""

    def __init__(self, what: str) -> None:
        self.total = 0
        self._what = what
        self._of: dict[Connection, int] = {}

    def put(self, client: Connection, size: int, most: int) -> None:
        """Count the bytes of a client; beyond `most` in all, clients lose their connections, the largest first."""
        self.total += size - self._of.get(client, 0)
        self._of[client] = size
        while self.total > most:
            largest = max(self._of, key=self._of.__getitem__)
            size = self._of[largest]
            self.drop(largest)
            largest.refuse(f"{size} bytes of {self._what} more than {most}")

    def drop(self, client: Connection) -> None:
        self.total -= self._of.pop(client, 0)


class Parts:
    """The long exchanges of a process, each in its turn. `settle(now)` hands on the effects of their rules."""

    def __init__(self, clock: Callable[[], float], settle: Callable[[float], None]) -> None:
        self._clock = clock
        self._settle = settle
        self._exchanges: deque[LongExchange] = deque()
        self._added = trio.Event()
        self._answers = _Bytes("an answer, the longest while all that clients have to read takes")
        self._requests = _Bytes("a request, the longest while all that are not served yet take")
        self.huge: Callable[[], Call | None] = lambda: None
        """Returns the last huge exchange that was decoded; None if it has gone."""

    def add(self, exchange: LongExchange) -> None:
        """Answer this exchange when it is its turn."""
        self._exchanges.append(exchange)
        self._added.set()

    def is_huge_under_way(self) -> bool:
        """Return True if the last huge exchange is to be served or answered in turns to come."""
        last = self.huge()
        return last is not None and last.under_way

    def begin(self) -> bool:
        """Take the turn for a long request, which is served at once; False if it has to wait for its turn."""
        if self._exchanges:
            return False
        self.add(_TAKEN)
        return True

    def hold(self, client: Connection, size: int) -> None:
        """Count the memory of this client's long answer, so many bytes by now, until `release`; 0 releases it."""
        if not size:
            self.release(client)
            return
        self._answers.put(client, size, MAX_HELD_BYTES)

    @property
    def answer_bytes(self) -> int:
        """The memory of all long answers, in bytes."""
        return self._answers.total

    @property
    def request_bytes(self) -> int:
        """The memory of all long requests that are not served yet, in bytes."""
        return self._requests.total

    def count_request(self, client: Connection, size: int) -> None:
        """Count the memory of this client's long request, so many bytes by now, until `drop_request`."""
        self._requests.put(client, size, MAX_COMING_BYTES)

    def drop_request(self, client: Connection) -> None:
        """Count the long request of this client no longer: it is served, or its connection has ended."""
        self._requests.drop(client)

    def room(self) -> int:
        """Return the bytes that records in answers may take now: half of the bound, so that clients with much to read
        get less records at a time, and keep their connections."""
        return max(0, MAX_HELD_BYTES // 2 - self.answer_bytes)

    def release(self, client: Connection) -> None:
        """Count the long answer of this client no longer."""
        self._answers.drop(client)

    async def run(self) -> None:
        """Answer part after part of the long requests, until cancelled."""
        while True:
            await self._added.wait()
            self._added = trio.Event()
            while self._exchanges:
                self.turn()
                await trio.lowlevel.checkpoint()

    def turn(self) -> None:
        """Answer parts of the exchange that has waited longest."""
        exchange = self._exchanges.popleft()
        now = self._clock()
        ends = time.monotonic() + TURN
        try:
            while exchange.go_on(now):
                if time.monotonic() >= ends:
                    self._exchanges.append(exchange)
                    break
        except Exception as error:
            exchange.broken(error)
        self._settle(now)
