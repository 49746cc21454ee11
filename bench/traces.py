"""Traces end to end, from files to answers: wall and processor time, memory and bytes shuffled, by size and master.

Decides what is read (a trace generated now, one generated before, a share of one) and how several runs compare: how
much longer one takes than the one before it on the same master. A share takes of each node's rotated files the first
ones, as links in a folder of its own, so that a doubled input is a doubled history of the same groups.
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
"""As a master: a cluster of two workers of one core each is started for each run."""

_EVENT_BYTES: Final = 600
_DISK_SHARE: Final = 0.25


class Volume(NamedTuple):
    """How much there is to read."""

    events: int
    bytes: int


def events(
    sizes: Sequence[int], data: Sequence[Path], parts: Sequence[float], masters: Sequence[str], memory: str
) -> list[dict[str, Any]]:
    """Runs over `parts` of the generated folders in `data`, or over traces of about `sizes` events generated for it, on
    each of the masters."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as name:
        scratch = Path(name)
        for folder in data or made(sizes, scratch):
            for part in parts:
                taken = share(folder, part, scratch / "share") if part < 1 else folder
                size = volume(taken)
                room_for(scratch, round(size.bytes * _DISK_SHARE), f"the tables of {size.bytes:,} bytes of trace")
                for master in masters:
                    result = {"data": str(folder), "part": part, **size._asdict(), "master": master}
                    result |= run(master, taken, scratch, memory)
                    result |= compared(result, found)
                    found.append(result)
                    print(json.dumps(result), file=sys.stderr, flush=True)
                if part < 1:
                    shutil.rmtree(taken)
    return found


def made(sizes: Sequence[int], scratch: Path) -> Iterator[Path]:
    """Generated traces, each kept until the next one is generated."""
    from kafka_shim.pipeline.generate.write import generate

    for size in sizes:
        room_for(scratch, round(size * _EVENT_BYTES * (1 + _DISK_SHARE)), f"a trace of {size:,} events and its tables")
        folder = scratch / "data"
        generate(folder, groups=max(24, min(4_000, size // 20_000)), events=size, seed=1, nodes=2, segments=False)
        yield folder
        shutil.rmtree(folder)


def share(data: Path, part: float, into: Path) -> Path:
    """`into` as a folder of links to the first files of each node of generated `data`: as many of them as come nearest
    to this part, one at least."""
    nodes = sorted(folder for folder in (data / "trace").iterdir() if folder.is_dir())
    for node in nodes:
        every = sorted(path for path in node.iterdir() if ".jsonl" in path.suffixes)
        folder = into / "trace" / node.name
        folder.mkdir(parents=True)
        for path in every[: max(1, round(len(every) * part))]:
            (folder / path.name).symlink_to(path.resolve())
    return into


def volume(data: Path) -> Volume:
    """Events and bytes of the traces in a folder, counted."""
    found = [path for place in sort_out([str(data)]).traces for path in files(place)]
    every = [_volume(path.real()) for path in found]
    return Volume(sum(each.events for each in every), sum(each.bytes for each in every))


@cache
def _volume(path: str) -> Volume:
    """Of one file; of a packed one, of what is in it."""
    lines = size = 0
    with Place(path).open() as file:
        while block := file.read(1 << 22):
            lines += block.count(b"\n")
            size += len(block)
    return Volume(lines, size)


def room_for(folder: Path, needed: int, what: str) -> None:
    """Exits with a sentence if a disk has too little room."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        sys.exit(f"{folder} has {free:,} bytes free, and {needed:,} are needed for {what}; TMPDIR says where it may be")


@contextmanager
def _master(name: str, scratch: Path, memory: str) -> Iterator[tuple[str, list[int]]]:
    """The URL of a master, and the processes of its cluster."""
    if name != CLUSTER:
        yield name, []
        return
    with Cluster(scratch / "cluster", workers=2, memory=memory) as cluster:
        yield cluster.url, cluster.pids()


def run(master: str, data: Path, scratch: Path, memory: str) -> dict[str, Any]:
    """One run over a folder of data; what it made is taken away."""
    out = scratch / "out"
    try:
        with _master(master, scratch, memory) as (url, others):
            return child(url, data, out, memory, others=others)
    finally:
        for name in ("out", "out.shuffle", "cluster"):
            shutil.rmtree(scratch / name, ignore_errors=True)


def compared(result: dict[str, Any], before: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a run is to the last one before it on the same master, as factors."""
    same = [each for each in before if each["master"] == result["master"]]
    if not same:
        return {}
    factors = {
        name: round(result[name] / same[-1][name], 2) for name in ("events", "wall_seconds", "seconds", "peak_mib")
    }
    return {"times_the_one_before": factors}
