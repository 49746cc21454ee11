"""Frames: each request and response is preceded by its size, an int32.

Decides where one frame ends and the next begins, and which sizes are refused. Does not know what is in a frame.
"""

from __future__ import annotations

import struct
from typing import Final

from kafka_shim.apis.wire.exceptions import DecodeError

MAX_REQUEST_BYTES: Final = 100 * 1024 * 1024
"""Kafka's default of `socket.request.max.bytes`."""

_unpack_size: Final = struct.Struct(">i").unpack_from
_pack_size: Final = struct.Struct(">i").pack


def frame(payload: bytes) -> bytes:
    """`payload` with its size before it."""
    return _pack_size(len(payload)) + payload


class FrameSplitter:
    """Cuts a stream of bytes into frames. `max_bytes` is the largest size a frame may have."""

    __slots__ = ("_buffer", "_frame_size", "max_bytes")

    def __init__(self, max_bytes: int = MAX_REQUEST_BYTES) -> None:
        self.max_bytes = max_bytes
        self._buffer = bytearray()
        self._frame_size = 4

    @property
    def buffered(self) -> int:
        """How many bytes of an unfinished frame are held."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes, without their sizes, in order.

        Raises DecodeError at a size that is negative or above `max_bytes`. The stream cannot be read any further then;
        frames that the same `data` completed before the bad size are in the error's `frames`.
        """
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._frame_size:
                return []
            data = bytes(self._buffer)
            self._buffer.clear()
        frames: list[bytes] = []
        position = 0
        available = len(data)
        self._frame_size = 4
        while available - position >= 4:
            (size,) = _unpack_size(data, position)
            if not 0 <= size <= self.max_bytes:
                raise FrameError(size, self.max_bytes, frames)
            end = position + 4 + size
            if end > available:
                self._frame_size = 4 + size
                break
            frames.append(data[position + 4 : end])
            position = end
        if position < available:
            self._buffer += data[position:]
        return frames


class FrameError(DecodeError):
    """A frame's size is one we do not accept. `frames` are those that were complete before it."""

    def __init__(self, size: int, max_bytes: int, frames: list[bytes]) -> None:
        super().__init__(f"a frame of {size} bytes; 0 to {max_bytes} are accepted", 0, "frame")
        self.size = size
        self.frames = frames
