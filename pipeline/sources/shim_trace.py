"""Source `kafka_shim_trace`: traces of the coordinator or of the relay, JSON Lines, rotated or not; batch and stream.

Decides which files are read, what a task reads, and what a stream has read already. The path is a file, a folder, or
several of these separated by commas; of a folder, all files that are JSON Lines (`trace.jsonl`, `trace.jsonl.3`,
`trace-00007.jsonl`), and of its folders one level down, so that the traces of several nodes lie side by side. Rows are
those of `kafka_shim.pipeline.schemas.EVENTS`; a line that is no event is a row with a reason in `unreadable`.

Options: `splitBytes`, the size of a task's part of a file (32 MiB, of much data up to 256 MiB); `events`, kinds of
events to read, separated by commas (default: all); `bodies` (false), whether requests and answers come along as JSON;
`maxBytesPerTrigger` (256 MiB), of a stream.

A stream reads whole lines as they are appended. What was read is kept by file, and a file is known by a digest of its
first line (sequence number and time make it unlike any other), so that rotation by renaming changes nothing.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kafka_shim.pipeline.decode import events
from kafka_shim.pipeline.schemas import EVENTS

SPLIT_BYTES: Final = 32 << 20
MOST_SPLIT_BYTES: Final = 256 << 20
"""A task writes a file for every bucket; large tasks make large files."""
TASKS: Final = 64
"""Tasks grow once there are so many."""
TRIGGER_BYTES: Final = 256 << 20
CHUNK: Final = 8 << 20

_FILE: Final = re.compile(r"\.jsonl(\.\d+)?$")
_ROTATION: Final = re.compile(r"([-._]?\d+)?\.jsonl(\.\d+)?$")


class Part(NamedTuple):
    """What one task reads: the lines that begin in [start, end) of a file; `identity` is that of `identity_of`."""

    path: str
    start: int
    end: int
    identity: str = ""


def files(paths: str) -> list[Path]:
    """The files at these paths, in order. Raises FileNotFoundError."""
    found: list[Path] = []
    for name in paths.split(","):
        path = Path(name.strip().removeprefix("file:"))
        if path.is_file():
            found.append(path)
            continue
        if not path.is_dir():
            raise FileNotFoundError(f"{path} is neither a trace nor a folder of traces")
        found += [file for pattern in ("*", "*/*") for file in path.glob(pattern) if _FILE.search(file.name)]
    return sorted(file for file in found if file.is_file())


def trace_of(path: Path) -> str:
    """The name of the trace a file is of: its folder and its name less the rotation number."""
    return f"{path.parent.name}/{_ROTATION.sub('', path.name)}"


def identity_of(path: Path) -> str:
    """What tells a file from all others, whatever it is called; empty while its first line is not whole."""
    with path.open("rb") as file:
        first = file.readline()
    return blake2b(first, digest_size=8).hexdigest() if first.endswith(b"\n") else ""


class ShimTrace(DataSource):
    """`spark.read.format("kafka_shim_trace")` and `readStream`."""

    @classmethod
    def name(cls) -> str:
        return "kafka_shim_trace"

    def schema(self) -> str:
        return EVENTS.ddl

    def reader(self, schema: StructType) -> ShimTraceReader:
        return ShimTraceReader(self._paths(), self.options)

    def streamReader(self, schema: StructType) -> ShimTraceStreamReader:
        return ShimTraceStreamReader(self._paths(), self.options)

    def _paths(self) -> str:
        paths = self.options.get("path")
        if not paths:
            raise ValueError("kafka_shim_trace needs a path")
        return paths


class _Reading:
    """What batch and stream have in common."""

    def __init__(self, paths: str, options: Any) -> None:
        self.paths = paths
        self.adapts = "splitBytes" not in options
        self.split_bytes = int(options.get("splitBytes", SPLIT_BYTES))
        self.bodies = str(options.get("bodies", "false")).lower() == "true"
        kinds = [kind.strip() for kind in str(options.get("events", "")).split(",") if kind.strip()]
        self.kinds = frozenset(kinds)

    def split(self, path: Path, start: int, end: int, identity: str = "") -> list[Part]:
        bounds = [*range(start, end, self.split_bytes), end]
        return [Part(str(path), a, b, identity) for a, b in itertools.pairwise(bounds)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for path, start, end, identity in partition.value:
            yield from read_part(Part(path, start, end, identity), self.kinds, self.bodies)


class ShimTraceReader(_Reading, DataSourceReader):
    """All that is there now."""

    def partitions(self) -> Sequence[InputPartition]:
        sizes = [(path, path.stat().st_size) for path in files(self.paths)]
        if self.adapts:
            wanted = sum(size for _, size in sizes) // TASKS
            self.split_bytes = min(max(wanted, SPLIT_BYTES), MOST_SPLIT_BYTES)
        planned = [part for path, size in sizes for part in self.split(path, 0, size)]
        groups: list[list[Part]] = [[]]
        total = 0
        for part in planned:
            if groups[-1] and total + part.end - part.start > self.split_bytes:
                groups.append([])
                total = 0
            groups[-1].append(part)
            total += part.end - part.start
        return [InputPartition(tuple(tuple(part) for part in group)) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition)


class ShimTraceStreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What is appended. An offset of the stream is, by file, how many bytes were read."""

    def __init__(self, paths: str, options: Any) -> None:
        super().__init__(paths, options)
        self.trigger_bytes = int(options.get("maxBytesPerTrigger", TRIGGER_BYTES))
        self._ceiling: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {"files": "{}"}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self.trigger_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """The stream is to end with what there is at this moment."""
        self._ceiling = self._reachable({}, None)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The whole lines there are after `start`, about as many bytes as the limit says at most."""
        room = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        reached = self._reachable(json.loads(start["files"]), room)
        return {"files": json.dumps(reached, sort_keys=True)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, reached = json.loads(start["files"]), json.loads(end["files"])
        where = {identity_of(path): path for path in files(self.paths)}
        planned = []
        for identity, stop in reached.items():
            begin = begun.get(identity, 0)
            if stop > begin:
                if identity not in where:
                    raise FileNotFoundError(f"a file of the trace went away before it was read ({identity})")
                planned += self.split(where[identity], begin, stop, identity)
        return [InputPartition((tuple(part),)) for part in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition)

    def _reachable(self, start: dict[str, int], room: int | None) -> dict[str, int]:
        """How far each file may be read now, from `start`, with `room` bytes to go in all."""
        reached = dict(start)
        for path in files(self.paths):
            identity = identity_of(path)
            if not identity or room == 0:
                continue
            begin = reached.get(identity, 0)
            size = path.stat().st_size if self._ceiling is None else self._ceiling.get(identity, 0)
            if size <= begin:
                continue
            end = _last_line_end(path, begin, size, size if room is None else begin + room)
            if room is not None:
                room = max(room - (end - begin), 0)
            reached[identity] = end
        return reached


def _last_line_end(path: Path, begin: int, size: int, limit: int) -> int:
    """The end of the last whole line in [begin, size), at `limit` or the first end of a line after it."""
    with path.open("rb") as file:
        if size > limit:
            file.seek(limit - 1)
            file.readline()
            size = min(size, file.tell())
        at = size
        while at > begin:
            step = min(1 << 16, at - begin)
            file.seek(at - step)
            newline = file.read(step).rfind(b"\n")
            if newline >= 0:
                return at - step + newline + 1
            at -= step
    return begin


def read_part(part: Part, kinds: frozenset[str] = frozenset(), bodies: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows of one part of a file. Raises FileNotFoundError if the file was renamed and is nowhere near."""
    path = Path(part.path)
    if part.identity and (not path.exists() or identity_of(path) != part.identity):
        path = next((near for near in files(str(path.parent)) if identity_of(near) == part.identity), path)
    trace = trace_of(path)
    wanted = [b'"event":"%s"' % kind.encode() for kind in sorted(kinds)]
    with path.open("rb") as file:
        for lines, positions in _chunks(file, part.start, part.end):
            if wanted:
                chosen = [
                    index
                    for index, line in enumerate(lines)
                    if any(kind in line for kind in wanted) or not _has_kind(line)
                ]
                lines, positions = [lines[index] for index in chosen], [positions[index] for index in chosen]
            yield from events.decode(lines, positions, trace, str(path), bodies=bodies)


def _has_kind(line: bytes) -> bool:
    """Whether a line is surely an event of some kind, by its looks; others are judged by the decoder."""
    return b'"event":"' in line and line.endswith(b"}")


def _chunks(file: BinaryIO, start: int, end: int) -> Iterator[tuple[list[bytes], list[int]]]:
    """The lines that begin in [start, end), without their ends, and where each begins."""
    at = start
    if start:
        # The line that began before `start` is read by whoever reads up to there.
        file.seek(start - 1)
        at = start - 1 + len(file.readline())
    while at < end:
        file.seek(at)
        data = file.read(min(CHUNK, end - at))
        if not data:
            return
        if not data.endswith(b"\n"):
            data += file.readline()
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        positions = []
        for line in lines:
            positions.append(at)
            at += len(line) + 1
        yield lines, positions
