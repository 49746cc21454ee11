"""Source `kafka_shim_trace`: traces of the coordinator or of the relay, JSON Lines, rotated or not; batch and stream.

Decides which files are read, what a task reads, and what a stream has read already. The path is a file, a folder, or
several of these separated by commas, on this machine or in a store (`places.py`); of a folder, all files that are JSON
Lines (`trace.jsonl`, `trace.jsonl.3`, `trace-00007.jsonl`, packed with `.gz` or `.zst`), and of its folders one level
down, so that the traces of several nodes lie side by side. Rows are those of `kafka_shim.pipeline.schemas.EVENTS`; a
line that is no event is a row with a reason in `unreadable`.

Options: `splitBytes`, the size of a task's part of a file (32 MiB, of much data up to 256 MiB); `events`, kinds of
events to read, separated by commas (default: all); `bodies` (false), whether requests and answers come along as JSON;
`lines`, which of the lines to read: `renewals` (answered heartbeats and commits), `commits` (accepted ones) or
`others`, the first two with the few columns that they have; `maxBytesPerTrigger` (256 MiB), of a stream.

A stream reads whole lines as they are appended. What was read is kept by file, and a file is known by a digest of its
first line (sequence number and time make it unlike any other), so that rotation by renaming changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import Any, BinaryIO, Final, NamedTuple

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

try:
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
except ImportError:
    # Spark 4.1 asks for no limits: a stream takes all there is, and ends when it has.
    class ReadLimit: ...  # type: ignore[no-redef]

    class ReadMaxBytes(ReadLimit): ...  # type: ignore[no-redef]

    class SupportsTriggerAvailableNow: ...  # type: ignore[no-redef]


from pyspark.sql.types import StructType

from kafka_shim.pipeline.decode import events
from kafka_shim.pipeline.schemas import EVENTS
from kafka_shim.pipeline.sources.places import LINE, Place, Settings, Unreadable, settings_of

SPLIT_BYTES: Final = 32 << 20
MOST_SPLIT_BYTES: Final = 256 << 20
"""A task writes a file for every bucket; large tasks make large files."""
TASKS: Final = 64
"""Tasks grow once there are so many."""
TRIGGER_BYTES: Final = 256 << 20
SCHEMAS: Final = (1, 2)
"""The versions of the trace's schema that are read; the first line of a file says which it has."""
CHUNK: Final = 8 << 20

_FILE: Final = re.compile(r"\.jsonl(\.\d+)?(\.gz|\.zst)?$")
_ROTATION: Final = re.compile(r"([-._]?\d+)?\.jsonl(\.\d+)?(\.gz|\.zst)?$")


_ALL: Final = frozenset(
    {"trace", "file", "position", "seq", "event", "wall", "mono", "group", "member_id", "generation", "error"}
)
NARROW: Final[dict[str, frozenset[str]]] = {
    "renewals": _ALL
    | {"api", "instance_id", "client_id", "node", "conn", "version", "correlation_id", "arrived", "unreadable"},
    "commits": _ALL | {"offsets_partition", "offsets", "inferred", "unreadable"},
}
"""The columns of lines of a kind; they have no others."""


class Part(NamedTuple):
    """What one task reads: the lines that begin in [start, end) of a file; `identity` is that of `identity_of`."""

    path: str
    start: int
    end: int
    identity: str = ""


def files(paths: str, settings: Settings = ()) -> list[Place]:
    """The files at these paths, in order, each once. Raises `Unreadable`."""
    found: dict[str, Place] = {}
    for name in paths.split(","):
        path = Place(name.strip(), settings)
        kind, _ = path.info()
        if kind == "nothing":
            raise Unreadable(f"{path} does not exist")
        if kind == "file":
            found[path.real()] = path
            continue
        inside = path.children()
        below = [each for folder in inside if not _FILE.search(folder.name) for each in _in_folder(folder)]
        found |= {file.real(): file for file in [*inside, *below] if _FILE.search(file.name)}
    return sorted(found.values())


def _in_folder(place: Place) -> list[Place]:
    return place.children() if place.info()[0] == "folder" else []


def trace_of(path: Place) -> str:
    """The name of the trace a file is of: its folder and its name less the rotation number."""
    return f"{path.parent.name}/{_ROTATION.sub('', path.name)}"


def identity_of(path: Place) -> str:
    """What tells a file from all others, whatever it is called; empty while its first line is not whole."""
    first = path.first_line()
    return blake2b(first, digest_size=8).hexdigest() if first.endswith(b"\n") else ""


class ShimTrace(DataSource):
    """`spark.read.format("kafka_shim_trace")` and `readStream`."""

    @classmethod
    def name(cls) -> str:
        return "kafka_shim_trace"

    def schema(self) -> str:
        names = NARROW.get(self.options.get("lines", ""), EVENTS.names)
        return EVENTS._replace(columns=tuple(each for each in EVENTS.columns if each.name in names)).ddl

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
        self.settings = settings_of(options)
        self.adapts = "splitBytes" not in options
        self.split_bytes = int(options.get("splitBytes", SPLIT_BYTES))
        self.bodies = str(options.get("bodies", "false")).lower() == "true"
        kinds = [kind.strip() for kind in str(options.get("events", "")).split(",") if kind.strip()]
        self.kinds = frozenset(kinds)
        self.lines = str(options.get("lines", ""))
        if self.lines and self.lines not in events.Lines._fields:
            raise ValueError(f"option lines is one of {', '.join(events.Lines._fields)}, not {self.lines}")

    def split(self, path: Place, start: int, end: int, identity: str = "") -> list[Part]:
        bounds = [start, end] if path.is_packed else [*range(start, end, self.split_bytes), end]
        return [Part(path.address, a, b, identity) for a, b in pairwise(bounds)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for path, start, end, identity in partition.value:
            part = Part(path, start, end, identity)
            yield from read_part(part, self.kinds, self.bodies, self.lines, self.settings)


class ShimTraceReader(_Reading, DataSourceReader):
    """All that is there now."""

    def partitions(self) -> Sequence[InputPartition]:
        found = files(self.paths, self.settings)
        if self.adapts:
            share = sum(path.content_size() for path in found) // TASKS
            self.split_bytes = min(max(share, SPLIT_BYTES), MOST_SPLIT_BYTES)
        # A packed file is one part, and weighs what is in it.
        planned = [
            (part, path.content_size() if path.is_packed else part.end - part.start)
            for path in found
            for part in self.split(path, 0, path.size())
        ]
        groups: list[list[Part]] = [[]]
        total = 0
        for part, weight in planned:
            if groups[-1] and total + weight > self.split_bytes:
                groups.append([])
                total = 0
            groups[-1].append(part)
            total += weight
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

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """The whole lines there are after `start`, about as many bytes as the limit says at most."""
        room = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        reached = self._reachable({} if start is None else json.loads(start["files"]), room)
        return {"files": json.dumps(reached, sort_keys=True)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, reached = json.loads(start["files"]), json.loads(end["files"])
        where = {identity_of(path): path for path in self._plain()}
        planned = []
        for identity, stop in reached.items():
            begin = begun.get(identity, 0)
            if stop > begin:
                if identity not in where:
                    raise Unreadable(f"a file of the trace went away before it was read ({identity})")
                planned += self.split(where[identity], begin, stop, identity)
        return [InputPartition((tuple(part),)) for part in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition)

    def _plain(self) -> list[Place]:
        """The files that grow; one that is packed is a copy of one that did."""
        return [path for path in files(self.paths, self.settings) if not path.is_packed]

    def _reachable(self, start: dict[str, int], room: int | None) -> dict[str, int]:
        """How far each file may be read now, from `start`, with `room` bytes to go in all."""
        reached = dict(start)
        for path in self._plain():
            identity = identity_of(path)
            if not identity or room == 0:
                continue
            begin = reached.get(identity, 0)
            size = path.size() if self._ceiling is None else self._ceiling.get(identity, 0)
            if size <= begin:
                continue
            end = _last_line_end(path, begin, size, size if room is None else begin + room)
            if room is not None:
                room = max(room - (end - begin), 0)
            reached[identity] = end
        return reached


def _last_line_end(path: Place, begin: int, size: int, limit: int) -> int:
    """The end of the last whole line in [begin, size), at `limit` or the first end of a line after it."""
    with path.open(LINE) as file:
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


def read_part(
    part: Part,
    kinds: frozenset[str] = frozenset(),
    bodies: bool = False,
    which: str = "",
    settings: Settings = (),
) -> Iterator[pa.RecordBatch]:
    """The rows of one part of a file, or of the lines that `which` names. Raises `Unreadable`."""
    path = Place(part.path, settings)
    if part.identity and (path.info()[0] != "file" or identity_of(path) != part.identity):
        path = next((near for near in files(path.parent.address, settings) if _is(near, part.identity)), path)
    if path.size() < part.end:
        raise Unreadable(f"{path} is another file here than where the work was planned: it is shorter")
    names = [name for name in EVENTS.names if name in NARROW[which]] if which in NARROW else None
    chosen_kinds = (which,) if which else events.Lines._fields
    trace = trace_of(path)
    marks = [b'"event":"%s"' % kind.encode() for kind in sorted(kinds)]
    if part.start == 0:
        _check_schema(path)
    with path.open() as file:
        found = _unpacked(path, file) if path.is_packed else _chunks(file, part.start, part.end)
        for lines, positions in found:
            if marks:
                chosen = [
                    index
                    for index, line in enumerate(lines)
                    if any(kind in line for kind in marks) or not _has_kind(line)
                ]
                lines, positions = [lines[index] for index in chosen], [positions[index] for index in chosen]
            for rows in events.decode(lines, positions, trace, path.address, bodies=bodies, kinds=chosen_kinds):
                yield rows if names is None else rows.select(names)


def _check_schema(path: Place) -> None:
    """Raises `Unreadable` for a file whose first line says a version of the schema that is not known here."""
    try:
        first = orjson.loads(path.first_line())
    except (OSError, EOFError, pa.ArrowException, orjson.JSONDecodeError):
        # What cannot be read is said of its line.
        return
    found = first.get("schema") if isinstance(first, dict) and first.get("event") == "trace" else None
    if found is not None and found not in SCHEMAS:
        known = " and ".join(map(str, SCHEMAS))
        raise Unreadable(f"{path} has version {found} of the trace's schema, and this release reads {known}")


def _has_kind(line: bytes) -> bool:
    """Whether a line is surely an event of some kind, by its looks; others are judged by the decoder."""
    return b'"event":"' in line and line.endswith(b"}")


def _is(path: Place, identity: str) -> bool:
    return not path.is_packed and identity_of(path) == identity


def _unpacked(path: Place, file: BinaryIO) -> Iterator[tuple[list[bytes], list[int]]]:
    """The lines of a packed file, and where each begins in what is packed. One that is cut off ends as if it were not,
    with a line that says so."""
    at, rest = 0, b""
    while True:
        cut = b""
        try:
            data = file.read(CHUNK)
        except (OSError, EOFError, pa.ArrowException) as error:
            data, cut = b"", f"{path.name} cannot be unpacked any further: {error}".encode()
        whole, newline, rest = (rest + data).rpartition(b"\n")
        if not data:
            whole, newline, rest = whole + newline + rest, b"", b""
        lines = whole.split(b"\n")
        if cut:
            lines.append(cut)
        positions, at = _positions(lines, at)
        yield lines, positions
        if not data:
            return


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
        positions, at = _positions(lines, at)
        yield lines, positions


def _positions(lines: list[bytes], at: int) -> tuple[list[int], int]:
    """Where each of these begins if the first begins at `at`, and where the next one does."""
    ends = list(accumulate(map(len, lines), lambda end, length: end + length + 1, initial=at))
    return ends[:-1], ends[-1]
