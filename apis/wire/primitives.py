"""Functions and tables for generated codecs: varints, long or null values, lengths, skipped tagged fields.

Every reader takes `(data, position)` and may raise DecodeError or IndexError; it never trusts a length.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NoReturn

from kafka_shim.apis.wire.exceptions import DecodeError, EncodeError


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits in at most five bytes; return it and the position after it."""
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
    """Encode an unsigned varint."""
    if value < 0x80:
        return ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


MAX_ELEMENTS: Final = 100_000
"""Largest number of elements of arrays and tagged fields in a request, all together.

The generated messages of Apache Kafka 4.2.2 and 4.4.0 refuse an array of more than 1,000,000 elements.
"""

MAX_TAGGED: Final = 10_000
"""Largest number of tagged fields in a section, as in the generated messages of Apache Kafka 4.2.2 and 4.4.0."""

MAX_STRING: Final = 0x7FFF
"""Largest number of bytes in a string."""

TEXT_ERRORS: Final = "kafka_shim.text"
"""How bytes that are no UTF-8 become a string: as in Kafka they are replaced by U+FFFD, not refused.

U+FFFD has three bytes, so a string can grow. Kafka takes one that grows past `MAX_STRING` bytes, and fails when it
writes it, into an answer or a record. Here it is refused: no text is longer than the form of an answer can say.
"""


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    rest = error.object[error.start :].decode("utf-8", "replace")
    size = error.start + len(rest.encode())
    if size > MAX_STRING:
        raise DecodeError(f"a string that is no UTF-8 has {size} bytes once that is replaced", 0)
    return rest, len(error.object)


codecs.register_error(TEXT_ERRORS, _replace)

ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x100))

SMALL: Final = 0x400
"""Lengths below this are looked up in a table."""

COMPACT_LENGTHS: Final = tuple(write_uvarint(length + 1) for length in range(SMALL))
"""The encoded length of a compact value, by its length."""

COMPACT_LENGTHS_OR_NULL: Final = (*COMPACT_LENGTHS, b"\x00")
"""The same with the encoded null at index -1."""

LENGTHS: Final = {
    "": COMPACT_LENGTHS,
    "h": tuple(struct.pack(">h", length) for length in range(SMALL)),
    "i": tuple(struct.pack(">i", length) for length in range(SMALL)),
}
"""Encoded lengths by the `struct` format of the length (empty for a compact one), then by length."""


@cache
def packer(codes: str) -> Callable[..., bytes]:
    """Return the function that packs values of these `struct` formats."""
    return struct.Struct(">" + codes).pack


@cache
def unpacker(codes: str) -> Callable[[bytes, int], tuple[Any, ...]]:
    """Return the function that unpacks values of these `struct` formats from bytes at an offset."""
    return struct.Struct(">" + codes).unpack_from


def null_blob(code: str) -> bytes:
    """Encode a null value, by the `struct` format of the length (empty for a compact one)."""
    return struct.pack(">" + code, -1) if code else b"\x00"


def compact_length(length: int) -> bytes:
    """Encode the length of a compact value of any length."""
    return write_uvarint(length + 1)


def compact_text_length(length: int) -> bytes:
    """The same for a string. Raises EncodeError for one longer than Kafka writes, and reads."""
    if length > MAX_STRING:
        raise EncodeError(f"a string of {length} bytes is too long")
    return write_uvarint(length + 1)


def read_compact_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """Read a compact value that may not be null; return it and the position after it."""
    start = position
    length, position = read_uvarint(data, position)
    if length == 0:
        null(start)
    end = position + length - 1
    if end > len(data):
        past_end(data, start)
    return data[position:end], end


def read_compact_text(data: bytes, position: int) -> tuple[str, int]:
    """Read a compact string that may not be null. As in Kafka, it may be no longer than a string with an int16
    length.
    """
    value, end = read_compact_bytes(data, position)
    if len(value) > MAX_STRING:
        raise DecodeError(f"a string of {len(value)} bytes is too long", position)
    return value.decode("utf-8", TEXT_ERRORS), end


def skip_tagged(data: bytes, position: int, remaining: int) -> tuple[int, int]:
    """Return the position after a section of unknown tagged fields, and how many more are allowed then.

    `position` is that of its count, and `remaining` says how many are allowed.
    """
    count, position = read_uvarint(data, position)
    if count > remaining or count > MAX_TAGGED:
        not_allowed(position)
    for _ in range(count):
        _tag, position = read_uvarint(data, position)
        position = tagged_span(data, position)[1]
    return position, remaining - count


def tagged_span(data: bytes, position: int) -> tuple[int, int]:
    """Return the start and end of a tagged field's value, from the position of its size."""
    size, position = read_uvarint(data, position)
    if size > len(data) - position:
        past_end(data, position)
    return position, position + size


def too_many(count: int, data: bytes, position: int) -> NoReturn:
    """Refuse an array of more elements than fit into the data."""
    raise DecodeError(f"array of {count} elements with {max(0, len(data) - position)} bytes left", position)


def not_allowed(position: int) -> NoReturn:
    """Refuse elements beyond those that the caller of a decoder allows."""
    raise DecodeError("more elements than are accepted", position)


def past_end(data: bytes, position: int) -> NoReturn:
    """Refuse a value that continues past the end of the data."""
    raise DecodeError(f"a value goes past the end, {len(data)}", position)


def null(position: int) -> NoReturn:
    """Refuse a null that the version does not allow."""
    raise DecodeError("null where there can be none", position)


def wrong_size(position: int) -> NoReturn:
    """Refuse a tagged field with a value of another size than it says."""
    raise DecodeError("a tagged field is not of the size it says", position)
