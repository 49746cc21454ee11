"""Numbers and strings at many places of one buffer at once, with numpy. It does not know what they mean.

A place past the end of the buffer reads as zero bytes: callers give buffers that are padded (`padded`) and check the
bounds they know.
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


def padded(*parts: Any) -> Bytes:
    """One buffer of these bytes-like parts, with zeroes after them so that reads near the end stay inside."""
    return np.frombuffer(b"".join((*parts, bytes(PADDING))), np.uint8)


def uvarints(data: Bytes, at: Ints) -> tuple[NDArray[np.uint64], Ints]:
    """The unsigned varints at these places, and the places after them. One of more than ten bytes ends after ten."""
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
    """The zigzag varints at these places, and the places after them."""
    raw, after = uvarints(data, at)
    value = (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64)
    return value, after


def fixed(data: Bytes, at: Ints, dtype: str) -> Ints:
    """The big-endian integers at these places; `dtype` is numpy's, like ">i4"."""
    size = np.dtype(dtype).itemsize
    places = at[:, None] + np.arange(size)
    np.minimum(places, data.size - 1, out=places)
    return np.ascontiguousarray(data[places]).view(dtype).ravel().astype(np.int64)


def strings(data: Bytes, starts: Ints, lengths: Ints, null: NDArray[np.bool_] | None = None) -> pa.StringArray:
    """The strings at these places as Arrow has them; raises `pa.ArrowInvalid` if one is not UTF-8."""
    lengths = np.maximum(lengths, 0)
    if null is not None:
        lengths = np.where(null, 0, lengths)
    ends = np.cumsum(lengths)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    offsets[1:] = ends
    total = int(ends[-1]) if len(ends) else 0
    gathered = data[np.repeat(starts - offsets[:-1], lengths) + np.arange(total)]
    validity = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    found = pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(gathered), validity)
    found.validate(full=True)
    return found
