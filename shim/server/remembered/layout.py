"""Find the bytes of a frame that change when a client repeats a request: its numbers, such as the epoch.

A message is encoded once more with all bits of its numbers inverted: the frames differ exactly in these places.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from kafka_shim.apis.wire import Message
from kafka_shim.server.exchange import Exchange

IN_REQUEST: Final = 8
IN_ANSWER: Final = 4
"""The place of the correlation id in a frame with its size."""


class Layout(NamedTuple):
    """The places of the numbers in a frame of `size` bytes. `struct` reads and writes them; `fixed` are all other bytes
    but the correlation id, cut out by `mask`."""

    size: int
    mask: int
    fixed: int
    struct: Struct

    def with_numbers(self, numbers: Sequence[int]) -> tuple[bytes, bytes]:
        """Return the frame of an answer with these numbers in two parts, before and after the correlation id."""
        whole = (int.from_bytes(self.struct.pack(*numbers)) | self.fixed).to_bytes(self.size)
        return whole[:IN_ANSWER], whole[IN_ANSWER + 4 :]


def layout_of_request(exchange: Exchange, data: bytes, head: bytes, inverted: Message, codes: str) -> Layout | None:
    """Return the layout of the numbers that `inverted` has inverted; None if the client encodes the request differently
    from us."""
    version = exchange.version
    if head + exchange.request.encode(version) != data:
        return None
    return layout_of(data, head + inverted.encode(version), codes)


def layout_of(frame: bytes, inverted: bytes, codes: str, correlation_id: int = IN_REQUEST) -> Layout | None:
    """Return the layout of a frame. `inverted` is the same frame with the bits of the numbers inverted. The numbers
    stand in one or more places, in the order of `codes` and without a gap; else it is None."""
    size = len(frame)
    places = int.from_bytes(frame) ^ int.from_bytes(inverted)
    width = Struct(">" + codes).size
    layout, position = ">", 0
    for run in re.finditer(b"\xff+", places.to_bytes(size)):
        if run.end() - run.start() != width:
            return None
        layout += f"{run.start() - position}x{codes}"
        position = run.end()
    mask = ((1 << size * 8) - 1) ^ places ^ 0xFFFFFFFF << (size - correlation_id - 4) * 8
    return Layout(size, mask, int.from_bytes(frame) & mask, _struct(f"{layout}{size - position}x"))


@lru_cache(maxsize=512)
def _struct(layout: str) -> Struct:
    return Struct(layout)


def invert(value: Any, names: Sequence[str]) -> None:
    """Invert the bits of these numbers."""
    for name in names:
        setattr(value, name, ~getattr(value, name))


@lru_cache(maxsize=1024)
def shared(data: bytes) -> bytes:
    """Return one object for equal bytes of all connections: it stays in a cache of the processor."""
    return data
