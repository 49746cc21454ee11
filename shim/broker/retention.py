"""Retention: what consumers see of the deletion of old records.

Decides which records are too old for their topic's `retention.ms`. Kafka deletes whole segments, and only looks for
them every `log.retention.check.interval.ms`; so it is here, with the segments that a Kafka log would have by
`segment.bytes` and `segment.ms`: a young record keeps the old ones before it in the same segment. Does not know how a
log is kept (`log.py`), which also drops what is more than it may hold. Source: Kafka's
UnifiedLog.deleteRetentionMsBreachedSegments and LogSegment.shouldRoll.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Final, NamedTuple

from kafka_shim.broker.log import Kept, PartitionLog
from kafka_shim.broker.setting import as_list
from kafka_shim.broker.topics import Topic, Topics

CHECK_INTERVAL: Final = "log.retention.check.interval.ms"


class Segment(NamedTuple):
    """Batches that Kafka would have in one file: the offset after them, and their largest timestamp (ms)."""

    next_offset: int
    latest: int


class Retention:
    """The rule for the logs that one broker leads. `epoch_ms` turns monotonic seconds into ms since the epoch.

    `due` is when to look again; never while there is nothing that could grow old.
    """

    def __init__(self, node_id: int, topics: Topics, epoch_ms: Callable[[float], int]) -> None:
        self.node_id = node_id
        self.topics = topics
        self._epoch_ms = epoch_ms
        self.due = inf

    def written(self, now: float) -> None:
        """There may be records from now on."""
        if self.due == inf:
            self.due = now + self._interval

    def expire(self, now: float) -> None:
        """Delete what is too old."""
        has_records = False
        for topic in self.topics.all():
            for partition in topic.partitions:
                if partition.leader == self.node_id:
                    self._delete(topic, partition.log, self._epoch_ms(now))
                    has_records |= partition.log.size > 0
        self.due = now + self._interval if has_records else inf
        self.topics.settle(now)

    def _delete(self, topic: Topic, log: PartitionLog, now_ms: int) -> None:
        value = self.topics.settings.topic_text
        retention_ms = int(value("retention.ms", topic.configs))
        if retention_ms < 0 or "delete" not in as_list(value("cleanup.policy", topic.configs)):
            return
        start = log.start_offset
        most_bytes, most_ms = int(value("segment.bytes", topic.configs)), int(value("segment.ms", topic.configs))
        for segment in segments(log.kept(), most_bytes, most_ms):
            if segment.latest < 0 or now_ms - segment.latest <= retention_ms:
                break
            start = segment.next_offset
        log.cut(start)

    @property
    def _interval(self) -> float:
        return self.topics.settings.number(CHECK_INTERVAL) / 1000


def segments(batches: Iterator[Kept], most_bytes: int, most_ms: int) -> Iterator[Segment]:
    """The segments of a log: a batch begins a new one if the last would be too large with it, or too long in time."""
    size = next_offset = 0
    first = latest = -1
    for batch in batches:
        if size and (size + batch.size > most_bytes or batch.latest - first > most_ms):
            yield Segment(next_offset, latest)
            size = 0
        if not size:
            first = latest = batch.latest
        size += batch.size
        latest = max(latest, batch.latest)
        next_offset = batch.next_offset
    if size:
        yield Segment(next_offset, latest)
