"""Long requests, answered part by part so that other clients are served in between.

A request that names many topics, groups or resources is a row of small ones: each part goes to the rule as a request of
its own, and its answer is encoded before the next part begins. Decides how a request is divided, for how long one
exchange keeps the process, and how long an answer may become. It does not know rules: the table of requests names the
array to divide (`requests.py`). Requests of many bytes wait here too, until they are decoded. A run with a journal
answers each request at once, so that it can be replayed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, Final, NamedTuple, Protocol

import trio

from kafka_shim.apis.wire.frames import MAX_REQUEST_BYTES

PART: Final = 16
"""Elements of a part, unless the table of requests says otherwise."""
TURN: Final = 0.002
"""Seconds after which other clients get their turn."""
MAX_ANSWER_BYTES: Final = MAX_REQUEST_BYTES
"""An answer that becomes longer is not sent: its client loses the connection."""


class Divided(NamedTuple):
    """The division of an API's long requests. `parts` yields them, or is None for a request that is short enough;
    `answers` is the array of the response that has all their answers."""

    parts: Callable[[Any, Any], Iterator[Any] | None]
    answers: str


def by(elements: str, answers: str, *, size: int = PART, once: bool = False, alone: bool = False) -> Divided:
    """Divide the array `elements` of a request into parts of `size`. `once`: answer an element once if it is there
    twice. `alone`: not where several processes share their topics, because the rule may park the request there."""

    def parts(request: Any, call: Any) -> Iterator[Any] | None:
        if alone and call.broker.shared is not None:
            return None
        array = getattr(request, elements)
        return None if array is None or len(array) <= size else divide(request, elements, array, size=size, once=once)

    return Divided(parts, answers)


def divide(request: Any, name: str, elements: Iterable[Any], *, size: int = PART, once: bool = False) -> Iterator[Any]:
    """Yield a request for each part of `elements`, the array `name` of a request."""
    array = list(dict.fromkeys(elements) if once else elements)
    for at in range(0, len(array), size):
        part = copy(request)
        setattr(part, name, array[at : at + size])
        yield part


class LongExchange(Protocol):
    """An exchange with an answer in parts, or a long request that is not decoded yet; `exchange.py` and `session.py`
    have them."""

    def go_on(self, now: float) -> bool:
        """Answer the next part; False once there is none."""

    def broken(self, error: Exception) -> None:
        """`go_on` has raised: the connection ends."""


class _Taken:
    """A turn that a long request has had already."""

    def go_on(self, now: float) -> bool:
        return False

    def broken(self, error: Exception) -> None:
        pass


_TAKEN: Final = _Taken()


class Parts:
    """The long exchanges of a process, each in its turn. `settle(now)` hands on the effects of their rules."""

    def __init__(self, clock: Callable[[], float], settle: Callable[[float], None]) -> None:
        self._clock = clock
        self._settle = settle
        self._exchanges: deque[LongExchange] = deque()
        self._added = trio.Event()

    def add(self, exchange: LongExchange) -> None:
        """Answer this exchange when it is its turn."""
        self._exchanges.append(exchange)
        self._added.set()

    def begin(self) -> bool:
        """Take the turn for a long request, which is served at once; False if it has to wait for its turn."""
        if self._exchanges:
            return False
        self.add(_TAKEN)
        return True

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
