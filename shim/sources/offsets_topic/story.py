"""`TopicStory`: the records of `__consumer_offsets` as events of the trace (`docs/trace.md`), `inferred`, with their
partition and offset in place of a line.

`snapshots.py` has groups of the classic protocol, `epochs.py` those of KIP-848, KIP-932 and KIP-1071.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kafka_shim.persistence.records import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from kafka_shim.sources.offsets_topic import forms
from kafka_shim.sources.offsets_topic.content import Entry
from kafka_shim.sources.offsets_topic.epochs import EpochRecords
from kafka_shim.sources.offsets_topic.snapshots import Event, Snapshots
from kafka_shim.sources.story import head
from kafka_shim.trace.moves import Partition

_TOPICS: Final = (ConsumerGroupPartitionMetadataKey, ConsumerGroupRegularExpressionKey)


class TopicStory:
    """Turns records into events. `names` are topics by id. After `events`, `groups` are the groups that have records,
    also those with offsets alone, and `first` has the time of the oldest record about each group's members, in seconds.

    Commits are no events: there are too many. Of one `group`, `committed` has the time of the newest of each partition.
    """

    def __init__(self, names: Mapping[bytes, str], group: str | None = None) -> None:
        self._group = group
        self.committed: dict[Partition, float] = {}
        self._names = dict(names)
        self._snapshots: dict[str, Snapshots] = {}
        self._epochs: dict[str, EpochRecords] = {}
        self.groups: set[str] = set()
        self.first: dict[str, float] = {}

    def events(self, entries: Iterable[Entry]) -> Iterator[Event]:
        """Yield the events of records, without numbers."""
        is_first = True
        for entry in entries:
            for event in self._take(entry):
                if is_first:
                    yield head(event["wall"], entry.where)
                    is_first = False
                yield event
        for each in self._epochs.values():
            yield from each.flush()

    def _take(self, entry: Entry) -> Iterator[Event]:
        key, group = entry.key, entry.group
        self.groups.add(group)
        if isinstance(key, OffsetCommitKey):
            if group == self._group and entry.value is not None:
                self.committed[key.topic, key.partition] = entry.time / 1000
            return
        self.first.setdefault(group, entry.time / 1000)
        if isinstance(key, GroupMetadataKey):
            yield from self._classic(entry, group)
        elif type(key) in forms.KEYS:
            kind, part = forms.KEYS[type(key)]
            yield from self._epochs_of(group).take(entry, kind, part)
        elif isinstance(key, _TOPICS):
            yield from self._epochs_of(group).take(entry, "consumer", forms.TOPICS)
        elif isinstance(key, ShareGroupStatePartitionMetadataKey):
            self._learn(entry)
            yield from self._epochs_of(group).take(entry, "share", forms.TOPICS)

    def _classic(self, entry: Entry, group: str) -> Iterator[Event]:
        snapshots = self._snapshots.get(group)
        if snapshots is None:
            snapshots = self._snapshots[group] = Snapshots()
        if isinstance(entry.value, GroupMetadataValue):
            # It may have been a group with epochs before.
            self._epochs.pop(group, None)
            yield from snapshots.take(entry, entry.value)
        elif snapshots.members:
            # Only a group without members is deleted: this one gets epochs.
            self._epochs[group] = EpochRecords(self._names, snapshots.convert())
        else:
            yield from snapshots.end(entry)

    def _epochs_of(self, group: str) -> EpochRecords:
        epochs = self._epochs.get(group)
        if epochs is None:
            epochs = self._epochs[group] = EpochRecords(self._names)
        return epochs

    def _learn(self, entry: Entry) -> None:
        """Learn the names of topics from the records of a share group."""
        if isinstance(entry.value, ShareGroupStatePartitionMetadataValue):
            for topics in (entry.value.initializing_topics, entry.value.initialized_topics):
                self._names.update((each.topic_id, each.topic_name) for each in topics)
