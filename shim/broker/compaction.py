"""Compaction: removes the records of a log that a newer record with the same key replaces.

`upkeep.py` calls it. As Kafka's cleaner it leaves the newest segment, with the segments that a Kafka log would have
(`retention.py`), records of open transactions, and records younger than `min.compaction.lag.ms`. A log is cleaned when
enough of it is new (`min.cleanable.dirty.ratio`) or a record waits for `max.compaction.lag.ms`. Offsets stay, so there
are gaps. Records of aborted transactions go; transaction markers stay, which Kafka removes later.

Sources: Kafka's LogCleanerManager.grabFilthiestCompactedLog, Cleaner.buildOffsetMap and Cleaner.shouldRetainRecord;
KIP-58, KIP-354, KIP-534.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.log_transactions import AbortedTxns
from kafka_shim.broker.retention import segments
from kafka_shim.broker.topics import Topic, Topics
from kafka_shim.persistence.batch import Batch, CorruptBatch, Record, read_batch, rewritten

BACKOFF: Final = "log.cleaner.backoff.ms"


class Dirty(NamedTuple):
    """The part of a log that may be cleaned: up to the offset `end`. The batches from `begin` on were never cleaned."""

    begin: int
    end: int
    ratio: float
    """Share of the bytes that were never cleaned."""
    first_timestamp: int
    """Timestamp of the first batch that was never cleaned (ms)."""


def clean(topics: Topics, topic: Topic, log: PartitionLog, now_ms: int) -> None:
    """Clean a log that is dirty enough."""

    def value(name: str) -> str:
        return topics.settings.topic_text(name, topic.configs)

    dirty = _dirty(log, now_ms, value)
    if dirty.begin == dirty.end:
        return
    is_overdue = now_ms - dirty.first_timestamp > int(value("max.compaction.lag.ms"))
    if is_overdue or dirty.ratio > float(value("min.cleanable.dirty.ratio")):
        compact(log, dirty, now_ms, int(value("delete.retention.ms")))


def _dirty(log: PartitionLog, now_ms: int, value: Callable[[str], str]) -> Dirty:
    least_lag = int(value("min.compaction.lag.ms"))
    youngest = now_ms - least_lag if least_lag else inf
    longest = min(int(value("segment.ms")), int(value("max.compaction.lag.ms")))
    old = list(log.kept())
    full = list(segments(iter(old), int(value("segment.bytes")), longest))[:-1]
    newest = full[-1].next_offset if full else log.start_offset
    begin, end, clean, new, first = log.cleaned_to, log.cleaned_to, 0, 0, now_ms
    for batch in old:
        if batch.next_offset > min(newest, log.last_stable_offset) or batch.latest > youngest:
            break
        if batch.next_offset <= begin:
            clean += batch.size
        else:
            first = first if new else batch.latest
            new += batch.size
            end = batch.next_offset
    return Dirty(begin, end, new / (clean + new) if new else 0.0, first)


def compact(log: PartitionLog, dirty: Dirty, now_ms: int, delete_retention_ms: int) -> None:
    """Remove the records that a newer dirty record replaces, and the tombstones that have been clean for long
    enough."""
    batches = [(data, _read(data)) for data in log.before(dirty.end)]
    aborted = AbortedTxns(log.transactions.aborted_between(log.start_offset, dirty.end))

    def is_aborted(batch: Batch) -> bool:
        return batch.transactional and aborted.have(batch.producer_id, batch.base_offset)

    newest: dict[bytes, int] = {}
    committed: list[list[Record]] = []
    for _, read in batches:
        records = [] if read is None or is_aborted(read[0]) else read[1]
        committed.append(records)
        newest.update((each.key, each.offset) for each in records if each.key is not None)
    tombstones = log.tombstones

    def stays(record: Record) -> bool:
        if record.key is None or record.offset < max(newest[record.key], log.start_offset):
            return False
        if record.value is not None:
            return True
        return now_ms < tombstones.setdefault(record.offset, now_ms + delete_retention_ms)

    new: list[bytes | None] = []
    for (data, read), records in zip(batches, committed, strict=True):
        rest = [each for each in records if stays(each)]
        if read is None or len(rest) == len(read[1]):
            new.append(data)
        else:
            new.append(rewritten(read[0], rest) if rest else None)
    log.compact(new, dirty.end)


def _read(data: bytes) -> tuple[Batch, list[Record]] | None:
    """Return the batch and its records; None for a batch that stays as it is: a transaction marker, or one that cannot
    be read here."""
    try:
        parsed = read_batch(data)
        return None if parsed is None or parsed[0].control else (parsed[0], parsed[0].records())
    except CorruptBatch:
        return None
