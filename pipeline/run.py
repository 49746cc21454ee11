"""A run: reads the inputs, builds the tables, then the answers.

Declares which tables and answers depend on which. `tables/` and `jobs/` compute them; `steps.py` schedules them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, tzinfo
from functools import partial, reduce
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeAlias

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource

from kafka_shim.pipeline.decode.events import Lines
from kafka_shim.pipeline.jobs import completeness, invariants, members, offsets, rebalances
from kafka_shim.pipeline.needs import LINES, TABLE_NEEDS
from kafka_shim.pipeline.schemas import PARTITIONED, PLACES, STEADY, UNITED
from kafka_shim.pipeline.session import LITTLE_BYTES, RARE, SHUFFLE_PARTITIONS, context_of
from kafka_shim.pipeline.sources import logs as texts
from kafka_shim.pipeline.sources import scanned, stores_of
from kafka_shim.pipeline.sources.kafka_topic import offsets_topic, reading
from kafka_shim.pipeline.sources.offsets_log import COMMITS, SEGMENT, OffsetsLog, segments
from kafka_shim.pipeline.sources.places import Place, Settings, Unreadable
from kafka_shim.pipeline.sources.shim_trace import NARROW, TRACE, ShimTrace, files
from kafka_shim.pipeline.steps import Task, side_by_side
from kafka_shim.pipeline.tables import epochs, groups, lives, partitions, traces
from kafka_shim.pipeline.tables import offsets as offset_tables
from kafka_shim.pipeline.tables.columns import Scope
from kafka_shim.pipeline.warehouse import APART, Touched, Warehouse

Step: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Makes a context manager for a named step; the step runs inside it."""


_SLOWEST: Final = frozenset({"lives", "trace_history", "membership", "ownership", "violations"})
"""The tables to build first: `violations` takes as long as all others together, and depends on the rest of these."""


class _Read(Protocol):
    """A function that reads a table by name; `steady` as in `Warehouse.read`."""

    def __call__(self, name: str, steady: bool | None = None) -> DataFrame: ...


class Inputs(NamedTuple):
    """The inputs of a run.

    `traces` and `logs` are paths of traces and of segments, `texts` logs of brokers and clients, with stamps in `zone`
    if they have none. `end_offsets` is a CSV file (topic, partition, at,
    end_offset). `kafka` is HOST:PORT of a cluster, to read its `__consumer_offsets`; `kafka_options` are options of
    `kafka_topic.offsets_topic`.
    """

    traces: tuple[str, ...]
    logs: tuple[str, ...]
    end_offsets: str | None = None
    kafka: str | None = None
    kafka_options: Mapping[str, str] = MappingProxyType({})
    texts: tuple[str, ...] = ()
    zone: tzinfo = UTC


class Made(NamedTuple):
    """A table to build from others: `rows` computes it once the places that it needs are written.

    With `replaces`, only the rows of those groups are computed and replaced.
    """

    place: str
    rows: Callable[[], DataFrame]
    replaces: Scope | None = None


def sort_out(paths: Iterable[str], end_offsets: str | None = None, settings: Settings = ()) -> Inputs:
    """Sort paths into those of traces, those of segments and those of logs; a folder of `pipeline generate` holds both
    of the first. All files of a path without a trace or a segment are logs.

    `settings` are for the stores of the paths. Raises ValueError for an empty folder, and for a trace beside a log;
    `Unreadable`.
    """
    found_traces: list[str] = []
    found_logs: list[str] = []
    found_texts: list[str] = []
    for name in paths:
        path = Place(name, settings)
        kind, _ = path.info()
        if kind == "nothing":
            raise Unreadable(f"{path} does not exist")
        below = [each for each in path.children() if each.name in ("trace", "segments")] if kind == "folder" else []
        inside = below or [path]
        traces_here = [place.address for place in inside if _holds(files, place, TRACE)]
        logs_here = [place.address for place in inside if _holds(segments, place, SEGMENT)]
        found_traces += traces_here
        found_logs += logs_here
        if not traces_here and not logs_here:
            texts_here = [each.address for each in texts.files(path)]
            if not texts_here:
                raise ValueError(
                    f"{path} holds neither a trace (*.jsonl) nor segments (__consumer_offsets-N/*.log), and no log"
                )
            found_texts += texts_here
    if found_traces and found_texts:
        raise ValueError(
            f"{found_traces[0]} is a trace and {found_texts[0]} is not: read logs apart from traces, with another"
            " --out, because a group in both would count twice"
        )
    return Inputs(tuple(found_traces), tuple(found_logs), end_offsets, texts=tuple(dict.fromkeys(found_texts)))


def _holds(find: Callable[[str, Settings], list[Place]], place: Place, name: re.Pattern[str]) -> bool:
    return any(name.search(file.name) for file in find(place.address, place.settings))


def is_little(inputs: Inputs, settings: Settings = (), only: Collection[str] | None = None) -> bool:
    """Return true if the inputs are small (`kafka_shim.pipeline.session.LITTLE`); false for a cluster, of unknown
    size."""
    if inputs.kafka is not None:
        return False
    reads_all = only is None or not {*STEADY.values()}.isdisjoint(only)
    limit = LITTLE_BYTES if reads_all else LITTLE_BYTES * RARE
    size = 0
    of_texts = (Place(path, settings) for path in inputs.texts)
    others = (
        find(path, settings) for find, paths in ((files, inputs.traces), (segments, inputs.logs)) for path in paths
    )
    for file in chain(of_texts, chain.from_iterable(others)):
        size += file.content_size()
        if size > limit:
            return False
    return True


def _scanned(spark: SparkSession, source: type[DataSource], **options: str) -> DataFrame:
    """Read one of our sources, with the store settings of the session."""
    return scanned(spark, source, dict(stores_of(spark)) | options)


def build(warehouse: Warehouse, inputs: Inputs, step: Step = nullcontext, at_once: int | None = None) -> None:
    """Read the inputs and build all tables within a change of the warehouse, at most `at_once` at a time."""
    spark = warehouse.spark
    reading = []
    if inputs.traces:
        for lines in Lines._fields:
            if any(map(warehouse.makes, LINES[lines])):
                do = partial(_read_lines, warehouse, inputs.traces, lines)
                reading.append(_task(spark, step, f"read {lines}", do))
    if inputs.texts and any(map(warehouse.makes, LINES["others"])):
        reading.append(_task(spark, step, "read logs", partial(_read_texts, warehouse, inputs)))
    if inputs.logs or inputs.kafka:
        name = "read segments" if inputs.logs else "read the topic"
        reading.append(_task(spark, step, name, partial(_read_log, warehouse, inputs)))
    side_by_side(spark, reading, at_once)
    tables = derived(warehouse, end_offsets=_end_offsets(spark, inputs.end_offsets))
    write_all(warehouse, tables, step=step, at_once=at_once)


def _task(spark: SparkSession, step: Step, name: str, do: Callable[[], object], after: Collection[str] = ()) -> Task:
    """Make a task that runs `do` as a named step; Spark's UI shows the name on its jobs."""
    context = context_of(spark)

    def within() -> None:
        with step(name):
            if context is not None:
                context.setJobDescription(name)
            do()
            if context is not None:
                context.setJobDescription("")

    return Task(name, within, after)


def _read_lines(warehouse: Warehouse, paths: tuple[str, ...], lines: str) -> None:
    # Nearly all lines are of two kinds with few columns: a pass for each kind costs less than empty columns.
    rows = _scanned(warehouse.spark, ShimTrace, lines=lines, path=joined(paths))
    _append(warehouse, traces.ingested(rows), lines)


def _append(warehouse: Warehouse, rows: DataFrame, lines: str) -> None:
    if warehouse.only is not None:
        rows = rows.where(F.col("place").isin([place for place in LINES["others"] if warehouse.makes(place)]))
    if lines not in NARROW:
        # These rows are few but in all parts of a trace: without the hint, each part would write a file per day and
        # bucket.
        rows = rows.repartition(1) if warehouse.little else rows.hint("rebalance", *map(F.col, APART))
    warehouse.append_apart(rows, lines=lines)


def _read_texts(warehouse: Warehouse, inputs: Inputs) -> None:
    lines = texts.lines_of(warehouse.spark, inputs.texts, inputs.zone).persist(StorageLevel.DISK_ONLY)
    events = texts.events_of(lines, 1 if warehouse.little else SHUFFLE_PARTITIONS)
    _append(warehouse, traces.ingested(events, "log"), "logs")
    lines.unpersist()


def _read_log(warehouse: Warehouse, inputs: Inputs) -> None:
    if inputs.kafka is None:
        _write_log(warehouse, inputs.logs, None)
        return
    with reading(inputs.kafka):
        topic = offsets_topic(warehouse.spark, inputs.kafka, inputs.kafka_options)
        _write_log(warehouse, inputs.logs, topic)
        topic.unpersist()


def _write_log(warehouse: Warehouse, logs: tuple[str, ...], topic: DataFrame | None) -> None:
    spark = warehouse.spark
    tables = {name: of_log for name, of_log in offset_tables.LOG_TABLES.items() if warehouse.makes(name)}
    if tables:
        others = _records(spark, logs, topic, "others").persist(StorageLevel.DISK_ONLY)
        for name, of_log in tables.items():
            warehouse.write(name, of_log(others))
        others.unpersist()
    if warehouse.makes("log_history"):
        commits = _records(spark, logs, topic, "commits")
        warehouse.write("log_history", offset_tables.history_of_segments(commits))


def write_all(
    warehouse: Warehouse,
    tables: Iterable[Made],
    *,
    step: Step = nullcontext,
    at_once: int | None = None,
) -> None:
    """Write these tables, each after the tables it depends on."""

    def write(table: Made) -> None:
        warehouse.write(table.place, table.rows(), replaces=table.replaces)

    def task(table: Made) -> Task:
        name = f"table {PLACES.get(table.place, table.place)}"
        task = _task(warehouse.spark, step, name, partial(write, table), {**TABLE_NEEDS, **UNITED}[table.place])
        return task._replace(name=table.place)

    side_by_side(warehouse.spark, [task(table) for table in tables if warehouse.makes(table.place)], at_once)


def _records(spark: SparkSession, logs: tuple[str, ...], topic: DataFrame | None, which: str) -> DataFrame:
    """Read the records of segments and of a topic; `which` is option `records` of the segments' source.

    Of the topic it chooses columns, not rows.
    """
    frames = [] if topic is None else [topic.select(*COMMITS) if which == "commits" else topic]
    if logs:
        frames.append(_scanned(spark, OffsetsLog, records=which, path=joined(logs)))
    return reduce(DataFrame.unionByName, frames)


def joined(paths: Iterable[str]) -> str:
    """Join paths to the form that the sources take."""
    return ",".join(path if "://" in path else os.path.abspath(path) for path in paths)


def seqs(warehouse: Warehouse) -> DataFrame:
    """Return the trace and sequence number of every event."""
    return (
        warehouse.read("events").select("trace", "seq").unionByName(warehouse.read("requests").select("trace", "seq"))
    )


def derived(
    warehouse: Warehouse, touched: Touched | None = None, end_offsets: DataFrame | None = None
) -> Iterator[Made]:
    """Yield the tables to derive from the inputs, the slowest first; for all groups, or for those in `touched`.

    Tables that ignore commits and heartbeats of stable groups are only derived again for the groups that changed.
    """
    every, changed = (None, None) if touched is None else touched

    def read(name: str, steady: bool | None = None) -> DataFrame:
        return warehouse.read(name, every, steady=steady)

    def of_changed(name: str) -> DataFrame:
        return warehouse.read(name, changed, steady=False)

    def deletions() -> DataFrame:
        # Like end offsets, they belong to no group.
        return offset_tables.topics_deleted(warehouse.read("requests", steady=False))

    if warehouse.has_traces():
        tables = [each._replace(replaces=every) for each in _derived_of_traces(read, deletions)]
        if changed is None or changed.buckets:
            tables += [each._replace(replaces=changed) for each in _derived_of_changes(of_changed)]
        yield from sorted(tables, key=lambda each: each.place not in _SLOWEST)
        yield Made("trace_gaps", lambda: traces.gaps(seqs(warehouse)))
    if end_offsets is not None or warehouse.has_traces():

        def lag() -> DataFrame:
            # End offsets belong to no group, so all of them lie in one bucket: read them without a scope.
            ends = offset_tables.end_offsets_of_trace(
                *(warehouse.read(name, steady=False) for name in ("events", "requests"))
            )
            every = ends if end_offsets is None else ends.unionByName(end_offsets)
            return offset_tables.lag(read("offset_history"), every)

        yield Made("lag", lag, every)
    if warehouse.kind != "parquet":
        for name in UNITED:
            # The first time, the rows of all groups.
            scope = every if name in PARTITIONED and warehouse.has(name) else None
            yield Made(name, partial(warehouse.read, name, scope), scope)


def _derived_of_changes(read: Callable[[str], DataFrame]) -> Iterator[Made]:
    """Yield the tables that ignore commits and heartbeats; `read` returns a table without these."""
    # Skip the other kinds of groups if there are none, as in most traces.
    has_epochs = not read("events").where("event = 'epoch'").isEmpty()

    def placed() -> DataFrame:
        return lives.placed(read("events"), read("lives"))

    def both(classic: Callable[[DataFrame], DataFrame], of_epochs: Callable[[DataFrame], DataFrame]) -> DataFrame:
        rows = classic(placed())
        return rows.unionByName(of_epochs(placed())) if has_epochs else rows

    yield Made("lives", lambda: lives.lives(read("events")))
    yield Made("membership", lambda: groups.membership(placed()))
    yield Made("ownership", lambda: both(partitions.ownership, epochs.ownership))
    yield Made("partition_pauses", lambda: partitions.partition_pauses(read("ownership")))
    yield Made("assignments", lambda: partitions.assignments(placed()))
    yield Made("rounds", lambda: both(groups.rounds, epochs.rounds))
    yield Made("member_pauses", lambda: groups.member_pauses(read("requests")))


def _derived_of_traces(read: _Read, deletions: Callable[[], DataFrame]) -> Iterator[Made]:
    def changes(name: str) -> DataFrame:
        return read(name, False)

    def violations() -> DataFrame:
        return invariants.violations(
            lives.placed(changes("events"), read("lives")),
            changes("requests"),
            read("events", True),
            read("requests", True),
            read("membership"),
            read("offset_history"),
            read("ownership"),
            deletions(),
        )

    def history() -> DataFrame:
        return offset_tables.history_of_trace(read("events"), changes("requests"), read("lives"), deletions())

    yield Made("trace_history", history)
    yield Made("violations", violations)
    yield Made("commits", lambda: traces.commits(read("events", True)))


def _end_offsets(spark: SparkSession, path: str | None) -> DataFrame | None:
    if path is None:
        return None
    schema = "topic string, partition int, happened_at timestamp, end_offset bigint"
    return spark.read.csv(path, schema=schema, header=True).where(F.col("end_offset").isNotNull())


def answers(warehouse: Warehouse) -> dict[str, Callable[[], DataFrame]]:
    """Return the jobs by name, over the tables of a warehouse."""
    read = warehouse.read
    return {
        "storms": lambda: rebalances.storms(read("rounds")),
        "blame": lambda: rebalances.blame(read("rounds"), read("membership")),
        "causes": lambda: rebalances.causes(read("rounds")),
        "cost": lambda: rebalances.cost(read("rounds"), read("member_pauses"), read("partition_pauses")),
        "migration": lambda: rebalances.migration(read("rounds"), read("membership"), read("partition_pauses")),
        "heartbeat_gaps": lambda: members.heartbeat_gaps(read("requests")),
        "descriptions": lambda: members.descriptions(read("rounds"), read("requests", steady=False)),
        "regressions": lambda: offsets.regressions(read("offset_history")),
        "commit_gaps": lambda: offsets.gaps(read("offset_history")),
        # The job compares traces with segments, so it needs both.
        "agreement": lambda: offsets.agreement(
            read("offset_history").where(F.lit(warehouse.has_traces() and warehouse.has_log()))
        ),
    }


def answer(
    warehouse: Warehouse, step: Step = nullcontext, at_once: int | None = None, also: Collection[Task] = ()
) -> None:
    """Run all jobs and write their answers within a change of the warehouse.

    The tasks in `also` run beside the jobs and may name answers in `after`.
    """
    knows_gaps = warehouse.makes("trace_gaps")
    lacking = incomplete(warehouse) if knows_gaps else None

    def write(name: str, job: Callable[[], DataFrame]) -> None:
        rows = job()
        is_marked = knows_gaps and "group_id" in rows.columns
        warehouse.write_result(name, completeness.marked(rows, lacking) if is_marked else rows)

    tasks = [
        _task(warehouse.spark, step, f"job {name}", partial(write, name, job))._replace(name=name)
        for name, job in answers(warehouse).items()
        if warehouse.makes(name)
    ]
    side_by_side(warehouse.spark, [*tasks, *also], at_once)


def incomplete(warehouse: Warehouse) -> DataFrame | None:
    """Return the groups with missing events or records; None if nothing is missing."""
    missing = warehouse.read("gaps")
    if missing.isEmpty():
        return None
    return completeness.incomplete(missing, warehouse.read("events", steady=False), warehouse.read("offset_history"))
