"""Retention: deletes the records that are older than `retention.ms` of their topic.

Kafka deletes whole segments, and looks for them only every `log.retention.check.interval.ms` (`upkeep.py`). The same
happens here, with the segments that a Kafka log would have by `segment.bytes` and `segment.ms`: a young record keeps
the older ones of its segment. The log itself (`log.py`) drops batches beyond its limit of bytes. Source: Kafka's
UnifiedLog.deleteRetentionMsBreachedSegments and LogSegment.shouldRoll.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kafka_shim.broker.log import KeptBatch, PartitionLog
from kafka_shim.broker.setting import as_list
from kafka_shim.broker.topics import Topic, Topics

CHECK_INTERVAL: Final = "log.retention.check.interval.ms"
SOME: Final = 256
"""Batches to look at without a pause."""
BATCH_WORK: Final = 512
"""The work with a batch beside its records, in bytes of records."""


class Segment(NamedTuple):
    """Batches that Kafka would have in one file: the offset after them, and their largest timestamp (ms)."""

    next_offset: int
    latest: int


def delete_old(topics: Topics, topic: Topic, log: PartitionLog, now_ms: int) -> Iterator[int]:
    """Delete the segments that are too old, all at once. Yields the work with some batches each time, and others may
    use the log in between."""
    value = topics.settings.topic_text
    retention_ms = int(value("retention.ms", topic.configs))
    if retention_ms < 0 or "delete" not in as_list(value("cleanup.policy", topic.configs)):
        return
    start = log.start_offset
    most_bytes, most_ms = int(value("segment.bytes", topic.configs)), int(value("segment.ms", topic.configs))
    for segment in segments(log.kept(), most_bytes, most_ms):
        if segment is None:
            yield SOME * BATCH_WORK
        elif segment.latest < 0 or now_ms - segment.latest <= retention_ms:
            break
        else:
            start = segment.next_offset
    log.cut(start)


class Rolling:
    """The growing segment at the end of a log: a batch begins a new one if the last would be too large with it, or too
    long in time."""

    __slots__ = ("_first", "_most_bytes", "_most_ms", "_size")

    def __init__(self, most_bytes: int, most_ms: int) -> None:
        self._most_bytes = most_bytes
        self._most_ms = most_ms
        self._size = 0
        self._first = 0

    def begins(self, batch: KeptBatch) -> bool:
        """Add the next batch; return True if it begins a segment, as the first one does."""
        size = self._size + batch.size
        if self._size and size <= self._most_bytes and batch.latest - self._first <= self._most_ms:
            self._size = size
            return False
        self._size = batch.size
        self._first = batch.latest
        return True


def segments(batches: Iterator[KeptBatch], most_bytes: int, most_ms: int) -> Iterator[Segment | None]:
    """Yield the segments of a log, and None after each `SOME` batches, for a pause."""
    rolling = Rolling(most_bytes, most_ms)
    last: Segment | None = None
    for number, batch in enumerate(batches, 1):
        if rolling.begins(batch):
            if last is not None:
                yield last
            last = Segment(batch.next_offset, batch.latest)
        elif last is not None:
            last = Segment(batch.next_offset, max(last.latest, batch.latest))
        if number % SOME == 0:
            yield None
    if last is not None:
        yield last
