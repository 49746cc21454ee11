"""A stream of bytes cut into frames, most of which only pass.

Decides where frames begin and end, how much of one is held in memory (never more than its `ReadPlan`), and that every
byte passes in order, but for frames that are held back to be changed. It does not know what is in a frame, nor where
the bytes go.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from kafka_shim.apis.wire import DecodeError

_unpack_size: Final = struct.Struct(">i").unpack_from

T = TypeVar("T")


class ReadPlan(NamedTuple):
    """How many bytes of a frame are to be read, and whether none of them may pass until they were."""

    bytes: int
    hold: bool = False


class Frames(Generic[T]):
    """Cuts a stream whose frames begin with at least `head` bytes.

    `begin` is called with a frame's size and its first `head` bytes and returns how much of it to read; `end` with that
    part, and returns what is to pass in place of a frame that was held back. Both may raise DecodeError: what comes
    from there on cannot be read and only passes. `broken` then says why.
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
        self._left = 0
        """How many bytes of the frame under way are still to come; 0 until `begin` has returned a plan."""

    @property
    def held(self) -> int:
        """How many bytes are in memory."""
        return len(self._read)

    def feed(self, data: bytes) -> list[bytes | T]:
        """What is to pass now, in order."""
        if self.broken is not None:
            return [data]
        out: list[bytes | T] = []
        position, available = 0, len(data)
        try:
            while position < available:
                if self._left:
                    passing = data[position : position + self._left]
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
        self._left = size + 4 - len(self._read)
        if len(self._read) - 4 >= self._goal:
            self._finish(out)

    @property
    def _goal(self) -> int:
        return self._size if self._plan.hold else min(self._plan.bytes, self._size)

    def _go_on(self, passing: bytes, out: list[bytes | T]) -> None:
        if not self._plan.hold:
            out.append(passing)
        self._left -= len(passing)
        if self._read:
            self._read += passing[: self._goal + 4 - len(self._read)]
            if len(self._read) - 4 >= self._goal:
                self._finish(out)

    def _finish(self, out: list[bytes | T]) -> None:
        part = bytes(self._read[4:])
        if not self._plan.hold:
            # It has passed: should `end` find it unreadable, it must not pass again.
            self._read.clear()
        instead = self._end(self._size, part)
        self._read.clear()
        if self._plan.hold and instead is not None:
            out.append(instead)
