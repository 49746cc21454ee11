"""Source `kafka_offsets_log`: segments of `__consumer_offsets` as a broker keeps them, one row a record.

Decides which files are read and how they are split into tasks. The path is a segment, a partition's folder
(`__consumer_offsets-7`), a broker's log folder, or several of these separated by commas. Files must be readable under
the same path on every worker. Rows are those of `LOG_RECORDS` in `schemas.py`; a row whose `reason` is not null stands
for bytes that could not be read.

Options: `splitBytes` (16 MiB), the least size of a task's part of a segment.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafka_shim.persistence.batch import MAGIC
from kafka_shim.pipeline.decode import batches, records
from kafka_shim.pipeline.schemas import LOG_RECORDS

SPLIT_BYTES: Final = 16 << 20

_FOLDER: Final = re.compile(r"__consumer_offsets-(\d+)$")
_SEGMENT: Final = re.compile(r"\d+\.(log|index|timeindex|txnindex)(\.|$)")
_TOPIC_ID: Final = re.compile(r"^topic_id: (\S+)$", re.MULTILINE)
_INDEX_ENTRY: Final = Struct(">ii")
_MAGIC_AT: Final = 16
_BATCH_START: Final = Struct(">qi")


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


class Unreadable(Exception):
    """A path that cannot be read; the message is one sentence."""


def segments(paths: str) -> list[Path]:
    """The segments at these paths, in order, each once. Raises FileNotFoundError."""
    found: dict[Path, Path] = {}
    for name in paths.split(","):
        path = Path(name.strip().removeprefix("file:"))
        if path.is_file():
            found[path.resolve()] = path
            continue
        if not path.is_dir():
            raise FileNotFoundError(f"{path} is neither a segment nor a folder")
        folders = [path, *(folder for folder in path.iterdir() if folder.is_dir() and _FOLDER.search(folder.name))]
        for folder in folders:
            found |= {file.resolve(): file for file in live(folder)}
    return sorted(found.values())


def live(folder: Path) -> list[Path]:
    """The segments of a partition's folder that count, as a broker finds them when it starts (Kafka's
    `LogLoader.removeTempFilesAndCollectSwapFiles`): what was to be deleted or was not wholly cleaned does not; a
    segment that was cleaned but not yet put in place (`.swap`) counts instead of those it has the offsets of, unless
    cleaning of what comes at or before it was not finished."""
    files = [file for file in folder.iterdir() if file.is_file() and _SEGMENT.match(file.name)]
    unfinished = min((_base(file) for file in files if file.name.endswith(".cleaned")), default=None)
    swaps = [file for file in files if file.name.endswith(".log.swap")]
    if unfinished is not None:
        swaps = [file for file in swaps if _base(file) < unfinished]
    plain = [file for file in files if file.suffix == ".log"]
    if swaps:
        first, after = min(map(_base, swaps)), max(map(_next_offset, swaps))
        plain = [file for file in plain if not first <= _base(file) < after]
    return sorted([*plain, *swaps], key=_base)


def _base(file: Path) -> int:
    return int(file.name.partition(".")[0])


def _next_offset(file: Path) -> int:
    """The log offset after a segment's last batch."""
    after = _base(file)
    with file.open("rb") as opened:
        if opened.seek(0, 2):
            with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
                for found in batches.walk(data, 0, len(data)):
                    if isinstance(found, batches.Batches):
                        header = found.header[-1]
                        after = int(header["base_offset"]) + int(header["last_offset_delta"]) + 1
    return after


def log_of(path: Path) -> str:
    """The log a segment is of, the same for all copies of it: the id of the topic, which brokers keep beside it, and
    the partition; without an id the folder's name, and without a number its path."""
    if partition_of(path) is None:
        return str(path.parent.resolve())
    with contextlib.suppress(OSError):
        topic = _TOPIC_ID.search((path.parent / "partition.metadata").read_text())
        if topic is not None:
            return f"{path.parent.name} {topic[1]}"
    return path.parent.name


def dense_from(path: Path) -> int:
    """The log offset from which on no offset may be missing: what a broker has never cleaned. Where the broker has
    kept no account of it beside the folder, that is the segment it appended to."""
    if not _SEGMENT.match(path.name):
        return 0
    last = max(_base(file) for file in live(path.parent))
    cleaned = _checkpoint(path.parent, "cleaner-offset-checkpoint")
    return last if cleaned is None else min(last, cleaned)


def _following(path: Path) -> int | None:
    """The log offset that comes after a segment, as the next one or the broker's account of what was committed has
    it; None if nobody knows."""
    if not _SEGMENT.match(path.name):
        return None
    later = [_base(file) for file in live(path.parent) if _base(file) > _base(path)]
    return min(later) if later else _checkpoint(path.parent, "replication-offset-checkpoint")


def _checkpoint(folder: Path, name: str) -> int | None:
    """What a file of the broker's has for this partition: offsets of all its partitions, after two lines."""
    with contextlib.suppress(OSError, ValueError):
        for line in (folder.parent / name).read_text().splitlines()[2:]:
            topic, number, offset = line.split(" ")
            if f"{topic}-{number}" == folder.name:
                return int(offset)
    return None


def partition_of(path: Path) -> int | None:
    """The partition of `__consumer_offsets` a segment is of, by its folder's name."""
    found = _FOLDER.search(path.parent.name)
    return None if found is None else int(found[1])


def parts(path: Path, split_bytes: int) -> list[Part]:
    """A segment in parts of at least `split_bytes` that begin where batches begin.

    Boundaries come from the segment's offset index, which has an entry for about every 4 KiB, if it fits the segment;
    else the headers of all batches are walked.
    """
    size = path.stat().st_size
    if not size:
        return []
    dense = dense_from(path)
    if size <= split_bytes:
        return [Part(str(path), 0, size, size, dense, _following(path))]
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        starts = _indexed(path, data, split_bytes) or batches.split(data, split_bytes)
        offsets = [_BATCH_START.unpack_from(data, start)[0] for start in starts[1:]]
    ends = [*starts[1:], size]
    return [
        Part(str(path), start, end, size, dense, following)
        for start, end, following in zip(starts, ends, [*offsets, _following(path)], strict=True)
    ]


def _indexed(path: Path, data: mmap.mmap, split_bytes: int) -> list[int] | None:
    index = path.with_suffix(".index")
    if path.suffix != ".log" or not index.is_file():
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
            if data[position + _MAGIC_AT] != MAGIC or not base <= offset <= int(path.stem) + last_delta:
                return None
            starts.append(position)
    return starts if len(starts) > 1 else None


class OffsetsLog(DataSource):
    """`spark.read.format("kafka_offsets_log")`."""

    @classmethod
    def name(cls) -> str:
        return "kafka_offsets_log"

    def schema(self) -> str:
        return LOG_RECORDS.ddl

    def reader(self, schema: StructType) -> OffsetsLogReader:
        paths = self.options.get("path")
        if not paths:
            raise ValueError("kafka_offsets_log needs a path")
        return OffsetsLogReader(paths, int(self.options.get("splitBytes", SPLIT_BYTES)))


class OffsetsLogReader(DataSourceReader):
    """Plans and reads the parts."""

    def __init__(self, paths: str, split_bytes: int) -> None:
        self.paths = paths
        self.split_bytes = split_bytes

    def partitions(self) -> Sequence[InputPartition]:
        planned = [part for path in segments(self.paths) for part in parts(path, self.split_bytes)]
        return [InputPartition(tuple(map(tuple, group))) for group in grouped(planned, self.split_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for part in partition.value:
            yield from read_part(Part(*part))


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


def read_part(part: Part) -> Iterator[pa.RecordBatch]:
    """The rows of one part of a segment. Raises `Unreadable`."""
    path = Path(part.path)
    try:
        file = path.open("rb")
    except OSError as error:
        raise Unreadable(f"{path} cannot be read here: {error.strerror}") from error
    with file:
        if os.fstat(file.fileno()).st_size < part.size:
            raise Unreadable(f"{path} is another file here than where the work was planned: it is shorter")
        source = records.Source(part.path, partition_of(path), log_of(path))
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            expected: int | None = None
            for found in batches.walk(data, part.start, part.end):
                if isinstance(found, batches.Damage):
                    expected = None
                    yield records.damage(source, *found)
                    continue
                if part.dense is not None:
                    yield from _missing(source, found, part.dense, expected)
                expected = int(found.header["base_offset"][-1]) + int(found.header["last_offset_delta"][-1]) + 1
                yield from records.decode(found, source)
            if None not in (part.dense, part.following, expected) and part.dense <= expected < part.following:  # type: ignore[operator]
                yield records.gap(source, part.end, expected, part.following - 1)  # type: ignore[operator, arg-type]


def _missing(
    source: records.Source, found: batches.Batches, dense: int, expected: int | None
) -> Iterator[pa.RecordBatch]:
    """What is missing before and between these batches."""
    first = found.header["base_offset"].astype(np.int64)
    after = first + found.header["last_offset_delta"] + 1
    before = np.append(first[0] if expected is None else expected, after[:-1])
    for index in np.flatnonzero((first > before) & (before >= dense)).tolist():
        yield records.gap(source, int(found.positions[index]), int(before[index]), int(first[index]) - 1)
