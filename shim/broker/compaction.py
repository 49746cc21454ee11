"""Compaction: what consumers see of a topic that keeps the newest value of each key.

Decides which records of a log go, and when it is looked at. As Kafka's cleaner it touches neither the newest segment,
with the segments that a Kafka log would have (`retention.py`), nor records of an open transaction or younger than
`min.compaction.lag.ms`; a log is cleaned when enough of it is new (`min.cleanable.dirty.ratio`), or waits for
`max.compaction.lag.ms`. Offsets stay as they are, so there are gaps. Records of aborted transactions go; what ends
transactions stays, which Kafka removes later. Does not know how a log is kept (`log.py`).

Sources: Kafka's LogCleanerManager.grabFilthiestCompactedLog, Cleaner.buildOffsetMap and Cleaner.shouldRetainRecord;
KIP-58, KIP-354, KIP-534.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.retention import segments
from kafka_shim.broker.topics import Topic, Topics
from kafka_shim.persistence.batch import Batch, CorruptBatch, Record, read_batch, rewritten

BACKOFF: Final = "log.cleaner.backoff.ms"


class Dirty(NamedTuple):
    """The batches up to the offset `end` may be cleaned; those from `begin` on never were."""

    begin: int
    end: int
    ratio: float
    """How much of their bytes never were."""
    first_timestamp: int
    """Of the first batch that never was (ms)."""


class Compaction:
    """The rule for the logs that one broker leads. `epoch_ms` turns monotonic seconds into ms since the epoch.

    `due` is when to look again; never while there is nothing that could be compacted.
    """

    def __init__(self, node_id: int, topics: Topics, epoch_ms: Callable[[float], int]) -> None:
        self.node_id = node_id
        self.topics = topics
        self._epoch_ms = epoch_ms
        self.due = inf

    def written(self, now: float) -> None:
        """There may be records from now on."""
        if self.due == inf and self.topics.compacted:
            self.due = now + self._interval

    def clean(self, now: float) -> None:
        """Clean the logs that are dirty enough."""
        has_records = False
        for name in sorted(self.topics.compacted):
            topic = self.topics.named(name)
            assert topic is not None
            for partition in topic.partitions:
                if partition.leader == self.node_id and partition.log.size:
                    has_records = True
                    self._clean(topic, partition.log, self._epoch_ms(now))
        self.due = now + self._interval if has_records else inf
        self.topics.settle(now)

    def _clean(self, topic: Topic, log: PartitionLog, now_ms: int) -> None:
        dirty = self._dirty(topic, log, now_ms)
        if dirty.begin == dirty.end:
            return
        is_overdue = now_ms - dirty.first_timestamp > self._number("max.compaction.lag.ms", topic)
        if is_overdue or dirty.ratio > float(self._value("min.cleanable.dirty.ratio", topic)):
            compact(log, dirty, now_ms, self._number("delete.retention.ms", topic))

    def _dirty(self, topic: Topic, log: PartitionLog, now_ms: int) -> Dirty:
        least_lag = self._number("min.compaction.lag.ms", topic)
        youngest = now_ms - least_lag if least_lag else inf
        longest = min(self._number("segment.ms", topic), self._number("max.compaction.lag.ms", topic))
        kept = list(log.kept())
        full = list(segments(iter(kept), self._number("segment.bytes", topic), longest))[:-1]
        newest = full[-1].next_offset if full else log.start_offset
        begin, end, clean, new, first = log.cleaned_to, log.cleaned_to, 0, 0, now_ms
        for batch in kept:
            if batch.next_offset > min(newest, log.last_stable_offset) or batch.latest > youngest:
                break
            if batch.next_offset <= begin:
                clean += batch.size
            else:
                first = first if new else batch.latest
                new += batch.size
                end = batch.next_offset
        return Dirty(begin, end, new / (clean + new) if new else 0.0, first)

    def _value(self, name: str, topic: Topic) -> str:
        return self.topics.settings.topic_text(name, topic.configs)

    def _number(self, name: str, topic: Topic) -> int:
        return int(self._value(name, topic))

    @property
    def _interval(self) -> float:
        return self.topics.settings.number(BACKOFF) / 1000


def compact(log: PartitionLog, dirty: Dirty, now_ms: int, delete_retention_ms: int) -> None:
    """Remove what a newer record among the dirty ones replaces, and tombstones that have been clean for long enough."""
    batches = [(data, _read(data)) for data in log.before(dirty.end)]
    aborted = log.transactions.aborted_between(log.start_offset, dirty.end)

    def is_aborted(batch: Batch) -> bool:
        return batch.transactional and any(
            each.producer_id == batch.producer_id and each.first_offset <= batch.base_offset <= each.last_offset
            for each in aborted
        )

    newest: dict[bytes, int] = {}
    committed: list[list[Record]] = []
    for _, read in batches:
        found = [] if read is None or is_aborted(read[0]) else read[1]
        committed.append(found)
        newest.update((each.key, each.offset) for each in found if each.key is not None)
    tombstones = log.tombstones

    def stays(record: Record) -> bool:
        if record.key is None or record.offset < max(newest[record.key], log.start_offset):
            return False
        if record.value is not None:
            return True
        return now_ms < tombstones.setdefault(record.offset, now_ms + delete_retention_ms)

    kept: list[bytes | None] = []
    for (data, read), found in zip(batches, committed, strict=True):
        left = [each for each in found if stays(each)]
        if read is None or len(left) == len(read[1]):
            kept.append(data)
        else:
            kept.append(rewritten(read[0], left) if left else None)
    log.compact(kept, dirty.end)


def _read(data: bytes) -> tuple[Batch, list[Record]] | None:
    """The batch and its records; None for one that stays as it is: it ends transactions, or cannot be read here."""
    try:
        found = read_batch(data)
        return None if found is None or found[0].control else (found[0], found[0].records())
    except CorruptBatch:
        return None
