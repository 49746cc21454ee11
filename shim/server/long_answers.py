"""An answer in parts: its pieces are kept as they were encoded, and sent as the client reads them.

They are never joined, since an answer may have 100 MiB. A piece that stands in the answer again is kept once.
`parts.py` counts the memory of all long answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from kafka_shim.apis.wire import Message, Struct
from kafka_shim.server.connection import Connection, State
from kafka_shim.server.parts import Parts
from kafka_shim.server.table import Endpoint

SHORT: Final = 256 * 1024
"""The largest answer to join and send at once, in bytes."""
SENT_AT_ONCE: Final = 256 * 1024
"""Bytes to join for one call of the socket. A longer piece goes by itself."""
_OVERHEAD: Final = 128
"""The memory of a piece beside its bytes, roughly."""
_AGAIN: Final = 16
"""The memory of a piece that stands in the answer again."""


def characters_of(value: object) -> int:
    """Return the number of characters of all texts of a message, the least bytes that it has when encoded."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(map(characters_of, value))
    if isinstance(value, Message | Struct):
        return sum(characters_of(getattr(value, each.name)) for each in type(value).fields)
    return 0


class LongAnswer:
    """The answer to the `parts` of a request, with the pieces that are encoded already. `size` is their bytes in the
    answer, `held` in memory. `common`: see `Divided`."""

    __slots__ = ("_count", "_head", "_pieces", "_tail", "common", "held", "kept", "parts", "required_batch", "size")

    def __init__(self, parts: Iterator[Message | int], common: object = None) -> None:
        self.parts = parts
        self.common = common
        self.required_batch = 0
        self.size = self.held = 0
        self._count = 0
        self.kept: list[Struct] = []
        """Elements that are not encoded yet, since some belong together."""
        self._pieces: list[tuple[bytes, int]] = []
        self._head = self._tail = b""

    def add(self, encoded: tuple[bytes, bytes, bytes, int], required_batch: int) -> None:
        """Add the answer to a part: head, elements and tail of a response, and the number of elements."""
        self._head, elements, self._tail, count = encoded
        self.held += len(elements) + _OVERHEAD
        self.required_batch = max(self.required_batch, required_batch)
        self._add((elements, count))

    def keep(self, elements: list[Struct], required_batch: int) -> None:
        """Add elements of the answer to a part, to encode at the end."""
        self.kept += elements
        self.required_batch = max(self.required_batch, required_batch)

    def repeat(self, number: int) -> None:
        """Add the answer to part `number` again."""
        self.held += _AGAIN
        self._add(self._pieces[number])

    def _add(self, piece: tuple[bytes, int]) -> None:
        self._pieces.append(piece)
        self.size += len(piece[0])
        self._count += piece[1]

    def body(self, endpoint: Endpoint) -> list[bytes]:
        """Return the pieces of the whole answer."""
        pieces = [self._head, endpoint.count(self._count), *(piece for piece, _ in self._pieces), self._tail]
        self._pieces.clear()
        return pieces


class Sending:
    """A long answer on its way to a client. Each turn of `parts` sends more of it, until the client has to read."""

    __slots__ = ("_client", "_is_waiting", "_parts", "_pieces")

    def __init__(self, client: Connection, pieces: Iterable[bytes], parts: Parts) -> None:
        self._client = client
        self._pieces = deque(pieces)
        self._parts = parts
        self._is_waiting = True
        self.resume()

    def resume(self) -> None:
        """Send more when it is its turn: the client has read."""
        if self._is_waiting:
            self._is_waiting = False
            self._parts.add(self)

    def go_on(self, now: float) -> bool:
        """Send the next pieces; return False if there are none, or if the client has to read first."""
        client = self._client
        if client.state is State.CLOSED:
            return False
        if not self._pieces:
            client.sent(now)
            return False
        self._is_waiting = not client.transport.send(self._next())
        return not self._is_waiting

    def broken(self, error: Exception) -> None:
        """See `LongExchange.broken`."""
        self._client.failed(error)

    def _next(self) -> bytes:
        pieces = self._pieces
        first = pieces.popleft()
        together, size = [first], len(first)
        while pieces and (size := size + len(pieces[0])) <= SENT_AT_ONCE:
            together.append(pieces.popleft())
        return first if len(together) == 1 else b"".join(together)
