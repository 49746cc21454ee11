"""Frames: each request and response comes after its size, an int32."""

from __future__ import annotations

import struct
from typing import Final

from kafka_shim.apis.wire.exceptions import DecodeError

MAX_REQUEST_BYTES: Final = 100 * 1024 * 1024
"""Kafka's default of `socket.request.max.bytes`."""

_unpack_size: Final = struct.Struct(">i").unpack_from
_pack_size: Final = struct.Struct(">i").pack


def frame(payload: bytes) -> bytes:
    """Put the size in front of `payload`."""
    return _pack_size(len(payload)) + payload


class FrameSplitter:
    """Cuts a stream of bytes into frames. `max_bytes` is the largest accepted size of a frame."""

    __slots__ = ("_frame_size", "max_bytes", "unfinished")

    def __init__(self, max_bytes: int = MAX_REQUEST_BYTES) -> None:
        self.max_bytes = max_bytes
        self.unfinished = bytearray()
        """The bytes of the unfinished frame."""
        self._frame_size = 4

    @property
    def buffered(self) -> int:
        """Number of bytes of the unfinished frame."""
        return len(self.unfinished)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that `data` completes, without their sizes, in order.

        Raises FrameError, a DecodeError, for a size that is negative or above `max_bytes`. The stream cannot be read
        any further then; frames that the same `data` completed before the bad size are in the error's `frames`.
        """
        frames: list[bytes] = []
        if self.unfinished:
            self.unfinished += data
            if len(self.unfinished) < self._frame_size:
                return []
            # One copy of a frame, which may have 100 MiB.
            end = self._frame_size if self._frame_size > 4 else 0
            with memoryview(self.unfinished) as view:
                frames += [bytes(view[4:end])] if end else []
                data = bytes(view[end:])
            self.unfinished.clear()
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
            self.unfinished += data[position:]
        return frames


class FrameError(DecodeError):
    """A frame has a size that is not accepted. `frames` are the complete frames before it."""

    def __init__(self, size: int, max_bytes: int, frames: list[bytes]) -> None:
        super().__init__(f"a frame of {size} bytes; 0 to {max_bytes} are accepted", 0, "frame")
        self.size = size
        self.frames = frames
