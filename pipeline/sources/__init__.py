"""Spark data sources for traces, segments of `__consumer_offsets` and Kafka topics; `register` makes them known to a
session.

    register(spark)
    spark.read.format("kafka_offsets_log").load("/kafka-logs")
    spark.read.format("kafka_shim_trace").load("/traces")
    spark.readStream.format("kafka_shim_trace").load("/traces")

A run reads the same sources by `scanned`: for a source by name Spark starts a Python process for each step of planning,
which takes longer than reading small inputs.

Without `register`, Spark only finds Python sources in top-level packages named `pyspark_...`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
from pyspark.sql.functions import arrow_udtf
from pyspark.sql.types import StructType

from kafka_shim.pipeline.sources.offsets_log import OffsetsLog
from kafka_shim.pipeline.sources.places import Settings, store_settings
from kafka_shim.pipeline.sources.shim_trace import ShimTrace

if TYPE_CHECKING:
    import pyarrow as pa


def register(spark: SparkSession) -> None:
    """Register the sources with this session."""
    for source in (OffsetsLog, ShimTrace):
        spark.dataSource.register(source)


def scanned(spark: SparkSession, source: type[DataSource], options: Mapping[str, str]) -> DataFrame:
    """Read a source with these options in a batch, planned in this process. Raises the errors of planning."""
    data_source = source(CaseInsensitiveDict(options))
    schema = str(data_source.schema())
    struct = StructType.fromDDL(schema)
    assert isinstance(struct, StructType)
    reader = data_source.reader(struct)
    parts = list(reader.partitions())

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from reader.read(parts[number])

    # One number for each task.
    return in_arrow(spark.range(0, len(parts), 1, max(len(parts), 1)), read, schema)


def in_arrow(
    rows: DataFrame, call: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """Apply `call` to the batches of these rows, like `DataFrame.mapInArrow`, which needs pandas."""

    class Call:
        def eval(self, batch: Any) -> Any:
            yield from call(iter([batch]))

    table_function: Any = arrow_udtf(Call, returnType=schema)
    result: DataFrame = table_function(rows.asTable())
    return result


@lru_cache(maxsize=1)
def stores_of(spark: SparkSession) -> Settings:
    """Return the store settings of a session; cached, because there are a thousand settings."""
    return store_settings(dict(spark.conf.getAll))
