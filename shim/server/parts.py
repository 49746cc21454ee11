"""Long requests, answered part by part so that other clients are served in between.

A request that names many topics, groups or resources is a row of small ones: each part goes to the rule as a request of
its own, and its answer is encoded before the next part begins. Decides how a request is divided, for how long one
exchange keeps the process, how long an answer may become, and how much memory the long answers of all clients take. It
does not know rules: the table of requests names the array to divide (`requests.py`). Requests of many bytes wait here
too, until they are decoded, and so do long answers that a client reads (`long_answers.py`), also those to requests
that are not divided. A run with a journal answers each request at once, so that it can be replayed.
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
MAX_HELD_BYTES: Final = 256 * 1024 * 1024
"""The memory of all long answers that are made, or sent and not read yet. Beyond it the client with the most loses its
connection."""


class Divided(NamedTuple):
    """The division of an API's long requests. `parts` yields them, or is None for a request that is short enough; in
    place of a part it may yield the number of an earlier one: the same answer stands here again. `answers` is the array
    of the response that has all their answers. `merge` makes one element of those of it that belong together: then the
    whole answer is encoded at the end. `common` makes the object that all parts have in
    common (`Exchange.common`)."""

    parts: Callable[[Any, Any], Iterator[Any] | None]
    answers: str
    merge: Callable[[list[Any]], list[Any]] | None = None
    common: Callable[[], Any] | None = None


def by(
    elements: str,
    answers: str,
    *,
    size: int = PART,
    once: bool = False,
    repeats: bool = False,
    alone: bool = False,
    together: Callable[[Any], Any] | None = None,
    common: Callable[[], Any] | None = None,
) -> Divided:
    """Divide the array `elements` of a request into parts of `size`. `once`: answer an element once if it is there
    twice. `repeats`: repeat the answer of an element that is there often, instead of making it again. `alone`: not
    where several processes share their topics, because the rule may park the request there. `together`: see
    `divide_together`; `common`: see `Divided`."""

    def parts(request: Any, call: Any) -> Iterator[Any] | None:
        if alone and call.broker.shared is not None:
            return None
        array = getattr(request, elements)
        if array is None or len(array) <= size:
            return None
        if repeats:
            return divide_once(request, elements, array, size=size)
        if together is not None:
            return divide_together(request, elements, array, together, size=size)
        return divide(request, elements, dict.fromkeys(array) if once else array, size=size)

    return Divided(parts, answers, common=common)


def divide(request: Any, name: str, elements: Iterable[Any], *, size: int = PART) -> Iterator[Any]:
    """Yield a request for each part of `elements`, the array `name` of a request."""
    array = list(elements)
    for at in range(0, len(array), size):
        yield _part(request, name, array[at : at + size])


def divide_together(
    request: Any, name: str, elements: Iterable[Any], key: Callable[[Any], Any], *, size: int = PART
) -> Iterator[Any]:
    """Yield a request for the elements of each `size` keys: those of one key stay together, since the rule refuses
    them."""
    by_key: dict[Any, list[Any]] = {}
    for element in elements:
        by_key.setdefault(key(element), []).append(element)
    of_one_key = list(by_key.values())
    for at in range(0, len(of_one_key), size):
        yield _part(request, name, [each for elements in of_one_key[at : at + size] for each in elements])


def divide_once(request: Any, name: str, elements: Iterable[Any], *, size: int) -> Iterator[Any]:
    """Yield a request for each part of `elements`. An element that was there before is a part by itself, and from then
    on the number of this part."""
    numbers: dict[Any, int | None] = {}
    new: list[Any] = []
    yielded = 0
    for element in elements:
        key = _key(element)
        if key not in numbers:
            numbers[key] = yielded if size == 1 else None
            new.append(element)
            if len(new) == size:
                yield _part(request, name, new)
                yielded, new = yielded + 1, []
            continue
        if new:
            yield _part(request, name, new)
            yielded, new = yielded + 1, []
        number = numbers[key]
        if number is None:
            numbers[key] = yielded
            yield _part(request, name, [element])
        else:
            yield number
        yielded += 1
    if new:
        yield _part(request, name, new)


def _part(request: Any, name: str, elements: list[Any]) -> Any:
    part = copy(request)
    setattr(part, name, elements)
    return part


def _key(element: Any) -> Any:
    """Return a key that equal elements have in common. An element with elements of its own has one for itself."""
    key = element
    if not isinstance(element, str):
        values = (getattr(element, each.name) for each in element.fields)
        key = tuple(tuple(each) if isinstance(each, list) else each for each in values)
    try:
        hash(key)
    except TypeError:
        return object()
    return key


class Reader(Protocol):
    """A client's connection, as far as its long answer is counted."""

    def refuse(self, reason: str) -> None:
        """Close the connection without an answer, and log why."""


class LongExchange(Protocol):
    """An exchange with an answer in parts, a long request that is not decoded yet, or a long answer that is sent;
    `exchange.py`, `session.py` and `long_answers.py` have them."""

    def go_on(self, now: float) -> bool:
        """Answer or send the next part; False once there is none."""

    def broken(self, error: Exception) -> None:
        """`go_on` has raised: the connection ends."""


class HugeExchange(Protocol):
    """An exchange with a huge request; `exchange.py` has it."""

    @property
    def under_way(self) -> bool:
        """True from its decoding until it is answered or waits for anything but its turn."""


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
        self._held: dict[Reader, int] = {}
        """The bytes of each client's long answer."""
        self.held = 0
        """Their sum."""
        self.huge: Callable[[], HugeExchange | None] = lambda: None
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

    def hold(self, client: Reader, size: int) -> None:
        """Count the memory of this client's long answer, so many bytes by now, until `release`."""
        self.held += size - self._held.get(client, 0)
        self._held[client] = size
        while self.held > MAX_HELD_BYTES:
            largest = max(self._held, key=self._held.__getitem__)
            size = self._held[largest]
            self.release(largest)
            largest.refuse(
                f"{size} bytes of an answer, the longest while all that clients have to read takes more than"
                f" {MAX_HELD_BYTES}"
            )

    def room(self) -> int:
        """Return the bytes that records in answers may take now: half of the bound, so that clients with much to read
        get less records at a time, and keep their connections."""
        return max(0, MAX_HELD_BYTES // 2 - self.held)

    def release(self, client: Reader) -> None:
        """Count the long answer of this client no longer."""
        self.held -= self._held.pop(client, 0)

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
