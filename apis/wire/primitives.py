"""The parts of the wire form that generated code calls rather than spells out.

Decides how unsigned varints, long or null values, and skipped tagged fields are read, and which bytes lead a length.
Every reader takes `(data, position)` and may raise DecodeError or IndexError; it never trusts a length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NoReturn

from kafka_shim.apis.wire.exceptions import DecodeError


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits in at most five bytes, and the position after it."""
    value = data[position]
    if value < 0x80:
        return value, position + 1
    value &= 0x7F
    for index in range(1, 5):
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position + index + 1
    raise DecodeError("varint too long", position)


def write_uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    if value < 0x80:
        return ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


MAX_STRING: Final = 0x7FFF
"""Bytes of the longest string."""

ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x100))

SMALL: Final = 0x400
"""Lengths below this are looked up in a table."""

COMPACT_LENGTHS: Final = tuple(write_uvarint(length + 1) for length in range(SMALL))
"""What leads a compact value of each small length."""

COMPACT_LENGTHS_OR_NULL: Final = (*COMPACT_LENGTHS, b"\x00")
"""The same, and at index -1 what stands for null."""

LENGTHS: Final = {
    "": COMPACT_LENGTHS,
    "h": tuple(struct.pack(">h", length) for length in range(SMALL)),
    "i": tuple(struct.pack(">i", length) for length in range(SMALL)),
}
"""What leads a value of each small length, by the `struct` format of the length, which is none for a compact one."""


@cache
def packer(codes: str) -> Callable[..., bytes]:
    """The function that packs values of these `struct` formats."""
    return struct.Struct(">" + codes).pack


@cache
def unpacker(codes: str) -> Callable[[bytes, int], tuple[Any, ...]]:
    """The function that unpacks values of these `struct` formats from bytes at an offset."""
    return struct.Struct(">" + codes).unpack_from


def null_blob(code: str) -> bytes:
    """What stands for null, by the `struct` format of the length, which is none for a compact one."""
    return struct.pack(">" + code, -1) if code else b"\x00"


def compact_length(length: int) -> bytes:
    """What leads a compact value of any length."""
    return write_uvarint(length + 1)


def read_compact_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """A compact value that may not be null."""
    start = position
    length, position = read_uvarint(data, position)
    if length == 0:
        null(start)
    end = position + length - 1
    if end > len(data):
        past_end(data, start)
    return data[position:end], end


def read_compact_text(data: bytes, position: int) -> tuple[str, int]:
    """A compact string that may not be null. Kafka takes none that a version without compact lengths could not say."""
    value, end = read_compact_bytes(data, position)
    if len(value) > MAX_STRING:
        raise DecodeError(f"a string of {len(value)} bytes is too long", position)
    return value.decode("utf-8", "replace"), end


def skip_tagged(data: bytes, position: int) -> int:
    """The position after a section of tagged fields of which none is known; `position` is that of its count."""
    count, position = read_uvarint(data, position)
    for _ in range(count):
        _tag, position = read_uvarint(data, position)
        position = tagged_span(data, position)[1]
    return position


def tagged_span(data: bytes, position: int) -> tuple[int, int]:
    """Where a tagged field begins and ends, from the position of its size."""
    size, position = read_uvarint(data, position)
    if size > len(data) - position:
        past_end(data, position)
    return position, position + size


def too_many(count: int, data: bytes, position: int) -> NoReturn:
    """Refuse an array that cannot be there."""
    raise DecodeError(f"array of {count} elements with {max(0, len(data) - position)} bytes left", position)


def past_end(data: bytes, position: int) -> NoReturn:
    """Refuse a value that goes on past the end of the data."""
    raise DecodeError(f"a value goes past the end, {len(data)}", position)


def null(position: int) -> NoReturn:
    """Refuse null where the version has none."""
    raise DecodeError("null where there can be none", position)


def wrong_size(position: int) -> NoReturn:
    """Refuse a tagged field whose value does not fill its size."""
    raise DecodeError("a tagged field is not of the size it says", position)
