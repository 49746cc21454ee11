"""Compaction: removes the records of a log that a newer record with the same key replaces.

`upkeep.py` calls it. As Kafka's cleaner it leaves the newest segment, with the segments that a Kafka log would have
(`retention.py`), records of open transactions, and records younger than `min.compaction.lag.ms`. A log is cleaned when
enough of it is new (`min.cleanable.dirty.ratio`) or a record waits for `max.compaction.lag.ms`. Offsets stay, so there
are gaps. Records of aborted transactions go; transaction markers stay, which Kafka removes later.

Sources: Kafka's LogCleanerManager.grabFilthiestCompactedLog, Cleaner.buildOffsetMap and Cleaner.shouldRetainRecord;
KIP-58, KIP-354, KIP-534.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from hashlib import blake2b
from math import inf
from typing import Final, NamedTuple

from kafka_shim.broker.log import KeptBatch, PartitionLog
from kafka_shim.broker.log_transactions import AbortedTxns
from kafka_shim.broker.retention import BATCH_WORK, SOME, Rolling
from kafka_shim.broker.topics import Topic, Topics
from kafka_shim.persistence.batch import Batch, CorruptBatch, Record, last_offset, read_batch, rewritten

BACKOFF: Final = "log.cleaner.backoff.ms"
MOST_KEYS: Final = 500_000
"""Keys that a cleaning of one log keeps in memory, and those of one more batch."""

_HASH_BYTES: Final = 32


class Dirty(NamedTuple):
    """The part of a log that may be cleaned: up to the offset `end`. The batches from `begin` on were never cleaned."""

    begin: int
    end: int
    ratio: float
    """Share of the bytes that were never cleaned."""
    first_timestamp: int
    """Timestamp of the first batch that was never cleaned (ms)."""


def clean(topics: Topics, topic: Topic, log: PartitionLog, now_ms: int) -> Iterator[int]:
    """Clean a log that is dirty enough. Yields the work after each batch, see `compact`."""

    def value(name: str) -> str:
        return topics.settings.topic_text(name, topic.configs)

    dirty = yield from _dirty(log, now_ms, value)
    if dirty.begin == dirty.end:
        return
    is_overdue = now_ms - dirty.first_timestamp > int(value("max.compaction.lag.ms"))
    if is_overdue or dirty.ratio > float(value("min.cleanable.dirty.ratio")):
        yield from compact(log, dirty, now_ms, int(value("delete.retention.ms")))


def _dirty(log: PartitionLog, now_ms: int, value: Callable[[str], str]) -> Generator[int, None, Dirty]:
    """Return the part that may be cleaned; yield the work with some batches each time."""
    least_lag = int(value("min.compaction.lag.ms"))
    youngest = now_ms - least_lag if least_lag else inf
    longest = min(int(value("segment.ms")), int(value("max.compaction.lag.ms")))
    rolling = Rolling(int(value("segment.bytes")), longest)
    old: list[KeptBatch] = []
    newest = log.start_offset
    for batch in log.kept():
        if rolling.begins(batch) and old:
            newest = old[-1].next_offset
        old.append(batch)
        if not len(old) % SOME:
            yield SOME * BATCH_WORK
    stable = min(newest, log.last_stable_offset)
    begin, end, clean, new, first = log.cleaned_to, log.cleaned_to, 0, 0, now_ms
    for index, batch in enumerate(old, 1):
        if batch.next_offset > stable or batch.latest > youngest:
            break
        if batch.next_offset <= begin:
            clean += batch.size
        else:
            first = first if new else batch.latest
            new += batch.size
            end = batch.next_offset
        if not index % SOME:
            yield SOME * BATCH_WORK
    return Dirty(begin, end, new / (clean + new) if new else 0.0, first)


def compact(log: PartitionLog, dirty: Dirty, now_ms: int, delete_retention_ms: int) -> Iterator[int]:
    """Remove the records that a newer dirty record replaces, and the tombstones that have been clean for long
    enough.

    Yields the work after each batch, in bytes. One batch is unpacked at a time, and others may use the log in between.
    """
    cleaned_to = log.cleaned_to
    old = log.before(dirty.end)
    is_aborted = _aborted(log, dirty.end)
    newest: dict[bytes, int] = {}
    end = dirty.end
    for index in range(len(log.before(dirty.begin)), len(old)):
        if len(newest) >= MOST_KEYS:
            # As Kafka's cleaner with a full map: the rest is cleaned another time.
            end = last_offset(old[index - 1]) + 1
            del old[index:]
            break
        read = _read(old[index])
        if read is not None and not is_aborted(read.batch):
            newest.update((_short(each.key), each.offset) for each in read.records if each.key is not None)
        yield _work(read)
    tombstones = log.tombstones

    def stays(record: Record, base_offset: int) -> bool:
        if record.key is None or record.offset < max(newest.get(_short(record.key), 0), log.start_offset):
            return False
        # The tombstones of a batch are all clean from the same time on.
        return record.value is not None or now_ms < tombstones.setdefault(base_offset, now_ms + delete_retention_ms)

    new: list[bytes | None] = []
    for data in old:
        read = _read(data)
        if read is None:
            new.append(data)
        else:
            batch = read.batch
            rest = [] if is_aborted(batch) else [each for each in read.records if stays(each, batch.base_offset)]
            if len(rest) == len(read.records):
                new.append(data)
            else:
                new.append(rewritten(batch, rest) if rest else None)
        yield _work(read)
    # Meanwhile the log may have lost its oldest batches; another broker that leads it now may have compacted it.
    if log.cleaned_to == cleaned_to:
        log.compact(new[len(new) - len(log.before(end)) :], end)


class _Read(NamedTuple):
    """A batch, its records, and their bytes when unpacked."""

    batch: Batch
    records: list[Record]
    size: int


def _read(data: bytes) -> _Read | None:
    """Return a batch with its records; None for a batch that stays as it is: a transaction marker, or one that cannot
    be read here."""
    try:
        parsed = read_batch(data)
        if parsed is None or parsed[0].control:
            return None
        batch, _ = parsed
        unpacked = batch.unpacked()
        return _Read(batch, batch.decoded(unpacked), len(unpacked))
    except CorruptBatch:
        return None


def _work(read: _Read | None) -> int:
    return BATCH_WORK if read is None else BATCH_WORK + read.size


def _short(key: bytes) -> bytes:
    """Return a key of at most 32 bytes in place of a longer one."""
    return key if len(key) < _HASH_BYTES else blake2b(key, digest_size=_HASH_BYTES).digest()


def _aborted(log: PartitionLog, end: int) -> Callable[[Batch], bool]:
    """Return a test for batches of the log before `end`: True if their transaction was aborted."""
    aborted = AbortedTxns(log.transactions.aborted_between(log.start_offset, end))
    return lambda batch: batch.transactional and aborted.have(batch.producer_id, batch.base_offset)
