"""The checks of a batch from a producer: one sound batch of message format 2, with the fields that a producer may set.

`persistence/batch.py` reads it, and `batch_records.py` checks its records, which stay as the producer packed them.
Sources: KIP-98; the checks are those of Kafka's ProduceRequest, UnifiedLog and LogValidator.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.persistence.batch import (
    COMPRESSION,
    HEADER_SIZE,
    LENGTH_AT,
    MAGIC,
    MAGIC_AT,
    OVERHEAD,
    Batch,
    checksum,
    unchecked,
)
from kafka_shim.persistence.compression import CODECS

LEADER_EPOCH: Final = 0
"""The leader epoch in every batch: a change of leader changes nothing in the log that a client could see."""

_ZSTD: Final = CODECS.index("zstd")
_ATTRIBUTES_AT: Final = 22
"""The byte of the attributes that has the codec."""
_LEAST_LENGTH: Final = 14
"""The length of the smallest record of message format 0."""
_LENGTH: Final = Struct(">i")


class InvalidBatch(Exception):
    """A batch that is refused, with the error for the producer, and Kafka's message if it has one."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message


def parse_batch(data: bytes | None, *, max_bytes: int, zstd_allowed: bool = True) -> Batch:
    """Parse the one batch in a producer's `data` with Kafka's checks; an incomplete second batch is cut off.

    Raises InvalidBatch with INVALID_RECORD (87) unless `data` is a single batch of format 2 that does not contradict
    itself, MESSAGE_TOO_LARGE (10) beyond `max_bytes`, CORRUPT_MESSAGE (2) for an impossible size, format or CRC, and
    UNSUPPORTED_COMPRESSION_TYPE (76) for zstd in a request version without it.
    """
    size = _whole(data or b"", 0)
    if data is None or not size:
        raise InvalidBatch(ErrorCode.INVALID_RECORD)
    if data[MAGIC_AT] > MAGIC:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {data[MAGIC_AT]}")
    if data[MAGIC_AT] != MAGIC or _whole(data, size):
        raise InvalidBatch(ErrorCode.INVALID_RECORD)
    if size < HEADER_SIZE:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE)
    batch, crc = unchecked(data[:size])
    if batch.compression == _ZSTD and not zstd_allowed:
        raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if batch.base_offset != 0:
        raise InvalidBatch(ErrorCode.INVALID_RECORD)
    if size > max_bytes:
        raise InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE)
    if checksum(batch.data) != crc or batch.compression >= len(CODECS):
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE)
    count = batch.record_count
    if batch.control or count <= 0 or batch.last_offset_delta + 1 != count:
        raise InvalidBatch(ErrorCode.INVALID_RECORD)
    if batch.has_producer and batch.base_sequence < 0:
        raise InvalidBatch(ErrorCode.INVALID_RECORD)
    return batch


def producer_of(data: bytes | None) -> tuple[int, int] | None:
    """Return producer id and epoch from the header of a transactional batch, unchecked; None for another batch."""
    if data is None or len(data) < HEADER_SIZE:
        return None
    batch, _ = unchecked(data)
    return (batch.producer_id, batch.producer_epoch) if batch.transactional else None


def is_compressed(data: bytes | None) -> bool:
    """Return True if the header of a batch, unchecked, names a codec."""
    return data is not None and len(data) >= HEADER_SIZE and bool(data[_ATTRIBUTES_AT] & COMPRESSION)


def _whole(data: bytes, at: int) -> int:
    """Return the size in bytes of the batch that begins at `at`, 0 if the batch is incomplete. Raises InvalidBatch."""
    if len(data) - at <= MAGIC_AT:
        return 0
    length: int = _LENGTH.unpack_from(data, at + LENGTH_AT)[0]
    if length < _LEAST_LENGTH:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead ({_LEAST_LENGTH})",
        )
    size = length + OVERHEAD
    return size if size <= len(data) - at else 0
