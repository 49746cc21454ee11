"""Which partition of `__consumer_offsets` a group lives in.

Decides only the arithmetic; it does not know who owns the partition. Source: semantics 5.1.
"""

from __future__ import annotations

from functools import lru_cache
from struct import iter_unpack


@lru_cache(maxsize=65536)
def java_string_hash(text: str) -> int:
    """`String.hashCode()` of Java: over UTF-16 code units, wrapped to a signed 32-bit integer."""
    value = 0
    for (unit,) in iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


def partition_for(key: str, partitions: int) -> int:
    """The partition, out of `partitions`, of a group id (or of a transactional id: same function)."""
    hashed = java_string_hash(key)
    # Kafka's Utils.abs: the absolute value of the smallest integer is 0, it is not masked to its low 31 bits.
    return 0 if hashed == -0x80000000 else abs(hashed) % partitions
