"""Records of `__consumer_offsets` per second on one core: our decoder, the pipeline in Spark, and Kafka's dump-log
tool.

The log contains commits of consumer groups, generated from a seed and written as a broker writes segments. All three
read the same files; Kafka's tool uses its offsets decoder. The comparison needs Kafka, from Maven.
"""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet

from bench.runs import child
from kafka_shim.persistence.batch import Record
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from kafka_shim.persistence.segments import PartitionWriter

NOW: Final = 1_760_000_000_000
PARTITIONS: Final = 50


def write_log(folder: Path, records: int, codec: str = "none") -> None:
    """Write commits of 2,000 groups, 1 to 20 partitions per commit, in the 50 partitions of a broker."""
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
    """Measure the time of the block, including children that it waited for."""
    before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    began = time.monotonic()
    yield
    after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    spent = sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True))
    into[f"{of}_seconds"] = round(spent, 2)
    into[f"{of}_wall_seconds"] = round(time.monotonic() - began, 2)


def decode(records: int, codec: str, data: Path | None, memory: str) -> dict[str, Any]:
    """Measure all three; `data` is a log that an earlier run wrote, else a temporary one is written."""
    from kafka_shim.pipeline.sources.offsets_log import Part, read_part

    result: dict[str, Any] = {"records": records, "codec": codec}
    folder = Path(tempfile.mkdtemp(prefix="bench-pipeline-"))
    try:
        log = data or folder / "log"
        if not log.exists():
            write_log(log, records, codec)
        segments = sorted(log.glob("*/*.log"))
        result["bytes"] = sum(path.stat().st_size for path in segments)
        with processor_time("decoder", result):
            count = sum(
                batch.num_rows for path in segments for batch in read_part(Part(str(path), 0, path.stat().st_size))
            )
        assert count >= records, count
        result["records"] = count
        spark = child("local[1]", log, folder / "out", memory, "tables")
        history = (folder / "out" / "data" / "log_history").rglob("*.parquet")
        assert sum(pyarrow.parquet.read_metadata(path).num_rows for path in history) == count
        result |= {"tables_seconds": spark["seconds"], "tables_wall_seconds": spark["wall_seconds"], "tables": spark}
        try:
            from kafka_shim.conformance.targets.base import TargetError
            from kafka_shim.conformance.targets.kafka import DEFAULT_VERSION, NEWEST, class_path

            jars = class_path(NEWEST.get(DEFAULT_VERSION, DEFAULT_VERSION))
        except (ImportError, TargetError) as error:
            result["dump_log"] = str(error)
        else:
            with processor_time("dump_log", result):
                dump_log(jars, segments)
            for name in ("decoder", "tables"):
                result[f"{name}_times_dump_log"] = round(result["dump_log_seconds"] / result[f"{name}_seconds"], 2)
        for name in ("decoder", "tables", "dump_log"):
            if f"{name}_seconds" in result:
                result[f"{name}_records_a_second"] = round(count / result[f"{name}_seconds"])
    finally:
        shutil.rmtree(folder)
    return result


def dump_log(jars: str, segments: list[Path]) -> None:
    """Run Kafka's tool; count its output lines and discard them."""
    command = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-cp", jars, "kafka.tools.DumpLogSegments", "--offsets-decoder"]
    files = ",".join(map(str, segments))
    with subprocess.Popen([*command, "--files", files], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tool:
        assert tool.stdout is not None
        lines = 0
        while block := tool.stdout.read(1 << 20):
            lines += block.count(b"payload:")
        assert tool.stderr is not None
        output = tool.stderr.read().decode()
    if tool.returncode != 0 or lines == 0:
        raise RuntimeError(f"the dump-log tool failed: {output[-500:]}")
