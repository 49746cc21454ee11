"""Live: a stream over trace folders that keeps the tables of a warehouse up to date.

A micro-batch is one change of the warehouse: its rows are added, the tables of the groups it is about are made again,
and one snapshot says that it was done. So readers see whole batches, and a stream that is killed at any point and
started again ends with the tables it would have had: a batch that a snapshot has is not done again.

A warehouse is what one command made of it. A stream goes on where the newest snapshot is its own; else it begins anew,
and its first batch takes the place of what was there. One that finds the warehouse changed by another command stops.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from kafka_shim.pipeline.run import Inputs, derived, joined, seqs, store_settings
from kafka_shim.pipeline.sources import register
from kafka_shim.pipeline.tables import traces
from kafka_shim.pipeline.warehouse import Warehouse


def stream(
    warehouse: Warehouse,
    inputs: Inputs,
    *,
    every: str | None = None,
    max_bytes: int | None = None,
    after_batch: Callable[[int], None] = lambda batch: None,
) -> StreamingQuery:
    """Starts the stream. `every` is a time like "10 seconds" to wait between batches; without it, the stream takes what
    there is and ends. `after_batch` is called with the number of each batch that was done. The query ends with
    `kafka_shim.pipeline.snapshots.Overtaken` if another command changes the warehouse."""
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
            touched = warehouse.append_apart(traces.ingested(rows))
            for name, table in derived(warehouse, touched):
                warehouse.write(name, table(), replaces=touched)
            warehouse.write("trace_gaps", traces.gaps(seqs(warehouse)))
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
