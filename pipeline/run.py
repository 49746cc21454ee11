"""From files to tables to answers, step by step. Decides which step rests on which; what a step does is in `tables/`
and `jobs/`, and when it is done in `steps.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial, reduce
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeAlias

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource

from kafka_shim.pipeline.decode.events import Lines
from kafka_shim.pipeline.jobs import doubts, invariants, members, offsets, rebalances
from kafka_shim.pipeline.schemas import PLACES
from kafka_shim.pipeline.session import LITTLE_BYTES
from kafka_shim.pipeline.sources import scanned
from kafka_shim.pipeline.sources.kafka_topic import offsets_topic, reading
from kafka_shim.pipeline.sources.offsets_log import COMMITS, OffsetsLog, segments
from kafka_shim.pipeline.sources.places import Place, Settings, Unreadable, settings_of
from kafka_shim.pipeline.sources.shim_trace import ShimTrace, files
from kafka_shim.pipeline.steps import Task, side_by_side
from kafka_shim.pipeline.tables import epochs, groups, partitions, traces
from kafka_shim.pipeline.tables import offsets as offset_tables
from kafka_shim.pipeline.tables.columns import Scope
from kafka_shim.pipeline.warehouse import APART, Touched, Warehouse

Step: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Called with the name of a step; the step is done within what it returns."""


_SLOWEST: Final = frozenset({"trace_history", "membership", "ownership", "violations"})
"""Violations take as long as all other tables together, and wait for the rest of these."""


class _Read(Protocol):
    """A table by name; `steady` is that of `Warehouse.read`."""

    def __call__(self, name: str, steady: bool | None = None) -> DataFrame: ...


class Inputs(NamedTuple):
    """Paths by what lies there, a CSV file of end offsets (topic, partition, at, end_offset), and HOST:PORT of a
    cluster whose `__consumer_offsets` is to be read, with options of `kafka_topic.offsets_topic`."""

    traces: tuple[str, ...]
    logs: tuple[str, ...]
    end_offsets: str | None = None
    kafka: str | None = None
    kafka_options: Mapping[str, str] = MappingProxyType({})


class Made(NamedTuple):
    """A table that is made of others: `rows` makes it once those named in `after` are written, or its rows about the
    groups of `replaces`."""

    place: str
    rows: Callable[[], DataFrame]
    after: tuple[str, ...] = ()
    replaces: Scope | None = None


def sort_out(paths: Iterable[str], end_offsets: str | None = None, settings: Settings = ()) -> Inputs:
    """Which paths hold traces and which hold segments; a folder of `pipeline generate` holds both. `settings` are those
    of the stores they are in. Raises ValueError for one that holds neither, and `Unreadable`."""
    found_traces: list[str] = []
    found_logs: list[str] = []
    for name in paths:
        path = Place(name, settings)
        kind, _ = path.info()
        if kind == "nothing":
            raise Unreadable(f"{path} does not exist")
        below = [each for each in path.children() if each.name in ("trace", "segments")] if kind == "folder" else []
        inside = below or [path]
        traces_here = [place.address for place in inside if _holds(files, place, ".jsonl")]
        logs_here = [place.address for place in inside if _holds(segments, place, ".log")]
        if not traces_here and not logs_here:
            raise ValueError(f"{path} holds neither a trace (*.jsonl) nor segments (__consumer_offsets-N/*.log)")
        found_traces += traces_here
        found_logs += logs_here
    return Inputs(tuple(found_traces), tuple(found_logs), end_offsets)


def _holds(find: Callable[[str, Settings], list[Place]], place: Place, suffix: str) -> bool:
    return any(suffix in file.name for file in find(place.address, place.settings))


def is_little(inputs: Inputs, settings: Settings = ()) -> bool:
    """Whether there is little to read (`kafka_shim.pipeline.session.LITTLE`). Of a cluster nobody knows."""
    if inputs.kafka is not None:
        return False
    size = 0
    for find, paths in ((files, inputs.traces), (segments, inputs.logs)):
        for file in chain.from_iterable(find(path, settings) for path in paths):
            size += file.content_size()
            if size > LITTLE_BYTES:
                return False
    return True


def _scanned(spark: SparkSession, source: type[DataSource], **options: str) -> DataFrame:
    """What one of our sources has, with what Spark's settings say of stores."""
    return scanned(spark, source, dict(stores_of(spark)) | options)


@lru_cache(maxsize=1)
def stores_of(spark: SparkSession) -> Settings:
    """What a session's settings say of stores. To go through them takes Java a thousand calls."""
    return store_settings(dict(spark.sparkContext.getConf().getAll()))


def store_settings(config: Mapping[str, str]) -> Settings:
    """What Spark's settings say of stores, as Hadoop names it."""
    return settings_of({name.removeprefix("spark.hadoop."): value for name, value in config.items()})


def build(warehouse: Warehouse, inputs: Inputs, step: Step = nullcontext, at_once: int | None = None) -> None:
    """Reads the inputs and makes all tables, within a change of the warehouse, `at_once` of them side by side."""
    spark = warehouse.spark
    reading = []
    if inputs.traces:
        for lines in Lines._fields:
            reading.append(_task(spark, step, f"read {lines}", partial(_read_lines, warehouse, inputs.traces, lines)))
    if inputs.logs or inputs.kafka:
        name = "read segments" if inputs.logs else "read the topic"
        reading.append(_task(spark, step, name, partial(_read_log, warehouse, inputs)))
    side_by_side(spark, reading, at_once)
    tables = derived(warehouse, end_offsets=_end_offsets(spark, inputs.end_offsets))
    write_all(warehouse, tables, step=step, at_once=at_once)


def _task(spark: SparkSession, step: Step, name: str, do: Callable[[], object], after: Collection[str] = ()) -> Task:
    """A task that is a step of its name, which Spark's page shows as that of its jobs."""

    def within() -> None:
        with step(name):
            spark.sparkContext.setJobDescription(name)
            do()
            spark.sparkContext.setJobDescription("")

    return Task(name, within, after)


def _read_lines(warehouse: Warehouse, paths: tuple[str, ...], lines: str) -> None:
    # Nearly all lines are of two kinds with few columns: to read them apart costs less than columns do.
    rows = _scanned(warehouse.spark, ShimTrace, lines=lines, path=joined(paths))
    rows = traces.ingested(rows)
    if lines == "others":
        # Few, and in all parts of a trace: as they come they would be a file for each part, day and bucket.
        rows = rows.hint("rebalance", *map(F.col, APART))
    warehouse.append_apart(rows)


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
    others = _records(spark, logs, topic, "others").persist(StorageLevel.DISK_ONLY)
    for name, of_log in offset_tables.LOG_TABLES.items():
        warehouse.write(name, of_log(others))
    others.unpersist()
    commits = _records(spark, logs, topic, "commits")
    warehouse.write("log_history", offset_tables.history_of_segments(commits))


def write_all(
    warehouse: Warehouse,
    tables: Iterable[Made],
    *,
    step: Step = nullcontext,
    at_once: int | None = None,
) -> None:
    """Writes these tables, each after those it is made of."""

    def write(made: Made) -> None:
        warehouse.write(made.place, made.rows(), replaces=made.replaces)

    def task(made: Made) -> Task:
        name = f"table {PLACES.get(made.place, made.place)}"
        return _task(warehouse.spark, step, name, partial(write, made), made.after)._replace(name=made.place)

    side_by_side(warehouse.spark, [task(made) for made in tables if warehouse.makes(made.place)], at_once)


def _records(spark: SparkSession, logs: tuple[str, ...], topic: DataFrame | None, which: str) -> DataFrame:
    """Rows of segments and of a topic, as option `records` of segments has them; those of the topic are all there."""
    found = [] if topic is None else [topic.select(*COMMITS) if which == "commits" else topic]
    if logs:
        found.append(_scanned(spark, OffsetsLog, records=which, path=joined(logs)))
    return reduce(DataFrame.unionByName, found)


def joined(paths: Iterable[str]) -> str:
    """Addresses as the sources take them."""
    return ",".join(path if "://" in path else os.path.abspath(path) for path in paths)


def seqs(warehouse: Warehouse) -> DataFrame:
    """Trace and sequence number of all events that were read."""
    return (
        warehouse.read("events").select("trace", "seq").unionByName(warehouse.read("requests").select("trace", "seq"))
    )


def derived(
    warehouse: Warehouse, touched: Touched | None = None, end_offsets: DataFrame | None = None
) -> Iterator[Made]:
    """The tables made of what was read, for all groups or those that were touched; those that others wait for first.
    Tables that groups at rest have nothing new for are made where others are."""
    every, changed = (None, None) if touched is None else touched

    def read(name: str, steady: bool | None = None) -> DataFrame:
        return warehouse.read(name, every, steady=steady)

    def of_changed(name: str) -> DataFrame:
        return warehouse.read(name, changed, steady=False)

    if warehouse.has_traces():
        made = [each._replace(replaces=every) for each in _derived_of_traces(read)]
        if changed is None or changed.buckets:
            made += [each._replace(replaces=changed) for each in _derived_of_changes(of_changed)]
        yield from sorted(made, key=lambda each: each.place not in _SLOWEST)
        yield Made("trace_gaps", lambda: traces.gaps(seqs(warehouse)))
    if end_offsets is not None or warehouse.has_traces():

        def lag() -> DataFrame:
            # Ends of partitions are about no group, so in one bucket, whichever were chosen.
            ends = offset_tables.end_offsets_of_trace(
                *(warehouse.read(name, steady=False) for name in ("events", "requests"))
            )
            every = ends if end_offsets is None else ends.unionByName(end_offsets)
            return offset_tables.lag(read("offset_history"), every)

        yield Made("lag", lag, ("trace_history",), every)


def _derived_of_changes(read: Callable[[str], DataFrame]) -> Iterator[Made]:
    """The tables that what groups at rest do has nothing to do with; `read` is a table without it."""
    # Few traces have other kinds of groups than classic ones.
    has_epochs = not read("events").where("event = 'epoch'").isEmpty()

    def both(classic: Callable[[DataFrame], DataFrame], of_epochs: Callable[[DataFrame], DataFrame]) -> DataFrame:
        found = classic(read("events"))
        return found.unionByName(of_epochs(read("events"))) if has_epochs else found

    yield Made("membership", lambda: groups.membership(read("events")))
    yield Made("ownership", lambda: both(partitions.ownership, epochs.ownership))
    yield Made("partition_pauses", lambda: partitions.partition_pauses(read("ownership")), ("ownership",))
    yield Made("assignments", lambda: partitions.assignments(read("events")))
    yield Made("rounds", lambda: both(groups.rounds, epochs.rounds))
    yield Made("member_pauses", lambda: groups.member_pauses(read("requests")))


def _derived_of_traces(read: _Read) -> Iterator[Made]:
    def changes(name: str) -> DataFrame:
        return read(name, False)

    def violations() -> DataFrame:
        return invariants.violations(
            changes("events"),
            changes("requests"),
            read("events", True),
            read("requests", True),
            read("membership"),
            read("offset_history"),
            read("ownership"),
        )

    yield Made("trace_history", lambda: offset_tables.history_of_trace(read("events"), changes("requests")))
    yield Made("violations", violations, ("membership", "trace_history", "ownership"))
    yield Made("commits", lambda: traces.commits(read("events", True)))


def _end_offsets(spark: SparkSession, path: str | None) -> DataFrame | None:
    if path is None:
        return None
    schema = "topic string, partition int, at timestamp, end_offset bigint"
    return spark.read.csv(path, schema=schema, header=True).where(F.col("end_offset").isNotNull())


def answers(warehouse: Warehouse) -> dict[str, Callable[[], DataFrame]]:
    """The jobs by name, over the tables of a warehouse."""
    read = warehouse.read
    return {
        "storms": lambda: rebalances.storms(read("rounds")),
        "blame": lambda: rebalances.blame(read("rounds"), read("membership")),
        "causes": lambda: rebalances.causes(read("rounds")),
        "cost": lambda: rebalances.cost(read("rounds"), read("member_pauses"), read("partition_pauses")),
        "migration": lambda: rebalances.migration(read("rounds"), read("membership"), read("partition_pauses")),
        "heartbeat_gaps": lambda: members.heartbeat_gaps(read("requests")),
        "regressions": lambda: offsets.regressions(read("offset_history")),
        "commit_gaps": lambda: offsets.gaps(read("offset_history")),
        # With one of the two alone there is nothing to agree on.
        "agreement": lambda: offsets.agreement(
            read("offset_history").where(F.lit(warehouse.has_traces() and warehouse.has_log()))
        ),
    }


def answer(
    warehouse: Warehouse, step: Step = nullcontext, at_once: int | None = None, also: Collection[Task] = ()
) -> None:
    """Asks all questions and writes what they say, within a change of the warehouse; `also` are other steps, which may
    name answers to wait for."""
    lacking = incomplete(warehouse)

    def write(name: str, job: Callable[[], DataFrame]) -> None:
        found = job()
        warehouse.write_result(name, doubts.marked(found, lacking) if "group" in found.columns else found)

    tasks = [
        _task(warehouse.spark, step, f"job {name}", partial(write, name, job))._replace(name=name)
        for name, job in answers(warehouse).items()
        if warehouse.makes(name)
    ]
    side_by_side(warehouse.spark, [*tasks, *also], at_once)


def incomplete(warehouse: Warehouse) -> DataFrame | None:
    """The groups whose trace or log lacks something; None if nothing is missing anywhere."""
    missing = warehouse.read("gaps")
    if missing.isEmpty():
        return None
    return doubts.incomplete(missing, warehouse.read("events", steady=False), warehouse.read("offset_history"))
