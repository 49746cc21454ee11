"""Live: a stream over trace folders that keeps the tables of a warehouse up to date.

A micro-batch is written as a batch of the warehouse under its own number, then the tables of the groups it is about are
made again. Both can be done twice without harm, and the checkpoint says which batch was done last, so a stream that is
killed at any point and started again ends with the tables it would have had.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from kafka_shim.pipeline.run import Inputs, derived
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
    there is and ends. `after_batch` is called with the number of each batch that was done."""

    def take(rows: DataFrame, batch: int) -> None:
        warehouse.ingest(traces.ingested(rows), batch)
        touched = warehouse.buckets(batch)
        for name, table in derived(warehouse, touched):
            warehouse.write(name, table(), only_touched=True)
        after_batch(batch)

    register(warehouse.spark)
    reader = warehouse.spark.readStream.format("kafka_shim_trace")
    if max_bytes is not None:
        reader = reader.option("maxBytesPerTrigger", max_bytes)
    rows = reader.load(",".join(map(os.path.abspath, inputs.traces)))
    writer = rows.writeStream.option("checkpointLocation", f"{warehouse.path}/checkpoint").foreachBatch(take)
    triggered = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    return triggered.start()
