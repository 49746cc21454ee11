"""`Content`: the records of one partition of `__consumer_offsets` about groups, from its batches.

It tells from when on the partition is complete: compaction leaves holes in the offsets, and old generations of a group
are gone. A batch without the name of the group is not decoded, so that a partition of a gigabyte takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from kafka_shim.persistence.batch import COMMIT, Batch, CorruptBatch, Record, end_of_transaction
from kafka_shim.persistence.interchange import TOPIC
from kafka_shim.persistence.records import (
    Key,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordError,
    UnknownKey,
    Value,
    decode_key,
    decode_value,
    group_of,
)

_SHORT: Final = Struct(">h")


class Entry(NamedTuple):
    """A record: its key, and its value, None for a tombstone. `time` is milliseconds of Unix time."""

    partition: int
    offset: int
    time: int
    key: Key
    value: Value | None

    @property
    def where(self) -> str:
        """Its place: partition and offset."""
        return f"{TOPIC}-{self.partition}@{self.offset}"

    @property
    def group(self) -> str:
        """The group that it is about."""
        return group_of(self.key)


class Content:
    """Reader of the batches of one partition, of one group or of all.

    After `entries`, `complete_since` is the time of the first record after the last hole in ms of Unix time, None if
    the partition has no hole. `records` counts records, `broken` those that cannot be read.
    """

    def __init__(self, partition: int, group: str | None = None) -> None:
        self.partition = partition
        self.complete_since: int | None = None
        self.records = self.broken = 0
        self._name = b"" if group is None else group.encode()
        self._prefix = b"" if group is None else _SHORT.pack(len(self._name)) + self._name
        self._next = 0
        self._open: dict[int, dict[Key, Entry]] = {}
        """By producer id, the offsets of its open transaction, the newest of each key."""

    def entries(self, batches: Iterable[Batch]) -> Iterator[Entry]:
        """Yield the records. An offset of a transaction comes when the transaction is committed."""
        for batch in batches:
            if batch.last_offset < self._next:
                # A cleaned segment and the one that it replaces hold the same.
                continue
            self._note_holes(batch)
            self.records += batch.record_count
            try:
                if self._name and not batch.control and self._name not in batch.unpacked():
                    continue
                records = batch.records()
            except CorruptBatch:
                self.broken += batch.record_count
                continue
            yield from self._ended(batch, records) if batch.control else self._of_batch(batch, records)

    def _note_holes(self, batch: Batch) -> None:
        if batch.base_offset > self._next:
            self.complete_since = batch.base_timestamp
        if batch.record_count <= batch.last_offset_delta:
            self.complete_since = batch.max_timestamp
        self._next = batch.last_offset + 1

    def _of_batch(self, batch: Batch, records: Iterable[Record]) -> Iterator[Entry]:
        for record in records:
            raw = record.key
            if raw is None or (self._prefix and not raw.startswith(self._prefix, 2)):
                continue
            try:
                entry = self._entry(record, raw)
            except RecordError:
                self.broken += 1
                continue
            if entry is None:
                continue
            if batch.transactional and isinstance(entry.value, OffsetCommitValue):
                self._open.setdefault(batch.producer_id, {})[entry.key] = entry
            else:
                yield entry

    def _entry(self, record: Record, raw: bytes) -> Entry | None:
        key = decode_key(raw)
        if isinstance(key, UnknownKey) or key.record_type < 0:
            return None
        if isinstance(key, LegacyOffsetCommitKey):
            key = OffsetCommitKey(key.group, key.topic, key.partition)
        value = None if record.value is None else decode_value(key, record.value)
        return Entry(self.partition, record.offset, record.timestamp, key, value)

    def _ended(self, batch: Batch, records: Iterable[Record]) -> Iterator[Entry]:
        """A control batch: yield the offsets of a transaction that is committed, at the time of its end."""
        for record in records:
            kind = end_of_transaction(record)
            if kind is not None:
                pending = self._open.pop(batch.producer_id, {})
                if kind == COMMIT:
                    yield from (each._replace(time=record.timestamp) for each in pending.values())
