"""The metadata hash of a consumer group: 64 bits that change when a topic it subscribes to comes, grows or goes.

Decides what the hash covers, byte for byte as Kafka 4.2 computes it, so that a broker that takes over a group with its
records sees no change where there is none. After Kafka's `Utils.computeTopicHash` and `computeGroupHash`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import pack

import xxhash

_MAGIC = b"\0"


@lru_cache(maxsize=65536)
def topic_hash(topic_id: bytes, name: str, partitions: int) -> int:
    """The hash of one topic. Our brokers are in no racks, so partitions have none."""
    # Two longs in the order of the reading machine, which hash4j takes to be little-endian.
    parts = [_MAGIC, topic_id[7::-1], topic_id[:7:-1], _text(name), pack("<i", partitions)]
    parts += (pack("<i", partition) for partition in range(partitions))
    return _signed(xxhash.xxh3_64_intdigest(b"".join(parts)))


def group_hash(topic_hashes: Iterable[tuple[str, int]]) -> int:
    """The hash of the topics of a group, each a name and its hash; 0 if none of its topics exist."""
    ordered = sorted(topic_hashes, key=lambda each: each[0].encode("utf-16-be", "surrogatepass"))
    return _signed(xxhash.xxh3_64_intdigest(b"".join(pack("<q", each) for _, each in ordered))) if ordered else 0


def _text(text: str) -> bytes:
    """UTF-16 code units, then how many there are."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units + pack("<i", len(units) // 2)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number
