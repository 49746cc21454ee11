"""Source `kafka_offsets_log`: log segments of `__consumer_offsets` from a broker's disk, one row a record.

The path is a segment, a partition's folder (`__consumer_offsets-7`), a broker's log folder, or several of these
separated by commas, on this machine or in a store (`places.py`). Every worker must be able to read the same path. Rows
are those of `LOG_RECORDS` in `schemas.py`; a row with a `reason` stands for unreadable bytes or missing
records.

Options: `splitBytes` (16 MiB), the least size of a task's part of a segment; `records`, the rows to read (default:
all): `commits`, committed offsets and ends of transactions with the few columns that their history needs, or `others`,
all but committed offsets. Reading twice costs less than reading every column of nearly all rows.
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
SEGMENT: Final = re.compile(r"^\d+\.log(\.|$)")
_TOPIC_ID: Final = re.compile(r"^topic_id: (\S+)$", re.MULTILINE)
_INDEX_ENTRY: Final = Struct(">ii")
_MAGIC_AT: Final = 16
_BATCH_START: Final = Struct(">qi")


COMMITS: Final = (
    *("log", "offsets_partition", "record_offset", "timestamp", "kind", "tombstone", "group_id", "topic", "partition"),
    *("committed_offset", "producer_id", "transactional", "control", "reason"),
)
"""The columns of rows with option `records` `commits`."""
_CHOICES: Final = ("", "commits", "others")


class Part(NamedTuple):
    """A part of a segment for one task: the batches that begin in [start, end) of a segment of size `size`.

    From log offset `dense` on, no offset may be missing. `following` is the base offset of the next batch after the
    part. Both are None if unknown.
    """

    path: str
    start: int
    end: int
    size: int = 0
    dense: int | None = None
    following: int | None = None


def segments(paths: str, settings: Settings = ()) -> list[Place]:
    """Return the segments at these paths, in order, each once. Raises `Unreadable`."""
    by_path: dict[str, Place] = {}
    for name in paths.split(","):
        path = Place(name.strip(), settings)
        kind, _ = path.info()
        if kind == "file":
            by_path[path.real()] = path
            continue
        if kind == "nothing":
            raise Unreadable(f"{path} does not exist")
        for folder in [path, *(each for each in path.children() if _FOLDER.search(each.name))]:
            by_path |= {file.real(): file for file in live(folder)}
    return sorted(by_path.values())


def live(folder: Place) -> list[Place]:
    """Return the segments of a partition's folder that a starting broker would load.

    As Kafka's `LogLoader.removeTempFilesAndCollectSwapFiles`: deleted files and files of unfinished cleaning do not
    count. A `.swap` segment, cleaned but not yet renamed, counts instead of the segments whose offsets it covers,
    unless a `.cleaned` file at or before its offset shows that the cleaning did not finish.
    """
    files = [file for file in folder.children() if SEGMENT.match(file.name)]
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
    """Return the log offset after a segment's last batch."""
    after = _base(file)
    if file.size():
        data = file.content()
        for piece in batches.walk(data, 0, len(data)):
            if isinstance(piece, batches.Batches):
                after = int(piece.header["base_offset"][-1]) + int(piece.header["last_offset_delta"][-1]) + 1
    return after


def log_of(path: Place) -> str:
    """Return the identity of a segment's log, the same for all copies of the log.

    It is the topic id, which brokers keep beside the segment, and the partition. Without an id it is the folder's name;
    without a partition number, the folder's path.
    """
    folder = path.parent
    if partition_of(path) is None:
        return folder.real()
    topic = _TOPIC_ID.search(path.beside("partition.metadata").text() or "")
    return f"{folder.name} {topic[1]}" if topic is not None else folder.name


def dense_from(path: Place) -> int:
    """Return the log offset from which on no offset may be missing: the part of the log that was never cleaned.

    Without a cleaner checkpoint beside the folder, that is only the active segment.
    """
    if not SEGMENT.match(path.name):
        return 0
    last = max(_base(file) for file in live(path.parent))
    cleaned = _checkpoint(path.parent, "cleaner-offset-checkpoint")
    return last if cleaned is None else min(last, cleaned)


def _following(path: Place) -> int | None:
    """Return the log offset after a segment: that of the next segment, or the broker's checkpoint; None if unknown."""
    if not SEGMENT.match(path.name):
        return None
    later = [_base(file) for file in live(path.parent) if _base(file) > _base(path)]
    return min(later) if later else _checkpoint(path.parent, "replication-offset-checkpoint")


def _checkpoint(folder: Place, name: str) -> int | None:
    """Return the offset of this partition in a checkpoint file of the broker: two lines, then a line per partition."""
    for line in (folder.beside(name).text() or "").splitlines()[2:]:
        topic, _, rest = line.partition(" ")
        number, _, offset = rest.partition(" ")
        if f"{topic}-{number}" == folder.name and offset.isdigit():
            return int(offset)
    return None


def partition_of(path: Place) -> int | None:
    """Return the partition of `__consumer_offsets` of a segment, by the name of its folder."""
    match = _FOLDER.search(path.parent.name)
    return None if match is None else int(match[1])


def parts(path: Place, split_bytes: int) -> list[Part]:
    """Split a segment into parts of at least `split_bytes` that begin where batches begin.

    Boundaries come from the offset index of the segment, which has an entry about every 4 KiB, if it fits the segment;
    else from the headers of all batches. A compressed segment, or one in a store, is one part.
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
            # Brokers allocate the index file in advance and fill it with zeroes.
            continue
        if position - starts[-1] >= split_bytes:
            offset, _ = _BATCH_START.unpack_from(data, position)
            if data[position + _MAGIC_AT] != MAGIC or not base <= offset <= _base(path) + last_delta:
                return None
            starts.append(position)
    return starts if len(starts) > 1 else None


class OffsetsLog(DataSource):
    """The data source of `spark.read.format("kafka_offsets_log")`."""

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
        choice = str(self.options.get("records", ""))
        if choice not in _CHOICES:
            raise ValueError(f"option records is one of {', '.join(_CHOICES[1:])}, not {choice}")
        return choice


class OffsetsLogReader(DataSourceReader):
    """Reader of the source: plans the parts and reads them."""

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
    """Group small parts, so that a broker's fifty nearly empty partitions are not fifty tasks.

    Yields at least one group, which may be empty: Spark needs one.
    """
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
    """Read the rows of one part of a segment. Raises `Unreadable`."""
    path = Place(part.path, settings)
    if path.size() < part.size:
        raise Unreadable(f"{path} is shorter on this machine than on the one that planned the work")
    source = records.Source(part.path, partition_of(path), log_of(path))
    data = path.content()
    expected: int | None = None
    for piece in batches.walk(data, part.start, len(data) if path.is_packed else part.end):
        if isinstance(piece, batches.Damage):
            expected = None
            yield records.damage(source, *piece)
            continue
        if part.dense is not None:
            yield from _missing(source, piece, part.dense, expected)
        expected = int(piece.header["base_offset"][-1]) + int(piece.header["last_offset_delta"][-1]) + 1
        yield from records.decode(piece, source)
    if part.dense is None or part.following is None or expected is None:
        return
    if part.dense <= expected < part.following:
        yield records.gap(source, part.end, expected, part.following - 1)


def chosen(rows: pa.RecordBatch, which: str) -> pa.RecordBatch:
    """Select the rows and columns of option `records`."""
    if not which:
        return rows
    sound, kind = pc.is_null(rows["reason"]), pc.fill_null(pc.equal(rows["kind"], "OffsetCommit"), False)
    if which == "others":
        return rows.filter(pc.invert(pc.and_(sound, kind)))
    mask = pc.and_(sound, pc.or_(kind, pc.is_valid(rows["control"])))
    return rows.filter(mask).select([name for name in rows.schema.names if name in COMMITS])


def _missing(
    source: records.Source, sound: batches.Batches, dense: int, expected: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each gap before and between these batches."""
    first = sound.header["base_offset"].astype(np.int64)
    after = first + sound.header["last_offset_delta"] + 1
    before = np.append(first[0] if expected is None else expected, after[:-1])
    for index in np.flatnonzero((first > before) & (before >= dense)).tolist():
        yield records.gap(source, int(sound.positions[index]), int(before[index]), int(first[index]) - 1)
