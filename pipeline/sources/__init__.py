"""The Spark data sources, usable by name from any session once `register` was called for it.

    register(spark)
    spark.read.format("kafka_offsets_log").load("/kafka-logs")
    spark.read.format("kafka_shim_trace").load("/traces")
    spark.readStream.format("kafka_shim_trace").load("/traces")

A run reads by `scanned` what these names read: Spark starts a Python of its own for each step of planning a Python
source, which for little data takes longer than to read it.

Spark finds a Python source by itself only in a top-level package named `pyspark_...`, and then by that name; these have
names of their own, so a session is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from kafka_shim.pipeline.sources.offsets_log import OffsetsLog
from kafka_shim.pipeline.sources.shim_trace import ShimTrace

if TYPE_CHECKING:
    import pyarrow as pa


def register(spark: SparkSession) -> None:
    """Makes the sources known to this session."""
    for source in (OffsetsLog, ShimTrace):
        spark.dataSource.register(source)


def scanned(spark: SparkSession, source: type[DataSource], options: Mapping[str, str]) -> DataFrame:
    """What a batch read of a source with these options has, planned in this process. Raises what planning raises."""
    made = source(CaseInsensitiveDict(options))
    schema = str(made.schema())
    found = StructType.fromDDL(schema)
    assert isinstance(found, StructType)
    reader = made.reader(found)
    parts = list(reader.partitions())

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from reader.read(parts[number])

    # One number in each task.
    return in_arrow(spark.range(0, len(parts), 1, max(len(parts), 1)), read, schema)


def in_arrow(
    rows: DataFrame, call: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """What `call` makes of these rows. `DataFrame.mapInArrow` does the same, but asks for pandas, of which it uses
    nothing."""
    function = UserDefinedFunction(call, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    java: Any = rows._jdf
    return DataFrame(java.mapInArrow(function(*rows.columns)._jc, False, None), rows.sparkSession)
