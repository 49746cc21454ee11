"""A writer of record batches: format 2, one key or none, no compression, one batch for all values; and a reader.

Source: the message format page of Kafka's documentation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

_START: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")
_OFFSET_SIZE: Final = 12
_TRANSACTIONAL: Final = 0x10


def record_batch(
    values: Sequence[bytes],
    timestamp: int,
    producer: tuple[int, int, int] = (-1, -1, -1),
    *,
    transactional: bool = False,
    key: bytes | None = None,
) -> bytes:
    """Encode one batch of these values, 1 ms apart from `timestamp` on; `producer` is id, epoch, first sequence.

    All records have the same `key`, or none.
    """
    records = b"".join(_record(number, key, value) for number, value in enumerate(values))
    last = len(values) - 1
    checked = (
        _CHECKED.pack(_TRANSACTIONAL if transactional else 0, last, timestamp, timestamp + last, *producer, len(values))
        + records
    )
    return _START.pack(0, _START.size - _OFFSET_SIZE + len(checked), -1, 2, crc32c(checked)) + checked


def _record(number: int, key: bytes | None, value: bytes) -> bytes:
    keyed = _varint(-1) if key is None else _varint(len(key)) + key
    body = b"\x00" + _varint(number) * 2 + keyed + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 31)
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


class ReadRecord(NamedTuple):
    """A record of a log that a case compares."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_records(data: bytes) -> Iterator[ReadRecord]:
    """Yield the records of whole batches without compression."""
    at = 0
    while len(data) - at > _START.size + _CHECKED.size:
        _, length, *_ = _START.unpack_from(data, at)
        *_, count = _CHECKED.unpack_from(data, at + _START.size)
        position = at + _START.size + _CHECKED.size
        at += _OFFSET_SIZE + length
        if at > len(data):
            return
        for _ in range(count):
            _, position = _number(data, position)
            _, position = _number(data, position + 1)
            _, position = _number(data, position)
            key, position = _bytes(data, position)
            value, position = _bytes(data, position)
            headers, (number, position) = [], _number(data, position)
            for _ in range(number):
                name, position = _bytes(data, position)
                content, position = _bytes(data, position)
                headers.append(((name or b"").decode(), content))
            yield ReadRecord(key, value, tuple(headers))


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _number(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
