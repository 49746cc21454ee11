"""Runs that are killed in the middle, and whether what they leave is what undisturbed ones do.

On a cluster of two workers one dies, with its executor, as a machine that loses its power: when it has read its part of
the data and before that counts, or in the middle of a step that shuffles. The driver of a stream dies in the middle of
a micro-batch, with its Java, and is started again. Tables are compared by their number of rows and the sum of a hash of
each, so in no order; what the jobs say row by row, as they add up fractions in any order.

`python -m bench.killing run|stream ...` are the runs themselves, which `kill` starts.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from bench.cluster import Cluster
from bench.runs import HOME
from bench.store import BUCKET, s3
from kafka_shim.pipeline import connectors
from kafka_shim.pipeline.run import answer, answers, build, sort_out, store_settings
from kafka_shim.pipeline.schemas import PLACES, TABLES
from kafka_shim.pipeline.session import LITTLE, session
from kafka_shim.pipeline.stream import stream
from kafka_shim.pipeline.warehouse import Touched, Warehouse

UNDISTURBED: Final = "undisturbed"
READING: Final = "reading"
SHUFFLING: Final = "violations"
STREAMED: Final = "ownership"


def kill(events: int, memory: str = "1g", in_store: bool = False) -> dict[str, Any]:
    """Everything above over a generated trace of about so many events. Raises AssertionError where tables differ.

    With `in_store` the cluster's machines share nothing but a store that speaks S3: what they read and write is there,
    and the driver that dies is one of the cluster too.
    """
    from kafka_shim.pipeline.generate.write import generate

    with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as place, ExitStack() as open_until_then:
        scratch = Path(place)
        made = generate(scratch / "data", groups=groups_of(events), events=events, seed=1, nodes=2)
        result: dict[str, Any] = {"events": made.events, "bytes": made.trace_bytes}
        base, config = str(scratch), dict[str, str]()
        if in_store:
            store = open_until_then.enter_context(s3())
            base, config = f"s3a://{BUCKET}", store.settings
            store.put(scratch / "data", "data")
        runs: dict[str, dict[str, Any]] = {}
        for name, dies in ((UNDISTURBED, []), (READING, [READING]), (SHUFFLING, [SHUFFLING])):
            runs[name] = on_cluster(
                f"{base}/data", f"{base}/{name}", scratch / f"{name}-work", dies, memory=memory, config=config
            )
        step = max(made.trace_bytes // 3, 1)
        with ExitStack() as while_streaming:
            master = "local[2]"
            if in_store:
                master = while_streaming.enter_context(Cluster(scratch / "stream-work", memory=memory)).url
            runs["stream"] = _streamed(master, f"{base}/data/trace", f"{base}/stream", step, memory, config)
        spark = session("local[2]", name="compare", config={**config, **connectors.settings([], config, base)})
        try:
            expected = Warehouse(spark, f"{base}/{UNDISTURBED}")
            for run in (READING, SHUFFLING):
                found = Warehouse(spark, f"{base}/{run}")
                same_tables(found, expected, list(TABLES))
                same_answers(found, expected)
            # A stream reads no segments.
            at_once = Warehouse(spark, str(scratch / "at-once"))
            with at_once.change("run"):
                build(at_once, sort_out([f"{base}/data/trace"], settings=store_settings(config)))
            same_tables(Warehouse(spark, f"{base}/stream"), at_once, list(TABLES))
            result["rows"] = {name: expected.read(name).count() for name in TABLES}
        finally:
            spark.stop()
    return {**result, "runs": runs, "identical": True}


def groups_of(events: int) -> int:
    """How many groups make a trace of so many events."""
    return max(24, min(4_000, events // 20_000))


def same_tables(found: Warehouse, expected: Warehouse, names: Sequence[str], *, without: Collection[str] = ()) -> None:
    """Asserts that tables hold the same rows, in any order, but for columns `without` which they are compared."""
    for name in names:
        both = [digest(each.read(name).drop(*without)) for each in (found, expected)]
        assert both[0] == both[1], f"{name}: {both[0]} instead of {both[1]} (rows, sum of their hashes)"


def same_answers(found: Warehouse, expected: Warehouse) -> None:
    """Asserts that the jobs have the same answers, but for the last digits of fractions."""
    for name in answers(expected):
        assertDataFrameEqual(found.result(name), expected.result(name), rtol=1e-9)


def digest(rows: DataFrame) -> tuple[int, int]:
    """How many rows, and the sum of a hash of each."""
    hashes = rows.select(F.xxhash64(*rows.columns).cast("decimal(38,0)").alias("hash"))
    found = hashes.agg(F.count("*").alias("count"), F.coalesce(F.sum("hash"), F.lit(0)).alias("sum")).collect()[0]
    return found["count"], int(found["sum"])


def on_cluster(
    data: Path | str,
    out: Path | str,
    work: Path,
    dies: Sequence[str],
    *,
    workers: int = 2,
    memory: str = "1g",
    only: str = "",
    config: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A run on a cluster of its own, with more settings of Spark in `config`; how long it took, and how many workers
    were killed: one for each of `dies`."""
    flags = work / "flags"
    flags.mkdir(parents=True)
    with Cluster(work / "cluster", workers=workers, memory=memory) as cluster:
        began = time.monotonic()
        arguments = [
            cluster.url,
            str(data),
            str(out),
            str(flags),
            ",".join(dies),
            memory,
            only,
            json.dumps(config or {}),
        ]
        done = subprocess.run(command("run", *arguments), check=True, cwd=HOME, stdout=subprocess.PIPE)
        wall = time.monotonic() - began
        dead = sum(worker.poll() is not None for worker in cluster.workers())
    shutil.rmtree(work / "cluster")
    assert {path.name for path in flags.iterdir()} == set(dies), "no task came where it was to die"
    assert dead == len(dies), f"{dead} workers died"
    return {"wall_seconds": round(wall, 2), "workers_killed": dead, **json.loads(done.stdout.splitlines()[-1])}


def _streamed(
    master: str, trace: str, out: str, max_bytes: int, memory: str, config: Mapping[str, str]
) -> dict[str, Any]:
    arguments = ["stream", master, trace, out, str(max_bytes), memory, json.dumps(config)]
    began = time.monotonic()
    died = subprocess.run(command(*arguments, STREAMED), cwd=HOME, start_new_session=True)
    assert died.returncode == -signal.SIGKILL, died.returncode
    killed = time.monotonic()
    subprocess.run(command(*arguments, ""), check=True, cwd=HOME)
    return {
        "wall_seconds": round(time.monotonic() - began, 2),
        "until_killed": round(killed - began, 2),
        "drivers_killed": 1,
    }


def command(*arguments: str) -> list[str]:
    """Starts this module, from its folder."""
    return [sys.executable, "-m", "bench.killing", *arguments]


# What runs in processes of its own.


def run(url: str, data: str, out: str, flags: str, dies: str, memory: str, only: str, more: str) -> None:
    """Tables and answers on a cluster, or `only` some tables; workers die where `dies` says, READING or at a table."""
    config = {"spark.executor.memory": memory, "spark.driver.memory": "1g", **json.loads(more)}
    if only:
        config |= LITTLE
    spark = session(url, config={**config, **connectors.settings([], config, out)})
    warehouse = _Dying(spark, out, Path(flags), dies, only)
    with warehouse.change("run"):
        build(warehouse, sort_out([data], settings=store_settings(config)))
        if not only:
            answer(warehouse)
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False).size() - 1
    spark.stop()
    print(json.dumps({"executors": executors}))


def streamed(master: str, data: str, out: str, max_bytes: str, memory: str, more: str, dies: str) -> None:
    """A stream over what there is; dies, with its Java, when it has written table `dies` once."""

    class Dying(Warehouse):
        def write(self, name: str, rows: DataFrame, *, replaces: Collection[int] | None = None) -> None:
            super().write(name, rows, replaces=replaces)
            if name == dies:
                os.killpg(0, signal.SIGKILL)

    config = {"spark.driver.memory": memory, "spark.executor.memory": memory, **LITTLE, **json.loads(more)}
    spark = session(master, config={**config, **connectors.settings([], config, out)})
    inputs = sort_out([data], settings=store_settings(config))
    stream(Dying(spark, out), inputs, max_bytes=int(max_bytes)).awaitTermination()
    spark.stop()


class _Dying(Warehouse):
    """The first task that makes rows of one of the tables in `dies` kills the worker it runs on."""

    def __init__(self, spark: SparkSession, path: str, flags: Path, dies: str, only: str) -> None:
        super().__init__(spark, path, only={*PLACES, *only.split(",")} if only else None)
        self._flags = flags
        self._dies = dies.split(",")

    def append_apart(self, rows: DataFrame, *, by_day: bool = False) -> Touched:
        return super().append_apart(self._deadly(READING, rows), by_day=by_day)

    def write(self, name: str, rows: DataFrame, *, replaces: Collection[int] | None = None) -> None:
        super().write(name, self._deadly(name, rows), replaces=replaces)

    def _deadly(self, name: str, rows: DataFrame) -> DataFrame:
        if name not in self._dies:
            return rows
        # Not deterministic, so that Spark leaves it where it is: after what the rows are made of was read or shuffled.
        dying = F.udf(_dying_row(self._flags / name), "boolean", useArrow=False).asNondeterministic()
        return rows.where(dying(F.col(rows.columns[0])))


def _dying_row(flag: Path) -> Callable[[Any], bool]:
    def passed_on(_: Any) -> bool:
        die_once(flag)
        return True

    return passed_on


def die_once(flag: Path) -> None:
    """Kills the worker whose task this is, if the flag was not there; the first of many does."""
    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return

    def parent(pid: int) -> int:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    # The process group of a worker is that of its executors, which are the parents of the daemon this came from.
    os.killpg(os.getpgid(parent(os.getppid())), signal.SIGKILL)


if __name__ == "__main__":
    {"run": run, "stream": streamed}[sys.argv[1]](*sys.argv[2:])
