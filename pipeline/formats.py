"""Tables in the formats of lakes, Delta Lake and Apache Iceberg: where they lie, how they are written and read.

    OUT/delta/TABLE              a Delta table; OUT/iceberg a catalog of Iceberg's (Hadoop's kind), namespace `pipeline`

Every write is one commit of the table, and what a snapshot of the warehouse names is the table at that commit, as
`delta/TABLE@VERSION` or `iceberg/TABLE@SNAPSHOT`. So a table is whole for whoever opens it by its format, and all
tables together are for who reads them through the warehouse. It does not know what is in them.

What Spark needs for them is in `kafka_shim.pipeline.connectors`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

FORMATS: Final = ("parquet", "delta", "iceberg")
_KEYS: Final = ("day", "bucket")


def needs_of(tables: Iterable[Iterable[str]]) -> set[str]:
    """The formats that the folders of a snapshot's tables are in."""
    return {folder.partition("/")[0] for folders in tables for folder in folders if "@" in folder}


class Tables:
    """The tables of a warehouse at `path` in one of the formats."""

    def __init__(self, spark: SparkSession, path: str, kind: str) -> None:
        self.spark = spark
        self.path = path
        self.kind = kind
        if kind == "iceberg":
            self._catalog = f"kafka_shim_{blake2b(path.encode(), digest_size=4).hexdigest()}"
            for name, value in (
                ("", "org.apache.iceberg.spark.SparkCatalog"),
                (".type", "hadoop"),
                (".warehouse", f"{path}/iceberg"),
            ):
                spark.conf.set(f"spark.sql.catalog.{self._catalog}{name}", value)

    def write(self, name: str, rows: DataFrame, partitioned: bool, replaces: Collection[int] | None) -> str:
        """Writes a table, or its rows in the buckets of `replaces`, in one commit; returns what a snapshot names."""
        there = replaces is not None and self._exists(name)
        if self.kind == "delta":
            writer = rows.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "static")
            writer = writer.option("overwriteSchema", str(not there).lower())
            if partitioned:
                writer = writer.partitionBy(*_KEYS)
            if there and replaces is not None:
                writer = writer.option("replaceWhere", f"bucket in ({', '.join(map(str, replaces)) or 'null'})")
            writer.save(self._place(name))
            return self._newest(name)
        if there and replaces is not None:
            rows.sortWithinPartitions(*_KEYS).writeTo(self._named(name)).overwrite(F.col("bucket").isin([*replaces]))
        else:
            table = rows.sortWithinPartitions(*_KEYS) if partitioned else rows
            made = table.writeTo(self._named(name)).using("iceberg").tableProperty("format-version", "2")
            (made.partitionedBy(*map(F.col, _KEYS)) if partitioned else made).createOrReplace()
        return self._newest(name)

    def read(self, named: str) -> DataFrame:
        """A table as a snapshot names it."""
        name, _, commit = named.partition("/")[2].partition("@")
        if self.kind == "delta":
            return self.spark.read.format("delta").option("versionAsOf", commit).load(self._place(name))
        reader = self.spark.read
        return (reader.option("versionAsOf", commit) if commit else reader).table(self._named(name))

    def compact(self, name: str) -> str:
        """Writes small files again as large ones, in one commit; returns what a snapshot names."""
        if self.kind == "delta":
            self._sql(f"optimize {self._named(name)}")
        else:
            self._sql(f"call {self._catalog}.system.rewrite_data_files(table => 'pipeline.{name}')")
        return self._newest(name)

    def expire(self, name: str, kept: Collection[str], since: float) -> None:
        """Takes away the commits of a table, and their files, but for those in `kept`, as snapshots name them, and for
        those since then, in seconds of Unix time."""
        if self.kind == "delta":
            # Files that a version needs count from when a later one let go of them.
            hours = max(time.time() - since, 0.0) / 3600
            self.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
            self._sql(f"vacuum {self._named(name)} retain {hours:.4f} hours")
            return
        commits = self._sql(f"select snapshot_id, committed_at from {self._named(name)}.snapshots").collect()
        named = {each.rpartition("@")[2] for each in kept}
        old = [
            each.snapshot_id
            for each in commits
            if str(each.snapshot_id) not in named and each.committed_at.timestamp() < since
        ]
        if old:
            ids = ", ".join(map(str, old))
            table = f"table => 'pipeline.{name}', snapshot_ids => array({ids})"
            self._sql(f"call {self._catalog}.system.expire_snapshots({table})")

    def _newest(self, name: str) -> str:
        if self.kind == "delta":
            (version,) = self._sql(f"describe history {self._named(name)} limit 1").select("version").collect()
            return f"delta/{name}@{version.version}"
        current: Any = self._sql(f"select snapshot_id from {self._named(name)}.refs where name = 'main'").collect()
        return f"iceberg/{name}@{current[0].snapshot_id}" if current else f"iceberg/{name}@"

    def _place(self, name: str) -> str:
        return f"{self.path}/delta/{name}"

    def _named(self, name: str) -> str:
        return f"delta.`{self._place(name)}`" if self.kind == "delta" else f"{self._catalog}.pipeline.{name}"

    def _exists(self, name: str) -> bool:
        if self.kind == "iceberg":
            return self.spark.catalog.tableExists(self._named(name))
        path: Any = self.spark.sparkContext._jvm.org.apache.hadoop.fs.Path(f"{self._place(name)}/_delta_log")  # type: ignore[union-attr]
        return bool(path.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration()).exists(path))

    def _sql(self, text: str) -> DataFrame:
        return self.spark.sql(text)
