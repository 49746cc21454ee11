"""Runs that are killed in the middle, and whether what they leave is what undisturbed ones do.

On a cluster of two workers the driver dies first, with its Java, when it has written some tables, and the run is made
again. Then a worker dies, with its executor, as a machine that loses its power: when it has read its part of the data
and before that counts; another one dies in the middle of a step that shuffles. A new machine takes the place of each.
The driver of a stream dies in the middle of a micro-batch and is started again. What they leave is compared with what
an undisturbed run on this machine writes to its own disk: tables by their number of rows and the sum of a hash of each,
so in no order; what the jobs say row by row, as they add up fractions in any order.

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
from kafka_shim.pipeline.run import answer, answers, build, is_little, sort_out, store_settings
from kafka_shim.pipeline.schemas import PLACES, TABLES
from kafka_shim.pipeline.session import LITTLE, session
from kafka_shim.pipeline.stream import stream
from kafka_shim.pipeline.tables.columns import Scope
from kafka_shim.pipeline.warehouse import Added, Warehouse

READING: Final = "reading"
SHUFFLING: Final = "rounds"
MIDWAY: Final = "ownership"
"""Drivers die when they have written this table."""


class Run(NamedTuple):
    """Tables and answers on a cluster, or `only` some tables. The first task that makes rows of each of `dies`
    (READING, or a table) kills its worker; the driver dies when it has written `driver_dies`."""

    data: str
    out: str
    flags: str
    dies: list[str]
    driver_dies: str
    memory: str
    only: list[str]
    config: dict[str, str]


def kill(events: int, memory: str = "1g", server: str | None = None, data: Path | None = None) -> dict[str, Any]:
    """Everything above over a generated trace of about so many events, or over the folder `data` of `generate`. Raises
    AssertionError where tables differ.

    With a `server` (`bench.store`) the cluster's machines share nothing but a store that speaks S3: what they read and
    write is there, and the driver that dies is one of the cluster too. A folder given is not streamed: a stream reads
    no packed files.
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
            found = Warehouse(spark, f"{base}/run")
            assert found.snapshots.numbers() == [1], "a run that died left a snapshot"
            with _timed("tables and answers are compared"):
                same_tables(found, expected, list(TABLES))
                same_answers(found, expected)
            rows = {name: expected.read(name).count() for name in TABLES}
            if data is None:
                with _timed("tables of the stream are compared"):
                    # A stream reads no segments.
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
    """Says on standard error how long something took."""
    began = time.monotonic()
    yield
    print(f"{time.monotonic() - began:7.1f} s  {what}", file=sys.stderr, flush=True)


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
    driver_dies: str = "",
    replaces: bool = False,
    workers: int = 2,
    memory: str = "1g",
    only: Sequence[str] = (),
    config: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A run on a cluster of its own, with more settings of Spark in `config`; how long it took, and how many workers
    were killed: one for each of `dies`, each replaced by a new one with `replaces`. With `driver_dies` a run before it
    is killed at that table, and `wall_seconds` are those of both."""
    flags = work / "flags"
    flags.mkdir(parents=True)
    run = Run(str(data), str(out), str(flags), [*dies], "", memory, [*only], dict(config or {}))
    told: dict[str, Any] = {}
    with Cluster(work / "cluster", workers=workers, memory=memory, replaces=replaces) as cluster:
        began = time.monotonic()
        if driver_dies:
            _until_killed("run", cluster.url, json.dumps(run._replace(dies=[], driver_dies=driver_dies)))
            told |= {"drivers_killed": 1, "until_killed": round(time.monotonic() - began, 2)}
        done = subprocess.run(
            command("run", cluster.url, json.dumps(run)), check=True, cwd=HOME, stdout=subprocess.PIPE
        )
        wall = time.monotonic() - began
        dead = sum(worker.poll() is not None for worker in cluster.workers())
    shutil.rmtree(work / "cluster")
    assert {path.name for path in flags.iterdir()} == set(dies), "no task came where it was to die"
    assert dead == len(dies), f"{dead} workers died"
    return {"wall_seconds": round(wall, 2), **told, "workers_killed": dead, **json.loads(done.stdout.splitlines()[-1])}


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
    """Starts this module and waits until its process group has been killed."""
    died = subprocess.run(command(*arguments), cwd=HOME, start_new_session=True, stdout=subprocess.DEVNULL)
    assert died.returncode == -signal.SIGKILL, died.returncode


def command(*arguments: str) -> list[str]:
    """Starts this module, from its folder."""
    return [sys.executable, "-m", "bench.killing", *arguments]


# What runs in processes of its own.


def run(url: str, described: str) -> None:
    """The `Run` described as JSON, on a cluster."""
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
    """A stream over what there is; dies, with its Java, when it has written table `dies` once."""

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
    """One whose workers and driver die as a `Run` says."""

    def __init__(self, spark: SparkSession, run: Run) -> None:
        super().__init__(spark, run.out, only={*PLACES, *run.only} if run.only else None)
        self._run = run

    def append_apart(self, rows: DataFrame, *, by_day: bool = False) -> Added:
        return super().append_apart(self._deadly(READING, rows), by_day=by_day)

    def write(self, name: str, rows: DataFrame, *, replaces: Scope | None = None) -> None:
        super().write(name, self._deadly(name, rows), replaces=replaces)
        if name == self._run.driver_dies:
            os.killpg(0, signal.SIGKILL)

    def _deadly(self, name: str, rows: DataFrame) -> DataFrame:
        if name not in self._run.dies:
            return rows
        # Not deterministic, so that Spark leaves it where it is: after what the rows are made of was read or shuffled.
        dying = F.udf(_dying_row(Path(self._run.flags) / name), "boolean", useArrow=False).asNondeterministic()
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
