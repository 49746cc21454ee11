"""Segments of `__consumer_offsets` straight to the files of tables: `offset_history`, `log_records`, `quarantine`.

Decides how the work is cut into tasks. A task reads whole partitions of the log, so that it sees the commits of a group
in order (`decode.history`), and writes what it makes of them as Parquet itself (`kafka_shim.pipeline.parquet`).

The rows are those that `tables.offsets` makes of the source `kafka_offsets_log`. This way needs files that driver and
workers all see under the same path, as the source does; the other one writes to whatever Spark can write to.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
from pyspark.sql import SparkSession

from kafka_shim.pipeline.decode import batches, history, records
from kafka_shim.pipeline.decode.buckets import bucket_of
from kafka_shim.pipeline.decode.varints import Ints
from kafka_shim.pipeline.parquet import Files, places, write_by_tasks
from kafka_shim.pipeline.schemas import TABLES
from kafka_shim.pipeline.sources.offsets_log import partition_of, segments

TASK_BYTES: Final = 256 << 20
"""About how much one task reads; a partition of the log is not divided."""

_DICTIONARIES: Final = ["source", "group", "topic", "what", "origin"]
_FILTERED: Final = ["group", "topic", "partition", "at", "timestamp"]
_NEAR: Final = ["offset", "previous", "position"]
_STRINGS: Final = pa.dictionary(pa.int32(), pa.string())


class Log(NamedTuple):
    """A partition of `__consumer_offsets`: its segments in order."""

    segments: tuple[str, ...]
    size: int


def log_tables(spark: SparkSession, paths: str, out: str) -> None:
    """Writes the tables of the segments at `paths` (as those of the source) into folder `out`, as `table=NAME`, in
    place of what is there."""
    by_folder: dict[Path, list[Path]] = {}
    for path in segments(paths):
        by_folder.setdefault(path.parent, []).append(path)
    logs = [Log(tuple(map(str, found)), sum(map(os.path.getsize, found))) for found in by_folder.values()]
    write_by_tasks(spark, tasks(logs, spark.sparkContext.defaultParallelism), write_logs, out)


def tasks(logs: list[Log], parallelism: int) -> list[list[Log]]:
    """The logs in about equal parts, at least twice as many as can be worked on at once if there are enough."""
    count = min(len(logs), max(2 * parallelism, -(-sum(log.size for log in logs) // TASK_BYTES)))
    parts: list[list[Log]] = [[] for _ in range(count)]
    sizes = [0] * count
    for log in sorted(logs, key=lambda log: -log.size):
        least = sizes.index(min(sizes))
        parts[least].append(log)
        sizes[least] += log.size
    return parts


def write_logs(logs: list[Log], files: Files) -> None:
    """Makes the tables of some logs."""
    writer = _Writer(files)
    for log in logs:
        _read(log, writer)


def _read(log: Log, writer: _Writer) -> None:
    number = partition_of(Path(log.segments[0]))
    origin = None if number is None else f"__consumer_offsets-{number}"
    made = history.History()
    for segment in log.segments:
        with open(segment, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                continue
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                for found in batches.walk(data, 0, size):
                    if isinstance(found, batches.Damage):
                        writer.others(records.damage(segment, number, *found))
                        continue
                    commits: list[records.Commits] = []
                    markers: list[history.Marker] = []
                    for part in records.commits_apart(found, segment, number, made.keys):
                        if isinstance(part, records.Commits):
                            commits.append(part)
                        else:
                            commits += _odd_commits(part, made.keys)
                            markers += _markers(part)
                            writer.others(part)
                    for changes in made.add(commits, markers):
                        writer.history(changes, made.keys, origin)
    for changes in made.rest():
        writer.history(changes, made.keys, origin)


def _odd_commits(rows: pa.RecordBatch, keys: records.Keys) -> Iterator[records.Commits]:
    """Committed offsets that are not of the plain form."""
    odd = rows.filter(pa.compute.equal(rows["kind"], "OffsetCommit"))
    if odd.num_rows:
        about = zip(*(odd[name].to_pylist() for name in ("group", "topic", "partition")), strict=True)
        numbers = {
            name: odd[name].fill_null(0).to_numpy(zero_copy_only=False)
            for name in ("record_offset", "timestamp", "offset", "producer_id")
        }
        transactional = odd["transactional"].to_numpy(zero_copy_only=False)
        yield records.Commits(
            np.array([keys.number(*each) for each in about], np.int64),
            numbers["record_offset"],
            numbers["timestamp"],
            numbers["offset"],
            odd["tombstone"].to_numpy(zero_copy_only=False),
            np.where(transactional, numbers["producer_id"], -1),
        )


def _markers(rows: pa.RecordBatch) -> Iterator[history.Marker]:
    ends = rows.filter(pa.compute.is_valid(rows["control"]))
    for row in ends.select(["record_offset", "timestamp", "producer_id", "control"]).to_pylist():
        yield history.Marker(row["record_offset"], row["timestamp"], row["producer_id"], row["control"] == "COMMIT")


class _Writer:
    """What one task makes of its logs, as rows of tables."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def others(self, rows: pa.RecordBatch) -> None:
        """Rows of the source that are no commits: damage, and records of other types."""
        damaged = pa.compute.is_valid(rows["reason"])
        bad = rows.filter(damaged)
        if bad.num_rows:
            offset = bad["record_offset"]
            columns = {
                "source": pa.repeat("segments", bad.num_rows),
                "offset": pa.compute.if_else(pa.compute.greater_equal(offset, 0), offset, pa.scalar(None, pa.int64())),
                "bytes": bad["damaged_bytes"],
            }
            self._write("table=quarantine", _table("quarantine", columns, bad))
        rest = rows.filter(
            pa.compute.and_(pa.compute.invert(damaged), pa.compute.not_equal(rows["kind"], "OffsetCommit"))
        )
        if rest.num_rows:
            self._write("table=log_records", _table("log_records", {}, rest))

    def history(self, changes: history.Changes, keys: records.Keys, origin: str | None) -> None:
        """Rows of table `offset_history`, each day and bucket in a folder of its own."""
        names = history.Names(keys)
        buckets: Ints = np.array([bucket_of(group) for group in names.groups], np.int64)
        order, parts = places(history.day_of(changes.at), buckets[names.group_of(changes.key)])
        table = pa.table(
            {
                "source": _repeated("segments", order.size),
                **history.columns(changes.in_order(order), names),
                "member_id": pa.nulls(order.size, pa.string()),
                "origin": _repeated(origin, order.size),
            }
        )
        for where, start, end in parts:
            self._write(f"table=offset_history/{where}", table.slice(start, end - start))

    def _write(self, where: str, table: pa.Table) -> None:
        self._files.write(where, table, _DICTIONARIES, _FILTERED, _NEAR)


def _repeated(text: str | None, count: int) -> pa.Array:
    if text is None:
        return pa.nulls(count, _STRINGS)
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def _table(name: str, columns: dict[str, Any], rows: pa.RecordBatch) -> pa.Table:
    names = TABLES[name].names
    return pa.table({each: columns[each] if each in columns else rows[each] for each in names})
