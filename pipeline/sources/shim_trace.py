"""Source `kafka_shim_trace`: traces of the coordinator or of the relay, as JSON Lines; for batches and streams.

The path is a file, a folder, or several of these separated by commas, on this machine or in a store (`places.py`). In a
folder, all JSON Lines files are read (`trace.jsonl`, rotated as `trace.jsonl.3` or `trace-00007.jsonl`, compressed as
`.gz` or `.zst`), and those of its folders one level down, so that the traces of several nodes can lie side by side.
Rows are those of `kafka_shim.pipeline.schemas.EVENTS`; a line that is not an event is a row with a reason in
`unreadable`.

Options: `splitBytes`, the size of a task's part of a file (32 MiB, for large inputs up to 256 MiB); `events`, the kinds
of events to read, separated by commas (default: all); `bodies` (false), whether to include requests and answers as
JSON; `lines`, the lines to read: `renewals` (answered heartbeats and commits), `commits` (accepted ones) or `others`;
the first two have only their few columns; `maxBytesPerTrigger` (256 MiB), of a stream.

A stream reads complete lines as they are appended and remembers how far it has read each file. It identifies a file by
a digest of its first line, which has a unique sequence number and time, so renaming and packing on rotation change
nothing. It reads a packed file to its end, so such a file must be whole when it appears. Of
several files with one header, such as a file that is there packed and not, or a copy beside its original, only the
longest counts.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import Any, BinaryIO, Final, NamedTuple

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

try:
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
except ImportError:
    # Spark 4.1 sets no limits: a stream reads all there is, and then ends.
    class ReadLimit: ...  # type: ignore[no-redef]

    class ReadMaxBytes(ReadLimit): ...  # type: ignore[no-redef]

    class SupportsTriggerAvailableNow: ...  # type: ignore[no-redef]


from pyspark.sql.types import StructType

from kafka_shim.pipeline.decode import events
from kafka_shim.pipeline.schemas import EVENTS
from kafka_shim.pipeline.sources.places import LINE, Place, Settings, Unreadable, settings_of

SPLIT_BYTES: Final = 32 << 20
MOST_SPLIT_BYTES: Final = 256 << 20
"""A task writes a file for every bucket, so large tasks make large files."""
TASKS: Final = 64
"""Above this number of tasks, tasks grow instead."""
TRIGGER_BYTES: Final = 256 << 20
SCHEMAS: Final = (1, 2)
"""The versions of the trace's schema that can be read; the first line of a file has its version."""
CHUNK: Final = 8 << 20
TO_THE_END: Final = 1 << 62
"""The position of a stream in a packed file, whose length is not known before it is unpacked."""

TRACE: Final = re.compile(r"\.jsonl(\.\d+)?(\.gz|\.zst)?$")
_ROTATION: Final = re.compile(r"([-._]?\d+)?\.jsonl(\.\d+)?(\.gz|\.zst)?$")


_ALL: Final = frozenset(
    {"trace", "file", "position", "seq", "event", "wall", "mono", "group_id", "member_id", "generation", "error"}
)
NARROW: Final[dict[str, frozenset[str]]] = {
    "renewals": _ALL
    | {"api", "instance_id", "client_id", "node", "conn", "version", "correlation_id", "arrived", "unreadable"},
    "commits": _ALL | {"offsets_partition", "offsets", "inferred", "unreadable"},
}
"""The columns of each of these kinds of lines; their other columns are always null."""


class Part(NamedTuple):
    """A part of a file for one task: the lines that begin in [start, end); `identity` is that of `identity_of`."""

    path: str
    start: int
    end: int
    identity: str = ""


def files(paths: str, settings: Settings = ()) -> list[Place]:
    """Return the files at these paths, in order, each once. Raises `Unreadable`."""
    by_path: dict[str, Place] = {}
    for name in paths.split(","):
        path = Place(name.strip(), settings)
        kind, _ = path.info()
        if kind == "nothing":
            raise Unreadable(f"{path} does not exist")
        if kind == "file":
            by_path[path.real()] = path
            continue
        inside = path.children()
        below = [each for folder in inside if not TRACE.search(folder.name) for each in _in_folder(folder)]
        by_path |= {file.real(): file for file in [*inside, *below] if TRACE.search(file.name)}
    return sorted(by_path.values())


def _in_folder(place: Place) -> list[Place]:
    return place.children() if place.info()[0] == "folder" else []


class Header(NamedTuple):
    """The first line of a file of a trace: the run of the server, and the number of the file in it."""

    run: str
    file: int


def header_of(first_line: bytes) -> Header | None:
    """Return the header of a file; None for a file that does not name its run."""
    try:
        first = orjson.loads(first_line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(first, dict) or first.get("event") != "trace":
        return None
    run, number = first.get("run"), first.get("file")
    return Header(run, number) if isinstance(run, str) and run and isinstance(number, int) else None


def trace_of(path: Place, first_line: bytes) -> str:
    """Return the trace of a file: the run in its header, else its folder and its name without the rotation number."""
    header = header_of(first_line)
    return f"{path.parent.name}/{_ROTATION.sub('', path.name)}" if header is None else header.run


def without_copies(places: Iterable[Place]) -> list[Place]:
    """Return the files, of those with one header the longest: the others are copies of its beginning.

    A file that is not packed comes first, because packing may have been cut short.
    """
    chosen: dict[Header | Place, Place] = {}
    for place in places:
        name = header_of(_first_line(place)) or place
        before = chosen.get(name)
        if before is None or _length(place) > _length(before):
            chosen[name] = place
    return sorted(chosen.values())


def _length(place: Place) -> tuple[bool, int]:
    return not place.is_packed, place.size()


def identity_of(path: Place) -> str:
    """Return the identity of a file, independent of its name; empty while its first line is incomplete."""
    first = _first_line(path)
    return blake2b(first, digest_size=8).hexdigest() if first.endswith(b"\n") else ""


class ShimTrace(DataSource):
    """The data source of `spark.read.format("kafka_shim_trace")` and `readStream`."""

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
    """The common part of the batch reader and the stream reader."""

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
    """Reader of a batch: all lines there are now."""

    def partitions(self) -> Sequence[InputPartition]:
        places = without_copies(files(self.paths, self.settings))
        if self.adapts:
            share = sum(path.content_size() for path in places) // TASKS
            self.split_bytes = min(max(share, SPLIT_BYTES), MOST_SPLIT_BYTES)
        # A compressed file is one part, weighed by its decompressed size.
        planned = [
            (part, path.content_size() if path.is_packed else part.end - part.start)
            for path in places
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
    """Reader of a stream: appended lines. An offset of the stream is the number of bytes read, by file."""

    def __init__(self, paths: str, options: Any) -> None:
        super().__init__(paths, options)
        self.trigger_bytes = int(options.get("maxBytesPerTrigger", TRIGGER_BYTES))
        self._ceiling: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {"files": "{}"}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self.trigger_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """Limit the stream to the lines that exist now."""
        self._ceiling = self._reachable({}, None)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """Return the end of the complete lines after `start`, limited to about the bytes of `limit`."""
        room = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        reached = self._reachable({} if start is None else json.loads(start["files"]), room)
        return {"files": json.dumps(reached, sort_keys=True)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        done, reached = json.loads(start["files"]), json.loads(end["files"])
        where = {identity_of(path): path for path in self._places()}
        planned = []
        for identity, stop in reached.items():
            begin = done.get(identity, 0)
            if stop > begin:
                if identity not in where:
                    raise Unreadable(f"a file of the trace disappeared before it was read ({identity})")
                planned += self.split(where[identity], begin, stop, identity)
        return [InputPartition((tuple(part),)) for part in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition)

    def _places(self) -> list[Place]:
        return without_copies(files(self.paths, self.settings))

    def _reachable(self, start: dict[str, int], room: int | None) -> dict[str, int]:
        """Return how far each file can be read, from `start`, with at most `room` bytes in all."""
        reached = dict(start)
        for path in self._places():
            identity = identity_of(path)
            if not identity or room == 0:
                continue
            begin = reached.get(identity, 0)
            size = TO_THE_END if path.is_packed else path.size()
            if self._ceiling is not None:
                size = min(size, self._ceiling.get(identity, 0))
            if size <= begin:
                continue
            if path.is_packed:
                end, length = size, path.content_size()
            else:
                end = _last_line_end(path, begin, size, size if room is None else begin + room)
                length = end - begin
            if room is not None:
                room = max(room - length, 0)
            reached[identity] = end
        return reached


def _last_line_end(path: Place, begin: int, size: int, limit: int) -> int:
    """Return the end of the last complete line in [begin, size), or the first line end at or after `limit`."""
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
    """Read the rows of one part of a file, or those of the lines that `which` names. Raises `Unreadable`."""
    path = Place(part.path, settings)
    if part.identity and (path.info()[0] != "file" or identity_of(path) != part.identity):
        path = next((near for near in files(path.parent.address, settings) if _is(near, part)), path)
    if not path.is_packed and path.size() < part.end:
        raise Unreadable(f"{path} is shorter on this machine than on the one that planned the work")
    names = [name for name in EVENTS.names if name in NARROW[which]] if which in NARROW else None
    chosen_kinds = (which,) if which else events.Lines._fields
    first_line = _first_line(path)
    trace = trace_of(path, first_line)
    marks = [b'"event":"%s"' % kind.encode() for kind in sorted(kinds)]
    if part.start == 0:
        _check_schema(path, first_line)
    with path.open() as file:
        if path.is_packed:
            pieces = _unpacked(path, file)
            if part.identity:
                pieces = _within(part, pieces)
        else:
            pieces = _chunks(file, part.start, part.end)
        for lines, positions in pieces:
            if marks:
                chosen = [
                    index
                    for index, line in enumerate(lines)
                    if any(kind in line for kind in marks) or not _has_kind(line)
                ]
                lines, positions = [lines[index] for index in chosen], [positions[index] for index in chosen]
            for rows in events.decode(lines, positions, trace, path.address, bodies=bodies, kinds=chosen_kinds):
                yield rows if names is None else rows.select(names)


def _first_line(path: Place) -> bytes:
    """Return the first line of a file; empty if it cannot be unpacked, which is reported as a row of its own."""
    try:
        return path.first_line()
    except (OSError, EOFError, pa.ArrowException):
        return b""


def _check_schema(path: Place, first_line: bytes) -> None:
    """Raise `Unreadable` if the first line of the file names an unknown version of the schema."""
    try:
        first = orjson.loads(first_line)
    except orjson.JSONDecodeError:
        return
    version = first.get("schema") if isinstance(first, dict) and first.get("event") == "trace" else None
    if version is not None and version not in SCHEMAS:
        versions = " and ".join(map(str, SCHEMAS))
        raise Unreadable(f"{path} has version {version} of the trace's schema, and this release reads {versions}")


def _has_kind(line: bytes) -> bool:
    """Return true if a line certainly is an event, by its looks; the decoder checks the others."""
    return b'"event":"' in line and line.endswith(b"}")


def _is(path: Place, part: Part) -> bool:
    """Return true if a file has this part; a shorter copy has not."""
    return (path.is_packed or path.size() >= part.end) and identity_of(path) == part.identity


def _within(part: Part, pieces: Iterable[tuple[list[bytes], list[int]]]) -> Iterator[tuple[list[bytes], list[int]]]:
    """Leave out the lines before and after a part: a stream may have read them before the file was packed."""
    for lines, positions in pieces:
        first, end = bisect_left(positions, part.start), bisect_left(positions, part.end)
        yield lines[first:end], positions[first:end]


def _unpacked(path: Place, file: BinaryIO) -> Iterator[tuple[list[bytes], list[int]]]:
    """Yield the lines of a compressed file, and their positions in the decompressed text.

    A truncated file ends normally, with one more line that reports the truncation.
    """
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
    """Yield the lines that begin in [start, end), without line ends, and their positions."""
    at = start
    if start:
        # The line that began before `start` belongs to the part before.
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
    """Return the position of each line if the first begins at `at`, and the position after the last."""
    ends = list(accumulate(map(len, lines), lambda end, length: end + length + 1, initial=at))
    return ends[:-1], ends[-1]
