"""Delta and Iceberg tables, under the Spark that has connectors for both, opened by those that know nothing of us.

    python -m tests.pipeline.lakes FOLDER STORE

runs in an environment of its own (`requirements/old/spark-4.1.txt`). A stream into Delta tables, in a store that speaks
S3 at the address STORE, is compared with a run into Iceberg tables and with others, in a catalog, that are merged. Then
all are opened. Prints what was checked, a line for each.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow.fs
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.store import BUCKET, Store
from kafka_shim.pipeline import connectors
from kafka_shim.pipeline.formats import Tables
from kafka_shim.pipeline.run import Inputs, build
from kafka_shim.pipeline.schemas import BUCKETS
from kafka_shim.pipeline.session import LITTLE, session
from kafka_shim.pipeline.snapshots import Unwritable
from kafka_shim.pipeline.stream import stream
from kafka_shim.pipeline.tables.columns import Scope
from kafka_shim.pipeline.warehouse import Warehouse

from . import packages

NAMES = ("rounds", "membership")
FOLDER, CATALOG = "iceberg", "iceberg:lake.kafka"
DAY = 86_400.0
SQLITE = "org.xerial:sqlite-jdbc:3.51.0.0"


def settings(folder: Path, store: Store) -> dict[str, str]:
    """Spark's, with a catalog of Iceberg's in SQLite."""
    catalog = "spark.sql.catalog.lake"
    given = {
        **LITTLE,
        "spark.driver.memory": "1200m",
        "spark.jars.packages": SQLITE,
        **packages.SETTINGS,
        **store.settings,
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{folder}/catalog.db",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": f"{folder}/lake",
    }
    return {**given, **connectors.settings(["delta", CATALOG], given, f"s3a://{BUCKET}")}


class Trace:
    """A trace that grows: rounds and members of groups."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._seq = 0

    def add(self, *groups: str, day: int = 0) -> None:
        """A member and a round of each of these groups, on the day of this number."""
        with (self.folder / "trace.jsonl").open("a") as file:
            for group in groups:
                for event in self._of(group, day):
                    at = {"seq": self._seq, "mono": day * DAY + self._seq, "wall": 1.76e9 + day * DAY + self._seq}
                    file.write(json.dumps({"group": group, "error": 0, **at, **event}) + "\n")
                    self._seq += 1

    def _of(self, group: str, day: int) -> Iterator[dict[str, Any]]:
        member = f"{group}-{self._seq}"
        mono = day * DAY + self._seq
        yield {"event": "member", "member_id": member, "change": "added"}
        yield {
            "event": "round", "started": mono - 1, "ended": mono, "cause": "NEW_MEMBER", "generation": self._seq,
            "members": [member], "waited_for": [{"member_id": member, "ms": 3.0}],
        }  # fmt: skip


def main(folder: Path, store: Store) -> None:
    spark = session("local[2]", config=settings(folder, store))
    streamed = few(spark, f"s3a://{BUCKET}/delta", "delta")
    merged = few(spark, str(folder / "in-catalog"), CATALOG)
    made = few(spark, str(folder / "iceberg"), FOLDER)
    trace = Trace(folder / "trace")
    inputs = Inputs((str(trace.folder),), ())

    try:
        with few(spark, "s3a://nobody/out", "parquet").change("run"):
            pass
    except Unwritable as error:
        print(str(error)[:34])

    trace.add("a", "b", "d")
    follow(streamed, inputs)
    copied(streamed, merged)
    same(3, streamed, merged)
    first = {warehouse.kind: (warehouse.snapshot, files_of(warehouse)) for warehouse in (streamed, merged)}

    trace.add("b")
    for warehouse in (streamed, merged):
        come_to_nothing(warehouse)
    follow(streamed, inputs)
    copied(streamed, merged)
    with made.change("run"):
        build(made, inputs)
    same(4, streamed, merged, made)
    for warehouse in (streamed, merged):
        snapshot, before = first[warehouse.kind]
        after = files_of(warehouse)
        # One group had news. What lies in files of other groups is as it was.
        assert len(before) == 6, before
        assert {group for file in before.keys() ^ after.keys() for group in (before | after)[file]} == {"b"}, after
        print("merged", warehouse.kind)
        assert snapshot is not None
        assert {each.count() for each in tables(warehouse.at(snapshot.number))} == {3}
        print("went back", warehouse.kind)
        print("made small", warehouse.kind, *sorted({*NAMES} & {*warehouse.compact_all()}))
    same(4, streamed, merged)

    trace.add("a", day=1)
    trace.add("a", day=2)
    follow(streamed, inputs)
    copied(streamed, merged)
    same(2, streamed, merged)
    for warehouse in (streamed, merged):
        many = files_at(folder, store)
        warehouse.expire(1)
        assert len(warehouse.snapshots.numbers()) == 1
        assert files_at(folder, store) < many
        print("expired", warehouse.kind)
    same(2, streamed, merged)
    spark.stop()
    store.get("delta", folder / "delta")
    for name in NAMES:
        opened(folder, store, name)


def few(spark: SparkSession, place: str, kind: str) -> Warehouse:
    return Warehouse(spark, place, kind, only=NAMES, keep=3)


def follow(warehouse: Warehouse, inputs: Inputs) -> None:
    """A micro-batch of all there is."""
    stream(warehouse, inputs, days=2).awaitTermination()
    warehouse.refresh()


def copied(source: Warehouse, target: Warehouse) -> None:
    """The tables of one become those of another, merged into what it has."""
    with target.change("stream", anew=target.snapshot is None):
        for name in NAMES:
            target.write(name, source.read(name), replaces=Scope(range(BUCKETS)))


def come_to_nothing(warehouse: Warehouse) -> None:
    """A commit that takes all rows of a table away, of a command that dies before a snapshot names it."""
    assert warehouse.snapshot is not None
    lake = Tables(warehouse.spark, warehouse.path, warehouse.kind)
    (before,) = warehouse.snapshot.tables["rounds"]
    assert lake.read(lake.forget("rounds", "9999-12-31", before)).isEmpty()


def tables(warehouse: Warehouse) -> list[DataFrame]:
    return [warehouse.read(name) for name in NAMES]


def same(count: int, *made: Warehouse) -> None:
    """All warehouses have the same rows, so many of each table."""
    expected, *others = ([sorted(map(str, rows.collect())) for rows in tables(warehouse)] for warehouse in made)
    assert {len(rows) for rows in expected} == {count}, expected
    assert all(found == expected for found in others), (expected, others)
    print("same", count)


def files_of(warehouse: Warehouse) -> dict[str, list[str]]:
    """The files of the tables as they are read now, and the groups in each."""
    found: dict[str, list[str]] = {}
    for rows in tables(warehouse):
        for file, group in rows.select(F.input_file_name(), "group").distinct().collect():
            found.setdefault(file, []).append(group)
    return found


def files_at(folder: Path, store: Store) -> int:
    """How many files of Parquet there are."""
    there = store.files.get_file_info(pyarrow.fs.FileSelector(BUCKET, recursive=True))
    names = [*(each.path for each in there), *map(str, folder.rglob("*"))]
    return sum(name.endswith(".parquet") for name in names)


def opened(folder: Path, store: Store, name: str) -> None:
    """A table is opened by the libraries of its format, and by DuckDB."""
    with duckdb.connect() as db:
        for extension in ("avro", "delta", "iceberg"):
            package = Path(str(importlib.import_module(f"duckdb_extension_{extension}").__file__)).parent
            (file,) = package.glob("extensions/*/*.duckdb_extension")
            db.execute(f"load '{file}'")
        table = deltalake.DeltaTable(f"s3://{BUCKET}/delta/delta/{name}", storage_options=options(store))
        assert table.to_pyarrow_dataset().count_rows() == 2
        delta = folder / "delta/delta" / name
        assert db.sql(f"select count(*), min(\"group\") from delta_scan('{delta}')").fetchall() == [(2, "a")]
        print("opened", name, "delta")
        iceberg = folder / "iceberg/iceberg/pipeline" / name
        newest = max((iceberg / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
        assert StaticTable.from_metadata(str(newest)).scan().to_arrow().num_rows == 4
        assert db.sql(f"select count(*), max(\"group\") from iceberg_scan('{iceberg}')").fetchall() == [(4, "d")]
        print("opened", name, FOLDER)
        catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/catalog.db")
        found = catalog.load_table(f"kafka.{name}")
        assert found.scan(row_filter="group = 'a'").to_arrow().num_rows == 2
        assert db.sql(f"select count(*) from iceberg_scan('{found.metadata_location}')").fetchall() == [(2,)]
        print("opened", name, CATALOG)


def options(store: Store) -> dict[str, str]:
    """What deltalake is to know of the store."""
    names = {"fs.s3a.access.key": "AWS_ACCESS_KEY_ID", "fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY"}
    found = {names[key]: value for name, value in store.settings.items() if (key := name[13:]) in names}
    return {**found, "AWS_ENDPOINT_URL": store.address, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Store(sys.argv[2]))
