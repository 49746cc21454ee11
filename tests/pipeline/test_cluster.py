"""On a standalone cluster two workers of which die, tables are those of an undisturbed run on one machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from bench.cluster import Cluster
from pipeline.generate.write import generate
from pipeline.run import build, sort_out
from pipeline.schemas import TABLES
from pipeline.warehouse import Warehouse

# The first task that comes to the middle of the trace, and the first that has read its part of the segments, kill the
# worker they run on, with its executor. The flags see to it that only these do.
DRIVER = """
import json, os, signal, sys
from pathlib import Path
import pipeline.log_tables, pipeline.sources
from pipeline.run import build, sort_out
from pipeline.session import session
from pipeline.sources.shim_trace import ShimTrace, ShimTraceReader
from pipeline.warehouse import Warehouse

data, out, flags, url, steps = sys.argv[1:]

def die_once(name):
    try:
        (Path(flags) / name).touch(exist_ok=False)
    except FileExistsError:
        return
    # The process group of a worker is that of its executors, which are the parents of the daemon this came from.
    def parent(pid):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    executor = parent(os.getppid())
    os.killpg(os.getpgid(executor), signal.SIGKILL)

class DyingReader(ShimTraceReader):
    def read(self, partition):
        for number, rows in enumerate(super().read(partition)):
            yield rows
            if partition.value[0][1] > 0 and number == 1:
                die_once("trace")

class Dying(ShimTrace):
    def reader(self, schema):
        return DyingReader(self._paths(), {**self.options, "splitBytes": str(1 << 20)})

run_task = pipeline.log_tables.run_task

def dying_task(staged, logs):
    attempt = run_task(staged, logs)
    die_once("segments")
    return attempt

class Some(Warehouse):
    def write(self, name, rows, **how):
        if name in steps.split(","):
            super().write(name, rows, **how)

pipeline.log_tables.run_task = dying_task
config = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "600m", "spark.executor.memory": "600m",
          "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
          "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
spark = session(url, config=config)
spark.dataSource.register(Dying)
build(Some(spark, out), sort_out([data]))
told = spark.sparkContext._jsc.sc().statusStore()
print(json.dumps({"executors": told.executorList(False).size() - 1}))
"""
STEPS = ("ownership", "offset_history", "rounds")


@pytest.mark.timeout(300)
def test_a_worker_that_dies_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    data, flags, out = tmp_path / "data", tmp_path / "flags", tmp_path / "out"
    generate(data, groups=3, seed=5)
    flags.mkdir()
    with Cluster(tmp_path / "work", workers=3) as cluster:
        arguments = [str(data), str(out), str(flags), cluster.url, ",".join(STEPS)]
        run = subprocess.run(
            [sys.executable, "-c", DRIVER, *arguments], env={**os.environ}, stdout=subprocess.PIPE, check=True
        )
        dead = [process for process in cluster.workers() if process.poll() is not None]
    assert {path.name for path in flags.iterdir()} == {"trace", "segments"}
    assert len(dead) == 2
    assert json.loads(run.stdout)["executors"] == 3

    undisturbed = Warehouse(spark, str(tmp_path / "undisturbed"))
    build(undisturbed, sort_out([str(data)]))
    disturbed = Warehouse(spark, str(out))
    for name in ("events", "requests", "log_records", "quarantine", *STEPS):
        assertDataFrameEqual(disturbed.read(name), undisturbed.read(name))
        assert TABLES[name].names == disturbed.read(name).columns
    assert disturbed.read("offset_history").count() > 1000
