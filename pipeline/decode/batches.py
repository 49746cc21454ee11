"""A walk over the batches of a log segment: their positions, the sound ones, and the damage between them.

A damaged batch is left out and reported as a `Damage`. Reading goes on at the end of the damaged batch if a sound batch
begins there, else at the next place in the file where a batch with a right checksum begins. A file that a crash cut
short ends with an incomplete batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from kafka_shim.persistence.batch import (
    CHECKED_AT,
    COMPRESSION,
    HEADER,
    HEADER_SIZE,
    LENGTH_AT,
    MAGIC,
    MAGIC_AT,
    OVERHEAD,
    CorruptBatch,
    read_batch,
)
from kafka_shim.pipeline.decode.varints import Bytes, Ints, padded

CHUNK: Final = 4 << 20
"""About how many bytes of batches to decode at once."""

NO_OFFSET: Final = -1

_CHAINED: Final = Struct(">i4xbI")
"""Length, magic and CRC, from the length on."""
_LEAST: Final = HEADER_SIZE - OVERHEAD
_TAIL: Final = "the file ends within a batch"
_ZEROES: Final = "only zeroes from here on"
_FIELDS: Final = (
    "base_offset length leader_epoch magic crc attributes last_offset_delta base_timestamp max_timestamp"
    " producer_id producer_epoch base_sequence count"
)
_HEADER: Final = np.dtype([(name, f">{code}") for name, code in zip(_FIELDS.split(), HEADER.format[1:], strict=True)])


class Damage(NamedTuple):
    """Unusable bytes: their position in the file, their number, the log offset they claim (-1: none), and the
    reason."""

    position: int
    size: int
    offset: int
    reason: str


class Batches(NamedTuple):
    """Sound batches: their positions in the file, their headers as columns, and their records in one buffer."""

    positions: Ints
    header: NDArray[Any]
    data: Bytes
    starts: Ints
    ends: Ints


def split(data: mmap | bytes, size: int) -> list[int]:
    """Return positions in a segment where batches begin, about `size` bytes apart, the first 0, up to the first
    damage."""
    positions = [0]
    at = 0
    while at + OVERHEAD + _LEAST <= len(data):
        length, magic, _ = _CHAINED.unpack_from(data, at + LENGTH_AT)
        if magic != MAGIC or length < _LEAST:
            break
        if at - positions[-1] >= size:
            positions.append(at)
        at += OVERHEAD + length
    return positions


def walk(data: mmap | bytes, start: int, end: int) -> Iterator[Batches | Damage]:
    """Yield the sound batches that begin in [start, end), many at a time, and the damage there."""
    view = memoryview(data)
    at = start
    try:
        while at < end:
            places, checksums, stop = _chain(data, at, end)
            sound = _count_sound(view, places, checksums, stop)
            if sound:
                yield from _joined(data, view, places[:sound])
                if sound == len(places):
                    at = stop
                    continue
            at = places[sound] if places else at
            offset = NO_OFFSET
            reason = _TAIL
            if at + OVERHEAD + _LEAST <= len(data):
                offset = HEADER.unpack_from(data, at)[0]
                reason = "the checksum is wrong" if places else _reason(data, at)
            following = _following(data, view, at)
            yield Damage(at, following - at, offset, _ZEROES if not any(view[at:following]) else reason)
            at = following
    finally:
        view.release()


def _chain(data: mmap | bytes, at: int, end: int) -> tuple[list[int], list[int], int]:
    """Follow the lengths of batches from `at` on, while they begin in [at, end), for about `CHUNK` bytes.

    Returns the positions of the batches, their checksums, and the position after the last one.
    """
    places: list[int] = []
    checksums: list[int] = []
    size = len(data)
    last = min(end - 1, size - OVERHEAD - _LEAST, at + CHUNK)
    unpack = _CHAINED.unpack_from
    while at <= last:
        length, magic, checksum = unpack(data, at + LENGTH_AT)
        stop = at + OVERHEAD + length
        if magic != MAGIC or length < _LEAST or stop > size:
            break
        places.append(at)
        checksums.append(checksum)
        at = stop
    return places, checksums, at


def _count_sound(view: memoryview, places: list[int], checksums: list[int], stop: int) -> int:
    """Return how many of these batches come before the first one with a wrong checksum; all if none has one."""
    covered = [place + CHECKED_AT for place in places]
    # Nested maps avoid a Python step for each batch: this is most of the work of many reads.
    actual = list(map(crc32c, map(view.__getitem__, map(slice, covered, [*places[1:], stop]))))
    if actual == checksums:
        return len(places)
    return next(index for index, pair in enumerate(zip(actual, checksums, strict=True)) if pair[0] != pair[1])


def _reason(data: mmap | bytes, at: int) -> str:
    try:
        read_batch(data, at)
    except CorruptBatch as error:
        return error.reason
    return _TAIL


def _following(data: mmap | bytes, view: memoryview, at: int) -> int:
    """Return the position to go on from after damage at `at`; the end of the file if there is none."""
    size = len(data)
    if at + OVERHEAD + _LEAST > size:
        return size
    length: int = _CHAINED.unpack_from(data, at + LENGTH_AT)[0]
    if length >= _LEAST and (at + OVERHEAD + length == size or _sound(data, view, at + OVERHEAD + length)):
        return at + OVERHEAD + length
    for place in np.flatnonzero(np.frombuffer(view[at + 1 + MAGIC_AT :], np.uint8) == MAGIC) + at + 1:
        if _sound(data, view, int(place)):
            return int(place)
    return size


def _sound(data: mmap | bytes, view: memoryview, at: int) -> bool:
    if at + OVERHEAD + _LEAST > len(data):
        return False
    length, magic, crc = _CHAINED.unpack_from(data, at + LENGTH_AT)
    stop = at + OVERHEAD + length
    is_whole = magic == MAGIC and length >= _LEAST and stop <= len(data)
    return bool(is_whole and crc32c(view[at + CHECKED_AT : stop]) == crc)


def _joined(data: mmap | bytes, view: memoryview, places: list[int]) -> Iterator[Batches | Damage]:
    """Join the records of these batches in one buffer, decompressed."""
    begin = places[0]
    positions = np.array(places, np.int64)
    last = places[-1] + OVERHEAD + _CHAINED.unpack_from(data, places[-1] + LENGTH_AT)[0]
    raw = padded(view[begin:last])
    # NumPy copies a structure field by field, but bytes of a fixed width at once.
    anywhere: NDArray[Any] = np.ndarray((raw.size - HEADER_SIZE + 1,), f"V{HEADER_SIZE}", raw, strides=(1,))
    header = anywhere[positions - begin].view(_HEADER)
    starts = positions - begin + HEADER_SIZE
    ends = positions - begin + OVERHEAD + header["length"].astype(np.int64)
    packed = (header["attributes"] & COMPRESSION) != 0
    if not packed.any():
        yield Batches(positions, header, raw, starts, ends)
        return
    parts: list[bytes | memoryview] = []
    sound = []
    for index, is_packed in enumerate(packed.tolist()):
        part: bytes | memoryview = view[places[index] + HEADER_SIZE : begin + int(ends[index])]
        if is_packed:
            read = read_batch(data, places[index])
            assert read is not None
            try:
                part = read[0].unpacked()
            except CorruptBatch as error:
                yield Damage(places[index], HEADER_SIZE + len(part), int(header["base_offset"][index]), error.reason)
                continue
        parts.append(part)
        sound.append(index)
    if sound:
        lengths = np.array([len(part) for part in parts], np.int64)
        ends = np.cumsum(lengths)
        yield Batches(positions[sound], header[sound], padded(*parts), ends - lengths, ends)
