"""Write the test data of the pipeline: traces and `__consumer_offsets` segments of groups that never ran, and the list
of their faults.

    OUT/trace/node-0/trace-00000.jsonl ...   OUT/segments/__consumer_offsets-N/...   OUT/faults.json

Adds sequence numbers and wall time, and damages some segments. The same arguments give the same bytes.
"""

from __future__ import annotations

import heapq
import io
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, TextIO

import pyarrow as pa

from kafka_shim.persistence.batch import CODECS, Record
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from kafka_shim.persistence.segments import PartitionWriter
from kafka_shim.pipeline.generate.classic_group import ClassicGroup
from kafka_shim.pipeline.generate.epoch_group import EpochGroup
from kafka_shim.pipeline.generate.faults import Kind, Role, plan
from kafka_shim.pipeline.generate.schedule import Schedule

WALL_OFFSET: Final = 1_760_000_000.0 - 1_000.0
"""Unix time at which the coordinators' monotonic clocks were 0."""
START: Final = 1_000.0
ROTATE_BYTES: Final = 64 << 20
OFFSETS_PARTITIONS: Final = 50
EVENTS_A_SECOND: Final = 2.4
"""Least events per second of a group in the long run; about 3.4 are usual."""
LEAST_DURATION_S: Final = 1_800.0
"""Enough time for any fault."""


class Volume(NamedTuple):
    """The size of the generated data."""

    events: int
    trace_bytes: int
    records: int
    faults: int


class _Node(NamedTuple):
    events: int
    trace_bytes: int
    faults: list[dict[str, Any]]
    commits: list[tuple[float, str, list[tuple[str, int, int]]]]


def generate(
    out: Path,
    *,
    groups: int,
    events: int | None = None,
    seed: int = 0,
    nodes: int = 1,
    segments: bool = True,
    packed: bool = False,
) -> Volume:
    """Write `groups` groups on `nodes` nodes into `out`, which must be empty or new.

    `events` is the total number of events, at which the traces end; without it, each group lasts half an hour, enough
    for every fault. Files of a `packed` trace end in `.zst` and are a tenth of the size. Raises FileExistsError.
    """
    if out.exists() and any(out.iterdir()):
        raise FileExistsError(f"{out} is not empty")
    duration = LEAST_DURATION_S
    if events is not None:
        duration = max(duration, 1.1 * events / groups / EVENTS_A_SECOND)
    planned = plan(groups, seed)
    jobs = [
        partial(
            _write_node,
            out / "trace" / f"node-{node}",
            [_group(index, node, planned[index], duration, seed) for index in range(groups) if index % nodes == node],
            segments,
            None if events is None else events // nodes + (node < events % nodes),
            packed,
        )
        for node in range(nodes)
    ]
    if nodes == 1:
        written = [jobs[0]()]
    else:
        with ProcessPoolExecutor() as pool:
            written = [future.result() for future in [pool.submit(job) for job in jobs]]
    faults = [fault for node in written for fault in node.faults]
    records = 0
    if segments:
        commits = heapq.merge(*(node.commits for node in written), key=itemgetter(0))
        records, damage = write_segments(out / "segments", commits, Random(f"{seed} segments"))
        faults += damage
    (out / "faults.json").write_text("[\n" + ",\n".join(map(json.dumps, faults)) + "\n]\n")
    return Volume(sum(n.events for n in written), sum(n.trace_bytes for n in written), records, len(faults))


def _group(index: int, node: int, role: Role, duration: float, seed: int) -> Schedule:
    if role.kind is Kind.CLASSIC:
        return ClassicGroup(index, node, role.fault, START, duration, seed)
    return EpochGroup(index, node, role.kind, role.fault, START, duration, seed)


def _write_node(folder: Path, groups: list[Schedule], keep_commits: bool, most: int | None, packed: bool) -> _Node:
    folder.mkdir(parents=True)
    events = written = total = 0
    rotation = 0
    at = START
    commits: list[tuple[float, str, list[tuple[str, int, int]]]] = []
    file = _open(folder, rotation, packed)
    try:
        events_in_order = heapq.merge(*(group.run() for group in groups), key=itemgetter(0))
        for at, kind, fields in islice(events_in_order, most):
            line = f'{{"event":"{kind}","seq":{events},"mono":{at:.6f},"wall":{at + WALL_OFFSET:.6f},{fields}}}\n'
            if written > ROTATE_BYTES:
                file.close()
                rotation += 1
                written = 0
                file = _open(folder, rotation, packed)
            file.write(line)
            written += len(line)
            total += len(line)
            events += 1
            if not events % 100_000:
                _take_commits(groups, commits if keep_commits else None)
    finally:
        file.close()
    _take_commits(groups, commits if keep_commits else None)
    commits.sort(key=itemgetter(0))
    end = float("inf") if most is None else at
    faults = [fault for group in groups for fault in group.faults if fault.get("at", 0.0) <= end]
    commits = [commit for commit in commits if commit[0] <= end]
    for fault in faults:
        for name in ("at", "began", "silent_since"):
            if name in fault:
                fault[name] = round(fault[name] + WALL_OFFSET, 6)
    return _Node(events, total, faults, commits)


def _open(folder: Path, rotation: int, packed: bool) -> TextIO:
    name = f"trace-{rotation:05d}.jsonl"
    if not packed:
        return (folder / name).open("w", buffering=1 << 20)
    return io.TextIOWrapper(io.BufferedWriter(pa.CompressedOutputStream(str(folder / f"{name}.zst"), "zstd"), 1 << 20))


def _take_commits(groups: list[Schedule], into: list[tuple[float, str, list[tuple[str, int, int]]]] | None) -> None:
    for group in groups:
        if into is not None:
            into += [(commit.at, commit.group, commit.offsets) for commit in group.commits]
        group.commits.clear()


def write_segments(
    folder: Path, commits: Iterator[tuple[float, str, list[tuple[str, int, int]]]], rng: Random
) -> tuple[int, list[dict[str, Any]]]:
    """Write commits as a broker's log folder, with every codec, a damaged batch and a truncated file.

    Returns the number of records, and the damage as faults of kind `damage`.
    """
    writers: dict[int, PartitionWriter] = {}
    offsets: dict[int, int] = {}
    count = 0
    for at, group, committed in commits:
        number = partition_for(group, OFFSETS_PARTITIONS)
        if number not in writers:
            writers[number] = PartitionWriter(
                folder / f"__consumer_offsets-{number}", codec=CODECS[number % len(CODECS)], segment_bytes=8 << 20
            )
            offsets[number] = 0
        timestamp = round((at + WALL_OFFSET) * 1000)
        records = []
        for topic, partition, offset in committed:
            key = OffsetCommitKey(group, topic, partition)
            value = OffsetCommitValue(offset, -1, "", timestamp)
            records.append(Record(offsets[number], timestamp, encode_key(key), encode_value(key, value)))
            offsets[number] += 1
        writers[number].append(records)
        count += len(records)
    for writer in writers.values():
        writer.close()
    return count, _damage(sorted(folder.glob("*/*.log")), rng)


def _damage(paths: list[Path], rng: Random) -> list[dict[str, Any]]:
    if len(paths) < 2:
        return []
    flipped, torn = rng.sample(paths, 2)
    data = bytearray(flipped.read_bytes())
    # Damage the second batch, so that a reader must go on after it.
    position = 12 + int.from_bytes(data[8:12], "big")
    offset = int.from_bytes(data[position : position + 8], "big")
    data[position + 40] ^= 0xFF
    flipped.write_bytes(data)
    whole = torn.read_bytes()
    torn.write_bytes(whole[:-7])
    return [
        {"kind": "damage", "file": "/".join(flipped.parts[-2:]), "position": position, "offset": offset,
         "reason": "the checksum is wrong"},
        {"kind": "damage", "file": "/".join(torn.parts[-2:]), "reason": "the file ends within a batch"},
    ]  # fmt: skip
