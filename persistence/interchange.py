"""Import and export of `__consumer_offsets` from and to the log segments of a real broker.

An import compacts each log: the newest value of every key, with committed transactions and without aborted ones
(semantics 3.2, 5.3). A group goes to the partition that its id has in this store, for any number of partitions in the
source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kafka_shim.persistence.batch import COMMIT, Batch, Record, end_of_transaction
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.records import (
    NO_TOPIC_ID,
    GroupMetadataValue,
    Key,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordError,
    UnknownKey,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    group_of,
)
from kafka_shim.persistence.segments import PartitionWriter, Problem, read_partition, read_segment
from kafka_shim.persistence.store import Store

TOPIC: Final = "__consumer_offsets"
BATCH_BYTES: Final = 256 * 1024
"""A written batch holds about this many bytes of keys and values, far below the limit of any broker."""
_STORE_BATCH: Final = 10_000


class Compacted:
    """Content of a log after its last record: the live records, and the offsets of open transactions.

    Feed it a partition's batches in order. `live` has, for each key, the offset of its newest record and the value.
    """

    def __init__(self, path: Path, report: Callable[[Problem], None]) -> None:
        self.live: dict[Key, tuple[int, Value]] = {}
        self.open: dict[int, dict[OffsetCommitKey, tuple[int, OffsetCommitValue]]] = {}
        """By producer id, the offsets of its open transaction."""
        self.records = 0
        self._last_offset = -1
        self._path = path
        self._report = report

    def feed(self, batch: Batch, records: Iterable[Record]) -> None:
        """Apply a batch, unless it came before. A malformed record is reported and left out."""
        if batch.last_offset <= self._last_offset:
            return
        self._last_offset = batch.last_offset
        if batch.control:
            for record in records:
                kind = end_of_transaction(record)
                if kind is not None:
                    self._end(batch.producer_id, commit=kind == COMMIT)
            return
        producer_id = batch.producer_id if batch.transactional else None
        for record in records:
            self.records += 1
            try:
                self._apply(record, producer_id)
            except RecordError as error:
                self._report(Problem(self._path, None, record.offset, str(error)))

    def _apply(self, record: Record, producer_id: int | None) -> None:
        if record.key is None:
            raise RecordError("a record has no key")
        key = decode_key(record.key)
        if key.record_type < 0:
            raise RecordError(f"a record has type {key.record_type}, which no broker writes")
        group_of(key)
        if isinstance(key, LegacyOffsetCommitKey):
            key = OffsetCommitKey(key.group, key.topic, key.partition)
        if record.value is None:
            self.live.pop(key, None)
            if isinstance(key, OffsetCommitKey):
                for pending in self.open.values():
                    pending.pop(key, None)
            return
        value = decode_value(key, record.value)
        if producer_id is not None and isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            self.open.setdefault(producer_id, {})[key] = record.offset, value
        else:
            self.live[key] = record.offset, value

    def _end(self, producer_id: int, *, commit: bool) -> None:
        for key, (offset, value) in self.open.pop(producer_id, {}).items():
            stored = self.live.get(key)
            if commit and (stored is None or stored[0] < offset):
                self.live[key] = offset, value


@dataclass
class Import:
    """Result of an import."""

    files: int = 0
    records: int = 0
    """Records read, including tombstones and replaced records."""
    offsets: int = 0
    groups: int = 0
    """Groups with at least one record, of an offset or of the group."""
    pending: int = 0
    """Offsets of transactions that were open at the end of the log; they are not imported."""
    unknown: int = 0
    """Live records of types unknown to this code; they are imported unchanged."""
    problems: list[Problem] = field(default_factory=list)


def import_offsets(source: Path, store: Store, partitions: int, *, keep_topic_ids: bool = True) -> Import:
    """Write the records of `source` into the store, where they replace records of the same key.

    An offset that was committed with a topic id does not apply to another topic of the same name; without
    `keep_topic_ids` it applies to any topic of that name. `source` is a segment (`.log`), the folder of a partition, or
    a folder with folders `__consumer_offsets-N`. Raises FileNotFoundError for any other source, and StoreError.
    """
    result = Import()
    groups: set[str] = set()
    for path, batches in _sources(source, result.problems.append):
        result.files += 1
        compacted = Compacted(path, result.problems.append)
        for batch, records in batches:
            compacted.feed(batch, records)
        result.records += compacted.records
        result.pending += sum(map(len, compacted.open.values()))
        entries = []
        for key, (_, value) in compacted.live.items():
            group = group_of(key)
            groups.add(group)
            result.offsets += isinstance(key, OffsetCommitKey)
            result.unknown += isinstance(key, UnknownKey)
            stored = value if keep_topic_ids else _without_topic_id(value)
            entries.append((partition_for(group, partitions), key, stored))
        for at in range(0, len(entries), _STORE_BATCH):
            store.write(entries[at : at + _STORE_BATCH])
    result.groups = len(groups)
    return result


def _sources(
    source: Path, report: Callable[[Problem], None]
) -> Iterator[tuple[Path, Iterator[tuple[Batch, list[Record]]]]]:
    if source.is_file():
        yield source, read_segment(source, report)
        return
    folders = sorted(source.glob(f"{TOPIC}-*"), key=lambda path: (len(path.name), path.name))
    if not folders and any(source.glob("*.log")):
        folders = [source]
    if not folders:
        raise FileNotFoundError(
            f"{source} is neither a log segment nor a folder with segments or with folders {TOPIC}-N"
        )
    for folder in folders:
        yield folder, read_partition(folder, report)


def export_offsets(
    store: Store,
    partitions: int,
    target: Path,
    now_ms: int,
    *,
    codec: str = "none",
    topic_id: str | None = None,
    keep_topic_ids: bool = True,
) -> int:
    """Write a folder `__consumer_offsets-N` into `target` for each partition; return the number of records.

    Partitions without records get an empty segment, as in a broker. Offsets of open transactions are not exported: a
    broker would wait for ever for the end of a transaction that it does not coordinate. `now_ms`, in milliseconds of
    Unix time, is the timestamp of records without their own. `topic_id`, in Kafka's base64 form, is for
    `partition.metadata`; `keep_topic_ids` concerns offsets, as in `import_offsets`. Raises FileExistsError if a folder
    exists already, and StoreError.
    """
    total = 0
    for partition in range(partitions):
        writer = PartitionWriter(target / f"{TOPIC}-{partition}", codec=codec, topic_id=topic_id)
        offset = 0
        batch: list[Record] = []
        size = 0
        for key, value in store.load(partition):
            if key.record_type < 0:
                continue
            if not keep_topic_ids:
                value = _without_topic_id(value)
            record = Record(offset, timestamp_of(value, now_ms), encode_key(key), encode_value(key, value))
            offset += 1
            batch.append(record)
            size += len(record.key or b"") + len(record.value or b"")
            if size >= BATCH_BYTES:
                writer.append(batch)
                batch, size = [], 0
        if batch:
            writer.append(batch)
        writer.close()
        total += offset
    return total


def _without_topic_id(value: Value) -> Value:
    return value._replace(topic_id=NO_TOPIC_ID) if isinstance(value, OffsetCommitValue) else value


def timestamp_of(value: Value | None, now_ms: int) -> int:
    """Return the time of a record in milliseconds of Unix time; `now_ms` for a value without a timestamp."""
    timestamp = -1
    if isinstance(value, OffsetCommitValue):
        timestamp = value.commit_timestamp
    elif isinstance(value, GroupMetadataValue):
        timestamp = value.current_state_timestamp
    return timestamp if timestamp >= 0 else now_ms
