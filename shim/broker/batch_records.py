"""A look inside a record batch, for the one question that needs it: which record is the first at a time.

Decides offset and timestamp of single records in a batch. Does not know logs or requests, and reads no key, value or
header. A batch whose records cannot be unpacked here answers with its first offset: early, never late.
Sources: Kafka's message format page; KIP-734.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from kafka_shim.broker.batches import COMPRESSION, HEADER, HEADER_SIZE, LOG_APPEND_TIME

MAX_UNPACKED: Final = 16 * 2**20
"""Bytes of records a batch may unpack to before it is taken as it stands: a small batch can claim to be huge."""

_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
"""What snappy-java writes before its blocks; after it come two versions of four bytes each."""
_XERIAL_HEADER_SIZE: Final = 16
_INT32: Final = Struct(">i")


def first_at_or_after(batch: bytes, timestamp: int, start_offset: int = 0) -> tuple[int, int] | None:
    """Timestamp (ms) and offset of the first record not older than `timestamp`, or None.

    There must be one, but records before `start_offset` do not count any more.
    """
    base_offset, _, _, _, _, attributes, _, base_timestamp, max_timestamp, _, _, _, count = HEADER.unpack_from(batch)
    if attributes & LOG_APPEND_TIME:
        return max_timestamp, max(base_offset, start_offset)
    try:
        records = _unpacked(batch[HEADER_SIZE:], attributes & COMPRESSION)
        for timestamp_delta, offset_delta in _deltas(records, count):
            if base_timestamp + timestamp_delta >= timestamp and base_offset + offset_delta >= start_offset:
                return base_timestamp + timestamp_delta, base_offset + offset_delta
    except (ValueError, IndexError):
        return max_timestamp, max(base_offset, start_offset)
    return None if start_offset > base_offset else (max_timestamp, base_offset)


def first_of_largest_timestamp(batch: bytes) -> tuple[int, int] | None:
    """Timestamp (ms) and offset of the first record with the batch's largest timestamp."""
    return first_at_or_after(batch, HEADER.unpack_from(batch)[8])


def _deltas(records: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Timestamp delta and offset delta of each record. Raises IndexError or ValueError for what are no records."""
    at = 0
    for _ in range(count):
        length, at = _varint(records, at)
        timestamp_delta, after = _varint(records, at + 1)
        offset_delta, after = _varint(records, after)
        if length < after - at:
            raise ValueError("a record is longer than it says")
        yield timestamp_delta, offset_delta
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint and the offset after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a varint has more than ten bytes")


def _unpacked(packed: bytes, compression: int) -> bytes:
    """The records of a batch without their compression. Raises ValueError when they cannot be had."""
    if not compression:
        return packed
    # Most servers never look inside a compressed batch, so those that do pay for the import.
    import cramjam

    decompress_into = {
        _GZIP: cramjam.gzip.decompress_into,
        _SNAPPY: cramjam.snappy.decompress_raw_into,
        _LZ4: cramjam.lz4.decompress_into,
        _ZSTD: cramjam.zstd.decompress_into,
    }[compression]
    blocks = _xerial_blocks(packed) if compression == _SNAPPY and packed.startswith(_XERIAL_MAGIC) else [packed]
    unpacked = bytearray(MAX_UNPACKED)
    size = 0
    try:
        for block in blocks:
            size += decompress_into(block, memoryview(unpacked)[size:])
    except cramjam.DecompressionError as error:
        raise ValueError(str(error)) from error
    return bytes(memoryview(unpacked)[:size])


def _xerial_blocks(packed: bytes) -> Iterator[bytes]:
    at = _XERIAL_HEADER_SIZE
    while at + _INT32.size <= len(packed):
        (size,) = _INT32.unpack_from(packed, at)
        if size < 0:
            raise ValueError("a block of negative size")
        at += _INT32.size
        yield packed[at : at + size]
        at += size
