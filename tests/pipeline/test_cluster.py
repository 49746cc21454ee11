"""On a standalone cluster two workers of which die, tables are those of an undisturbed run on one machine. What the
workers read and write is in a store that speaks S3, which is all that they share."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from bench.killing import READING, digest, on_cluster, same_tables
from bench.store import BUCKET, s3
from kafka_shim.pipeline.generate.write import generate
from kafka_shim.pipeline.run import build, sort_out
from kafka_shim.pipeline.schemas import PLACES, TABLES
from kafka_shim.pipeline.warehouse import Warehouse

from . import packages

STEPS = ("ownership", "offset_history", "rounds")
IMPATIENT = {"spark.shuffle.io.retryWait": "100ms"}
"""Spark tries three times to fetch what a worker had that is gone, and waits five seconds in between."""


@pytest.mark.timeout(500)
def test_a_worker_that_dies_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    generate(data, groups=3, seed=5)
    with s3() as store:
        store.put(data, "data")
        # One dies when its task has read its part, another in the middle of a shuffle.
        summary = on_cluster(
            f"s3a://{BUCKET}/data", f"s3a://{BUCKET}/out", tmp_path / "work", (READING, "ownership"), workers=3,
            memory="600m", only=STEPS, config={**store.settings, **packages.SETTINGS, **IMPATIENT},
        )  # fmt: skip
        store.get("out", out)
    assert summary["workers_killed"] == 2
    assert summary["executors"] == 3

    undisturbed = Warehouse(spark, str(tmp_path / "undisturbed"), only={*PLACES, *STEPS})
    with undisturbed.change("run"):
        build(undisturbed, sort_out([str(data)]))
    disturbed = Warehouse(spark, str(out))
    names = ("events", "requests", "log_records", "quarantine", *STEPS)
    # Files have another address.
    same_tables(disturbed, undisturbed, names, without=["file"])
    for name in names:
        assert TABLES[name].names == disturbed.read(name).columns
    assertDataFrameEqual(disturbed.read("ownership"), undisturbed.read("ownership"))
    assert disturbed.read("offset_history").count() > 1000


def test_rows_are_compared_in_no_order_and_each_counts(spark: SparkSession) -> None:
    rows = [("a", 1, [1, 2]), ("b", None, [3]), ("b", None, [3])]
    schema = "name string, number int, list array<int>"
    whole = digest(spark.createDataFrame(rows, schema))
    assert digest(spark.createDataFrame(rows[::-1], schema)) == whole
    for others in (rows[:2], [*rows[:2], ("b", None, [4])], [rows[0], rows[0], rows[1]], []):
        assert digest(spark.createDataFrame(others, schema)) != whole
    assert digest(spark.createDataFrame([], schema)) == (0, 0)
