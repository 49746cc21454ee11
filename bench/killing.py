"""Runs of the pipeline that are killed in the middle, and a check that their results are the same as undisturbed ones.

On a cluster of two workers, the driver dies first with its Java process, after some tables are written, and the run
starts again. Then a worker dies with its executor, like a machine that loses power: after it has read its part of the
data, before that counts. Another worker dies in the middle of a step with a shuffle. A new worker replaces each. The
driver of a stream dies in the middle of a micro-batch and starts again. The results are compared with those of an
undisturbed run on this machine: tables by their number of rows and the sum of the rows' hashes, so in any order;
answers row by row, because their fractions are added up in varying order.

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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from bench.cluster import Cluster
from bench.runs import HOME
from bench.store import BUCKET, s3
from kafka_shim.pipeline import connectors
from kafka_shim.pipeline.run import answer, answers, build, is_little, sort_out
from kafka_shim.pipeline.schemas import PLACES, TABLES
from kafka_shim.pipeline.session import LITTLE, session
from kafka_shim.pipeline.sources.places import store_settings
from kafka_shim.pipeline.stream import stream
from kafka_shim.pipeline.tables.columns import Scope
from kafka_shim.pipeline.warehouse import Added, Warehouse

READING: Final = "reading"
SHUFFLING: Final = "rounds"
MIDWAY: Final = "ownership"
"""The driver dies after it has written this table."""


class Run(NamedTuple):
    """A run on a cluster: all tables and answers, or `only` some tables.

    The first task that makes rows of each name in `dies` (READING, or a table) kills its worker. The driver dies after
    it has written the table `driver_dies`.
    """

    data: str
    out: str
    flags: str
    dies: list[str]
    driver_dies: str
    memory: str
    only: list[str]
    config: dict[str, str]


def kill(events: int, memory: str = "1g", server: str | None = None, data: Path | None = None) -> dict[str, Any]:
    """Do all of the above over a generated trace of about `events` events, or over the folder `data` of `generate`.

    With a `server` (`bench.store`), the machines of the cluster share only a store that speaks S3: inputs and results
    are there, and the stream's driver runs on a cluster too. A folder given as `data` is not streamed, because a stream
    cannot read compressed files. Raises AssertionError if tables differ.
    """
    from kafka_shim.pipeline.generate.write import generate

    with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as place, ExitStack() as open_until_then:
        scratch = Path(place)
        size = 0
        if data is None:
            size = generate(scratch / "data", groups=groups_of(events), events=events, seed=1, nodes=2).trace_bytes
        folder = data or scratch / "data"
        base, config, read = str(scratch), dict[str, str](), str(folder)
        if server is not None:
            store = open_until_then.enter_context(s3(server))
            base, config = f"s3a://{BUCKET}", store.settings
            read = f"{base}/data"
            with _timed("everything is put into the store"):
                store.put(folder, "data")
        runs: dict[str, dict[str, Any]] = {}
        with _timed("the run on a cluster that was killed"):
            runs["run"] = on_cluster(
                read,
                f"{base}/run",
                scratch / "run-work",
                [READING, SHUFFLING],
                driver_dies=MIDWAY,
                replaces=True,
                memory=memory,
                config=config,
            )
        if data is None:
            with ExitStack() as while_streaming, _timed("the stream that was killed"):
                master = "local[2]"
                if server is not None:
                    master = while_streaming.enter_context(Cluster(scratch / "stream-work", memory=memory)).url
                runs["stream"] = _streamed(master, f"{read}/trace", f"{base}/stream", size // 3, memory, config)
        settings = store_settings(config)
        little = LITTLE if is_little(sort_out([read], settings=settings), settings) else {}
        spark = session(
            "local[2]", name="undisturbed", config={**little, **config, **connectors.settings([], config, base)}
        )
        try:
            with _timed("an undisturbed run on this machine"):
                began = time.monotonic()
                expected = Warehouse(spark, str(scratch / "undisturbed"))
                with expected.change("run"):
                    build(expected, sort_out([read], settings=settings))
                    answer(expected)
                runs["undisturbed"] = {"wall_seconds": round(time.monotonic() - began, 2)}
            warehouse = Warehouse(spark, f"{base}/run")
            assert warehouse.snapshots.numbers() == [1], "a run that died left a snapshot"
            with _timed("tables and answers are compared"):
                same_tables(warehouse, expected, list(TABLES))
                same_answers(warehouse, expected)
            rows = {name: expected.read(name).count() for name in TABLES}
            if data is None:
                with _timed("tables of the stream are compared"):
                    # A stream reads no segments, so compare with a run over the trace alone.
                    at_once = Warehouse(spark, str(scratch / "at-once"))
                    with at_once.change("run"):
                        build(at_once, sort_out([f"{read}/trace"], settings=settings))
                    same_tables(Warehouse(spark, f"{base}/stream"), at_once, list(TABLES))
        finally:
            spark.stop()
    return {
        "events": rows["events"] + rows["requests"],
        "server": server,
        "rows": rows,
        "runs": runs,
        "identical": True,
    }


@contextmanager
def _timed(what: str) -> Iterator[None]:
    """Print the duration of a step to standard error."""
    began = time.monotonic()
    yield
    print(f"{time.monotonic() - began:7.1f} s  {what}", file=sys.stderr, flush=True)


def groups_of(events: int) -> int:
    """Return the number of groups for a trace of this many events."""
    return max(24, min(4_000, events // 20_000))


def same_tables(actual: Warehouse, expected: Warehouse, names: Sequence[str], *, without: Collection[str] = ()) -> None:
    """Assert that tables hold the same rows in any order, leaving out the columns `without`."""
    for name in names:
        both = [digest(each.read(name).drop(*without)) for each in (actual, expected)]
        assert both[0] == both[1], f"{name}: {both[0]} instead of {both[1]} (rows, sum of their hashes)"


def same_answers(actual: Warehouse, expected: Warehouse) -> None:
    """Assert that the jobs have the same answers, except for the last digits of fractions."""
    for name in answers(expected):
        assertDataFrameEqual(actual.result(name), expected.result(name), rtol=1e-9)


def digest(rows: DataFrame) -> tuple[int, int]:
    """Return the number of rows and the sum of their hashes."""
    hashes = rows.select(F.xxhash64(*rows.columns).cast("decimal(38,0)").alias("hash"))
    result = hashes.agg(F.count("*").alias("count"), F.coalesce(F.sum("hash"), F.lit(0)).alias("sum")).collect()[0]
    return result["count"], int(result["sum"])


def on_cluster(
    data: Path | str,
    out: Path | str,
    work: Path,
    dies: Sequence[str],
    *,
    driver_dies: str = "",
    replaces: bool = False,
    workers: int = 2,
    memory: str = "1g",
    only: Sequence[str] = (),
    config: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run on a new cluster, with the additional Spark settings in `config`; return its duration and the number of
    deaths.

    One worker dies for each of `dies`; with `replaces`, a new one takes its place. With `driver_dies`, an earlier run
    is killed at that table first, and `wall_seconds` includes it.
    """
    flags = work / "flags"
    flags.mkdir(parents=True)
    run = Run(str(data), str(out), str(flags), [*dies], "", memory, [*only], dict(config or {}))
    driver: dict[str, Any] = {}
    with Cluster(work / "cluster", workers=workers, memory=memory, replaces=replaces) as cluster:
        began = time.monotonic()
        if driver_dies:
            _until_killed("run", cluster.url, json.dumps(run._replace(dies=[], driver_dies=driver_dies)))
            driver |= {"drivers_killed": 1, "until_killed": round(time.monotonic() - began, 2)}
        done = subprocess.run(
            command("run", cluster.url, json.dumps(run)), check=True, cwd=HOME, stdout=subprocess.PIPE
        )
        wall = time.monotonic() - began
        dead = sum(worker.poll() is not None for worker in cluster.workers())
    shutil.rmtree(work / "cluster")
    assert {path.name for path in flags.iterdir()} == set(dies), "no task came where it was to die"
    assert dead == len(dies), f"{dead} workers died"
    return {
        "wall_seconds": round(wall, 2),
        **driver,
        "workers_killed": dead,
        **json.loads(done.stdout.splitlines()[-1]),
    }


def _streamed(
    master: str, trace: str, out: str, max_bytes: int, memory: str, config: Mapping[str, str]
) -> dict[str, Any]:
    arguments = [master, trace, out, str(max_bytes), memory, json.dumps(config)]
    began = time.monotonic()
    _until_killed("stream", *arguments, MIDWAY)
    killed = time.monotonic()
    subprocess.run(command("stream", *arguments, ""), check=True, cwd=HOME)
    return {
        "wall_seconds": round(time.monotonic() - began, 2),
        "until_killed": round(killed - began, 2),
        "drivers_killed": 1,
    }


def _until_killed(*arguments: str) -> None:
    """Start this module and wait until its process group has been killed."""
    died = subprocess.run(command(*arguments), cwd=HOME, start_new_session=True, stdout=subprocess.DEVNULL)
    assert died.returncode == -signal.SIGKILL, died.returncode


def command(*arguments: str) -> list[str]:
    """Return the command that starts this module."""
    return [sys.executable, "-m", "bench.killing", *arguments]


# The functions below run in processes of their own.


def run(url: str, described: str) -> None:
    """Carry out the `Run` that is described as JSON, on a cluster."""
    run = Run(*json.loads(described))
    settings = store_settings(run.config)
    inputs = sort_out([run.data], settings=settings)
    config = {"spark.executor.memory": run.memory, "spark.driver.memory": "1g", **run.config}
    if run.only or is_little(inputs, settings):
        config |= LITTLE
    spark = session(url, config={**config, **connectors.settings([], config, run.out)})
    warehouse = _Dying(spark, run)
    with warehouse.change("run"):
        build(warehouse, inputs)
        if not run.only:
            answer(warehouse)
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False).size() - 1
    spark.stop()
    print(json.dumps({"executors": executors}))


def streamed(master: str, data: str, out: str, max_bytes: str, memory: str, more: str, dies: str) -> None:
    """Stream all there is; with `dies`, die with the Java process after the first write of that table."""

    class Dying(Warehouse):
        def write(self, name: str, rows: DataFrame, *, replaces: Scope | None = None) -> None:
            super().write(name, rows, replaces=replaces)
            if name == dies:
                os.killpg(0, signal.SIGKILL)

    config = {"spark.driver.memory": memory, "spark.executor.memory": memory, **LITTLE, **json.loads(more)}
    spark = session(master, config={**config, **connectors.settings([], config, out)})
    inputs = sort_out([data], settings=store_settings(config))
    stream(Dying(spark, out), inputs, max_bytes=int(max_bytes)).awaitTermination()
    spark.stop()


class _Dying(Warehouse):
    """A warehouse that kills workers and the driver as a `Run` says."""

    def __init__(self, spark: SparkSession, run: Run) -> None:
        super().__init__(spark, run.out, only={*PLACES, *run.only} if run.only else None)
        self._run = run

    def append_apart(self, rows: DataFrame, *, lines: str = "all", by_day: bool = False) -> Added:
        return super().append_apart(self._deadly(READING, rows), lines=lines, by_day=by_day)

    def write(self, name: str, rows: DataFrame, *, replaces: Scope | None = None) -> None:
        super().write(name, self._deadly(name, rows), replaces=replaces)
        if name == self._run.driver_dies:
            os.killpg(0, signal.SIGKILL)

    def _deadly(self, name: str, rows: DataFrame) -> DataFrame:
        if name not in self._run.dies:
            return rows
        # Nondeterministic, so that Spark keeps the filter after the read or the shuffle of the rows.
        dying = F.udf(_dying_row(Path(self._run.flags) / name), "boolean", useArrow=False).asNondeterministic()
        return rows.where(dying(F.col(rows.columns[0])))


def _dying_row(flag: Path) -> Callable[[Any], bool]:
    def passed_on(_: Any) -> bool:
        die_once(flag)
        return True

    return passed_on


def die_once(flag: Path) -> None:
    """Kill the worker of this task, unless the flag exists: only the first of many tasks does it."""
    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return

    def parent(pid: int) -> int:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    # A worker and its executors share a process group; an executor is the parent of the daemon that started this
    # process.
    os.killpg(os.getpgid(parent(os.getppid())), signal.SIGKILL)


if __name__ == "__main__":
    {"run": run, "stream": streamed}[sys.argv[1]](*sys.argv[2:])
