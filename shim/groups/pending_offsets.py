"""Pending offsets of one shard, that is of open transactions: storage and lookup.

`transactions.py` accepts them and ends their transactions. Only `replay` changes them, for new records and after a
restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kafka_shim.persistence.records import PendingOffsetKey, PendingOffsetValue

OVERTAKEN: Final = 0
"""Sequence of a pending offset that was overwritten by a later commit."""

_NO_OFFSETS: Final[Mapping[PendingOffsetKey, PendingOffsetValue]] = {}


class MarkerEpochs:
    """Coordinator epoch at the end of the last transaction, for the most recent producers."""

    __slots__ = ("_epochs",)

    MAX: Final = 10_000

    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}

    def note(self, producer_id: int, epoch: int) -> None:
        self._epochs.pop(producer_id, None)
        self._epochs[producer_id] = epoch
        if len(self._epochs) > self.MAX:
            del self._epochs[next(iter(self._epochs))]

    def of(self, producer_id: int) -> int:
        """Return the epoch of a producer; -1 if it is unknown."""
        return self._epochs.get(producer_id, -1)


class PendingOffsets:
    """Pending offsets of one shard: hard state, changed only by records, except `marker_epochs`."""

    __slots__ = ("_by_group", "_by_producer", "marker_epochs", "newest")

    def __init__(self) -> None:
        self.newest = OVERTAKEN
        """Largest sequence so far."""
        self.marker_epochs = MarkerEpochs()
        self._by_producer: dict[int, dict[PendingOffsetKey, PendingOffsetValue]] = {}
        self._by_group: dict[str, dict[tuple[str, int], dict[int, PendingOffsetKey]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def replay(self, key: PendingOffsetKey, value: PendingOffsetValue | None) -> None:
        """Apply the record of one pending offset; None as a value is a tombstone."""
        group, topic, partition, producer_id, _ = key
        if value is not None:
            self.newest = max(self.newest, value.sequence)
            self._by_producer.setdefault(producer_id, {})[key] = value
            self._by_group.setdefault(group, {}).setdefault((topic, partition), {})[producer_id] = key
            return
        offsets = self._by_producer.get(producer_id)
        if offsets is None or offsets.pop(key, None) is None:
            return
        if not offsets:
            del self._by_producer[producer_id]
        by_partition = self._by_group[group]
        del by_partition[topic, partition][producer_id]
        if not by_partition[topic, partition]:
            del by_partition[topic, partition]
            if not by_partition:
                del self._by_group[group]

    def of_producer(self, producer_id: int) -> Mapping[PendingOffsetKey, PendingOffsetValue]:
        """Return the offsets in the producer's open transaction; read-only."""
        return self._by_producer.get(producer_id, _NO_OFFSETS)

    def has_group(self, group_id: str) -> bool:
        """Return True if an open transaction has an offset of the group."""
        return group_id in self._by_group

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Return True if an open transaction has this offset."""
        by_partition = self._by_group.get(group_id)
        return by_partition is not None and (topic, partition) in by_partition

    def keys(self, group_id: str, topic: str, partition: int) -> list[PendingOffsetKey]:
        """Return a key for each open transaction with this offset."""
        return list(self._by_group.get(group_id, {}).get((topic, partition), {}).values())

    def keys_of(self, group_id: str) -> list[PendingOffsetKey]:
        """Return a key for each pending offset of a group."""
        return [key for keys in self._by_group.get(group_id, {}).values() for key in keys.values()]

    def keys_of_topic(self, topic: str) -> Iterator[PendingOffsetKey]:
        """Yield a key for each pending offset in a topic; the caller may delete it during the iteration."""
        for offsets in list(self._by_producer.values()):
            yield from [key for key in offsets if key.topic == topic]

    def value(self, key: PendingOffsetKey) -> PendingOffsetValue:
        """Return the pending offset of an existing key."""
        return self._by_producer[key.producer_id][key]
