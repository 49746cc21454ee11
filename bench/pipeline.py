"""How fast the pipeline is: `python bench/pipeline.py decode|events`, results as JSON on standard output.

    decode   records of __consumer_offsets a second of one core: our decoder alone, all of the pipeline in Spark, and
             Kafka's own dump-log tool with its offsets decoder, on the same files
    events   a generated trace end to end: wall and processor time, peak memory, bytes shuffled by step

Seconds are of processor time unless they say wall, as the machine may be busy with other things. All data is generated
from a seed into a folder of its own, and taken away at the end. Needs the extra `spark`; `decode` compares with Kafka
where Maven can fetch it.
"""

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from persistence.batch import Record
from persistence.partition import partition_for
from persistence.records import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from persistence.segments import PartitionWriter

NOW = 1_760_000_000_000
PARTITIONS = 50


def write_log(folder: Path, records: int, codec: str = "none") -> None:
    """Commits of 2,000 groups, 1 to 20 partitions a commit, in the 50 partitions a broker has."""
    rng = random.Random(1)
    groups = [(f"payments-service-{n:04d}", f"orders-{n % 40}", rng.randint(1, 20)) for n in range(2_000)]
    keys = {
        group: [encode_key(OffsetCommitKey(group, topic, partition)) for partition in range(size)]
        for group, topic, size in groups
    }
    writers = {n: PartitionWriter(folder / f"__consumer_offsets-{n}", codec=codec) for n in range(PARTITIONS)}
    offsets = dict.fromkeys(writers, 0)
    written = 0
    while written < records:
        group, _, _ = rng.choice(groups)
        number = partition_for(group, PARTITIONS)
        at = NOW + written // 10
        batch = []
        for key in keys[group]:
            value = OffsetCommitValue(written * 3, -1, "", at)
            batch.append(Record(offsets[number], at, key, encode_value(OffsetCommitKey("", "", 0), value)))
            offsets[number] += 1
            written += 1
        writers[number].append(batch)
    for writer in writers.values():
        writer.close()


@contextmanager
def processor_time(of: str, into: dict[str, float]) -> Iterator[None]:
    """Adds up this process and the children it waited for."""
    before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    began = time.monotonic()
    yield
    after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    spent = sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True))
    into[f"{of}_seconds"] = round(spent, 2)
    into[f"{of}_wall_seconds"] = round(time.monotonic() - began, 2)


def decode(records: int, codec: str, data: Path | None, memory: str) -> dict[str, Any]:
    """`data` is a log made before, by this; without it, one is made and taken away."""
    from pipeline.sources.offsets_log import Part, read_part

    found: dict[str, Any] = {"records": records, "codec": codec}
    folder = Path(tempfile.mkdtemp(prefix="bench-pipeline-"))
    try:
        log = data or folder / "log"
        if not log.exists():
            write_log(log, records, codec)
        segments = sorted(log.glob("*/*.log"))
        found["bytes"] = sum(path.stat().st_size for path in segments)
        with processor_time("decoder", found):
            count = sum(
                batch.num_rows for path in segments for batch in read_part(Part(str(path), 0, path.stat().st_size))
            )
        assert count >= records, count
        found["records"] = count
        spark = child("local[1]", log, folder / "out", memory, "tables")
        history = (folder / "out" / "ingest" / "log" / "table=offset_history").rglob("*.parquet")
        assert sum(pyarrow.parquet.read_metadata(path).num_rows for path in history) == count
        found |= {"tables_seconds": spark["seconds"], "tables_wall_seconds": spark["wall_seconds"], "tables": spark}
        try:
            from conformance.targets.base import TargetError
            from conformance.targets.kafka import DEFAULT_VERSION, NEWEST, class_path

            jars = class_path(NEWEST.get(DEFAULT_VERSION, DEFAULT_VERSION))
        except (ImportError, TargetError) as error:
            found["dump_log"] = str(error)
        else:
            with processor_time("dump_log", found):
                dump_log(jars, segments)
            for name in ("decoder", "tables"):
                found[f"{name}_times_dump_log"] = round(found["dump_log_seconds"] / found[f"{name}_seconds"], 2)
        for name in ("decoder", "tables", "dump_log"):
            if f"{name}_seconds" in found:
                found[f"{name}_records_a_second"] = round(count / found[f"{name}_seconds"])
    finally:
        shutil.rmtree(folder)
    return found


def dump_log(jars: str, segments: list[Path]) -> None:
    """Kafka's tool, its output counted and thrown away."""
    command = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-cp", jars, "kafka.tools.DumpLogSegments", "--offsets-decoder"]
    files = ",".join(map(str, segments))
    with subprocess.Popen([*command, "--files", files], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tool:
        assert tool.stdout is not None
        lines = 0
        while block := tool.stdout.read(1 << 20):
            lines += block.count(b"payload:")
        assert tool.stderr is not None
        told = tool.stderr.read().decode()
    if tool.returncode != 0 or lines == 0:
        raise RuntimeError(f"the dump-log tool failed: {told[-500:]}")


def child(master: str, data: Path, out: Path, memory: str = "2g", what: str = "all") -> dict[str, Any]:
    """A run of the pipeline in a process of its own: what `run_once` tells of it, and processor time and peak memory of
    all its processes."""
    command = [sys.executable, __file__, "once", master, str(data), str(out), memory, what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        family = Family(process.pid)
        done = threading.Event()
        watch = threading.Thread(target=family.watch, args=(done,))
        watch.start()
        assert process.stdout is not None
        said = process.stdout.read()
        done.set()
        watch.join()
    if process.returncode != 0:
        raise RuntimeError(f"the run on {master} failed")
    told: dict[str, Any] = json.loads(said.splitlines()[-1])
    return {**told, "seconds": round(sum(family.seconds.values()), 2), "peak_mib": family.peak >> 20}


class Family:
    """A process and those below it, looked at twice a second: processor time, and the most memory they had at once.

    Spark's Java and its Python workers are nobody's waited-for children, so the system adds them up for nobody.
    """

    def __init__(self, root: int) -> None:
        self.root = root
        self.seconds: dict[int, float] = {}
        self.peak = 0

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
                spent[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        family = [self.root]
        for pid in family:
            family += below.get(pid, [])
        total = 0
        for pid in family:
            with contextlib.suppress(OSError, StopIteration):
                self.seconds[pid] = spent.get(pid, 0.0)
                # Pages that several of them share count once.
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) * 1024
        self.peak = max(self.peak, total)


def run_once(master: str, data: str, out: str, memory: str, what: str) -> dict[str, Any]:
    """All tables of some data, and answers if `what` is "all": wall seconds and bytes shuffled by step."""
    from pipeline.run import answer, build, sort_out
    from pipeline.session import session
    from pipeline.warehouse import Warehouse

    began = time.monotonic()
    of = "spark.driver.memory" if master.startswith("local") else "spark.executor.memory"
    settings = {of: memory, "spark.ui.retainedStages": "10000"}
    if what == "tables":
        # The work is done in Python: what Java runs is not worth compiling well.
        settings["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = session(master, config=settings)
    started = time.monotonic()
    steps: dict[str, dict[str, float]] = {}

    def shuffled() -> int:
        store = spark.sparkContext._jsc.sc().statusStore()
        stages = spark.sparkContext._jvm.scala.jdk.CollectionConverters.SeqHasAsJava(  # type: ignore[union-attr]
            store.stageList(None, False, False, spark.sparkContext._gateway.new_array(spark._jvm.double, 0), None)
        ).asJava()
        return sum(stage.shuffleWriteBytes() for stage in stages)

    @contextmanager
    def step(name: str) -> Iterator[None]:
        before, start = shuffled(), time.monotonic()
        yield
        steps[name] = {"wall_seconds": round(time.monotonic() - start, 2), "shuffled": shuffled() - before}

    warehouse = Warehouse(spark, out)
    build(warehouse, sort_out([data]), step)
    told = {"wall_seconds": round(time.monotonic() - began, 2), "steps": steps}
    told["start_wall_seconds"] = round(started - began, 2)
    if what == "all":
        answer(warehouse, step)
        told["wall_seconds"] = round(time.monotonic() - began, 2)
        told["violations"] = warehouse.read("violations").count()
    spark.stop()
    return told


def events(sizes: list[int], masters: list[str], memory: str) -> list[dict[str, Any]]:
    from pipeline.generate.write import generate

    found = []
    for size in sizes:
        folder = Path(tempfile.mkdtemp(prefix="bench-pipeline-"))
        try:
            groups = max(24, min(4_000, size // 20_000))
            made = generate(folder / "data", groups=groups, events=size, seed=1, nodes=2, segments=False)
            for master in masters:
                told: dict[str, Any] = {
                    "events": made.events,
                    "bytes": made.trace_bytes,
                    "groups": groups,
                    "master": master,
                }
                told |= child(master, folder / "data", folder / "out", memory)
                shutil.rmtree(folder / "out")
                found.append(told)
                print(json.dumps(told), file=sys.stderr, flush=True)
        finally:
            shutil.rmtree(folder)
    return found


def main() -> None:
    if sys.argv[1:2] == ["once"]:
        print(json.dumps(run_once(*sys.argv[2:7])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    one = what.add_parser("decode")
    one.add_argument("--records", type=int, default=10_000_000)
    one.add_argument("--codec", default="none")
    one.add_argument("--data", type=Path, help="a log to be read again another time; made if it is not there")
    one.add_argument("--memory", default="1g")
    two = what.add_parser("events")
    two.add_argument("--events", type=int, nargs="+", default=[1_000_000, 2_000_000])
    two.add_argument("--master", nargs="+", default=["local[1]", "local[2]"])
    two.add_argument("--memory", default="2g")
    chosen = parser.parse_args()
    if chosen.what == "decode":
        found: Any = decode(chosen.records, chosen.codec, chosen.data, chosen.memory)
    else:
        found = events(chosen.events, chosen.master, chosen.memory)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
