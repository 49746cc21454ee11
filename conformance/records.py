"""Record batches, as small as a case needs them: values without keys, one batch for all.

Decides nothing a target could get wrong. Source: the message format page of Kafka's documentation.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

_START: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")
_OFFSET_SIZE: Final = 12
_TRANSACTIONAL: Final = 0x10


def batch(
    values: Sequence[bytes],
    timestamp: int,
    producer: tuple[int, int, int] = (-1, -1, -1),
    *,
    transactional: bool = False,
) -> bytes:
    """The batch of these values, a ms apart from `timestamp` on; `producer` is its id, epoch and first sequence."""
    records = b"".join(_record(number, value) for number, value in enumerate(values))
    last = len(values) - 1
    checked = (
        _CHECKED.pack(_TRANSACTIONAL if transactional else 0, last, timestamp, timestamp + last, *producer, len(values))
        + records
    )
    return _START.pack(0, _START.size - _OFFSET_SIZE + len(checked), -1, 2, crc32c(checked)) + checked


def _record(number: int, value: bytes) -> bytes:
    body = b"\x00" + _varint(number) * 2 + _varint(-1) + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    left = (value << 1) ^ (value >> 31)
    found = bytearray()
    while left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])
