"""Source `kafka_offsets_log`: segments of `__consumer_offsets` as a broker keeps them, one row a record.

Decides which files are read and how they are split into tasks. The path is a segment, a partition's folder
(`__consumer_offsets-7`), a broker's log folder, or several of these separated by commas, on this machine or in a store
(`places.py`). Files must be readable under the same path on every worker. Rows are those of `LOG_RECORDS` in
`schemas.py`; a row whose `reason` is not null stands for bytes that could not be read, or for what is missing.

Options: `splitBytes` (16 MiB), the least size of a task's part of a segment; `records`, which rows to read (default:
all): `commits`, committed offsets and ends of transactions with the few columns that their history is made of, or
`others`, all but committed offsets. To read twice costs less than to keep every column of nearly all rows.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafka_shim.persistence.batch import MAGIC
from kafka_shim.pipeline.decode import batches, records
from kafka_shim.pipeline.schemas import LOG_RECORDS
from kafka_shim.pipeline.sources.places import Place, Settings, Unreadable, settings_of

SPLIT_BYTES: Final = 16 << 20

_FOLDER: Final = re.compile(r"__consumer_offsets-(\d+)$")
_SEGMENT: Final = re.compile(r"\d+\.log(\.|$)")
_TOPIC_ID: Final = re.compile(r"^topic_id: (\S+)$", re.MULTILINE)
_INDEX_ENTRY: Final = Struct(">ii")
_MAGIC_AT: Final = 16
_BATCH_START: Final = Struct(">qi")


COMMITS: Final = (
    *("log", "offsets_partition", "record_offset", "timestamp", "kind", "tombstone", "group", "topic", "partition"),
    *("offset", "producer_id", "transactional", "control", "reason"),
)
"""The columns of rows of `commits`."""
_CHOICES: Final = ("", "commits", "others")


class Part(NamedTuple):
    """What one task reads: the batches that begin in [start, end) of a segment of size `size`.

    From log offset `dense` on no offset may be missing, and the batch after the last one begins with `following`;
    None where nobody knows.
    """

    path: str
    start: int
    end: int
    size: int = 0
    dense: int | None = None
    following: int | None = None


def segments(paths: str, settings: Settings = ()) -> list[Place]:
    """The segments at these paths, in order, each once. Raises `Unreadable`."""
    found: dict[str, Place] = {}
    for name in paths.split(","):
        path = Place(name.strip(), settings)
        kind, _ = path.info()
        if kind == "file":
            found[path.real()] = path
            continue
        if kind == "nothing":
            raise Unreadable(f"{path} does not exist")
        for folder in [path, *(each for each in path.children() if _FOLDER.search(each.name))]:
            found |= {file.real(): file for file in live(folder)}
    return sorted(found.values())


def live(folder: Place) -> list[Place]:
    """The segments of a partition's folder that count, as a broker finds them when it starts (Kafka's
    `LogLoader.removeTempFilesAndCollectSwapFiles`): what was to be deleted or was not wholly cleaned does not; a
    segment that was cleaned but not yet put in place (`.swap`) counts instead of those it has the offsets of, unless
    cleaning of what comes at or before it was not finished."""
    files = [file for file in folder.children() if _SEGMENT.match(file.name)]
    unfinished = min((_base(file) for file in files if file.name.endswith(".cleaned")), default=None)
    swaps = [file for file in files if file.name.endswith(".log.swap")]
    if unfinished is not None:
        swaps = [file for file in swaps if _base(file) < unfinished]
    plain = [file for file in files if file.name.removesuffix(".gz").removesuffix(".zst").endswith(".log")]
    if swaps:
        first, after = min(map(_base, swaps)), max(map(_next_offset, swaps))
        plain = [file for file in plain if not first <= _base(file) < after]
    return sorted([*plain, *swaps], key=_base)


def _base(file: Place) -> int:
    return int(file.name.partition(".")[0])


def _next_offset(file: Place) -> int:
    """The log offset after a segment's last batch."""
    after = _base(file)
    if file.size():
        data = file.content()
        for found in batches.walk(data, 0, len(data)):
            if isinstance(found, batches.Batches):
                after = int(found.header["base_offset"][-1]) + int(found.header["last_offset_delta"][-1]) + 1
    return after


def log_of(path: Place) -> str:
    """The log a segment is of, the same for all copies of it: the id of the topic, which brokers keep beside it, and
    the partition; without an id the folder's name, and without a number its path."""
    folder = path.parent
    if partition_of(path) is None:
        return folder.real()
    topic = _TOPIC_ID.search(path.beside("partition.metadata").text() or "")
    return f"{folder.name} {topic[1]}" if topic is not None else folder.name


def dense_from(path: Place) -> int:
    """The log offset from which on no offset may be missing: what a broker has never cleaned. Where the broker has
    kept no account of it beside the folder, that is the segment it appended to."""
    if not _SEGMENT.match(path.name):
        return 0
    last = max(_base(file) for file in live(path.parent))
    cleaned = _checkpoint(path.parent, "cleaner-offset-checkpoint")
    return last if cleaned is None else min(last, cleaned)


def _following(path: Place) -> int | None:
    """The log offset that comes after a segment, as the next one or the broker's account of what was committed has
    it; None if nobody knows."""
    if not _SEGMENT.match(path.name):
        return None
    later = [_base(file) for file in live(path.parent) if _base(file) > _base(path)]
    return min(later) if later else _checkpoint(path.parent, "replication-offset-checkpoint")


def _checkpoint(folder: Place, name: str) -> int | None:
    """What a file of the broker's has for this partition: offsets of all its partitions, after two lines."""
    for line in (folder.beside(name).text() or "").splitlines()[2:]:
        topic, _, rest = line.partition(" ")
        number, _, offset = rest.partition(" ")
        if f"{topic}-{number}" == folder.name and offset.isdigit():
            return int(offset)
    return None


def partition_of(path: Place) -> int | None:
    """The partition of `__consumer_offsets` a segment is of, by its folder's name."""
    found = _FOLDER.search(path.parent.name)
    return None if found is None else int(found[1])


def parts(path: Place, split_bytes: int) -> list[Part]:
    """A segment in parts of at least `split_bytes` that begin where batches begin.

    Boundaries come from the segment's offset index, which has an entry for about every 4 KiB, if it fits the segment;
    else the headers of all batches are walked. What is packed or in a store is read as a whole, by one task.
    """
    size = path.size()
    if not size:
        return []
    dense, following = dense_from(path), _following(path)
    if size <= split_bytes or path.is_packed or not path.is_local:
        return [Part(path.address, 0, size, size, dense, following)]
    data = path.content()
    assert isinstance(data, mmap.mmap)
    with data:
        starts = _indexed(path, data, split_bytes) or batches.split(data, split_bytes)
        offsets = [_BATCH_START.unpack_from(data, start)[0] for start in starts[1:]]
    ends = [*starts[1:], size]
    return [
        Part(path.address, start, end, size, dense, after)
        for start, end, after in zip(starts, ends, [*offsets, following], strict=True)
    ]


def _indexed(path: Place, data: mmap.mmap, split_bytes: int) -> list[int] | None:
    index = Path(path.address).with_suffix(".index")
    if not path.name.endswith(".log") or not index.is_file():
        return None
    raw = index.read_bytes()
    starts = [0]
    base = _BATCH_START.unpack_from(data, 0)[0]
    for last_delta, position in _INDEX_ENTRY.iter_unpack(raw[: len(raw) // _INDEX_ENTRY.size * _INDEX_ENTRY.size]):
        if position <= starts[-1] or position + _MAGIC_AT >= len(data):
            # A broker makes the file longer than it needs, of zeroes.
            continue
        if position - starts[-1] >= split_bytes:
            offset, _ = _BATCH_START.unpack_from(data, position)
            if data[position + _MAGIC_AT] != MAGIC or not base <= offset <= _base(path) + last_delta:
                return None
            starts.append(position)
    return starts if len(starts) > 1 else None


class OffsetsLog(DataSource):
    """`spark.read.format("kafka_offsets_log")`."""

    @classmethod
    def name(cls) -> str:
        return "kafka_offsets_log"

    def schema(self) -> str:
        if self._records() != "commits":
            return LOG_RECORDS.ddl
        return LOG_RECORDS._replace(columns=tuple(each for each in LOG_RECORDS.columns if each.name in COMMITS)).ddl

    def reader(self, schema: StructType) -> OffsetsLogReader:
        paths = self.options.get("path")
        if not paths:
            raise ValueError("kafka_offsets_log needs a path")
        split_bytes = int(self.options.get("splitBytes", SPLIT_BYTES))
        return OffsetsLogReader(paths, split_bytes, settings_of(self.options), self._records())

    def _records(self) -> str:
        found = str(self.options.get("records", ""))
        if found not in _CHOICES:
            raise ValueError(f"option records is one of {', '.join(_CHOICES[1:])}, not {found}")
        return found


class OffsetsLogReader(DataSourceReader):
    """Plans and reads the parts."""

    def __init__(self, paths: str, split_bytes: int, settings: Settings = (), which: str = "") -> None:
        self.paths = paths
        self.split_bytes = split_bytes
        self.settings = settings
        self.which = which

    def partitions(self) -> Sequence[InputPartition]:
        planned = [part for path in segments(self.paths, self.settings) for part in parts(path, self.split_bytes)]
        return [InputPartition(tuple(map(tuple, group))) for group in grouped(planned, self.split_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for part in partition.value:
            for rows in read_part(Part(*part), self.settings):
                yield chosen(rows, self.which)


def grouped(planned: list[Part], size: int) -> Iterator[list[Part]]:
    """Small parts together, so that a broker's fifty nearly empty partitions are not fifty tasks. One at least: Spark
    asks for it."""
    group: list[Part] = []
    total = 0
    for part in planned:
        if group and total + part.end - part.start > size:
            yield group
            group, total = [], 0
        group.append(part)
        total += part.end - part.start
    yield group


def read_part(part: Part, settings: Settings = ()) -> Iterator[pa.RecordBatch]:
    """The rows of one part of a segment. Raises `Unreadable`."""
    path = Place(part.path, settings)
    if path.size() < part.size:
        raise Unreadable(f"{path} is another file here than where the work was planned: it is shorter")
    source = records.Source(part.path, partition_of(path), log_of(path))
    data = path.content()
    expected: int | None = None
    for found in batches.walk(data, part.start, len(data) if path.is_packed else part.end):
        if isinstance(found, batches.Damage):
            expected = None
            yield records.damage(source, *found)
            continue
        if part.dense is not None:
            yield from _missing(source, found, part.dense, expected)
        expected = int(found.header["base_offset"][-1]) + int(found.header["last_offset_delta"][-1]) + 1
        yield from records.decode(found, source)
    if part.dense is None or part.following is None or expected is None:
        return
    if part.dense <= expected < part.following:
        yield records.gap(source, part.end, expected, part.following - 1)


def chosen(rows: pa.RecordBatch, which: str) -> pa.RecordBatch:
    """The rows and columns that option `records` asks for."""
    if not which:
        return rows
    sound, kind = pc.is_null(rows["reason"]), pc.fill_null(pc.equal(rows["kind"], "OffsetCommit"), False)
    if which == "others":
        return rows.filter(pc.invert(pc.and_(sound, kind)))
    kept = pc.and_(sound, pc.or_(kind, pc.is_valid(rows["control"])))
    return rows.filter(kept).select([name for name in rows.schema.names if name in COMMITS])


def _missing(
    source: records.Source, found: batches.Batches, dense: int, expected: int | None
) -> Iterator[pa.RecordBatch]:
    """What is missing before and between these batches."""
    first = found.header["base_offset"].astype(np.int64)
    after = first + found.header["last_offset_delta"] + 1
    before = np.append(first[0] if expected is None else expected, after[:-1])
    for index in np.flatnonzero((first > before) & (before >= dense)).tolist():
        yield records.gap(source, int(found.positions[index]), int(before[index]), int(first[index]) - 1)
