"""Walks the batches of a log segment: where each begins, which are sound, what lies between. It does not read records.

A batch that is not sound is left out and told as a `Damage`; reading goes on with the next batch that is: the one its
length points to, or else the next place in the file where a batch with a right checksum begins. A file that a crash cut
short ends in a batch that is not all there.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from kafka_shim.persistence.batch import HEADER_SIZE, MAGIC, OVERHEAD, CorruptBatch, read_batch
from kafka_shim.pipeline.decode.varints import Bytes, Ints, padded

CHUNK: Final = 4 << 20
"""About how many bytes of records are decoded at once."""

NO_OFFSET: Final = -1

_START: Final = Struct(">qiibI")
_CHAINED: Final = Struct(">i4xbI")
_LENGTH_AT: Final = 8
_CRC_AT: Final = 21
_MAGIC_AT: Final = 16
_LEAST: Final = HEADER_SIZE - OVERHEAD
_TAIL: Final = "the file ends within a batch"
_ZEROES: Final = "nothing but zeroes from here on"
_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)


class Damage(NamedTuple):
    """Bytes that could not be used: where in the file, how many, the log offset they claim (-1: none), and why."""

    position: int
    size: int
    offset: int
    reason: str


class Batches(NamedTuple):
    """Sound batches: their places in the file, their headers column by column, and their records in one buffer."""

    positions: Ints
    header: NDArray[Any]
    data: Bytes
    starts: Ints
    ends: Ints


def split(data: mmap | bytes, size: int) -> list[int]:
    """Positions in a segment where batches begin, about `size` bytes apart, the first 0; damage ends the list."""
    found = [0]
    at = 0
    while at + OVERHEAD + _LEAST <= len(data):
        _, length, _, magic, _ = _START.unpack_from(data, at)
        if magic != MAGIC or length < _LEAST:
            break
        if at - found[-1] >= size:
            found.append(at)
        at += OVERHEAD + length
    return found


def walk(data: mmap | bytes, start: int, end: int) -> Iterator[Batches | Damage]:
    """The sound batches that begin in [start, end), some at a time, and what is damaged there."""
    view = memoryview(data)
    at = start
    try:
        while at < end:
            found, checksums, stop = _chain(data, at, end)
            sound = _checked(view, found, checksums, stop)
            if sound:
                yield from _gathered(data, view, found[:sound])
                if sound == len(found):
                    at = stop
                    continue
            at = found[sound] if found else at
            offset = NO_OFFSET
            reason = _TAIL
            if at + OVERHEAD + _LEAST <= len(data):
                offset = _START.unpack_from(data, at)[0]
                reason = "the checksum is wrong" if found else _reason(data, at)
            following = _following(data, view, at)
            yield Damage(at, following - at, offset, _ZEROES if not any(view[at:following]) else reason)
            at = following
    finally:
        view.release()


def _chain(data: mmap | bytes, at: int, end: int) -> tuple[list[int], list[int], int]:
    """From `at` on, the places of batches that begin in [at, end) where the length of the one before says, about as
    many as are decoded at once; their checksums; and where the next would begin."""
    found: list[int] = []
    checksums: list[int] = []
    size = len(data)
    last = min(end - 1, size - OVERHEAD - _LEAST, at + CHUNK)
    unpack = _CHAINED.unpack_from
    while at <= last:
        length, magic, checksum = unpack(data, at + _LENGTH_AT)
        stop = at + OVERHEAD + length
        if magic != MAGIC or length < _LEAST or stop > size:
            break
        found.append(at)
        checksums.append(checksum)
        at = stop
    return found, checksums, at


def _checked(view: memoryview, found: list[int], checksums: list[int], stop: int) -> int:
    """How many of these batches come before one with a wrong checksum; all if none has."""
    covered = [place + _CRC_AT for place in found]
    # Without a step of Python for each: most of what a log is read for takes less.
    actual = list(map(crc32c, map(view.__getitem__, map(slice, covered, [*found[1:], stop]))))
    if actual == checksums:
        return len(found)
    return next(index for index, pair in enumerate(zip(actual, checksums, strict=True)) if pair[0] != pair[1])


def _reason(data: mmap | bytes, at: int) -> str:
    try:
        read_batch(data, at)
    except CorruptBatch as error:
        return error.reason
    return _TAIL


def _following(data: mmap | bytes, view: memoryview, at: int) -> int:
    """Where reading goes on after damage at `at`; the end of the file if nowhere."""
    size = len(data)
    if at + OVERHEAD + _LEAST > size:
        return size
    length: int = Struct(">i").unpack_from(data, at + 8)[0]
    if length >= _LEAST and (at + OVERHEAD + length == size or _sound(data, view, at + OVERHEAD + length)):
        return at + OVERHEAD + length
    for place in np.flatnonzero(np.frombuffer(view[at + 1 + _MAGIC_AT :], np.uint8) == MAGIC) + at + 1:
        if _sound(data, view, int(place)):
            return int(place)
    return size


def _sound(data: mmap | bytes, view: memoryview, at: int) -> bool:
    if at + OVERHEAD + _LEAST > len(data):
        return False
    _, length, _, magic, crc = _START.unpack_from(data, at)
    stop = at + OVERHEAD + length
    return bool(magic == MAGIC and length >= _LEAST and stop <= len(data) and crc32c(view[at + _CRC_AT : stop]) == crc)


def _gathered(data: mmap | bytes, view: memoryview, found: list[int]) -> Iterator[Batches | Damage]:
    """These batches with their records in one buffer, decompressed."""
    begin = found[0]
    positions = np.array(found, np.int64)
    last = found[-1] + OVERHEAD + Struct(">i").unpack_from(data, found[-1] + 8)[0]
    raw = padded(view[begin:last])
    # As numbers of a structure they would be copied one by one, as bytes they are copied at once.
    anywhere: NDArray[Any] = np.ndarray((raw.size - HEADER_SIZE + 1,), f"V{HEADER_SIZE}", raw, strides=(1,))
    header = anywhere[positions - begin].view(_HEADER)
    starts = positions - begin + HEADER_SIZE
    ends = positions - begin + OVERHEAD + header["length"].astype(np.int64)
    packed = (header["attributes"] & 0x07) != 0
    if not packed.any():
        yield Batches(positions, header, raw, starts, ends)
        return
    parts: list[bytes | memoryview] = []
    kept = []
    for index, is_packed in enumerate(packed.tolist()):
        part: bytes | memoryview = view[found[index] + HEADER_SIZE : begin + int(ends[index])]
        if is_packed:
            read = read_batch(data, found[index])
            assert read is not None
            try:
                part = read[0].unpacked()
            except CorruptBatch as error:
                yield Damage(found[index], HEADER_SIZE + len(part), int(header["base_offset"][index]), error.reason)
                continue
        parts.append(part)
        kept.append(index)
    if kept:
        lengths = np.array([len(part) for part in parts], np.int64)
        ends = np.cumsum(lengths)
        yield Batches(positions[kept], header[kept], padded(*parts), ends - lengths, ends)
