"""Size of records in a broker's log.

Kafka's coordinator appends records as one uncompressed batch and compares its size with max.message.bytes. Source: the
message format page of Kafka's documentation; `DefaultRecordBatch.sizeInBytes`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_shim.persistence.batch import HEADER_SIZE
from kafka_shim.persistence.records import Key, Value, encode_key, encode_value

_ATTRIBUTES = _TIMESTAMP_DELTA = _HEADERS = 1
_NULL = 1


def batch_size(records: Iterable[tuple[Key, Value | None]]) -> int:
    """Return the size in bytes of one batch of these records, all of the same time."""
    size = HEADER_SIZE
    for offset, (key, value) in enumerate(records):
        body = _ATTRIBUTES + _TIMESTAMP_DELTA + _varint_size(offset) + _HEADERS
        length = len(encode_key(key))
        body += _varint_size(length) + length
        if value is None:
            body += _NULL
        else:
            length = len(encode_value(key, value))
            body += _varint_size(length) + length
        size += _varint_size(body) + body
    return size


def _varint_size(value: int) -> int:
    """Return the size in bytes of a zigzag varint that is not negative."""
    return max(1, ((value << 1).bit_length() + 6) // 7)
