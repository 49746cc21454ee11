"""Delta and Iceberg tables of a run, opened by those that know nothing of the pipeline.

The connectors are published for Spark 4.1: with another, or without their jars, these are skipped. `KAFKA_SHIM_JARS`
names the jars, separated by commas, where Spark is not to fetch them.
"""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from kafka_shim.pipeline.connectors import LINE

pytestmark = pytest.mark.skipif(
    not pyspark.__version__.startswith(f"{LINE}.") or "KAFKA_SHIM_JARS" not in os.environ,
    reason=f"Delta and Iceberg need PySpark {LINE} and KAFKA_SHIM_JARS",
)

SCRIPT = """
import sys
from pathlib import Path
from kafka_shim.pipeline import connectors
from kafka_shim.pipeline.run import build, sort_out
from kafka_shim.pipeline.session import session
from kafka_shim.pipeline.stream import stream
from kafka_shim.pipeline.warehouse import Warehouse
kind, jars, data, out = sys.argv[1:]
config = {"spark.jars": jars, "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1500m",
          "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
spark = session("local[2]", config={**config, **connectors.settings([kind], config)})
names = ("rounds", "membership", "offset_history")
def counts(warehouse):
    return [warehouse.read(name).count() for name in names]
plain, lake = Warehouse(spark, out + "/plain"), Warehouse(spark, out + "/lake", kind)
half = sort_out([data + "/segments"])
for warehouse in (plain, lake):
    with warehouse.change("run"):
        build(warehouse, half)
first = counts(lake)
assert first == counts(plain), (first, counts(plain))
before = lake.snapshot.number
stream(lake, sort_out([data])).awaitTermination()
lake.refresh()
second = counts(lake)
with plain.change("run"):
    build(plain, sort_out([data + "/trace"]))
assert second == counts(plain), (second, counts(plain))
assert second[0] > 0 and second != first
# Time travel: the run before the stream.
assert counts(lake.at(before)) == first
print("rows", *second)
spark.stop()
"""


def made(kind: str, data: Path, out: Path) -> list[int]:
    """How many rounds, members and changes of offsets there are in a warehouse of this format."""
    command = [sys.executable, "-c", SCRIPT, kind, os.environ["KAFKA_SHIM_JARS"], str(data), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("rows"))
    return [int(count) for count in line.split()[1:]]


@pytest.mark.timeout(700)
def test_delta_tables_are_opened_without_spark(data: Path, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    rounds, membership, _ = made("delta", data, tmp_path)
    tables = {name: deltalake.DeltaTable(str(tmp_path / "lake" / "delta" / name)) for name in ("rounds", "membership")}
    assert tables["rounds"].to_pyarrow_dataset().count_rows() == rounds
    assert tables["membership"].to_pyarrow_dataset().count_rows() == membership


@pytest.mark.timeout(700)
def test_iceberg_tables_are_opened_by_pyiceberg_and_duckdb(data: Path, tmp_path: Path) -> None:
    iceberg = pytest.importorskip("pyiceberg.table")
    duckdb = pytest.importorskip("duckdb")
    rounds, membership, _ = made("iceberg", data, tmp_path)
    for name, count in (("rounds", rounds), ("membership", membership)):
        folder = tmp_path / "lake" / "iceberg" / "pipeline" / name / "metadata"
        newest = max(folder.glob("v*.metadata.json"), key=lambda path: int(path.name[1:].partition(".")[0]))
        table = iceberg.StaticTable.from_metadata(str(newest))
        arrow = table.scan().to_arrow()
        assert arrow.num_rows == count
        con = duckdb.connect()
        con.register("it", arrow)
        assert con.sql("select count(*) from it").fetchall() == [(count,)]
