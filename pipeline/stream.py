"""Live: a stream over trace folders that keeps the tables of a warehouse up to date.

A micro-batch is one change of the warehouse: its rows are added, the tables of the groups it is about are made again,
and one snapshot says that it was done. So readers see whole batches, and a stream that is killed at any point and
started again ends with the tables it would have had: a batch that a snapshot has is not done again.

The newest time of an event is the stream's watermark, so Spark's page of the stream shows how far it is behind
("global watermark gap"), and its metrics have that, rates and latency as `spark.streaming.NAME`.

A warehouse is what one command made of it. A stream goes on where the newest snapshot is its own; else it begins anew,
and its first batch takes the place of what was there. One that finds the warehouse changed by another command stops.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import datetime
from threading import Event
from typing import Any, Final, NamedTuple
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kafka_shim.pipeline.run import Inputs, answer, derived, joined, stores_of, write_all
from kafka_shim.pipeline.sources import register
from kafka_shim.pipeline.sources.places import Settings
from kafka_shim.pipeline.sources.shim_trace import files, identity_of
from kafka_shim.pipeline.tables import traces
from kafka_shim.pipeline.tables.columns import Scope
from kafka_shim.pipeline.warehouse import Touched, Warehouse

NAME: Final = "kafka-shim"
"""Of the stream, on Spark's page and in its metrics."""
CANCEL_EVERY_S: Final = 0.1


def stream(
    warehouse: Warehouse,
    inputs: Inputs,
    *,
    every: str | None = None,
    max_bytes: int | None = None,
    days: int | None = None,
    answers_s: float | None = None,
    after_batch: Callable[[int], None] = lambda batch: None,
    stopped: Event | None = None,
) -> StreamingQuery:
    """Starts the stream. `every` is a time like "10 seconds" to wait between batches; without it, the stream takes what
    there is and ends. With `days`, what is about days before the last so many of events goes: the tables are those of a
    trace that begins then, and no batch costs more than these do. With `answers_s` the questions are asked again by a
    batch that begins so many seconds or more after they were last; until then the answers are the old ones.
    `after_batch` is called with the number of each batch that was done. Whoever is to stop the query in the midst of a
    batch sets `stopped`, by which no step of it begins any more, and calls `stop`. The query ends with
    `kafka_shim.pipeline.snapshots.Overtaken` if another command changes the warehouse."""
    warehouse.refresh()
    found = warehouse.snapshot
    mine = uuid4().hex if found is None or found.stream is None else found.stream
    answered = float("-inf")

    def take(rows: DataFrame, batch: int) -> None:
        try:
            do(rows, batch)
        except Exception:
            if stopped is not None and stopped.is_set():
                # Spark looks for its own words in what a batch raises, which must then be short.
                raise Stopped from None
            raise

    @contextmanager
    def step(name: str) -> Iterator[None]:
        if stopped is not None and stopped.is_set():
            raise Stopped
        yield

    def do(rows: DataFrame, batch: int) -> None:
        nonlocal answered
        warehouse.refresh()
        before = warehouse.snapshot
        own = before is not None and before.stream == mine
        if own and before is not None and before.batch is not None and before.batch >= batch:
            return
        if not own and batch > 0:
            raise warehouse.overtaken()
        with warehouse.change("stream", inputs.traces, anew=not own, stream=mine, batch=batch):
            began = time.monotonic()
            added = warehouse.append_apart(rows, by_day=days is not None)
            if days is not None and (gone := warehouse.forget(days)):
                # Rows about the first day that is kept may have rested on those that went.
                every = Scope({*added.buckets, *gone})
                touched = Touched(every, every)
            else:
                touched = warehouse.touched(added)
            write_all(warehouse, derived(warehouse, touched), step=step)
            if answers_s is not None and began - answered >= answers_s:
                answer(warehouse, step)
                answered = began
            warehouse.compact()
        after_batch(batch)

    register(warehouse.spark)
    reader = warehouse.spark.readStream.format("kafka_shim_trace")
    for name, value in stores_of(warehouse.spark):
        reader = reader.option(name, value)
    if max_bytes is not None:
        reader = reader.option("maxBytesPerTrigger", max_bytes)
    rows = traces.ingested(reader.load(joined(inputs.traces))).withWatermark("at", "0 seconds")
    checkpoint = f"{warehouse.path}/streams/{mine}"
    warehouse.spark.conf.set("spark.sql.streaming.metricsEnabled", "true")
    writer = rows.writeStream.queryName(NAME).option("checkpointLocation", checkpoint).foreachBatch(take)
    triggered = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    return triggered.start()


def stop(spark: SparkSession, query: StreamingQuery) -> None:
    """Ends a stream at once; what a batch at work has done is left for nothing. Returns when it has ended."""
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(query.stop)
        while not wait([ended], CANCEL_EVERY_S).done:
            # Spark cancels the jobs there are; steps at work side by side begin others.
            spark.sparkContext.cancelJobGroup(str(query.runId))
        ended.result()


class Stopped(Exception):
    """A batch was broken off: it is done again when the stream goes on."""


class Progress(NamedTuple):
    """The last micro-batch that a stream has done: its number, the events in it and the seconds it took, how many bytes
    of the traces are still to be read, and the newest time of an event so far."""

    batch: int
    events: int
    seconds: float
    behind_bytes: int
    newest: datetime | None


def progress(query: StreamingQuery, inputs: Inputs, settings: Settings = ()) -> Progress | None:
    """How far a stream is; None before its first batch is done."""
    last: Any = query.lastProgress
    if last is None:
        return None
    (source,) = last["sources"]
    end = source["endOffset"]
    reached = json.loads((json.loads(end) if isinstance(end, str) else end)["files"])
    behind = 0
    for place in files(joined(inputs.traces), settings):
        if not place.is_packed:
            behind += max(place.size() - reached.get(identity_of(place), 0), 0)
    # Of rotated files a later batch may have older events.
    times = last.get("eventTime", {})
    newest = max((times[name] for name in ("max", "watermark") if name in times), default=None)
    return Progress(
        last["batchId"],
        last["numInputRows"],
        last["durationMs"]["triggerExecution"] / 1000,
        behind,
        None if newest is None else datetime.fromisoformat(newest),
    )
