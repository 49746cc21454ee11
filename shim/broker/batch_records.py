"""Reader of the records inside a batch: checks their sizes, offsets and count, and finds records by timestamp.

It keeps no key, value or header. Sources: Kafka's message format page, DefaultRecord and LogValidator; KIP-734.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import InvalidBatch
from kafka_shim.persistence.batch import COMPRESSION, HEADER_SIZE, LOG_APPEND_TIME, max_timestamp, unchecked, varint
from kafka_shim.persistence.compression import CODECS, CannotDecompress, decompress

MAX_UNPACKED: Final = 16 * 2**20
"""Bytes to which a batch may unpack; the check refuses a larger one. A small batch can claim to be huge."""

MAX_RECORDS: Final = 100_000
"""Records of a batch at most: the server reads all of them before it serves another client."""

_KEY_AND_VALUE: Final = (0, 1)
_INT32: Final = 28
"""The last shift of a varint of 5 bytes."""


def first_at_or_after(data: bytes, timestamp: int, start_offset: int = 0) -> tuple[int, int] | None:
    """Return timestamp (ms) and offset of the first record of a batch not older than `timestamp`, or None.

    The batch must have such a record, but records before `start_offset` do not count.
    """
    batch, _ = unchecked(data)
    if batch.attributes & LOG_APPEND_TIME:
        return batch.max_timestamp, max(batch.base_offset, start_offset)
    base_timestamp, base_offset = batch.base_timestamp, batch.base_offset
    try:
        for timestamp_delta, offset_delta in _deltas(_unpacked(batch.payload, batch.compression), batch.record_count):
            if base_timestamp + timestamp_delta >= timestamp and base_offset + offset_delta >= start_offset:
                return base_timestamp + timestamp_delta, base_offset + offset_delta
    except (InvalidBatch, IndexError):
        return batch.max_timestamp, max(batch.base_offset, start_offset)
    return None if start_offset > batch.base_offset else (batch.max_timestamp, batch.base_offset)


def first_of_largest_timestamp(data: bytes) -> tuple[int, int] | None:
    """Return timestamp (ms) and offset of the first record with the batch's largest timestamp."""
    return first_at_or_after(data, max_timestamp(data))


def check_records(batch: bytes, attributes: int, count: int) -> int:
    """Check all records of a batch, as Kafka does before it appends the batch. Return their bytes, unpacked.

    Raises InvalidBatch with INVALID_RECORD (87) unless there are `count` records and no byte after them, each record is
    as long as its parts together, and no varint has more bytes than Kafka reads; with UNKNOWN_SERVER_ERROR (-1) if
    compressed records cannot be unpacked, or their offsets have gaps. Unlike Kafka, also refuses batches beyond
    `MAX_UNPACKED` or `MAX_RECORDS`, and timestamp deltas of more than 63 bits.
    """
    if count > MAX_RECORDS:
        # Kafka reads them first, and says the same if they are fewer.
        raise InvalidBatch(ErrorCode.INVALID_RECORD)
    compression = attributes & COMPRESSION
    records, at = (_unpacked(batch[HEADER_SIZE:], compression), 0) if compression else (batch, HEADER_SIZE)
    available = len(records)
    headers_left = MAX_RECORDS
    try:
        for number in range(count):
            length = records[at]
            at += 1
            if length < 0x80:
                length = (length >> 1) ^ -(length & 1)
            else:
                length, at = varint(records, at - 1, _INT32)
            end = at + length
            if length < 0 or end > available:
                raise InvalidBatch(ErrorCode.INVALID_RECORD)
            # The attributes, of which none are in use, and the time.
            at += 1
            if records[at] >= 0x80:
                at += 1
                if records[at] >= 0x80:
                    at = _last_of_time(records, at)
            at += 1
            if compression:
                delta, at = varint(records, at, _INT32)
                if delta != number:
                    raise InvalidBatch(ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                if records[at] >= 0x80:
                    at += 1
                    if records[at] >= 0x80:
                        at = _last_byte(records, at, 5)
                at += 1
            # Key and value, each with its size before it: -1 for null.
            for _ in _KEY_AND_VALUE:
                size = records[at]
                at += 1
                if size >= 0x80:
                    size, at = varint(records, at - 1, _INT32)
                    if size > 0:
                        at += size
                elif not size & 1:
                    at += size >> 1
            headers, at = records[at], at + 1
            if headers:
                headers, at = varint(records, at - 1, _INT32)
                headers_left -= headers
                if not 0 <= headers <= headers + headers_left:
                    raise InvalidBatch(ErrorCode.INVALID_RECORD)
                for _ in range(headers):
                    size, at = varint(records, at, _INT32)
                    if size < 0:
                        raise InvalidBatch(ErrorCode.INVALID_RECORD)
                    size, at = varint(records, at + size, _INT32)
                    at += max(size, 0)
            if at != end:
                raise InvalidBatch(ErrorCode.INVALID_RECORD)
    except IndexError:
        raise InvalidBatch(ErrorCode.INVALID_RECORD) from None
    if at != available:
        raise InvalidBatch(ErrorCode.INVALID_RECORD)
    return available


def _last_of_time(records: bytes, second: int) -> int:
    """Return the position of the last byte of a timestamp delta that begins before `second`. Raises InvalidBatch."""
    last = _last_byte(records, second, 10)
    if last == second + 8 and records[last]:
        # Kafka adds it without the bits beyond 64.
        raise InvalidBatch(ErrorCode.INVALID_RECORD)
    return last


def _last_byte(records: bytes, second: int, most: int) -> int:
    """Return the position of the last byte of a varint with three or more. Raises InvalidBatch beyond `most` bytes."""
    for at in range(second + 1, second + most - 1):
        if records[at] < 0x80:
            return at
    raise InvalidBatch(ErrorCode.INVALID_RECORD)


def _deltas(records: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Yield timestamp delta and offset delta of each record. Raises IndexError or InvalidBatch for other bytes."""
    at = 0
    for _ in range(count):
        length, at = varint(records, at)
        timestamp_delta, after = varint(records, at + 1)
        offset_delta, after = varint(records, after)
        if length < after - at:
            raise InvalidBatch(ErrorCode.INVALID_RECORD)
        yield timestamp_delta, offset_delta
        at += length


def _unpacked(packed: bytes, compression: int) -> bytes:
    """Return the records of a batch without their compression. Raises InvalidBatch if they cannot be unpacked."""
    try:
        return decompress(CODECS[compression], packed, MAX_UNPACKED)
    except (CannotDecompress, IndexError) as error:
        raise InvalidBatch(ErrorCode.UNKNOWN_SERVER_ERROR) from error
