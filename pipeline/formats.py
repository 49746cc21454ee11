"""Tables in lake formats, Delta Lake and Apache Iceberg: where they lie, how they are written and read.

    OUT/delta/TABLE              a Delta table
    OUT/iceberg/pipeline/TABLE   an Iceberg table, in a Hadoop catalog in OUT/iceberg, or
    CATALOG.NAMESPACE.TABLE      in a catalog that Spark's settings describe

Every write is one commit of the table. A snapshot of the warehouse names the table at a commit: `delta/TABLE@VERSION`,
`iceberg/TABLE@SNAPSHOT` or `iceberg:CATALOG.NAMESPACE/TABLE@SNAPSHOT`. So a reader of the format sees a whole table,
and a reader of the warehouse sees all tables of one snapshot. The connectors are published for Spark 4.1
(`kafka_shim.pipeline.connectors`).
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

_NAMESPACE: Final = "pipeline"
_KEYS: Final = ("day", "bucket")
_ADDED: Final = "_added"
_MAKING: Final = Lock()
"""Tables are written side by side, and creating one namespace twice at a time fails."""


def needs_of(tables: Iterable[Iterable[str]]) -> set[str]:
    """Return the formats of a snapshot's tables, those of Iceberg with their catalog."""
    return {folder.partition("/")[0] for folders in tables for folder in folders if "@" in folder}


class Tables:
    """The tables of a warehouse at `path` in one lake format.

    `kind` is `delta`, `iceberg`, or `iceberg:CATALOG.NAMESPACE` for a catalog that Spark's settings describe. Raises
    NoConnector if they do not describe it.
    """

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
                f" spark.sql.catalog.{catalog}=org.apache.iceberg.spark.SparkCatalog, and its other settings"
            )
        if not catalog:
            for name, value in (
                ("", "org.apache.iceberg.spark.SparkCatalog"),
                (".type", "hadoop"),
                (".warehouse", f"{path}/iceberg"),
            ):
                spark.conf.set(f"spark.sql.catalog.{self._catalog}{name}", value)

    def write(self, name: str, rows: DataFrame, partitioned: bool) -> str:
        """Replace a table by these rows in one commit; return the name of the commit for a snapshot."""
        if self._is_delta:
            writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
            writer = writer.option("partitionOverwriteMode", "static")
            (writer.partitionBy(*_KEYS) if partitioned else writer).save(self._place(name))
            return self._newest(name)
        with _MAKING:
            self._sql(f"create namespace if not exists {self._catalog}.{self._namespace}")
        table = rows.sortWithinPartitions(*_KEYS) if partitioned else rows
        table_writer = table.writeTo(self._identifier(name)).using("iceberg").tableProperty("format-version", "2")
        (table_writer.partitionedBy(*map(F.col, _KEYS)) if partitioned else table_writer).createOrReplace()
        return self._newest(name)

    def merge(self, name: str, rows: DataFrame, scope: Scope, before: str) -> str:
        """Replace the rows of the groups in `scope`, on top of the commit `before`; return the name of the new commit.

        One commit touches only the files of groups with different rows. If no row differs, there is no commit and
        `before` is returned.
        """
        self._back_to(name, before)
        old = self.read(before).where(scope.has)
        with self._view(_changes(old, rows)) as changes:
            if self.spark.table(changes).isEmpty():
                return before
            columns = [f"`{column}`" for column in rows.columns]
            alike = " and ".join(f"t.{column} <=> s.{column}" for column in columns)
            # The condition on buckets lets the engine skip files.
            condition = f"t.bucket in ({', '.join(map(str, scope.buckets))}) and {alike} and not s.{_ADDED}"
            self._sql(
                f"merge into {self._identifier(name)} t using {changes} s on {condition} when matched then delete"
                f" when not matched and s.{_ADDED}"
                f" then insert ({', '.join(columns)}) values ({', '.join(f's.{column}' for column in columns)})"
            )
        return self._newest(name)

    def forget(self, name: str, first: str, before: str) -> str:
        """Delete rows of days before `first` (YYYY-MM-DD) on top of the commit `before`; return the name of the new
        commit."""
        self._back_to(name, before)
        self._sql(f"delete from {self._identifier(name)} where day < date'{first}'")
        return self._newest(name)

    def read(self, commit_name: str) -> DataFrame:
        """Read a table at a commit, by the name that a snapshot has for it."""
        name, commit = _parts(commit_name)
        if self._is_delta:
            return self.spark.read.format("delta").option("versionAsOf", commit).load(self._place(name))
        return self.spark.read.option("versionAsOf", commit).table(self._identifier(name))

    def compact(self, name: str, before: str) -> str:
        """Rewrite small files as large ones on top of the commit `before`; return the name of the new commit.

        The result is `before` if there is nothing to do.
        """
        self._back_to(name, before)
        if self._is_delta:
            self._sql(f"optimize {self._identifier(name)}")
        else:
            self._call("rewrite_data_files", name, "options => map('min-input-files', '2')")
        return self._newest(name)

    def expire(self, name: str, commits_to_keep: Collection[str], since: float) -> None:
        """Delete the old commits of a table and their files. Commits in `commits_to_keep`, and those since `since`
        (Unix seconds), stay."""
        if self._is_delta:
            # The time of a file runs from the version that dropped it.
            hours = max(time.time() - since, 0.0) / 3600
            self.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
            self._sql(f"vacuum {self._identifier(name)} retain {hours:.4f} hours")
            return
        commits = self._sql(f"select snapshot_id, committed_at from {self._identifier(name)}.snapshots").collect()
        keep = {_parts(each)[1] for each in commits_to_keep}
        old = [
            each.snapshot_id
            for each in commits
            if str(each.snapshot_id) not in keep and each.committed_at.timestamp() < since
        ]
        if old:
            self._call("expire_snapshots", name, f"snapshot_ids => array({', '.join(map(str, old))})")

    def _back_to(self, name: str, commit: str) -> None:
        """Undo commits of a change that failed: no snapshot names them."""
        if self._newest(name) == commit:
            return
        number = _parts(commit)[1]
        if self._is_delta:
            self._sql(f"restore table {self._identifier(name)} to version as of {number}")
        else:
            self._call("set_current_snapshot", name, f"snapshot_id => {number}")

    def _newest(self, name: str) -> str:
        if self._is_delta:
            (version,) = self._sql(f"describe history {self._identifier(name)} limit 1").select("version").collect()
            return f"{self.kind}/{name}@{version.version}"
        (current,) = self._sql(f"select snapshot_id from {self._identifier(name)}.refs where name = 'main'").collect()
        return f"{self.kind}/{name}@{current.snapshot_id}"

    @contextmanager
    def _view(self, rows: DataFrame) -> Iterator[str]:
        """Register rows as a temporary SQL view, computed once."""
        name = f"rows_{uuid4().hex}"
        rows.persist().createOrReplaceTempView(name)
        try:
            yield name
        finally:
            self.spark.catalog.dropTempView(name)
            rows.unpersist()

    def _place(self, name: str) -> str:
        return f"{self.path}/delta/{name}"

    def _identifier(self, name: str) -> str:
        return f"delta.`{self._place(name)}`" if self._is_delta else f"{self._catalog}.{self._namespace}.{name}"

    def _call(self, procedure: str, name: str, arguments: str) -> None:
        self._sql(f"call {self._catalog}.system.{procedure}(table => '{self._namespace}.{name}', {arguments})")

    def _sql(self, text: str) -> Any:
        return self.spark.sql(text)


def _parts(commit_name: str) -> tuple[str, str]:
    """Split the name of a commit into table and commit."""
    name, _, commit = commit_name.rpartition("/")[2].partition("@")
    return name, commit


def _changes(old: DataFrame, new: DataFrame) -> DataFrame:
    """Return the difference of two sets of rows: each row to delete with `_added` false, each row to add with true.

    A row whose number of copies differs is deleted and added again.
    """
    names = new.columns
    both = old.select(*names, F.lit(0).alias(_ADDED)).unionAll(new.select(*names, F.lit(1).alias(_ADDED)))
    counted = both.groupBy(*names).agg(F.count("*").alias("_all"), F.sum(_ADDED).cast("int").alias("_now"))
    was = F.col("_all") - F.col("_now")
    none = F.array().cast("array<boolean>")
    deleted = F.when(was > 0, F.array(F.lit(False))).otherwise(none)
    added = F.array_repeat(F.lit(True), F.col("_now"))
    differing = counted.where(was != F.col("_now"))
    return differing.select(*names, F.explode(F.concat(deleted, added)).alias(_ADDED))
