"""The metadata hash of a group: 64 bits that change when a topic it subscribes to is created, grows or is deleted.

Byte for byte as Kafka computes it, so that a broker that takes over a group with its records sees no change. After
Kafka's `Utils.computeTopicHash` and `computeGroupHash`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct, pack
from typing import Final, Protocol

import xxhash

_MAGIC: Final = b"\0"
_signed: Final = Struct(">q").unpack


class Topics(Protocol):
    """Topics of the cluster, as a `TopicCatalogue` has them."""

    def partitions_of(self, topic: str) -> int: ...

    def topic_id(self, topic: str) -> bytes | None: ...


def metadata_hash(topics: Iterable[str], catalogue: Topics) -> int:
    """The hash of those topics that exist, 0 if none does."""
    hashes = []
    for name in topics:
        topic_id = catalogue.topic_id(name)
        if topic_id is not None:
            each = topic_hash(topic_id, name, catalogue.partitions_of(name))
            hashes.append((name.encode("utf-16-be", "surrogatepass"), pack("<q", each)))
    if not hashes:
        return 0
    (of_group,) = _signed(xxhash.xxh3_64_digest(b"".join([each for _, each in sorted(hashes)])))
    return int(of_group)


@lru_cache(maxsize=65536)
def topic_hash(topic_id: bytes, name: str, partitions: int) -> int:
    """The hash of one topic. Our brokers are in no racks, so partitions have none."""
    # Two longs in the order of the reading machine, which hash4j takes to be little-endian.
    parts = [_MAGIC, topic_id[7::-1], topic_id[:7:-1], _text(name), pack("<i", partitions)]
    parts += (pack("<i", partition) for partition in range(partitions))
    (of_topic,) = _signed(xxhash.xxh3_64_digest(b"".join(parts)))
    return int(of_topic)


def _text(text: str) -> bytes:
    """UTF-16 code units, then how many there are."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units + pack("<i", len(units) // 2)
