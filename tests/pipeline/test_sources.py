"""The files that count, the gaps, and the unreadable parts of traces and segments."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition

from kafka_shim.persistence.batch import COMMIT, Record, end_marker, write_batch
from kafka_shim.persistence.records import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from kafka_shim.pipeline.sources import in_arrow, shim_trace
from kafka_shim.pipeline.sources.offsets_log import (
    COMMITS,
    OffsetsLogReader,
    Part,
    live,
    log_of,
    parts,
    read_part,
    segments,
)
from kafka_shim.pipeline.sources.places import Place, Unreadable
from kafka_shim.pipeline.tables import traces
from kafka_shim.trace.events import SCHEMA_VERSION

NOW = 1_760_000_000_000


def record(offset: int) -> Record:
    key = OffsetCommitKey("g", "t", 0)
    return Record(offset, NOW + offset, encode_key(key), encode_value(key, OffsetCommitValue(offset, -1, "", NOW)))


def segment(folder: Path, first: int, last: int, suffix: str = ".log", *, without: range = range(0)) -> Path:
    """Write a segment of one record a batch."""
    folder.mkdir(parents=True, exist_ok=True)
    batches = [write_batch([record(offset)]) for offset in range(first, last + 1) if offset not in without]
    path = folder / f"{first:020d}{suffix}"
    path.write_bytes(b"".join(batches))
    return path


def names(paths: list[Place]) -> list[str]:
    return [path.name.lstrip("0") or "0" for path in paths]


def test_segments_count_as_for_a_starting_broker(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-3"
    for first in (0, 10, 20, 30):
        segment(folder, first, first + 9)
    segment(folder, 0, 9, ".log.deleted")
    # A cleaned segment in place of the first two.
    segment(folder, 0, 19, ".log.swap", without=range(2, 18))
    assert names(live(Place(str(folder)))) == [".log.swap", "20.log", "30.log"]
    # The cleaning at or before this offset did not finish: the broker discards both.
    segment(folder, 0, 5, ".log.cleaned")
    assert names(live(Place(str(folder)))) == [".log", "10.log", "20.log", "30.log"]


def test_a_segment_with_two_names_is_read_once(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-3"
    path = segment(folder, 0, 3)
    assert segments(f"{tmp_path},{folder},{path}") == [Place(str(path))]


def test_copies_share_a_log_and_other_clusters_have_their_own(tmp_path: Path) -> None:
    paths = [segment(tmp_path / broker / "__consumer_offsets-3", 0, 3) for broker in "abc"]
    assert len({log_of(Place(str(path))) for path in paths}) == 1
    for path, topic in zip(paths, ("one", "one", "two"), strict=True):
        (path.parent / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic}\n")
    one, other, third = (log_of(Place(str(path))) for path in paths)
    assert one == other != third


def test_commits_and_others_cover_all_rows(tmp_path: Path) -> None:
    """Only ends of transactions are in both."""
    folder = tmp_path / "__consumer_offsets-3"
    path = segment(folder, 0, 3)
    metadata = Record(5, NOW, encode_key(GroupMetadataKey("g")), None)
    damaged = bytearray(write_batch([record(6)]))
    damaged[-1] ^= 1
    marker = write_batch(
        [end_marker(7, NOW, COMMIT)], control=True, transactional=True, producer_id=1, producer_epoch=0
    )
    path.write_bytes(path.read_bytes() + write_batch([metadata]) + damaged + marker)

    def rows(which: str) -> list[tuple[int, str | None]]:
        reader = OffsetsLogReader(str(folder), 1 << 20, which=which)
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        if which == "commits":
            assert all(set(batch.schema.names) == set(COMMITS) for batch in batches)
        return [(row["record_offset"], row["kind"]) for batch in batches for row in batch.to_pylist()]

    commits = [(offset, "OffsetCommit") for offset in range(4)]
    others: list[tuple[int, str | None]] = [(4, "gap"), (5, "GroupMetadata"), (6, None)]
    assert sorted(rows("commits")) == [*commits, (7, "control")]
    assert sorted(rows("others")) == [*others, (7, "control")]
    assert sorted(rows("")) == [*commits, *others, (7, "control")]


def missing(path: Path) -> list[tuple[int, int]]:
    rows = [row for part in parts(Place(str(path)), 200) for batch in read_part(part) for row in batch.to_pylist()]
    return [(row["record_offset"], row["committed_offset"]) for row in rows if row["kind"] == "gap"]


def test_missing_offsets_are_reported_in_the_uncleaned_log(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-3"
    first = segment(folder, 0, 19, without=range(3, 6))
    second = segment(folder, 20, 39, without=range(25, 27))
    # The first may have been compacted; the broker appends to the second.
    assert (missing(first), missing(second)) == ([], [(25, 26)])
    checkpoint = tmp_path / "cleaner-offset-checkpoint"
    checkpoint.write_text("0\n1\n__consumer_offsets 3 2\n")
    assert (missing(first), missing(second)) == ([(3, 5)], [(25, 26)])
    # A whole segment is missing, and the end of the last one.
    third = segment(folder, 60, 64)
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\n__consumer_offsets 3 70\n")
    assert (missing(second), missing(third)) == ([(25, 26), (40, 59)], [(65, 69)])


def test_a_file_that_differs_on_a_worker_is_one_sentence(tmp_path: Path) -> None:
    path = segment(tmp_path / "__consumer_offsets-3", 0, 9)
    (part,) = parts(Place(str(path)), 1 << 20)
    with path.open("r+b") as file:
        file.truncate(100)
    with pytest.raises(Unreadable, match="is shorter on this machine than on the one that planned the work"):
        list(read_part(part))
    path.unlink()
    with pytest.raises(Unreadable, match=r"000\.log cannot be read here: it is not a file"):
        list(read_part(Part(*part)))


def events(folder: Path, numbers: list[int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"event": "member", "seq": seq, "mono": 1.0, "wall": 2.0, "group": "g"}) for seq in numbers]
    (folder / "trace.jsonl").write_text("\n".join(lines) + "\n")


def test_missing_and_repeated_sequence_numbers_are_gaps(spark: SparkSession, tmp_path: Path) -> None:
    events(tmp_path / "whole", list(range(5, 9000)))
    events(tmp_path / "holes", [*range(10), *range(12, 5000), *range(20_000, 20_010)])
    events(tmp_path / "twice", [*range(10), 7, 8])
    rows = spark.read.format("kafka_shim_trace").load(str(tmp_path)).select("trace", "seq")
    gaps = {(row.origin, row.first, row.last, row.reason) for row in traces.gaps(rows).collect()}
    assert gaps == {
        ("holes/trace", 10, 11, "events are missing"),
        ("holes/trace", 5000, 19_999, "events are missing"),
        ("twice/trace", 7, 8, "events are there more than once"),
    }
    shutil.rmtree(tmp_path / "holes")


def test_a_trace_of_a_later_schema_is_refused_in_one_sentence(tmp_path: Path) -> None:
    assert SCHEMA_VERSION in shim_trace.SCHEMAS

    def read(version: object) -> list[str]:
        path = tmp_path / "trace.jsonl"
        path.write_text(json.dumps({"event": "trace", "schema": version, "seq": 0}) + "\n")
        return [
            row["event"]
            for batch in shim_trace.read_part(shim_trace.Part(str(path), 0, path.stat().st_size))
            for row in batch.to_pylist()
        ]

    for version in shim_trace.SCHEMAS:
        assert read(version) == ["trace"]
    with pytest.raises(Unreadable, match="has version 3 of the trace's schema, and this release reads 1 and 2"):
        read(3)


def test_a_compressed_file_counts_its_content_and_is_one_part(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"trace-{number}.jsonl.zst").write_bytes(bytes(100))
    (tmp_path / "trace-6.jsonl").write_bytes(bytes(3000))

    def parts_of(task: InputPartition) -> list[shim_trace.Part]:
        return [shim_trace.Part(*each) for each in task.value]

    tasks = [parts_of(each) for each in shim_trace.ShimTraceReader(str(tmp_path), {"splitBytes": "2000"}).partitions()]
    assert [[(part.start, part.end) for part in parts] for parts in tasks] == [
        *([[(0, 100)] * 2] * 3),
        [(0, 2000)],
        [(2000, 3000)],
    ]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compressed_file_reads_like_its_content(tmp_path: Path, suffix: str) -> None:
    events(tmp_path / "a", list(range(1000)))
    plain = (tmp_path / "a" / "trace.jsonl").read_bytes()
    packed = tmp_path / "b" / f"trace.jsonl{suffix}"
    packed.parent.mkdir()
    with pa.CompressedOutputStream(str(packed), "gzip" if suffix == ".gz" else "zstd") as out:
        out.write(plain)

    def rows(folder: str) -> list[tuple[int, int]]:
        (place,) = shim_trace.files(str(tmp_path / folder))
        part = shim_trace.Part(place.address, 0, place.size())
        return [(row["seq"], row["position"]) for batch in shim_trace.read_part(part) for row in batch.to_pylist()]

    assert rows("b") == rows("a")
    # A truncated file yields its lines and a line that reports the truncation.
    packed.write_bytes(packed.read_bytes()[:-40])
    (place,) = shim_trace.files(str(tmp_path / "b"))
    part = shim_trace.Part(place.address, 0, place.size())
    truncated = [row for batch in shim_trace.read_part(part) for row in batch.to_pylist()]
    assert any(row["unreadable"] for row in truncated)

    log = segment(tmp_path / "__consumer_offsets-3", 0, 9)
    whole = [batch.to_pylist() for part in parts(Place(str(log)), 1 << 20) for batch in read_part(part)]
    with pa.CompressedOutputStream(f"{log}{suffix}", "gzip" if suffix == ".gz" else "zstd") as out:
        out.write(log.read_bytes())
    log.unlink()
    (again,) = segments(str(tmp_path))
    unpacked = [batch.to_pylist() for part in parts(again, 1 << 20) for batch in read_part(part)]
    offsets = [[row["record_offset"] for row in batch] for batch in unpacked]
    assert offsets == [[row["record_offset"] for row in batch] for batch in whole]
    assert offsets


def test_every_batch_of_every_part_is_decoded(spark: SparkSession) -> None:
    """Parts of many batches, each with several results or none."""

    def twice(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column("id").to_pylist()
            for sign in (1, -1):
                chosen = [[sign * number] for number in numbers if number % 100]
                if chosen:
                    yield pa.RecordBatch.from_pydict({"numbers": pa.array(chosen, pa.list_(pa.int64()))})

    small = spark.newSession()
    small.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    rows = in_arrow(small.range(0, 1000, 1, 3), twice, "numbers array<bigint>")
    expected = [sign * number for number in range(1000) if number % 100 for sign in (1, -1)]
    assert sorted(number for (numbers,) in rows.collect() for number in numbers) == sorted(expected)
