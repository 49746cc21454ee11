"""Delta and Iceberg tables, under the Spark that has connectors for both, opened by other libraries.

    python -m tests.pipeline.lakes FOLDER STORE

runs in its own environment (`requirements/old/spark-4.1.txt`). A stream writes Delta tables; a run writes Iceberg
tables; other Iceberg tables, in a catalog, are merged, and Delta tables in a store that speaks S3 at the address STORE
once. All of them are compared, then opened by other libraries. Prints a line for each check.
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
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.store import BUCKET, Store
from kafka_shim.pipeline import connectors
from kafka_shim.pipeline.formats import Tables
from kafka_shim.pipeline.needs import places_for
from kafka_shim.pipeline.run import Inputs, build
from kafka_shim.pipeline.schemas import BUCKETS, UNITED
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
    """Return Spark's settings, with an Iceberg catalog in SQLite."""
    catalog = "spark.sql.catalog.lake"
    store_settings = {
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
    return {**store_settings, **connectors.settings(["delta", CATALOG], store_settings, f"s3a://{BUCKET}")}


class Trace:
    """A growing trace of rounds and members of groups."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._seq = 0

    def add(self, *groups: str, day: int = 0) -> None:
        """Append a member and a round of each of these groups, on this day."""
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
    streamed = few(spark, str(folder / "streamed"), "delta")
    merged = few(spark, str(folder / "in-catalog"), CATALOG)
    iceberg = few(spark, str(folder / "iceberg"), FOLDER)
    trace = Trace(folder / "trace")
    inputs = Inputs((str(trace.folder),), ())

    try:
        with few(spark, "s3a://nobody/out", "parquet").change("run"):
            pass
    except Unwritable as error:
        print(str(error)[:34])

    trace.add("a", "b", "d")
    follow(streamed, inputs)
    merge_into(streamed, merged)
    assert_same(3, streamed, merged)
    first = {warehouse.kind: (warehouse.snapshot, files_of(warehouse)) for warehouse in (streamed, merged)}

    trace.add("b")
    for warehouse in (streamed, merged):
        commit_without_snapshot(warehouse)
    follow(streamed, inputs)
    merge_into(streamed, merged)
    with iceberg.change("run"):
        build(iceberg, inputs)
    assert_same(4, streamed, merged, iceberg)
    for warehouse in (streamed, merged):
        snapshot, before = first[warehouse.kind]
        after = files_of(warehouse)
        # One group changed; the files of the other groups are the same.
        assert len(before) == 6, before
        assert {group for file in before.keys() ^ after.keys() for group in (before | after)[file]} == {"b"}, after
        print("merged", warehouse.kind)
        assert snapshot is not None
        assert {each.count() for each in tables(warehouse.at(snapshot.number))} == {3}
        print("went back", warehouse.kind)
        print("made small", warehouse.kind, *sorted({*NAMES} & {*warehouse.compact_all()}))
    assert_same(4, streamed, merged)

    trace.add("a", day=1)
    trace.add("a", day=2)
    follow(streamed, inputs)
    merge_into(streamed, merged)
    assert_same(2, streamed, merged)
    for warehouse in (streamed, merged):
        many = files_at(folder)
        warehouse.expire(1)
        assert len(warehouse.snapshots.numbers()) == 1
        assert files_at(folder) < many
        print("expired", warehouse.kind)
    assert_united(spark, folder / "united")
    remote = few(spark, f"s3a://{BUCKET}/delta", "delta")
    merge_into(streamed, remote)
    assert_same(2, streamed, merged, remote)
    spark.stop()
    for name in NAMES:
        assert_opens(folder, store, name)


def few(spark: SparkSession, place: str, kind: str) -> Warehouse:
    return Warehouse(spark, place, kind, only={"events", "requests", *NAMES}, keep=3)


def follow(warehouse: Warehouse, inputs: Inputs) -> None:
    """Run a micro-batch over all there is."""
    stream(warehouse, inputs, days=2).awaitTermination()
    warehouse.refresh()


def merge_into(source: Warehouse, target: Warehouse) -> None:
    """Merge the tables of one warehouse into those of another."""
    with target.change("stream", start_over=target.snapshot is None):
        for name in NAMES:
            target.write(name, source.read(name), replaces=Scope(range(BUCKETS)))


def commit_without_snapshot(warehouse: Warehouse) -> None:
    """Delete all rows of a table in a commit that no snapshot names, as if the command died before its snapshot."""
    assert warehouse.snapshot is not None
    lake = Tables(warehouse.spark, warehouse.path, warehouse.kind)
    (before,) = warehouse.snapshot.tables["rounds"]
    assert lake.read(lake.forget("rounds", "9999-12-31", before)).isEmpty()


def tables(warehouse: Warehouse) -> list[DataFrame]:
    return [warehouse.read(name) for name in NAMES]


def assert_same(count: int, *warehouses: Warehouse) -> None:
    """Assert that all warehouses have the same rows, `count` of each table."""
    expected, *others = ([sorted(map(str, rows.collect())) for rows in tables(warehouse)] for warehouse in warehouses)
    assert {len(rows) for rows in expected} == {count}, expected
    assert all(rows == expected for rows in others), (expected, others)
    print("same", count)


def files_of(warehouse: Warehouse) -> dict[str, list[str]]:
    """Return the files of the current tables, and the groups in each."""
    groups: dict[str, list[str]] = {}
    for rows in tables(warehouse):
        for file, group in rows.select(F.input_file_name(), "group_id").distinct().collect():
            groups.setdefault(file, []).append(group)
    return groups


def files_at(folder: Path) -> int:
    """Return the number of Parquet files."""
    return sum(1 for _ in folder.rglob("*.parquet"))


def assert_opens(folder: Path, store: Store, name: str) -> None:
    """Assert that the libraries of the format and DuckDB can open a table."""
    with duckdb.connect() as db:
        for extension in ("avro", "delta", "iceberg"):
            package = Path(str(importlib.import_module(f"duckdb_extension_{extension}").__file__)).parent
            (file,) = package.glob("extensions/*/*.duckdb_extension")
            db.execute(f"load '{file}'")
        table = deltalake.DeltaTable(f"s3://{BUCKET}/delta/delta/{name}", storage_options=options(store))
        assert table.to_pyarrow_dataset().count_rows() == 2
        delta = folder / "streamed/delta" / name
        assert db.sql(f"select count(*), min(group_id) from delta_scan('{delta}')").fetchall() == [(2, "a")]
        print("opened", name, "delta")
        iceberg = folder / "iceberg/iceberg/pipeline" / name
        newest = max((iceberg / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
        assert StaticTable.from_metadata(str(newest)).scan().to_arrow().num_rows == 4
        assert db.sql(f"select count(*), max(group_id) from iceberg_scan('{iceberg}')").fetchall() == [(4, "d")]
        print("opened", name, FOLDER)
        catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/catalog.db")
        iceberg_table = catalog.load_table(f"kafka.{name}")
        assert iceberg_table.scan(row_filter="group_id = 'a'").to_arrow().num_rows == 2
        assert db.sql(f"select count(*) from iceberg_scan('{iceberg_table.metadata_location}')").fetchall() == [(2,)]
        print("opened", name, CATALOG)


def assert_united(spark: SparkSession, folder: Path) -> None:
    """Assert that each table from several sources is one Delta table of its own name, also after a batch."""
    source = folder / "trace"
    source.mkdir(parents=True)
    warehouse = Warehouse(spark, str(folder / "out"), "delta", only=places_for(UNITED))
    for batch, number in enumerate((0, 3)):
        with (source / "trace.jsonl").open("a") as file:
            commit = {"event": "commit", "group": "a", "member_id": "m", "generation": 1, "error": 0, "partition": 0}
            offsets = [{"topic": "t", "partition": 0, "offset": number}]
            file.write(json.dumps({**commit, "seq": number, "mono": 1.0, "wall": 1.76e9 + number, "offsets": offsets}))
            file.write("\nthis is no event\n")
        stream(warehouse, Inputs((str(source),), ())).awaitTermination()
        warehouse.refresh()
        for name in UNITED:
            rows = deltalake.DeltaTable(f"{folder}/out/delta/{name}").to_pyarrow_table().to_pylist()
            assert len(rows) == warehouse.read(name).count() == (batch if name == "gaps" else batch + 1), (name, rows)
    print("united", *UNITED)


def options(store: Store) -> dict[str, str]:
    """Return deltalake's options for the store."""
    names = {"fs.s3a.access.key": "AWS_ACCESS_KEY_ID", "fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY"}
    result = {names[key]: value for name, value in store.settings.items() if (key := name[13:]) in names}
    return {**result, "AWS_ENDPOINT_URL": store.address, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Store(sys.argv[2]))
