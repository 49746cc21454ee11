"""Tables in the formats of lakes, Delta Lake and Apache Iceberg: where they lie, how they are written and read.

    OUT/delta/TABLE              a Delta table
    OUT/iceberg/pipeline/TABLE   an Iceberg table, in a catalog of Hadoop's kind in OUT/iceberg, or
    CATALOG.NAMESPACE.TABLE      one in a catalog that Spark's settings describe

Every write is one commit of the table, and what a snapshot of the warehouse names is the table at that commit, as
`delta/TABLE@VERSION`, `iceberg/TABLE@SNAPSHOT` or `iceberg:CATALOG.NAMESPACE/TABLE@SNAPSHOT`. So a table is whole for
whoever opens it by its format, and all tables together are for who reads them through the warehouse. It does not know
what is in them. Their connectors are published for Spark 4.1 (`kafka_shim.pipeline.connectors`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from threading import Lock
from typing import Any, Final
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_shim.pipeline.connectors import NoConnector
from kafka_shim.pipeline.tables.columns import Scope

FORMATS: Final = ("parquet", "delta", "iceberg")
_NAMESPACE: Final = "pipeline"
_KEYS: Final = ("day", "bucket")
_ADDED: Final = "_added"
_MAKING: Final = Lock()
"""Tables are written side by side, and of two that make one namespace one fails."""


def needs_of(tables: Iterable[Iterable[str]]) -> set[str]:
    """The formats that the folders of a snapshot's tables are in, those of Iceberg with their catalog."""
    return {folder.partition("/")[0] for folders in tables for folder in folders if "@" in folder}


class Tables:
    """The tables of a warehouse at `path` in one of the formats. `kind` is `delta`, `iceberg`, or
    `iceberg:CATALOG.NAMESPACE` for a catalog that Spark's settings describe. Raises NoConnector if they do not."""

    def __init__(self, spark: SparkSession, path: str, kind: str) -> None:
        self.spark = spark
        self.path = path
        self.kind = kind
        self._is_delta = kind == "delta"
        catalog, _, namespace = kind.partition(":")[2].partition(".")
        self._namespace = namespace or _NAMESPACE
        self._catalog = catalog or f"kafka_shim_{blake2b(path.encode(), digest_size=4).hexdigest()}"
        if self._is_delta:
            return
        if catalog and spark.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
            raise NoConnector(
                f"catalog {catalog} is not described: --config"
                f" spark.sql.catalog.{catalog}=org.apache.iceberg.spark.SparkCatalog, and what else it needs"
            )
        if not catalog:
            for name, value in (
                ("", "org.apache.iceberg.spark.SparkCatalog"),
                (".type", "hadoop"),
                (".warehouse", f"{path}/iceberg"),
            ):
                spark.conf.set(f"spark.sql.catalog.{self._catalog}{name}", value)

    def write(self, name: str, rows: DataFrame, partitioned: bool) -> str:
        """Writes a table in place of what it was, in one commit; returns what a snapshot names."""
        if self._is_delta:
            writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
            writer = writer.option("partitionOverwriteMode", "static")
            (writer.partitionBy(*_KEYS) if partitioned else writer).save(self._place(name))
            return self._newest(name)
        with _MAKING:
            self._sql(f"create namespace if not exists {self._catalog}.{self._namespace}")
        table = rows.sortWithinPartitions(*_KEYS) if partitioned else rows
        made = table.writeTo(self._named(name)).using("iceberg").tableProperty("format-version", "2")
        (made.partitionedBy(*map(F.col, _KEYS)) if partitioned else made).createOrReplace()
        return self._newest(name)

    def merge(self, name: str, rows: DataFrame, scope: Scope, before: str) -> str:
        """Makes `rows` those of the table about these groups, starting from what a snapshot names `before`, in one
        commit that touches only the files of groups whose rows differ, and none where none do. Returns what a snapshot
        names afterwards."""
        self._back_to(name, before)
        old = self.read(before).where(scope.has)
        with self._view(_changes(old, rows)) as changes:
            if self.spark.table(changes).isEmpty():
                return before
            columns = [f"`{column}`" for column in rows.columns]
            alike = " and ".join(f"t.{column} <=> s.{column}" for column in columns)
            # That buckets are named lets files be passed over.
            found = f"t.bucket in ({', '.join(map(str, scope.buckets))}) and {alike} and not s.{_ADDED}"
            self._sql(
                f"merge into {self._named(name)} t using {changes} s on {found} when matched then delete"
                f" when not matched and s.{_ADDED}"
                f" then insert ({', '.join(columns)}) values ({', '.join(f's.{column}' for column in columns)})"
            )
        return self._newest(name)

    def forget(self, name: str, first: str, before: str) -> str:
        """Takes rows of days before `first` (YYYY-MM-DD) away from what a snapshot names `before`, in one commit;
        returns what a snapshot names afterwards."""
        self._back_to(name, before)
        self._sql(f"delete from {self._named(name)} where day < date'{first}'")
        return self._newest(name)

    def read(self, named: str) -> DataFrame:
        """A table as a snapshot names it."""
        name, commit = _parts(named)
        if self._is_delta:
            return self.spark.read.format("delta").option("versionAsOf", commit).load(self._place(name))
        return self.spark.read.option("versionAsOf", commit).table(self._named(name))

    def compact(self, name: str, before: str) -> str:
        """Writes small files of what a snapshot names `before` again as large ones, in one commit; returns what a
        snapshot names afterwards, the same if there was nothing to do."""
        self._back_to(name, before)
        if self._is_delta:
            self._sql(f"optimize {self._named(name)}")
        else:
            self._call("rewrite_data_files", name, "options => map('min-input-files', '2')")
        return self._newest(name)

    def expire(self, name: str, kept: Collection[str], since: float) -> None:
        """Takes away the commits of a table, and their files, but for those in `kept`, as snapshots name them, and for
        those since then, in seconds of Unix time."""
        if self._is_delta:
            # Files that a version needs count from when a later one let go of them.
            hours = max(time.time() - since, 0.0) / 3600
            self.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
            self._sql(f"vacuum {self._named(name)} retain {hours:.4f} hours")
            return
        commits = self._sql(f"select snapshot_id, committed_at from {self._named(name)}.snapshots").collect()
        named = {_parts(each)[1] for each in kept}
        old = [
            each.snapshot_id
            for each in commits
            if str(each.snapshot_id) not in named and each.committed_at.timestamp() < since
        ]
        if old:
            self._call("expire_snapshots", name, f"snapshot_ids => array({', '.join(map(str, old))})")

    def _back_to(self, name: str, commit: str) -> None:
        """Undoes what was committed to the table by a change that came to nothing: no snapshot names it."""
        if self._newest(name) == commit:
            return
        number = _parts(commit)[1]
        if self._is_delta:
            self._sql(f"restore table {self._named(name)} to version as of {number}")
        else:
            self._call("set_current_snapshot", name, f"snapshot_id => {number}")

    def _newest(self, name: str) -> str:
        if self._is_delta:
            (version,) = self._sql(f"describe history {self._named(name)} limit 1").select("version").collect()
            return f"{self.kind}/{name}@{version.version}"
        (current,) = self._sql(f"select snapshot_id from {self._named(name)}.refs where name = 'main'").collect()
        return f"{self.kind}/{name}@{current.snapshot_id}"

    @contextmanager
    def _view(self, rows: DataFrame) -> Iterator[str]:
        """Rows under a name for SQL, computed once."""
        name = f"rows_{uuid4().hex}"
        rows.persist().createOrReplaceTempView(name)
        try:
            yield name
        finally:
            self.spark.catalog.dropTempView(name)
            rows.unpersist()

    def _place(self, name: str) -> str:
        return f"{self.path}/delta/{name}"

    def _named(self, name: str) -> str:
        return f"delta.`{self._place(name)}`" if self._is_delta else f"{self._catalog}.{self._namespace}.{name}"

    def _call(self, procedure: str, name: str, arguments: str) -> None:
        self._sql(f"call {self._catalog}.system.{procedure}(table => '{self._namespace}.{name}', {arguments})")

    def _sql(self, text: str) -> Any:
        return self.spark.sql(text)


def _parts(named: str) -> tuple[str, str]:
    """The table and the commit that a snapshot names."""
    name, _, commit = named.rpartition("/")[2].partition("@")
    return name, commit


def _changes(old: DataFrame, new: DataFrame) -> DataFrame:
    """What makes rows those of `new` that were those of `old`: each row to be taken away, however often it is there,
    with false in column `_added`, and each to be added with true. A row of which there is another number is both."""
    names = new.columns
    both = old.select(*names, F.lit(0).alias(_ADDED)).unionAll(new.select(*names, F.lit(1).alias(_ADDED)))
    counted = both.groupBy(*names).agg(F.count("*").alias("_all"), F.sum(_ADDED).cast("int").alias("_now"))
    was = F.col("_all") - F.col("_now")
    none = F.array().cast("array<boolean>")
    gone = F.when(was > 0, F.array(F.lit(False))).otherwise(none)
    added = F.array_repeat(F.lit(True), F.col("_now"))
    differing = counted.where(was != F.col("_now"))
    return differing.select(*names, F.explode(F.concat(gone, added)).alias(_ADDED))
