"""Partition of `__consumer_offsets` for a group id. Source: semantics 5.1."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from typing import Final

LONGEST_REMEMBERED: Final = 255
"""Characters of the longest text whose hash is remembered: a client may send many texts of 32,767 bytes."""

_CHUNK: Final = 64
_POWERS: Final = [pow(31, _CHUNK - 1 - place, 1 << 32) for place in range(_CHUNK)]
_POWER_OF_CHUNK: Final = pow(31, _CHUNK, 1 << 32)
_UTF_16: Final = f"utf-16-{sys.byteorder[0]}e"


def java_string_hash(text: str) -> int:
    """Compute Java's `String.hashCode()`: over UTF-16 code units, wrapped to a signed 32-bit integer."""
    units: Sequence[int]
    if text.isascii():
        units = text.encode()
    else:
        units = memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H")
    value = 0
    head = len(units) % _CHUNK
    for unit in units[:head]:
        value = (31 * value + unit) & 0xFFFFFFFF
    # A third of the time that the formula takes unit by unit.
    for at in range(head, len(units), _CHUNK):
        value = (value * _POWER_OF_CHUNK + sum(map(mul, units[at : at + _CHUNK], _POWERS))) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


_remembered_hash: Final = lru_cache(maxsize=65536)(java_string_hash)


def partition_for(key: str, partitions: int) -> int:
    """Return the partition, out of `partitions`, of a group id or a transactional id."""
    hashed = _remembered_hash(key) if len(key) <= LONGEST_REMEMBERED else java_string_hash(key)
    # As Kafka's Utils.abs: the absolute value of the smallest integer is 0.
    return 0 if hashed == -0x80000000 else abs(hashed) % partitions


def java_bucket(text: str, buckets: int = 16) -> int:
    """The place of a string in a Java hash map of so many buckets: it is iterated in this order."""
    hashed = java_string_hash(text) & 0xFFFFFFFF
    return (hashed ^ hashed >> 16) % buckets
