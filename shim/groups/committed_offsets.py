"""Committed offsets of one shard: storage and lookup.

`commits.py` accepts commits; `offsets.py` fetches, deletes and expires. Only `replay` changes the offsets, for new
records and after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from kafka_shim.persistence.recent_commits import RecentCommits
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue

ByPartition: TypeAlias = dict[int, OffsetCommitValue]
ByTopic: TypeAlias = dict[str, ByPartition]

NO_PARTITIONS: Final[ByPartition] = {}
_NO_TOPICS: Final[ByTopic] = {}


class CommittedOffsets:
    """Committed offsets of one shard: hard state, changed only by records.

    Members commit often, and their offsets are read only when another member takes over. So a commit is stored
    unchanged in `_recent` until the next read or other record, or until there are many.
    """

    __slots__ = ("_count", "_groups", "_recent", "replay_commit")

    def __init__(self) -> None:
        self._groups: dict[str, ByTopic] = {}
        self._count = 0
        self._recent = RecentCommits(self._put)
        self.replay_commit = self._recent.add
        """Replay all records of a commit at once."""

    @property
    def count(self) -> int:
        """Number of offsets, over all groups."""
        self._read()
        return self._count

    def of(self, group_id: str) -> ByTopic:
        """Return the offsets of a group by topic and partition; read-only."""
        self._read()
        return self._groups.get(group_id, _NO_TOPICS)

    def value(self, key: OffsetCommitKey) -> OffsetCommitValue:
        """Return the offset of an existing key."""
        return self.of(key.group)[key.topic][key.partition]

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """Apply the record of one offset; None as a value is a tombstone."""
        self._read()
        if value is None:
            self._remove(key.group, key.topic, key.partition)
        else:
            self._put(key, value)

    def _put(self, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        group_id, topic, partition, _ = key
        by_partition = self._of_topic(group_id, topic)
        if partition not in by_partition:
            self._count += 1
        by_partition[partition] = value

    def _read(self) -> None:
        if self._recent:
            self._recent.flush()

    def _of_topic(self, group_id: str, topic: str) -> ByPartition:
        by_topic = self._groups.get(group_id)
        if by_topic is None:
            by_topic = self._groups[group_id] = {}
        by_partition = by_topic.get(topic)
        if by_partition is None:
            by_partition = by_topic[topic] = {}
        return by_partition

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        by_topic = self._groups.get(group_id, _NO_TOPICS)
        by_partition = by_topic.get(topic, NO_PARTITIONS)
        if partition not in by_partition:
            return
        self._count -= 1
        del by_partition[partition]
        if not by_partition:
            del by_topic[topic]
            if not by_topic:
                del self._groups[group_id]

    def keys_of(self, group_id: str) -> Iterator[OffsetCommitKey]:
        """Yield a key for each offset of a group; the caller may delete it during the iteration."""
        for topic, by_partition in list(self.of(group_id).items()):
            for partition in list(by_partition):
                yield OffsetCommitKey(group_id, topic, partition)

    def keys_of_topic(self, topic: str) -> Iterator[OffsetCommitKey]:
        """Yield a key for each offset of any group in a topic; the caller may delete it during the iteration."""
        self._read()
        # Most groups have no offset in it.
        for group_id in [each for each, by_topic in self._groups.items() if topic in by_topic]:
            for partition in list(self._groups[group_id][topic]):
                yield OffsetCommitKey(group_id, topic, partition)
