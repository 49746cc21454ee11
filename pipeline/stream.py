"""A stream over growing traces that keeps the tables of a warehouse up to date.

A micro-batch is one change of the warehouse: it adds rows, derives the tables of the groups in these rows again, and
adds one snapshot. So readers see whole batches. A stream that is killed and restarted ends with the same tables: it
skips a batch that a snapshot already has.

The newest event time is the stream's watermark, so Spark's page of the stream shows the delay ("global watermark gap"),
and Spark's metrics have delay, rate and latency as `spark.streaming.NAME`.

One command owns a warehouse. If the newest snapshot is from this stream, the stream resumes; else it starts over, and
its first batch replaces the old tables. It stops when another command changes the warehouse.
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

from kafka_shim.pipeline.run import Inputs, answer, derived, joined, write_all
from kafka_shim.pipeline.sources import register, stores_of
from kafka_shim.pipeline.sources.places import Settings
from kafka_shim.pipeline.sources.shim_trace import files, identity_of, without_copies
from kafka_shim.pipeline.tables import traces
from kafka_shim.pipeline.tables.columns import Scope
from kafka_shim.pipeline.warehouse import Touched, Warehouse

NAME: Final = "kafka-shim"
"""Name of the stream on Spark's page and in its metrics."""
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
    """Start the stream and return its query.

    `every` is the time between batches, like "10 seconds"; without it, the stream reads all there is and ends. `days`
    keeps only the last so many days of events, as if the trace began then, which bounds the cost of a batch.
    `answers_s` is the age in seconds at which a batch renews the answers; without it there are no answers.
    `after_batch` is called with the number of each finished batch. To stop within a batch, set `stopped`, so that the
    batch begins no more steps, and call `stop`. The query ends with `kafka_shim.pipeline.snapshots.Overtaken` if
    another command changes the warehouse.
    """
    warehouse.refresh()
    newest = warehouse.snapshot
    mine = uuid4().hex if newest is None or newest.stream is None else newest.stream
    answered = float("-inf")

    def take(rows: DataFrame, batch: int) -> None:
        try:
            do(rows, batch)
        except Exception:
            if stopped is not None and stopped.is_set():
                # Spark searches the text of the error for words of its own, which is slow in a long text.
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
        with warehouse.change("stream", inputs.traces, start_over=not own, stream=mine, batch=batch):
            began = time.monotonic()
            added = warehouse.append_apart(rows, by_day=days is not None)
            if days is not None and (emptied := warehouse.forget(days)):
                # Rows of the oldest remaining day may depend on the deleted rows.
                every = Scope({*added.buckets, *emptied})
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
    rows = traces.ingested(reader.load(joined(inputs.traces))).withWatermark("happened_at", "0 seconds")
    checkpoint = f"{warehouse.path}/streams/{mine}"
    warehouse.spark.conf.set("spark.sql.streaming.metricsEnabled", "true")
    writer = rows.writeStream.queryName(NAME).option("checkpointLocation", checkpoint).foreachBatch(take)
    triggered = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    return triggered.start()


def stop(spark: SparkSession, query: StreamingQuery) -> None:
    """Stop a stream at once, without finishing its batch. Returns when it has ended."""
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(query.stop)
        while not wait([ended], CANCEL_EVERY_S).done:
            # Cancelling ends only the present jobs, and the steps at work side by side begin others: repeat.
            spark.sparkContext.cancelJobGroup(str(query.runId))
        ended.result()


class Stopped(Exception):
    """The batch was cancelled; the stream repeats it when it resumes."""


class Progress(NamedTuple):
    """State of a stream after its last micro-batch.

    Number of the batch, its events, its duration in seconds, the bytes of the traces still to read, and the newest
    event time so far.
    """

    batch: int
    events: int
    seconds: float
    behind_bytes: int
    newest: datetime | None


def progress(query: StreamingQuery, inputs: Inputs, settings: Settings = ()) -> Progress | None:
    """Return the progress of a stream; None before its first batch is done."""
    last: Any = query.lastProgress
    if last is None:
        return None
    (source,) = last["sources"]
    end = source["endOffset"]
    reached = json.loads((json.loads(end) if isinstance(end, str) else end)["files"])
    behind = 0
    for place in without_copies(files(joined(inputs.traces), settings)):
        behind += max(place.content_size() - reached.get(identity_of(place), 0), 0)
    # A later batch may have older events, from rotated files.
    times = last.get("eventTime", {})
    newest = max((times[name] for name in ("max", "watermark") if name in times), default=None)
    return Progress(
        last["batchId"],
        last["numInputRows"],
        last["durationMs"]["triggerExecution"] / 1000,
        behind,
        None if newest is None else datetime.fromisoformat(newest),
    )
