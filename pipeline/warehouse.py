"""Where the tables lie as Parquet files, and how they are written and read. It does not know what is in them.

    DIR/ingest/batch=N/table=NAME/day=.../bucket=...    what was read, as it came: one batch a run, or one a micro-batch
    DIR/ingest/log/table=NAME/...                       tables that come from segments
    DIR/tables/NAME/day=.../bucket=...                  what is made of it
    DIR/results/NAME                                    what the jobs say, as Parquet and as CSV

A batch is written whole or written again: writing one that is there replaces it, which makes the stream's batches
count exactly once.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_shim.pipeline.log_tables import log_tables
from kafka_shim.pipeline.schemas import INGESTED, PARTITIONED, STEADY, TABLES, Table
from kafka_shim.pipeline.sources import register
from kafka_shim.pipeline.tables import traces
from kafka_shim.pipeline.tables.columns import conform
from kafka_shim.pipeline.tables.offsets import LOG_TABLES
from kafka_shim.pipeline.trace_tables import trace_tables

_SHUFFLED: Final = frozenset(
    {"membership", "rounds", "member_pauses", "ownership", "partition_pauses", "assignments", "lag", "violations"}
)
"""Small tables, whose rows are brought together by partition first, so that a partition is one file."""
_DIFFERENT: Final = frozenset({"bigint", "timestamp", "double"})
_KEYS: Final = ("day", "bucket")


class Warehouse:
    """The tables at one place, which may be any that Spark can write to."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark = spark
        self.path = path.rstrip("/")

    # What was read.

    def ingest(self, rows: DataFrame, batch: int) -> None:
        """Write rows of `tables.traces.ingested` as batch number `batch`, in place of what it was before."""
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "static")
        writer.partitionBy("table", *_KEYS).parquet(f"{self.path}/ingest/batch={batch}")

    def ingest_traces(self, paths: str) -> None:
        """Write the tables that come straight from the traces at these paths as batch 0, in place of what it was."""
        if "://" in self.path:
            register(self.spark)
            self.ingest(traces.ingested(self.spark.read.format("kafka_shim_trace").load(paths)), 0)
        else:
            trace_tables(self.spark, paths, f"{self.path}/ingest/batch=0")

    def ingest_log(self, paths: str) -> None:
        """Write the tables that come from the segments at these paths, in place of what they were before."""
        place = f"{self.path}/ingest/log"
        if "://" not in self.path:
            log_tables(self.spark, paths, place)
            return
        register(self.spark)
        rows = self.spark.read.format("kafka_offsets_log").load(paths).persist(StorageLevel.DISK_ONLY)
        for name, table in LOG_TABLES.items():
            writer = conform(table(rows), name).write.mode("overwrite").option("partitionOverwriteMode", "static")
            if name in PARTITIONED:
                writer = writer.partitionBy(*_KEYS)
            writer.parquet(f"{place}/table={name}")
        rows.unpersist()

    def has_log(self) -> bool:
        """Whether any segment was read."""
        return self._exists(f"{self.path}/ingest/log")

    def has_traces(self) -> bool:
        """Whether any trace was read."""
        return self._exists(f"{self.path}/ingest/batch=*")

    def buckets(self, batch: int) -> list[int]:
        """The buckets of the groups a batch is about."""
        rows = self.spark.read.parquet(f"{self.path}/ingest/batch={batch}").select("bucket").distinct().collect()
        return sorted(row.bucket for row in rows if row.bucket is not None)

    # Tables and results.

    def write(self, name: str, rows: DataFrame, *, only_touched: bool = False) -> None:
        """Write a table in place of what it was before; `only_touched` leaves other days and buckets as they are."""
        writer = conform(rows, name)
        if name in _SHUFFLED:
            writer = writer.repartition(*_KEYS)
        mode = writer.write.mode("overwrite").option(
            "partitionOverwriteMode", "dynamic" if only_touched and name in PARTITIONED else "static"
        )
        if name in PARTITIONED:
            mode = mode.partitionBy(*_KEYS)
        for column in TABLES[name].columns:
            # Nearly all different: Parquet would build a dictionary of them and then throw it away.
            if column.type in _DIFFERENT:
                mode = mode.option(f"parquet.enable.dictionary#{column.name}", "false")
        mode.parquet(f"{self.path}/tables/{name}")

    def read(self, name: str, buckets: Collection[int] | None = None, *, steady: bool | None = None) -> DataFrame:
        """A table, of all groups or of those in some buckets; empty if nothing was written. Of `events` and `requests`
        `steady` chooses what groups at rest bring about, or the rest (`schemas.STEADY`)."""
        table = TABLES[name]
        found = []
        if name in INGESTED:
            places = {None: [name, STEADY.get(name, name)], True: [STEADY.get(name, name)], False: [name]}[steady]
            pattern = f"{self.path}/ingest/batch=*/table={{{','.join(dict.fromkeys(places))}}}"
            found.append(self._read(table, pattern, f"{self.path}/ingest"))
        else:
            found.append(self._read(table, f"{self.path}/tables/{name}"))
        if name in LOG_TABLES:
            found.append(self._read(table, f"{self.path}/ingest/log/table={name}"))
        there = [each for each in found if each is not None]
        frame = reduce(DataFrame.unionByName, there) if there else self.spark.createDataFrame([], table.schema)
        return frame if buckets is None else frame.where(F.col("bucket").isin(list(buckets)))

    def _read(self, table: Table, path: str, base: str | None = None) -> DataFrame | None:
        if not self._exists(path):
            return None
        reader = self.spark.read.schema(table.ddl)
        if base is not None:
            reader = reader.option("basePath", base)
        return reader.parquet(path).select(*table.names)

    def write_result(self, name: str, rows: DataFrame) -> None:
        """Write what a job says, as Parquet and as CSV in one file each; arrays are joined by commas in CSV."""
        whole = rows.coalesce(1)
        whole.write.mode("overwrite").parquet(f"{self.path}/results/{name}")
        written = self.result(name)
        flat = written.select(
            *(
                F.concat_ws(", ", column).alias(column) if kind.startswith("array<string") else F.col(column)
                for column, kind in written.dtypes
            )
        )
        flat.coalesce(1).write.mode("overwrite").csv(f"{self.path}/results/{name}.csv", header=True)

    def result(self, name: str) -> DataFrame:
        """What a job said."""
        return self.spark.read.parquet(f"{self.path}/results/{name}")

    def has_result(self, name: str) -> bool:
        """Whether the job was asked."""
        return self._exists(f"{self.path}/results/{name}")

    def _exists(self, pattern: str) -> bool:
        # Spark's own way to files: the warehouse may be in a distributed store.
        context = self.spark.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(pattern)  # type: ignore[union-attr]
        found = path.getFileSystem(context._jsc.hadoopConfiguration()).globStatus(path)
        return found is not None and len(found) > 0
