"""A stream that is killed in the middle and restarted ends with the tables of a run over everything."""

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from bench.killing import command
from bench.runs import HOME
from kafka_shim.pipeline.generate.write import generate
from kafka_shim.pipeline.run import build, sort_out
from kafka_shim.pipeline.schemas import PLACES, TABLES
from kafka_shim.pipeline.stream import progress, stream
from kafka_shim.pipeline.warehouse import Warehouse

ALIKE = set(TABLES) - {"violations"}
"""The compared tables: all but `violations`, which takes as long as the others together and is derived from them.

`python -m bench.pipeline kill` compares that one too.
"""


@pytest.mark.everything("Sparks that are killed")
def test_a_killed_and_restarted_stream_ends_with_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    data, growing = tmp_path / "data", tmp_path / "growing"
    generate(data, groups=2, seed=7, segments=False)
    whole = (data / "trace" / "node-0" / "trace-00000.jsonl").read_bytes()
    growing.mkdir()
    # The writer is in the middle of a line.
    (growing / "trace.jsonl").write_bytes(whole[: len(whole) // 2])
    out = str(tmp_path / "warehouse")
    size = len(whole) * 2 // 3
    # Like a loss of power: after the rows of the first batch are written, in the middle of its tables, or after the
    # batch but before its checkpoint. The stream runs in its own process group, so that the driver dies with its Java.
    driver = command("stream", "local[2]", str(growing), out, str(size), "1g", "{}", "ownership")
    died = subprocess.run(driver, start_new_session=True, cwd=HOME)
    assert died.returncode == -signal.SIGKILL
    live = Warehouse(spark, out, only={*PLACES, *ALIKE, "causes"})
    # Readers see a batch as a whole or not at all, even though its members were written before the death.
    assert live.read("membership").count() == 0

    # The trace was rotated and has grown.
    middle = whole.rindex(b"\n", 0, len(whole) // 2) + 1
    (growing / "trace.jsonl").write_bytes(whole[:middle])
    (growing / "trace.jsonl").rename(growing / "trace.jsonl.1")
    (growing / "trace.jsonl").write_bytes(whole[middle:])
    batches: list[int] = []
    causes: list[int] = []

    def look(batch: int) -> None:
        batches.append(batch)
        causes.append(sum(row.rounds for row in live.result("causes").select("rounds").collect()))

    inputs = sort_out([str(growing)])
    query = stream(live, inputs, max_bytes=size, answers_s=0, after_batch=look)
    query.awaitTermination()
    assert batches[0] == 0
    assert len(batches) >= 2
    # The answers are those of the batch, and Spark's metrics report the progress of the stream.
    assert causes[0] < causes[-1] == live.read("rounds").count()
    done = progress(query, inputs)
    assert done is not None
    assert done.behind_bytes == 0
    last = json.loads(whole.splitlines()[-1])["wall"]
    assert done.newest is not None
    assert abs(done.newest.timestamp() - last) < 0.002

    at_once = Warehouse(spark, str(tmp_path / "at-once"), only={*PLACES, *ALIKE})
    shutil.copytree(data / "trace", tmp_path / "copy" / "trace")
    with at_once.change("run"):
        build(at_once, sort_out([str(tmp_path / "copy")]))
    for name in sorted(ALIKE):
        told_apart = [
            column
            for column in ("trace", "first_run", "last_run", "file", "position", "origin")
            if column in TABLES[name].names
        ]
        actual, expected = (each.read(name).drop(*told_apart) for each in (live, at_once))
        assertDataFrameEqual(actual, expected)
    assert live.read("requests").count() > 1000
