"""The committed offsets of one shard.

Decides how they are kept and found. It does not know who may commit (`commits.py`), nor who is shown what and when an
offset goes away (`offsets.py`). They change in `replay` alone, whether a record was just written or is read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue

ByPartition: TypeAlias = dict[int, OffsetCommitValue]
ByTopic: TypeAlias = dict[str, ByPartition]

NO_PARTITIONS: Final[ByPartition] = {}
_NO_TOPICS: Final[ByTopic] = {}


class CommittedOffsets:
    """The committed offsets of one shard: hard state, changed by records alone."""

    __slots__ = ("_groups", "count")

    def __init__(self) -> None:
        self._groups: dict[str, ByTopic] = {}
        self.count = 0
        """How many there are, over all groups."""

    def of(self, group_id: str) -> ByTopic:
        """The offsets of a group by topic and partition; not to be changed."""
        return self._groups.get(group_id, _NO_TOPICS)

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """Let the record of one offset take effect; None as a value is a tombstone."""
        group_id, topic, partition, _ = key
        if value is None:
            self._remove(group_id, topic, partition)
            return
        by_partition = self._of_topic(group_id, topic)
        if partition not in by_partition:
            self.count += 1
        by_partition[partition] = value

    def replay_all(self, records: Iterable[tuple[int, OffsetCommitKey, OffsetCommitValue]]) -> None:
        """What `replay` does to each record, with one look-up for records of one topic in a row."""
        group_id = topic = None
        by_partition = NO_PARTITIONS
        for _, key, value in records:
            if key[1] != topic or key[0] != group_id:
                group_id, topic = key[0], key[1]
                by_partition = self._of_topic(group_id, topic)
            partition = key[2]
            if partition not in by_partition:
                self.count += 1
            by_partition[partition] = value

    def replay_topic(
        self, group_id: str, topic: str, partitions: Iterable[int], values: Iterable[OffsetCommitValue]
    ) -> None:
        """What `replay` does to each record, for records of one topic."""
        by_partition = self._of_topic(group_id, topic)
        before = len(by_partition)
        by_partition.update(zip(partitions, values, strict=False))
        self.count += len(by_partition) - before

    def _of_topic(self, group_id: str, topic: str) -> ByPartition:
        by_topic = self._groups.get(group_id)
        if by_topic is None:
            by_topic = self._groups[group_id] = {}
        by_partition = by_topic.get(topic)
        if by_partition is None:
            by_partition = by_topic[topic] = {}
        return by_partition

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        by_topic = self.of(group_id)
        by_partition = by_topic.get(topic, NO_PARTITIONS)
        if partition not in by_partition:
            return
        self.count -= 1
        del by_partition[partition]
        if not by_partition:
            del by_topic[topic]
            if not by_topic:
                del self._groups[group_id]

    def keys_of(self, group_id: str) -> Iterator[OffsetCommitKey]:
        """A key for each offset of a group; what is yielded may be deleted on the way."""
        for topic, by_partition in list(self.of(group_id).items()):
            for partition in list(by_partition):
                yield OffsetCommitKey(group_id, topic, partition)

    def keys_of_topic(self, topic: str) -> Iterator[OffsetCommitKey]:
        """A key for each offset any group has in a topic; what is yielded may be deleted on the way."""
        for group_id, by_topic in list(self._groups.items()):
            for partition in list(by_topic.get(topic, NO_PARTITIONS)):
                yield OffsetCommitKey(group_id, topic, partition)
