"""A run on a standalone cluster with two dying workers has the same tables as an undisturbed run on one machine.

The workers share only a store that speaks S3; inputs and results are there.
"""

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

pytestmark = pytest.mark.second_stage("a Spark cluster")

STEPS = ("ownership", "offset_history", "rounds")
IMPATIENT = {"spark.shuffle.io.retryWait": "100ms"}
"""Spark tries three times to fetch the shuffle files of a dead worker; the default wait in between is five seconds."""


@pytest.mark.everything("a Spark cluster")
def test_a_worker_that_dies_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    generate(data, groups=3, events=6000, seed=5)
    with s3() as store:
        store.put(data, "data")
        # One worker dies after its task has read its part, another in the middle of a shuffle.
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
    # The addresses of the files differ.
    same_tables(disturbed, undisturbed, names, without=["file"])
    for name in names:
        assert TABLES[name].names == disturbed.read(name).columns
    assertDataFrameEqual(disturbed.read("ownership"), undisturbed.read("ownership"))
    assert disturbed.read("offset_history").count() > 1000


def test_digests_ignore_the_order_and_count_each_row(spark: SparkSession) -> None:
    rows = [("a", 1, [1, 2]), ("b", None, [3]), ("b", None, [3])]
    schema = "name string, number int, list array<int>"
    whole = digest(spark.createDataFrame(rows, schema))
    assert digest(spark.createDataFrame(rows[::-1], schema)) == whole
    for others in (rows[:2], [*rows[:2], ("b", None, [4])], [rows[0], rows[0], rows[1]], []):
        assert digest(spark.createDataFrame(others, schema)) != whole
    assert digest(spark.createDataFrame([], schema)) == (0, 0)
