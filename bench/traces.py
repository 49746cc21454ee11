"""Measure the Spark pipeline from trace files to answers: wall and processor time, memory and shuffled bytes.

The input is a new trace, an existing one, or a part of one. A part consists of the first of each node's rotated files,
as links in a folder, so that a doubled input is a doubled history of the same groups. Each run is compared with the one
before it on the same master.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.cluster import Cluster
from bench.runs import child
from kafka_shim.pipeline.run import sort_out
from kafka_shim.pipeline.sources.places import Place
from kafka_shim.pipeline.sources.shim_trace import files

CLUSTER: Final = "cluster"
"""Master that stands for a new cluster of two workers with one core each, for each run."""

_EVENT_BYTES: Final = 600
_DISK_SHARE: Final = 0.25


class Volume(NamedTuple):
    """The size of the input."""

    events: int
    bytes: int


def events(
    sizes: Sequence[int], data: Sequence[Path], parts: Sequence[float], masters: Sequence[str], memory: str
) -> list[dict[str, Any]]:
    """Run over `parts` of the generated folders in `data`, or over new traces of about `sizes` events, on each
    master."""
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as name:
        scratch = Path(name)
        for folder in data or generated(sizes, scratch):
            for part in parts:
                part_folder = share(folder, part, scratch / "share") if part < 1 else folder
                size = volume(part_folder)
                room_for(scratch, round(size.bytes * _DISK_SHARE), f"the tables of {size.bytes:,} bytes of trace")
                for master in masters:
                    result = {"data": str(folder), "part": part, **size._asdict(), "master": master}
                    result |= run(master, part_folder, scratch, memory)
                    result |= compared(result, results)
                    results.append(result)
                    print(json.dumps(result), file=sys.stderr, flush=True)
                if part < 1:
                    shutil.rmtree(part_folder)
    return results


def generated(sizes: Sequence[int], scratch: Path) -> Iterator[Path]:
    """Generate traces; each exists until the next one is generated."""
    from kafka_shim.pipeline.generate.write import generate

    for size in sizes:
        room_for(scratch, round(size * _EVENT_BYTES * (1 + _DISK_SHARE)), f"a trace of {size:,} events and its tables")
        folder = scratch / "data"
        generate(folder, groups=max(24, min(4_000, size // 20_000)), events=size, seed=1, nodes=2, segments=False)
        yield folder
        shutil.rmtree(folder)


def share(data: Path, part: float, into: Path) -> Path:
    """Make `into` a folder of links to the first files of each node, about this part of them, at least one."""
    nodes = sorted(folder for folder in (data / "trace").iterdir() if folder.is_dir())
    for node in nodes:
        every = sorted(path for path in node.iterdir() if ".jsonl" in path.suffixes)
        folder = into / "trace" / node.name
        folder.mkdir(parents=True)
        for path in every[: max(1, round(len(every) * part))]:
            (folder / path.name).symlink_to(path.resolve())
    return into


def volume(data: Path) -> Volume:
    """Count events and bytes of the traces in a folder."""
    paths = [path for place in sort_out([str(data)]).traces for path in files(place)]
    every = [_volume(path.real()) for path in paths]
    return Volume(sum(each.events for each in every), sum(each.bytes for each in every))


@cache
def _volume(path: str) -> Volume:
    """Count those of one file, after decompression."""
    lines = size = 0
    with Place(path).open() as file:
        while block := file.read(1 << 22):
            lines += block.count(b"\n")
            size += len(block)
    return Volume(lines, size)


def room_for(folder: Path, needed: int, what: str) -> None:
    """Exit with a message if a disk has too little space."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        sys.exit(f"{folder} has {free:,} bytes free, and {needed:,} are needed for {what}; TMPDIR says where it may be")


@contextmanager
def _master(name: str, scratch: Path, memory: str) -> Iterator[tuple[str, list[int]]]:
    """Yield the URL of a master, and the processes of its cluster."""
    if name != CLUSTER:
        yield name, []
        return
    with Cluster(scratch / "cluster", workers=2, memory=memory) as cluster:
        yield cluster.url, cluster.pids()


def run(master: str, data: Path, scratch: Path, memory: str) -> dict[str, Any]:
    """Run once over a folder of data, and delete the results."""
    out = scratch / "out"
    try:
        with _master(master, scratch, memory) as (url, others):
            return child(url, data, out, memory, others=others)
    finally:
        for name in ("out", "out.shuffle", "cluster"):
            shutil.rmtree(scratch / name, ignore_errors=True)


def compared(result: dict[str, Any], before: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the factors between a run and the last one before it on the same master."""
    same = [each for each in before if each["master"] == result["master"]]
    if not same:
        return {}
    factors = {
        name: round(result[name] / same[-1][name], 2) for name in ("events", "wall_seconds", "seconds", "peak_mib")
    }
    return {"times_the_one_before": factors}
