"""Source `kafka_offsets_log`: segments of `__consumer_offsets` as a broker keeps them, one row a record.

Decides which files are read and how they are split into tasks. The path is a segment, a partition's folder
(`__consumer_offsets-7`), a broker's log folder, or several of these separated by commas. Files must be readable under
the same path on every worker. Rows are those of `LOG_RECORDS` in `schemas.py`; a row whose `reason` is not null stands
for bytes that could not be read.

Options: `splitBytes` (16 MiB), the least size of a task's part of a segment.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafka_shim.persistence.batch import MAGIC
from kafka_shim.pipeline.decode import batches, records
from kafka_shim.pipeline.schemas import LOG_RECORDS

SPLIT_BYTES: Final = 16 << 20

_FOLDER: Final = re.compile(r"__consumer_offsets-(\d+)$")
_SUFFIXES: Final = (".log", ".log.swap")
_INDEX_ENTRY: Final = Struct(">ii")
_MAGIC_AT: Final = 16
_BATCH_START: Final = Struct(">qi")


class Part(NamedTuple):
    """What one task reads: the batches that begin in [start, end) of a segment."""

    path: str
    start: int
    end: int


def segments(paths: str) -> list[Path]:
    """The segments at these paths, in order. What a broker was about to delete (`.deleted`) or had not finished
    cleaning (`.cleaned`) is left alone. Raises FileNotFoundError."""
    found: list[Path] = []
    for name in paths.split(","):
        path = Path(name.strip().removeprefix("file:"))
        if path.is_file():
            found.append(path)
            continue
        if not path.is_dir():
            raise FileNotFoundError(f"{path} is neither a segment nor a folder")
        folders = [path, *(folder for folder in path.iterdir() if folder.is_dir() and _FOLDER.search(folder.name))]
        found += [file for folder in folders for file in folder.iterdir() if file.name.endswith(_SUFFIXES)]
    return sorted(found)


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
    if size <= split_bytes:
        return [Part(str(path), 0, size)] if size else []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        starts = _indexed(path, data, split_bytes) or batches.split(data, split_bytes)
    return [Part(str(path), start, end) for start, end in zip(starts, [*starts[1:], size], strict=True)]


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
        return [InputPartition(tuple(group)) for group in grouped(planned, self.split_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for path, start, end in partition.value:
            yield from read_part(Part(path, start, end))


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
    """The rows of one part of a segment."""
    path = Path(part.path)
    number = partition_of(path)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for found in batches.walk(data, part.start, part.end):
            if isinstance(found, batches.Damage):
                yield records.damage(part.path, number, *found)
            else:
                yield from records.decode(found, part.path, number)
