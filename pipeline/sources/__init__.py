"""The Spark data sources, usable by name from any session once `register` was called for it.

    register(spark)
    spark.read.format("kafka_offsets_log").load("/kafka-logs")
    spark.read.format("kafka_shim_trace").load("/traces")
    spark.readStream.format("kafka_shim_trace").load("/traces")

Spark finds a Python source by itself only in a top-level package named `pyspark_...`, and then by that name; these have
names of their own, so a session is told.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from kafka_shim.pipeline.sources.kafka_topic import OffsetsTopic
from kafka_shim.pipeline.sources.offsets_log import OffsetsLog
from kafka_shim.pipeline.sources.shim_trace import ShimTrace


def register(spark: SparkSession) -> None:
    """Makes the sources known to this session."""
    for source in (OffsetsLog, OffsetsTopic, ShimTrace):
        spark.dataSource.register(source)
