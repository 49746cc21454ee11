"""A run of the pipeline in its own process, and its cost: processor time, memory, bytes shuffled.

`python -m bench.runs MASTER DATA OUT MEMORY WHAT` is such a run; `child` starts one and measures it. The run prints
each finished step to standard error, and its figures as JSON to standard output.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOME: Final = Path(__file__).resolve().parent.parent
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_CLUSTER_DRIVER_MEMORY: Final = "1g"


def child(
    master: str, data: Path, out: Path, memory: str = "2g", what: str = "all", others: Sequence[int] = ()
) -> dict[str, Any]:
    """Start a run in its own process; return the figures of `run_once`, processor time and peak memory.

    The last two include the processes below `others`, such as those of a cluster.
    """
    command = [sys.executable, "-m", "bench.runs", master, str(data), str(out), memory, what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HOME) as process:
        family = Family([process.pid, *others])
        done = threading.Event()
        watch = threading.Thread(target=family.watch, args=(done,))
        watch.start()
        try:
            assert process.stdout is not None
            output = process.stdout.read()
        except BaseException:
            # Spark's Java process ends with its parent.
            process.kill()
            raise
        finally:
            done.set()
            watch.join()
    if process.returncode != 0:
        raise RuntimeError(f"the run on {master} failed")
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return {**result, "seconds": round(family.spent(), 2), "peak_mib": family.peak >> 20}


class Family:
    """A set of processes with their descendants, sampled twice a second.

    Measures processor time since the first sample, and peak memory. The system adds up processor time only of children
    that are waited for, which Spark's Java and Python workers are not.
    """

    def __init__(self, roots: Sequence[int]) -> None:
        self.roots = roots
        self.seconds: dict[int, float] = {}
        self.peak = 0
        self._before: dict[int, float] = {}
        self.look()
        self._before = dict(self.seconds)

    def spent(self) -> float:
        """Return the processor seconds of all processes sampled so far."""
        return sum(self.seconds.values()) - sum(self._before.values())

    def lives(self) -> bool:
        """Return true if any process sampled so far still runs; a zombie does not."""
        for pid in self.seconds:
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    return True
        return False

    def watch(self, done: threading.Event) -> None:
        while not done.wait(0.5):
            self.look()

    def look(self) -> None:
        below: dict[int, list[int]] = {}
        spent: dict[int, float] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, ValueError):
                fields = path.read_text().rpartition(")")[2].split()
                below.setdefault(int(fields[1]), []).append(int(path.parent.name))
                spent[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / _TICKS
        family = [pid for pid in self.roots if pid in spent]
        for pid in family:
            family += below.get(pid, [])
        total = 0
        for pid in family:
            with contextlib.suppress(OSError, StopIteration):
                self.seconds[pid] = spent.get(pid, 0.0)
                # Pss counts a page that several processes share only once.
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) * 1024
        self.peak = max(self.peak, total)


def run_once(master: str, data: str, out: str, memory: str, what: str) -> dict[str, Any]:
    """Build all tables, and the answers if `what` is "all"; return wall seconds and bytes shuffled by step.

    Several steps run side by side.
    """
    from kafka_shim.pipeline.run import answer, build, sort_out
    from kafka_shim.pipeline.session import session
    from kafka_shim.pipeline.warehouse import Warehouse

    began = time.monotonic()
    settings = {"spark.ui.retainedStages": "10000"}
    if master.startswith("local"):
        # Shuffle files lie beside the tables, so that they are deleted with them; a cluster has its own folder.
        settings |= {"spark.driver.memory": memory, "spark.local.dir": f"{out}.shuffle"}
    else:
        settings |= {"spark.executor.memory": memory, "spark.driver.memory": _CLUSTER_DRIVER_MEMORY}
    spark = session(master, config=settings)
    started = time.monotonic()
    steps: dict[str, dict[str, float]] = {}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        print(f"{name} ...", file=sys.stderr, flush=True)
        start = time.monotonic()
        yield
        steps[name] = {"wall_seconds": round(time.monotonic() - start, 2)}
        print(f"{name}: {json.dumps(steps[name])}", file=sys.stderr, flush=True)

    warehouse = Warehouse(spark, out)
    with warehouse.change("run", [data]):
        build(warehouse, sort_out([data]), step)
        result = {"wall_seconds": round(time.monotonic() - began, 2), "steps": steps}
        result["start_wall_seconds"] = round(started - began, 2)
        if what == "all":
            answer(warehouse, step)
            result["wall_seconds"] = round(time.monotonic() - began, 2)
            result["violations"] = warehouse.read("violations").count()
    for name, count in shuffled(spark).items():
        steps.setdefault(name, {})["shuffled"] = count
    result["shuffled"] = sum(step.get("shuffled", 0) for step in steps.values())
    spark.stop()
    return result


def shuffled(spark: SparkSession) -> dict[str, int]:
    """Return the bytes written by shuffles so far, by step, which is the description of the job in Spark."""
    store = spark.sparkContext._jsc.sc().statusStore()
    stages = spark.sparkContext._jvm.scala.jdk.CollectionConverters.SeqHasAsJava(  # type: ignore[union-attr]
        store.stageList(None, False, False, spark.sparkContext._gateway.new_array(spark._jvm.double, 0), None)
    ).asJava()
    counts: Counter[str] = Counter()
    for stage in stages:
        name = stage.description()
        counts[name.get() if name.isDefined() and name.get() else "other"] += stage.shuffleWriteBytes()
    return {name: count for name, count in counts.items() if count}


if __name__ == "__main__":
    print(json.dumps(run_once(*sys.argv[1:6])))
