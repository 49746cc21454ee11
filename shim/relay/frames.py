"""`Frames`: a stream of bytes cut into frames, most of which pass unread.

Every byte passes in order, except for frames that are held to be changed. Memory holds at most the `ReadPlan` of one
frame.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from kafka_shim.apis.wire import DecodeError

_unpack_size: Final = struct.Struct(">i").unpack_from

T = TypeVar("T")


class ReadPlan(NamedTuple):
    """Number of bytes of a frame to read; with `hold`, none of them may pass before they were read."""

    bytes: int
    hold: bool = False


class Frames(Generic[T]):
    """Cuts a stream of frames of at least `head` bytes.

    `begin` gets a frame's size and its first `head` bytes and returns a `ReadPlan`. `end` gets the bytes that were
    read, and returns the replacement of a frame that was held. Both may raise DecodeError: the rest of the stream then
    passes unread, and `broken` is the reason.
    """

    def __init__(
        self, head: int, begin: Callable[[int, bytes], ReadPlan], end: Callable[[int, bytes], T | None]
    ) -> None:
        self.broken: str | None = None
        self._head = 4 + head
        self._begin = begin
        self._end = end
        self._read = bytearray()
        self._plan = ReadPlan(0)
        self._size = 0
        self._remaining = 0
        """Number of missing bytes of the current frame; 0 until `begin` has returned a plan."""

    @property
    def buffered(self) -> int:
        """Number of bytes in memory."""
        return len(self._read)

    def feed(self, data: bytes) -> list[bytes | T]:
        """Return the data that may pass now, in order."""
        if self.broken is not None:
            return [data]
        out: list[bytes | T] = []
        position, available = 0, len(data)
        try:
            while position < available:
                if self._remaining:
                    passing = data[position : position + self._remaining]
                    position += len(passing)
                    self._go_on(passing, out)
                else:
                    more = data[position : position + self._head - len(self._read)]
                    position += len(more)
                    self._read += more
                    if len(self._read) == self._head:
                        self._start(out)
        except DecodeError as error:
            self.broken = str(error)
            rest = bytes(self._read) + data[position:]
            self._read.clear()
            if rest:
                out.append(rest)
        return out

    def _start(self, out: list[bytes | T]) -> None:
        (size,) = _unpack_size(self._read)
        if size < self._head - 4:
            raise DecodeError(f"a frame of {size} bytes", 0, "frame")
        self._plan = self._begin(size, bytes(self._read[4:]))
        if not self._plan.hold:
            out.append(bytes(self._read))
        self._size = size
        self._remaining = size + 4 - len(self._read)
        if len(self._read) - 4 >= self._goal:
            self._finish(out)

    @property
    def _goal(self) -> int:
        return self._size if self._plan.hold else min(self._plan.bytes, self._size)

    def _go_on(self, passing: bytes, out: list[bytes | T]) -> None:
        if not self._plan.hold:
            out.append(passing)
        self._remaining -= len(passing)
        if self._read:
            self._read += passing[: self._goal + 4 - len(self._read)]
            if len(self._read) - 4 >= self._goal:
                self._finish(out)

    def _finish(self, out: list[bytes | T]) -> None:
        part = bytes(self._read[4:])
        if not self._plan.hold:
            # It has passed already: if `end` cannot decode it, it must not pass again.
            self._read.clear()
        instead = self._end(self._size, part)
        self._read.clear()
        if self._plan.hold and instead is not None:
            out.append(instead)
