"""Log segments in a partition's folder, as a broker keeps them: `.log`, `.index`, `.timeindex` and the small files.

Reads damaged and unfinished files as far as possible, and writes complete ones.

- `.log`: record batches one after the other, named after the offset of the first.
- `.index`: pairs of int32, offset (less the file's) and position, about one for every 4 KiB of log.
- `.timeindex`: int64 timestamp and int32 offset (less the file's): no older record comes after that offset.
- `leader-epoch-checkpoint`: the first offset of each leader epoch. `partition.metadata`: the topic's id.

Sources: Kafka's documentation of its log; KIP-33 for the time index, KIP-101 for leader epochs, KIP-516 for topic ids.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from kafka_shim.persistence.batch import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    OVERHEAD,
    Batch,
    CorruptBatch,
    Record,
    read_batch,
    write_batch,
)
from kafka_shim.persistence.files import new_file

INDEX_INTERVAL: Final = 4096
"""index.interval.bytes: least number of bytes of log between two index entries."""
SEGMENT_BYTES: Final = 104_857_600
"""offsets.topic.segment.bytes: a batch that would make a segment larger than this begins the next segment."""

_RELEASED: Final = 32 * 1024 * 1024
"""Bytes of a segment that are in memory at most."""
_START: Final = Struct(">qi")
_INDEX_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_SUFFIXES: Final = (".log.swap", ".log")


class Problem(NamedTuple):
    """An unusable part of a file: its position in the file, and its offset in the log, None if unknown."""

    path: Path
    position: int | None
    offset: int | None
    reason: str

    def __str__(self) -> str:
        at = "" if self.position is None else f", byte {self.position}"
        of = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.path}{at}{of}: {self.reason}"


def read_segment(path: Path, report: Callable[[Problem], None]) -> Iterator[tuple[Batch, list[Record]]]:
    """Yield the batches of a `.log` file with their records; see `batches_of`. A batch with unreadable records is
    reported and skipped.
    """
    for position, batch in batches_of(path, report):
        try:
            records = batch.records()
        except CorruptBatch as error:
            report(Problem(path, position, error.offset, error.reason))
        else:
            yield batch, records


def batches_of(path: Path, report: Callable[[Problem], None]) -> Iterator[tuple[int, Batch]]:
    """Yield the batches of a `.log` file, not decoded, each with its position.

    Unreadable data is reported and skipped: only the damaged batch if its length is plausible, else the rest of the
    file. An incomplete last batch, as a crash leaves it, is reported too.
    """
    with path.open("rb") as file:
        if file.seek(0, 2) == 0:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            position = released = 0
            while position < len(data):
                try:
                    batch_and_end = read_batch(data, position)
                    if batch_and_end is None:
                        report(Problem(path, position, None, "the file ends within a batch"))
                        return
                    batch, end = batch_and_end
                except CorruptBatch as error:
                    following = _following(data, position)
                    if following is None:
                        reason = error.reason if data[position:].strip(b"\0") else "only zeroes from here on"
                        report(Problem(path, position, error.offset, reason))
                        return
                    report(Problem(path, position, error.offset, error.reason))
                    position = following
                    continue
                yield position, batch
                position = end
                if position - released >= _RELEASED and hasattr(mmap, "MADV_DONTNEED"):
                    # Pages of a file count as memory of this process until then.
                    released = position // mmap.PAGESIZE * mmap.PAGESIZE
                    data.madvise(mmap.MADV_DONTNEED, 0, released)


def _following(data: mmap.mmap, position: int) -> int | None:
    """Return the end of a damaged batch by its own length, if the file ends there or a later batch seems to begin
    there.
    """
    offset, length = _START.unpack_from(data, position)
    end: int = position + OVERHEAD + length
    if length < 0 or end > len(data):
        return None
    if end < len(data):
        if end + HEADER_SIZE > len(data):
            return None
        next_offset, next_length = _START.unpack_from(data, end)
        if data[end + MAGIC_AT] != MAGIC or next_offset <= offset or next_length < HEADER_SIZE - OVERHEAD:
            return None
    return end


def read_partition(folder: Path, report: Callable[[Problem], None]) -> Iterator[tuple[Batch, list[Record]]]:
    """Yield the batches of a partition's folder, segment by segment.

    Files that a broker was about to delete or had not finished cleaning are ignored. A cleaned segment that was not yet
    renamed (`.swap`) comes before the segment that it replaces, so batches may come twice.
    """
    for path in segments_of(folder):
        yield from read_segment(path, report)


def segments_of(folder: Path) -> list[Path]:
    """Return the segments of a partition's folder, in the order of `read_partition`."""
    segments = [path for path in folder.iterdir() if path.name.endswith(_SUFFIXES)]
    return sorted(segments, key=lambda path: (path.name.split(".")[0], not path.name.endswith(".swap")))


class PartitionWriter:
    """Writes a partition's folder from its first record to its last, in the state of a broker that was shut down
    cleanly.

    `leader_epoch` is set in every batch. `topic_id`, in Kafka's base64 form, goes to `partition.metadata`; a broker
    treats a folder without it as stray.
    """

    def __init__(
        self,
        folder: Path,
        *,
        codec: str = "none",
        topic_id: str | None = None,
        leader_epoch: int = 0,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.folder = folder
        self.codec = codec
        self.leader_epoch = leader_epoch
        self.segment_bytes = segment_bytes
        folder.mkdir(parents=True)
        (folder / "leader-epoch-checkpoint").write_text(f"0\n1\n{leader_epoch} 0\n")
        if topic_id is not None:
            (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
        self._segment = _Segment(folder, 0)

    def append(self, records: list[Record]) -> None:
        """Write records as one batch; their offsets follow those of the batch before."""
        data = write_batch(records, codec=self.codec, leader_epoch=self.leader_epoch)
        if self._segment.size and self._segment.size + len(data) > self.segment_bytes:
            self._segment.close()
            self._segment = _Segment(self.folder, records[0].offset)
        self._segment.append(data, records[-1].offset, max(record.timestamp for record in records))

    def close(self) -> None:
        """Finish the last segment."""
        self._segment.close()


class _Segment:
    """The three files of one segment, as Kafka's LogSegment writes them."""

    def __init__(self, folder: Path, base_offset: int) -> None:
        name = f"{base_offset:020d}"
        self.base_offset = base_offset
        self.size = 0
        self._log = new_file(folder / f"{name}.log")
        self._index = new_file(folder / f"{name}.index")
        self._time_index = new_file(folder / f"{name}.timeindex")
        self._since_entry = 0
        self._newest = (-1, base_offset)
        self._indexed = -1

    def append(self, data: bytes, last_offset: int, max_timestamp: int) -> None:
        self._log.write(data)
        if max_timestamp > self._newest[0]:
            self._newest = (max_timestamp, last_offset)
        if self._since_entry > INDEX_INTERVAL:
            self._index.write(_INDEX_ENTRY.pack(last_offset - self.base_offset, self.size))
            self._index_time()
            self._since_entry = 0
        self._since_entry += len(data)
        self.size += len(data)

    def _index_time(self) -> None:
        timestamp, offset = self._newest
        if timestamp > self._indexed:
            self._time_index.write(_TIME_ENTRY.pack(timestamp, offset - self.base_offset))
            self._indexed = timestamp

    def close(self) -> None:
        self._index_time()
        for file in (self._log, self._index, self._time_index):
            file.close()
