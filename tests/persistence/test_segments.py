"""Log segments: files of a broker, and incomplete files."""

from pathlib import Path
from struct import iter_unpack

import pytest

from kafka_shim.persistence.batch import Record, write_batch
from kafka_shim.persistence.segments import PartitionWriter, Problem, read_partition, read_segment


def records(first: int, count: int, size: int = 10) -> list[Record]:
    return [Record(first + n, 1000 + first + n, b"k%d" % n, b"v" * size) for n in range(count)]


def read(path: Path) -> tuple[list[int], list[Problem]]:
    """Return the offsets that could be read, and the problems."""
    problems: list[Problem] = []
    reader = read_segment if path.is_file() else read_partition
    return [record.offset for _, records in reader(path, problems.append) for record in records], problems


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A segment of three batches of three records."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(write_batch(records(first, 3)) for first in (0, 3, 6)))
    return path


def test_a_complete_segment_is_read(segment: Path) -> None:
    assert read(segment) == (list(range(9)), [])


def test_an_empty_segment_has_no_records(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.touch()
    assert read(path) == ([], [])


@pytest.mark.parametrize("cut", [1, 20, 60, 100])
def test_a_torn_tail_is_reported_and_the_rest_is_read(segment: Path, cut: int) -> None:
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-cut])
    third = len(whole) // 3 * 2
    assert read(segment) == (list(range(6)), [Problem(segment, third, None, "the file ends within a batch")])


def test_zeroes_at_the_end_are_reported(segment: Path) -> None:
    size = segment.stat().st_size
    segment.write_bytes(segment.read_bytes() + bytes(500))
    assert read(segment) == (list(range(9)), [Problem(segment, size, 0, "only zeroes from here on")])


@pytest.mark.parametrize(("at", "rest"), [(0, [3, 4, 5, 6, 7, 8]), (1, [0, 1, 2, 6, 7, 8]), (2, [0, 1, 2, 3, 4, 5])])
def test_one_damaged_batch_is_skipped(segment: Path, at: int, rest: list[int]) -> None:
    data = bytearray(segment.read_bytes())
    start = len(data) // 3 * at
    data[start + 70] ^= 1
    segment.write_bytes(data)
    assert read(segment) == (rest, [Problem(segment, start, at * 3, "the checksum is wrong")])
    assert str(read(segment)[1][0]) == f"{segment}, byte {start}, offset {at * 3}: the checksum is wrong"


def test_a_damaged_length_ends_the_reading(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    start = len(data) // 3
    data[start + 8 : start + 12] = (20).to_bytes(4, "big")
    segment.write_bytes(data)
    offsets, (problem,) = read(segment)
    assert offsets == [0, 1, 2]
    assert (problem.position, problem.offset) == (start, 3)
    assert problem.reason.startswith("a batch of length 20")


def test_a_batch_that_cannot_be_decompressed_is_skipped(tmp_path: Path) -> None:
    from crc32c import crc32c

    broken = bytearray(write_batch(records(3, 3), codec="zstd"))
    broken[61:65] = b"\0\0\0\0"
    broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4, "big")
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(write_batch(records(0, 3)) + broken + write_batch(records(6, 3)))
    offsets, (problem,) = read(path)
    assert offsets == [0, 1, 2, 6, 7, 8]
    assert problem.reason.startswith("zstd data cannot be decompressed")


def test_a_partition_has_the_files_of_a_broker(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-3"
    writer = PartitionWriter(folder, topic_id="AAAAAAAAAAAAAAAAAAAAAg", leader_epoch=4, segment_bytes=40_000)
    for first in range(0, 100, 10):
        writer.append(records(first, 10, size=900))
    writer.close()
    assert read(folder) == (list(range(100)), [])
    assert (folder / "leader-epoch-checkpoint").read_text() == "0\n1\n4 0\n"
    assert (folder / "partition.metadata").read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n"
    names = sorted(path.name for path in folder.iterdir() if path.suffix in (".log", ".index", ".timeindex"))
    assert names == [f"{base:020d}.{kind}" for base in (0, 40, 80) for kind in ("index", "log", "timeindex")]
    for log in sorted(folder.glob("*.log")):
        base = int(log.stem)
        positions = {}
        position = 0
        for batch, _ in read_segment(log, lambda problem: None):
            positions[batch.last_offset - base] = position
            position += len(write_batch(records(batch.base_offset, 10, size=900)))
        entries = list(iter_unpack(">ii", log.with_suffix(".index").read_bytes()))
        # Batches are larger than the index interval, so each but the first has an entry: its last offset and its
        # position.
        assert entries == list(positions.items())[1:]
        times = list(iter_unpack(">qi", log.with_suffix(".timeindex").read_bytes()))
        assert times == [(1000 + base + offset, offset) for offset in list(positions)[1:]]


def test_small_batches_are_indexed_once_per_interval(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    writer = PartitionWriter(folder)
    for first in range(200):
        writer.append(records(first, 1, size=1000))
    writer.close()
    size = len(write_batch(records(0, 1, size=1000)))
    offsets = [offset for offset, _ in iter_unpack(">ii", (folder / f"{0:020d}.index").read_bytes())]
    step = 4096 // size + 1
    assert offsets == list(range(step, 200, step))
    assert not (folder / "partition.metadata").exists()
    times = list(iter_unpack(">qi", (folder / f"{0:020d}.timeindex").read_bytes()))
    assert times[-1] == (1199, 199)


def test_only_current_files_of_a_broker_are_read(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log.deleted").write_bytes(write_batch(records(0, 3)))
    (tmp_path / "00000000000000000000.log.cleaned").write_bytes(write_batch(records(0, 3)))
    (tmp_path / "00000000000000000005.log").write_bytes(write_batch(records(5, 2)))
    (tmp_path / "00000000000000000000.log.swap").write_bytes(write_batch(records(0, 2)))
    assert read(tmp_path) == ([0, 1, 5, 6], [])
