"""A record batch as a producer packs it: message format 2, no compression, values alone.

Decides nothing of what is in it. Source: the message format page of Kafka's documentation.
"""

from __future__ import annotations

import struct
import time
from typing import Final

from crc32c import crc32c

_HEAD: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")


def batch_of(*values: bytes) -> bytes:
    """One batch with a record for each value, of now."""
    records = b"".join(_record(delta, value) for delta, value in enumerate(values))
    now = int(time.time() * 1000)
    checked = _CHECKED.pack(0, len(values) - 1, now, now, -1, -1, -1, len(values)) + records
    return _HEAD.pack(0, len(checked) + 9, 0, 2, crc32c(checked)) + checked


def _record(delta: int, value: bytes) -> bytes:
    body = b"\0" + _varint(0) + _varint(delta) + _varint(-1) + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)
