"""Vectorised reads of numbers and strings at many places of one buffer, with numpy.

A place past the end of the buffer reads as zero bytes: callers pad their buffers (`padded`) and check the bounds that
they know.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int64]

PADDING: Final = 64
_LONGEST: Final = 10
_INLINE: Final = 12
_ZIGZAG: Final[Ints] = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(0x80)], np.int64)
_LOW_BYTES: Final = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)


def padded(*parts: Any) -> Bytes:
    """Join bytes-like parts into one buffer, with zeroes at the end so that reads near the end stay inside."""
    return np.frombuffer(b"".join((*parts, bytes(PADDING))), np.uint8)


def uvarints(data: Bytes, at: Ints) -> tuple[NDArray[np.uint64], Ints]:
    """Read unsigned varints at these places; return the values and the places after them. Stops after ten bytes."""
    byte = data[at]
    value = (byte & 0x7F).astype(np.uint64)
    after = at + 1
    more = np.flatnonzero(byte > 0x7F)
    shift = 7
    while more.size and shift < 7 * _LONGEST:
        byte = data[np.minimum(after[more], data.size - 1)]
        value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[more] += 1
        more = more[byte > 0x7F]
        shift += 7
    return value, after


def varints(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Read zigzag varints at these places; return the values and the places after them."""
    byte = data[at]
    if byte.size and byte.max() <= 0x7F:
        # Fast path for one byte each: most varints are sizes and differences.
        return _ZIGZAG[byte], at + 1
    raw, after = uvarints(data, at)
    value = (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64)
    return value, after


def fixed(data: Bytes, at: Ints, dtype: str) -> Ints:
    """Read big-endian integers at these places; `dtype` is numpy's, like ">i4"."""
    return _anywhere(data, dtype, at).astype(np.int64)


def _anywhere(data: Bytes, dtype: str, at: Ints) -> NDArray[Any]:
    """Read numbers at unaligned places, by a view of the buffer as overlapping numbers."""
    count = data.size - np.dtype(dtype).itemsize + 1
    overlapping: NDArray[Any] = np.ndarray((count,), dtype, data, strides=(1,))
    return overlapping[np.minimum(at, count - 1)]


def binaries(data: Bytes, starts: Ints, lengths: Ints, null: NDArray[np.bool_] | None = None) -> pa.BinaryArray:
    """Make an Arrow array of the bytes at these places.

    It hands Arrow views of 16 bytes each: the length, and then all bytes if there are at most twelve, else the first
    four, the number of the buffer and the place in it. Arrow copies the bytes together.
    """
    lengths = np.maximum(lengths, 0)
    if null is not None:
        lengths = np.where(null, 0, lengths)
    short = lengths <= _INLINE
    sizes = lengths.astype(np.uint64)
    mask_first = _LOW_BYTES[np.where(short, np.minimum(lengths, 4), 4)]
    mask_rest = _LOW_BYTES[np.clip(lengths - 4, 0, 8)]
    first = _anywhere(data, "<u4", starts).astype(np.uint64) & mask_first
    views = np.empty((len(starts), 2), "<u8")
    views[:, 0] = sizes | first << np.uint64(32)
    views[:, 1] = np.where(
        short, _anywhere(data, "<u8", starts + 4) & mask_rest, starts.astype(np.uint64) << np.uint64(32)
    )
    validity = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    buffers = [validity, pa.py_buffer(views), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary_view(), len(starts), buffers).cast(pa.binary())


def strings(data: Bytes, starts: Ints, lengths: Ints, null: NDArray[np.bool_] | None = None) -> pa.StringArray:
    """Make an Arrow array of the strings at these places; raises `pa.ArrowInvalid` if one is not UTF-8."""
    return binaries(data, starts, lengths, null).cast(pa.string())
