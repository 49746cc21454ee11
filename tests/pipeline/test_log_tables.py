"""Tables written while segments are read are those that Spark makes of the same segments."""

from pathlib import Path

import pytest
from crc32c import crc32c
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from kafka_shim.persistence.batch import ABORT, COMMIT, Record, end_marker, write_batch
from kafka_shim.persistence.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_offset,
    encode_value,
)
from kafka_shim.pipeline.decode import history
from kafka_shim.pipeline.decode.buckets import bucket_of
from kafka_shim.pipeline.log_tables import Log, tasks, write_logs
from kafka_shim.pipeline.parquet import run_task
from kafka_shim.pipeline.schemas import BUCKETS, TABLES
from kafka_shim.pipeline.tables.columns import conform
from kafka_shim.pipeline.tables.offsets import LOG_TABLES
from kafka_shim.pipeline.warehouse import Warehouse

NOW = 1_760_000_000_000
A_DAY = 86_400_000


def commit(
    offset: int, committed: int | None, topic: str = "t", *, group: str = "g", version: int = 3, metadata: str = ""
) -> Record:
    """A commit, or None for the tombstone of one; an hour after the one before."""
    value = None
    at = NOW + offset * 3_600_000
    if committed is not None:
        value = encode_offset(OffsetCommitValue(committed, -1, metadata, at), version)
    return Record(offset, at, encode_key(OffsetCommitKey(group, topic, 0)), value)


def transaction(producer: int, *records: Record) -> bytes:
    return write_batch(list(records), producer_id=producer, producer_epoch=0, transactional=True)


def end(producer: int, offset: int, how: int) -> bytes:
    marker = end_marker(offset, NOW + offset * 3_600_000, how)
    return write_batch([marker], producer_id=producer, transactional=True, control=True)


def write(folder: Path, *segments: list[bytes]) -> None:
    folder.mkdir(parents=True)
    for number, batches in enumerate(segments):
        (folder / f"{number:020d}.log").write_bytes(b"".join(batches))


def logs(folder: Path) -> Path:
    """Segments with all that is out of the ordinary."""
    legacy = Record(
        6, NOW, encode_key(LegacyOffsetCommitKey("g", "t", 0)), encode_offset(OffsetCommitValue(60, -1, "", NOW), 1)
    )
    a_group = GroupMetadataKey("g")
    group = GroupMetadataValue("consumer", 3, "range", "m", NOW, [])
    no_text = bytearray(write_batch([commit(29, 1, group="xy"), commit(30, 2, metadata="ab")]))
    for plain, broken in ((b"xy", b"\xffy"), (b"ab", b"\xffb")):
        no_text = no_text.replace(plain, broken)
    write(
        folder / "__consumer_offsets-3",
        [
            write_batch([commit(0, 10), commit(1, 10, "u"), commit(2, 20, "größe")]),
            transaction(7, commit(3, 30), commit(4, 40, "u")),
            transaction(8, commit(5, 50)),
            write_batch([legacy, commit(7, 70, version=0), commit(8, 80, metadata="müde", version=4)]),
        ],
        [
            end(7, 9, COMMIT),
            # Its time is before that of what stands before it: the place decides.
            write_batch([Record(10, NOW, commit(10, 5).key, commit(10, 5).value), commit(11, None)]),
            transaction(7, commit(12, 120, "u")),
            end(8, 13, ABORT),
            write_batch([Record(14, NOW, encode_key(a_group), encode_value(a_group, group))]),
            end(7, 15, COMMIT),
            transaction(7, commit(16, 160)),
        ],
        [],
        [
            write_batch([commit(25, 250), commit(26, 26, group="another")], codec="lz4"),
            with_checksum(no_text),
            write_batch([commit(31, 310)])[:-3],
        ],
    )
    # The same partition of another broker, and one whose folder tells no number.
    write(folder / "b" / "__consumer_offsets-3", [write_batch([commit(0, 10), commit(1, 11), commit(2, 12)])])
    return folder


def with_checksum(batch: bytearray) -> bytes:
    """The batch with the checksum that its bytes have now."""
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return bytes(batch)


def made_by_spark(spark: SparkSession, paths: str, name: str) -> DataFrame:
    rows = spark.read.format("kafka_offsets_log").load(paths)
    return conform(LOG_TABLES[name](rows), name)


def test_written_in_tasks_or_by_spark_tables_are_the_same(spark: SparkSession, data: Path, tmp_path: Path) -> None:
    folder = logs(tmp_path / "logs")
    paths = f"{data / 'segments'},{folder},{folder / 'b'}"
    warehouse = Warehouse(spark, str(tmp_path / "out"))
    warehouse.ingest_log(paths)
    for name in LOG_TABLES:
        found, wanted = warehouse.read(name), made_by_spark(spark, paths, name)
        assertDataFrameEqual(found, wanted)
        assert found.count() > 0
    assert not (tmp_path / "out" / "ingest" / "log.writing").exists()
    # Once more, of less: what was there is gone.
    warehouse.ingest_log(str(folder / "b"))
    assert [row.delta for row in warehouse.read("offset_history").orderBy("position").collect()] == [None, 1, 1]


@pytest.mark.parametrize("rows", [1, 3])
def test_what_was_given_before_counts_as_the_commit_before(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    folder = logs(tmp_path / "logs") / "__consumer_offsets-3"
    monkeypatch.setattr(history, "ROWS", rows)
    monkeypatch.setattr("kafka_shim.pipeline.decode.batches.CHUNK", 100)
    monkeypatch.setattr("kafka_shim.pipeline.parquet.OPEN_FILES", 2)
    paths = tuple(map(str, sorted(folder.iterdir())))
    attempt = run_task(str(tmp_path), write_logs, [Log(paths, 1)])
    names = TABLES["offset_history"].names
    found = spark.read.schema(TABLES["offset_history"].ddl).parquet(str(tmp_path / attempt / "table=offset_history"))
    assertDataFrameEqual(found.select(names), made_by_spark(spark, str(folder), "offset_history"))


def test_buckets_are_those_of_spark(spark: SparkSession) -> None:
    groups: list[str | None] = [
        None,
        "",
        "g",
        "größe",
        "日本",
        "a-group-of-27-characters-..",
        "payments-service-0001",
        "\x7f\x80ÿ",
    ]
    groups += [f"group-{number:05d}" for number in range(50)]
    frame = spark.createDataFrame([(group,) for group in groups], "group string")
    rows = frame.select("group", F.pmod(F.hash("group"), F.lit(BUCKETS)).alias("bucket")).collect()
    assert {row.group: row.bucket for row in rows} == {group: bucket_of(group) for group in groups}


def test_tasks_are_about_equal_and_hold_everything_once() -> None:
    sizes = [500, 300, 300, 200, 100, 100, 50, 50, 0]
    planned = tasks([Log((str(number),), size) for number, size in enumerate(sizes)], 2)
    assert sorted(name for task in planned for log in task for name in log.segments) == [*map(str, range(9))]
    assert [sum(log.size for log in task) for task in planned] == [500, 400, 350, 350]
    assert len(tasks([Log(("a",), 1)], 8)) == 1
