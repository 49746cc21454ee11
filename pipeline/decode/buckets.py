"""The bucket of a group, as Spark computes it: `pmod(hash(group), BUCKETS)`. It does not know what buckets are for."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kafka_shim.pipeline.schemas import BUCKETS

_SEED: Final = 42
_WORD: Final = 0xFFFFFFFF


NO_GROUP: Final = _SEED % BUCKETS
"""The bucket of what is about no group: Spark's hash of null is its seed."""


@lru_cache(maxsize=1 << 16)
def bucket_of(group: str | None) -> int:
    """The bucket of a group. Spark's `hash` is Murmur3 in 32 bits, but for the last bytes that fill no word: these are
    mixed one by one, as signed numbers."""
    if group is None:
        return NO_GROUP
    raw = group.encode()
    whole = len(raw) & ~3
    words = [int.from_bytes(raw[at : at + 4], "little") for at in range(0, whole, 4)]
    words += [byte - 256 if byte > 127 else byte for byte in raw[whole:]]
    value = _SEED
    for word in words:
        word = word * 0xCC9E2D51 & _WORD
        word = (word << 15 | word >> 17) * 0x1B873593 & _WORD
        value ^= word
        value = (value << 13 | value >> 19) & _WORD
        value = (value * 5 + 0xE6546B64) & _WORD
    value ^= len(raw)
    value = (value ^ value >> 16) * 0x85EBCA6B & _WORD
    value = (value ^ value >> 13) * 0xC2B2AE35 & _WORD
    value ^= value >> 16
    signed = value - (1 << 32) if value >> 31 else value
    return signed % BUCKETS
