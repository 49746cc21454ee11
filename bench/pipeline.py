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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from persistence.batch import Record
from persistence.records import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from persistence.segments import PartitionWriter

NOW = 1_760_000_000_000


def write_log(folder: Path, records: int, codec: str = "none") -> None:
    """Commits of 2,000 groups, 1 to 20 partitions a commit, in one partition's segments of 100 MiB."""
    rng = random.Random(1)
    groups = [(f"payments-service-{n:04d}", f"orders-{n % 40}", rng.randint(1, 20)) for n in range(2_000)]
    keys = {
        group: [encode_key(OffsetCommitKey(group, topic, partition)) for partition in range(size)]
        for group, topic, size in groups
    }
    writer = PartitionWriter(folder / "__consumer_offsets-0", codec=codec)
    offset = 0
    while offset < records:
        group, _, _ = rng.choice(groups)
        at = NOW + offset // 10
        batch = []
        for key in keys[group]:
            value = OffsetCommitValue(offset * 3, -1, "", at)
            batch.append(Record(offset, at, key, encode_value(OffsetCommitKey("", "", 0), value)))
            offset += 1
        writer.append(batch)
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


def decode(records: int, codec: str) -> dict[str, Any]:
    from pipeline.sources.offsets_log import Part, read_part

    found: dict[str, Any] = {"records": records, "codec": codec}
    folder = Path(tempfile.mkdtemp(prefix="bench-pipeline-"))
    try:
        write_log(folder / "log", records, codec)
        segments = sorted(folder.glob("log/*/*.log"))
        found["bytes"] = sum(path.stat().st_size for path in segments)
        with processor_time("decoder", found):
            count = sum(
                batch.num_rows for path in segments for batch in read_part(Part(str(path), 0, path.stat().st_size))
            )
        assert count >= records, count
        found["records"] = count
        spark = child("local[1]", folder / "log", folder / "out")
        found |= {"spark_seconds": spark["seconds"], "spark_wall_seconds": spark["wall_seconds"], "spark": spark}
        try:
            from conformance.targets.base import TargetError
            from conformance.targets.kafka import DEFAULT_VERSION, NEWEST, class_path

            jars = class_path(NEWEST.get(DEFAULT_VERSION, DEFAULT_VERSION))
        except (ImportError, TargetError) as error:
            found["dump_log"] = str(error)
        else:
            with processor_time("dump_log", found):
                dump_log(jars, segments)
            found["decoder_times_dump_log"] = round(found["dump_log_seconds"] / found["decoder_seconds"], 2)
            found["spark_times_dump_log"] = round(found["dump_log_seconds"] / found["spark_seconds"], 2)
        for name in ("decoder", "spark", "dump_log"):
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


def child(master: str, data: Path, out: Path, memory: str = "2g") -> dict[str, Any]:
    """A run of the pipeline in a process of its own: what `run_once` tells of it, and the peak memory of all of it."""
    command = [sys.executable, __file__, "once", master, str(data), str(out), memory]
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


def run_once(master: str, data: str, out: str, memory: str) -> dict[str, Any]:
    """All tables and answers of some data: wall seconds and bytes shuffled by step."""
    from pipeline.run import answer, build, sort_out
    from pipeline.session import session
    from pipeline.warehouse import Warehouse

    began = time.monotonic()
    spark = session(master, config={"spark.driver.memory": memory, "spark.ui.retainedStages": "10000"})
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
    answer(warehouse, step)
    told = {"wall_seconds": round(time.monotonic() - began, 2), "steps": steps}
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
        print(json.dumps(run_once(*sys.argv[2:6])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    one = what.add_parser("decode")
    one.add_argument("--records", type=int, default=2_000_000)
    one.add_argument("--codec", default="none")
    two = what.add_parser("events")
    two.add_argument("--events", type=int, nargs="+", default=[1_000_000, 2_000_000])
    two.add_argument("--master", nargs="+", default=["local[1]", "local[2]"])
    two.add_argument("--memory", default="2g")
    chosen = parser.parse_args()
    if chosen.what == "decode":
        found: Any = decode(chosen.records, chosen.codec)
    else:
        found = events(chosen.events, chosen.master, chosen.memory)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
