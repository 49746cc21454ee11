"""The header of a record batch: parse it, check it, and fill in the fields that the broker sets.

A batch from a producer must be one sound batch of message format 2. Its records stay as the producer packed them
(`batch_records.py` reads them). Sources: Kafka's message format page; KIP-98; the checks are those of Kafka's
ProduceRequest, UnifiedLog and LogValidator.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from kafka_shim.apis.wire.errors import ErrorCode

HEADER: Final = Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp, producer id and
epoch, base sequence, count of records."""

HEADER_SIZE: Final = HEADER.size
LOG_OVERHEAD: Final = 12
"""Bytes of base offset and length, which the length field does not count."""

COMPRESSION: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
ZSTD: Final = 4
MAGIC: Final = 2
LEADER_EPOCH: Final = 0
"""The leader epoch in every batch: a change of leader changes nothing in the log that a client could see."""

_LEAST_LENGTH: Final = 14
"""The length of the smallest record of message format 0."""

_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_LAST_OFFSET_DELTA_AT: Final = 23
_MAX_TIMESTAMP_AT: Final = 35
_MAGIC_AT: Final = 16
_START: Final = Struct(">qii")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_INT64: Final = Struct(">q")


class InvalidBatch(Exception):
    """A batch that is refused, with the error for the producer, and Kafka's message if it has one."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message


class Batch(NamedTuple):
    """One batch: its bytes and the fields of its header. Timestamps are ms since the epoch."""

    data: bytes
    base_offset: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Return the last sequence number; they wrap to 0 after 2^31 - 1."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def compression(self) -> int:
        """Return the compression: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION

    @property
    def has_producer(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    def stamped(self, base_offset: int, append_time: int | None) -> Batch:
        """Return this batch as the log keeps it: with its offset, the leader epoch and, unless None, the append time in
        ms.

        Only the kind of timestamp and the append time change bytes that the CRC covers.
        """
        start = _START.pack(base_offset, len(self.data) - LOG_OVERHEAD, LEADER_EPOCH)
        if append_time is None and not self.attributes & LOG_APPEND_TIME:
            data = b"".join((start, memoryview(self.data)[_MAGIC_AT:]))
            return self._replace(data=data, base_offset=base_offset)
        attributes, latest = self.attributes & ~LOG_APPEND_TIME, self.max_timestamp
        if append_time is not None:
            attributes, latest = self.attributes | LOG_APPEND_TIME, append_time
        changed = bytearray(self.data)
        changed[:_MAGIC_AT] = start
        _INT16.pack_into(changed, _ATTRIBUTES_AT, attributes)
        _INT64.pack_into(changed, _MAX_TIMESTAMP_AT, latest)
        _UINT32.pack_into(changed, _CRC_AT, _crc32c(memoryview(changed)[_ATTRIBUTES_AT:]))
        return self._replace(data=bytes(changed), base_offset=base_offset, attributes=attributes, max_timestamp=latest)


def parse_batch(data: bytes | None, *, max_bytes: int, zstd_allowed: bool = True) -> Batch:
    """Parse the one batch in a producer's `data` with Kafka's checks; an incomplete second batch is cut off.

    Raises InvalidBatch with INVALID_RECORD (87) unless `data` is a single batch of format 2 that does not contradict
    itself, MESSAGE_TOO_LARGE (10) beyond `max_bytes`, CORRUPT_MESSAGE (2) for an impossible size, format or CRC, and
    UNSUPPORTED_COMPRESSION_TYPE (76) for zstd in a request version without it.
    """
    size = _whole(data or b"", 0)
    if data is None or not size:
        raise InvalidBatch(ErrorCode.INVALID_RECORD)
    if data[_MAGIC_AT] > MAGIC:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {data[_MAGIC_AT]}")
    if data[_MAGIC_AT] != MAGIC or _whole(data, size):
        raise InvalidBatch(ErrorCode.INVALID_RECORD)
    if size < HEADER_SIZE:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE)
    data = data[:size]
    base_offset, _, _, _, crc, attributes, last_delta, base_time, max_time, producer_id, epoch, sequence, count = (
        HEADER.unpack_from(data)
    )
    batch = Batch(data, 0, attributes, last_delta, base_time, max_time, producer_id, epoch, sequence, count)
    if batch.compression == ZSTD and not zstd_allowed:
        raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if base_offset != 0:
        raise InvalidBatch(ErrorCode.INVALID_RECORD)
    if size > max_bytes:
        raise InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE)
    if _crc32c(memoryview(data)[_ATTRIBUTES_AT:]) != crc or batch.compression > ZSTD:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE)
    if attributes & CONTROL or count <= 0 or last_delta + 1 != count or (batch.has_producer and sequence < 0):
        raise InvalidBatch(ErrorCode.INVALID_RECORD)
    return batch


def producer_of(data: bytes | None) -> tuple[int, int] | None:
    """Return producer id and epoch from the header of a transactional batch, unchecked; None for another batch."""
    if data is None or len(data) < HEADER_SIZE:
        return None
    _, _, _, _, _, attributes, _, _, _, producer_id, producer_epoch, _, _ = HEADER.unpack_from(data)
    return (producer_id, producer_epoch) if attributes & TRANSACTIONAL else None


def _whole(data: bytes, at: int) -> int:
    """Return the size in bytes of the batch that begins at `at`, 0 if the batch is incomplete. Raises InvalidBatch."""
    if len(data) - at <= _MAGIC_AT:
        return 0
    _, length, _ = _START.unpack_from(data, at)
    if length < _LEAST_LENGTH:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead ({_LEAST_LENGTH})",
        )
    size: int = length + LOG_OVERHEAD
    return size if size <= len(data) - at else 0


def max_timestamp(data: bytes) -> int:
    """Return the largest timestamp of the records in a batch, ms."""
    timestamp: int = _INT64.unpack_from(data, _MAX_TIMESTAMP_AT)[0]
    return timestamp


def last_offset(data: bytes) -> int:
    """Return the offset of the last record that the producer wrote into the batch."""
    base: int = _INT64.unpack_from(data)[0]
    delta: int = _INT32.unpack_from(data, _LAST_OFFSET_DELTA_AT)[0]
    return base + delta


def _crc32c(data: memoryview) -> int:
    # Imported with the first batch: importing it is a tenth of the time it takes the server to start.
    from crc32c import crc32c

    return crc32c(data)
