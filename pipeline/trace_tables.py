"""Traces straight to the files of tables: `events`, `requests`, `quarantine`.

Decides what a task writes. It parses its part of a trace and writes the rows as Parquet itself (`pipeline/parquet.py`):
between the parser and the files there is nothing to compute but times and the place of a row, and having Java take over
every row for that costs several times what parsing does.

The rows are those that `tables.traces.ingested` makes of the source `kafka_shim_trace`. This way needs files that
driver and workers all see under the same path, as the source does; the other one is that of the stream, and writes to
whatever Spark can write to.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from kafka_shim.pipeline.decode.buckets import bucket_of
from kafka_shim.pipeline.decode.varints import Ints
from kafka_shim.pipeline.parquet import NO_DAY, Files, places, write_by_tasks
from kafka_shim.pipeline.schemas import INGESTED, STEADY, STEADY_APIS, TABLES
from kafka_shim.pipeline.sources.shim_trace import Part, ShimTraceReader, read_part
from kafka_shim.pipeline.tables.columns import LAST_SECOND

ROWS: Final = 1 << 18
"""About how many rows of a table are written together."""

Columns: TypeAlias = dict[str, pa.Array]

_DAY_US: Final = 86_400_000_000
_MICROSECONDS: Final = pa.timestamp("us", "UTC")
_TABLE_AT: Final = {name: name for name in INGESTED} | {place: name for name, place in STEADY.items()}
_NAMES: Final = {name: [each for each in TABLES[name].names if each not in ("day", "bucket")] for name in INGESTED}


def trace_tables(spark: SparkSession, paths: str, out: str) -> None:
    """Writes the tables of the traces at `paths` (as those of the source) into folder `out`, as
    `table=NAME/day=.../bucket=...`, in place of what is there."""
    planned = [partition.value for partition in ShimTraceReader(paths, {}).partitions()]
    write_by_tasks(spark, planned, write_events, out)


def write_events(parts: list[tuple[Any, ...]], files: Files) -> None:
    """Makes the tables of some parts of traces."""
    writer = _Writer(files)
    for part in parts:
        for rows in read_part(Part(*part)):
            writer.add(rows)
    writer.close()


class _Writer:
    """What one task makes of its parts, as rows of tables."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._waiting: dict[str, list[pa.RecordBatch]] = {place: [] for place in _TABLE_AT}
        self._count = dict.fromkeys(_TABLE_AT, 0)

    def add(self, rows: pa.RecordBatch) -> None:
        """Takes rows of the source."""
        for place, chosen in _by_table(rows):
            self._waiting[place].append(chosen)
            self._count[place] += chosen.num_rows
            if self._count[place] >= ROWS:
                self._write(place)

    def close(self) -> None:
        """Writes what is left."""
        for place, count in self._count.items():
            if count:
                self._write(place)

    def _write(self, place: str) -> None:
        rows = pa.Table.from_batches(self._waiting[place]).combine_chunks()
        self._waiting[place].clear()
        self._count[place] = 0
        source = {name: rows[name].chunk(0) for name in rows.column_names}
        at = _timestamps(_seconds(source["wall"]))
        columns = _columns(_TABLE_AT[place], source, at)
        table = pa.table({name: _compact(column) for name, column in columns.items()})
        order, parts = places(_days(at), _buckets(source["group"]))
        table = table.take(pa.array(order))
        texts = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
        for where, start, end in parts:
            self._files.write(f"table={place}/{where}", table.slice(start, end - start), texts)


def _by_table(rows: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
    """These rows, by the place of their table."""
    event = rows["event"].fill_null("")
    readable = rows["unreadable"].is_null()
    commit, exchange, parked, none = (pc.equal(event, kind) for kind in ("commit", "exchange", "parked", ""))
    steady = pc.is_in(rows["api"], pa.array(STEADY_APIS))
    apart = pc.or_(pc.or_(commit, exchange), pc.or_(parked, none))
    masks = {
        "quarantine": pc.invert(readable),
        STEADY["events"]: pc.and_(readable, commit),
        STEADY["requests"]: pc.and_(readable, pc.and_(exchange, steady)),
        "requests": pc.and_(readable, pc.and_not(exchange, steady)),
        "events": pc.and_not(readable, apart),
    }
    counts = {place: mask.true_count for place, mask in masks.items()}
    return [
        (place, rows if count == rows.num_rows else rows.filter(masks[place]))
        for place, count in counts.items()
        if count
    ]


def _columns(name: str, source: Columns, at: pa.Array) -> Columns:
    """The columns of a table whose rows happened `at` these times, less those that its folders tell."""
    computed: Columns = {"at": at}
    if name == "quarantine":
        count = len(at)
        computed = {
            "source": pa.repeat("trace", count),
            "offset": pa.nulls(count, pa.int64()),
            "bytes": pa.nulls(count, pa.int64()),
            "reason": source["unreadable"],
        }
    if name == "requests":
        # An event has its own time on both clocks.
        before = _seconds(source["mono"]) - _seconds(source["arrived"])
        arrived = computed["arrived_at"] = _timestamps(_seconds(source["wall"]) - before)
        micros = pc.subtract(at.cast(pa.int64()), arrived.cast(pa.int64()))
        computed["ms"] = pc.divide(micros.cast(pa.float64()), 1000.0)
    return {each: computed[each] if each in computed else source[each] for each in _NAMES[name]}


def _compact(column: pa.Array) -> pa.Array:
    """Texts by number, as few are different: sorting and writing them then costs little."""
    return column.dictionary_encode() if column.type == pa.string() else column


def _seconds(column: pa.Array) -> NDArray[np.float64]:
    """The numbers of a column, what is null as NaN."""
    seconds: NDArray[np.float64] = column.fill_null(np.nan).to_numpy()
    return seconds


def _timestamps(seconds: NDArray[np.float64]) -> pa.Array:
    """Timestamps of seconds of Unix time; null for those that no calendar has."""
    known = np.abs(seconds) <= LAST_SECOND
    micros = np.floor(np.where(known, seconds, 0) * 1e6 + 0.5).astype(np.int64)
    return pa.array(micros, mask=~known).cast(_MICROSECONDS)


def _days(at: pa.Array) -> Ints:
    micros: Ints = at.cast(pa.int64()).fill_null(NO_DAY * _DAY_US).to_numpy()
    return micros // _DAY_US


def _buckets(group: pa.Array) -> Ints:
    encoded = group.dictionary_encode(null_encoding="encode")
    buckets: Ints = np.array([bucket_of(each) for each in encoded.dictionary.to_pylist()], np.int64)
    found: Ints = buckets[encoded.indices.to_numpy()]
    return found
