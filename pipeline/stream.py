"""Live: a stream over trace folders that keeps the tables of a warehouse up to date.

A micro-batch is one change of the warehouse: its rows are added, the tables of the groups it is about are made again,
and one snapshot says that it was done. So readers see whole batches, and a stream that is killed at any point and
started again ends with the tables it would have had: a batch that a snapshot has is not done again.

A warehouse is what one command made of it. A stream goes on where the newest snapshot is its own; else it begins anew,
and its first batch takes the place of what was there. One that finds the warehouse changed by another command stops.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from kafka_shim.pipeline.run import Inputs, derived, joined, store_settings, write_all
from kafka_shim.pipeline.sources import register
from kafka_shim.pipeline.sources.places import Settings
from kafka_shim.pipeline.sources.shim_trace import files, identity_of
from kafka_shim.pipeline.tables import traces
from kafka_shim.pipeline.warehouse import Warehouse


def stream(
    warehouse: Warehouse,
    inputs: Inputs,
    *,
    every: str | None = None,
    max_bytes: int | None = None,
    days: int | None = None,
    after_batch: Callable[[int], None] = lambda batch: None,
) -> StreamingQuery:
    """Starts the stream. `every` is a time like "10 seconds" to wait between batches; without it, the stream takes what
    there is and ends. With `days`, what is about days before the last so many of events goes: the tables are those of a
    trace that begins then, and no batch costs more than these do. `after_batch` is called with the number of each batch
    that was done. The query ends with `kafka_shim.pipeline.snapshots.Overtaken` if another command changes the
    warehouse."""
    warehouse.refresh()
    found = warehouse.snapshot
    mine = uuid4().hex if found is None or found.stream is None else found.stream

    def take(rows: DataFrame, batch: int) -> None:
        warehouse.refresh()
        before = warehouse.snapshot
        own = before is not None and before.stream == mine
        if own and before is not None and before.batch is not None and before.batch >= batch:
            return
        if not own and batch > 0:
            raise warehouse.overtaken()
        with warehouse.change("stream", inputs.traces, anew=not own, stream=mine, batch=batch):
            touched = warehouse.append_apart(traces.ingested(rows), by_day=days is not None)
            if days is not None:
                warehouse.forget(days)
            write_all(warehouse, derived(warehouse, touched), replaces=touched)
            warehouse.compact()
        after_batch(batch)

    register(warehouse.spark)
    reader = warehouse.spark.readStream.format("kafka_shim_trace")
    for name, value in store_settings(dict(warehouse.spark.sparkContext.getConf().getAll())):
        reader = reader.option(name, value)
    if max_bytes is not None:
        reader = reader.option("maxBytesPerTrigger", max_bytes)
    rows = reader.load(joined(inputs.traces))
    checkpoint = f"{warehouse.path}/streams/{mine}"
    writer = rows.writeStream.option("checkpointLocation", checkpoint).foreachBatch(take)
    triggered = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    return triggered.start()


class Progress(NamedTuple):
    """The last micro-batch that a stream has done: its number, the events in it and the seconds it took, and how many
    bytes of the traces are still to be read."""

    batch: int
    events: int
    seconds: float
    behind_bytes: int


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
    return Progress(last["batchId"], last["numInputRows"], last["durationMs"]["triggerExecution"] / 1000, behind)
