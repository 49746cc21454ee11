"""A warehouse is the work of one command: complete or absent, without duplicates, up to date."""

import json
import shutil
import time
from operator import itemgetter
from pathlib import Path
from threading import Event

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_shim.persistence.batch import write_batch
from kafka_shim.pipeline.needs import places_for
from kafka_shim.pipeline.run import answer, build, sort_out
from kafka_shim.pipeline.schemas import PLACES
from kafka_shim.pipeline.snapshots import Overtaken, new_run
from kafka_shim.pipeline.stream import stop, stream
from kafka_shim.pipeline.tables.columns import Scope
from kafka_shim.pipeline.warehouse import LATEST, Warehouse

from .test_sources import record

BESIDE_A = "c7"
"""A group in the bucket of group a."""


def few(spark: SparkSession, path: str) -> Warehouse:
    """Return a warehouse with only a few tables."""
    return Warehouse(spark, path, only={*PLACES, "membership"})


def trace(folder: Path, groups: list[str], first: int = 0, *, seconds: int = 1, members: bool = True) -> Path:
    """Append a commit of each of these groups, and a member, `seconds` apart, from number `first` on."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "trace.jsonl").open("a") as file:
        for number, group in enumerate(groups, first):
            seq = 2 * number
            offsets = [{"topic": "t", "partition": 0, "offset": seq}]
            event = {
                "event": "commit",
                "seq": seq,
                "mono": seq / 8,
                "wall": 1.76e9 + seq * seconds / 2,
                "group": group,
                "error": 0,
            }
            file.write(json.dumps({**event, "member_id": "m", "generation": 1, "offsets": offsets}) + "\n")
            member = {**event, "event": "member", "seq": seq + 1, "member_id": f"m{seq}", "change": "added"}
            if members:
                file.write(json.dumps(member) + "\n")
    return folder


def log(folder: Path) -> Path:
    place = folder / "__consumer_offsets-1"
    place.mkdir(parents=True)
    (place / f"{0:020d}.log").write_bytes(write_batch([record(0), record(1)]))
    return folder


def groups(warehouse: Warehouse, name: str = "offset_history") -> list[str]:
    return sorted(row.group_id for row in warehouse.read(name).select("group_id").collect())


def history(warehouse: Warehouse) -> list[tuple[str, int | None, int]]:
    """Return group, previous offset and offset of each commit."""
    rows = warehouse.read("offset_history").select("group_id", "previous", "committed_offset").collect()
    return sorted(((*row,) for row in rows), key=itemgetter(0, 2))


def run(warehouse: Warehouse, *paths: Path) -> None:
    inputs = sort_out(map(str, paths))
    with warehouse.change("run", [str(path) for path in paths]):
        build(warehouse, inputs)


def follow(warehouse: Warehouse, *paths: Path) -> None:
    stream(warehouse, sort_out(map(str, paths))).awaitTermination()


@pytest.mark.everything("two whole runs")
def test_settings_for_large_inputs_make_the_same_rows(
    spark: SparkSession, warehouse: Warehouse, data: Path, tmp_path: Path
) -> None:
    """A session for large inputs lets Spark choose how to shuffle at run time."""
    adaptive = spark.newSession()
    adaptive.conf.set("spark.sql.adaptive.enabled", "true")
    adaptive.conf.set("spark.sql.shuffle.partitions", "8")
    by_adaptive = Warehouse(adaptive, str(tmp_path / "out"), only=places_for(["events", "membership", "requests"]))
    with by_adaptive.change("run"):
        build(by_adaptive, sort_out([str(data / "trace")]))

    def contents(of: Warehouse, name: str) -> tuple[int, int]:
        rows = of.read(name)
        number = F.xxhash64(F.to_json(F.struct(*sorted(rows.columns)))).cast("decimal(38)")
        (row,) = rows.agg(F.count("*"), F.sum(number)).collect()
        return row[0], row[1]

    for name in ("events", "requests", "membership"):
        assert contents(by_adaptive, name) == contents(warehouse, name), name
    assert contents(by_adaptive, "membership")[0] > 0


@pytest.mark.everything("four whole runs")
def test_a_run_or_stream_replaces_the_one_before(spark: SparkSession, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    first, second, third = trace(tmp_path / "a", ["a", "b"]), trace(tmp_path / "b", ["c"]), log(tmp_path / "log")
    warehouse = few(spark, out)
    run(warehouse, first, third)
    assert groups(warehouse) == ["a", "b", "g", "g"]
    # Nothing of the log remains.
    reader = few(spark, out)
    assert reader.snapshot is not None
    run(warehouse, second)
    assert groups(warehouse) == ["c"]
    newest = (Path(out) / LATEST).read_text().strip()
    assert {folder.split("/")[1] for place in PLACES for folder in warehouse._folders(place)} == {newest}
    # A reader goes on with its old snapshot.
    assert groups(reader) == ["a", "b", "g", "g"]
    reader.refresh()
    assert groups(reader) == ["c"]

    follow(warehouse, first)
    assert groups(warehouse) == ["a", "b"]
    trace(tmp_path / "a", ["d"], 2)
    follow(warehouse, first)
    assert groups(warehouse) == ["a", "b", "d"]
    # The rows of the first batch are in the folders of another run.
    assert not (Path(out) / LATEST).exists()
    run(warehouse, first)
    assert groups(warehouse) == ["a", "b", "d"]
    follow(warehouse, first)
    assert groups(warehouse) == ["a", "b", "d"]
    assert len(warehouse.read("gaps").collect()) == 0
    # Only the files of the last two snapshots remain.
    assert len(warehouse.snapshots.numbers()) == 2


@pytest.mark.everything("a stream of four days")
def test_a_stream_of_days_keeps_the_last_ones_and_compacts(spark: SparkSession, tmp_path: Path) -> None:
    """A commit and a member each day, for four days, one batch a day; the stream keeps two days."""
    warehouse = few(spark, str(tmp_path / "out"))
    source = tmp_path / "in"
    for day in range(4):
        trace(source, [f"day-{day}"], day, seconds=86_400)
        stream(warehouse, sort_out([str(source)]), days=2).awaitTermination()
        warehouse.refresh()
        expected = [f"day-{each}" for each in range(max(day - 1, 0), day + 1)]
        assert groups(warehouse) == groups(warehouse, "membership") == groups(warehouse, "events")[::2] == expected
        # The folders of older batches are deleted.
        assert len(warehouse._folders("events")) <= 2
        if day == 2:
            assert {"events", "commit_events"} <= {*warehouse.compact_all()}
            assert groups(warehouse, "events")[::2] == expected
            assert warehouse.compact_all() == []
    assert warehouse.read("gaps").count() == 0


def test_a_batch_rewrites_only_its_groups(spark: SparkSession, tmp_path: Path) -> None:
    """Three groups in two buckets; then one of them commits, which changes neither members nor other groups."""
    warehouse = few(spark, str(tmp_path / "out"))
    source = trace(tmp_path / "in", ["a", "b", BESIDE_A])
    follow(warehouse, source)
    before = {name: {*warehouse._folders(name)} for name in ("membership", "trace_history")}
    assert {name: len(folders) for name, folders in before.items()} == {"membership": 2, "trace_history": 2}
    now = warehouse.snapshot
    assert now is not None
    (bucket,) = (row.bucket for row in warehouse.read("offset_history").where("group_id = 'a'").collect())
    with warehouse.change("stream", start_over=False, stream=now.stream, batch=now.batch):
        # A batch that derived the whole bucket again would add these rows again.
        nothing = warehouse.read("offset_history").where("false")
        warehouse.write("trace_history", nothing, replaces=Scope([bucket], [BESIDE_A]))
    assert groups(warehouse) == ["a", "b"]
    trace(source, ["a"], 3, members=False)
    follow(warehouse, source)
    warehouse.refresh()
    assert history(warehouse) == [("a", None, 0), ("a", 0, 6), ("b", None, 2)]
    assert groups(warehouse, "events") == sorted(["a", "a", "a", "b", "b", BESIDE_A, BESIDE_A])
    assert {*warehouse._folders("membership")} == before["membership"]
    assert len({*warehouse._folders("trace_history")} & before["trace_history"]) == 1


def test_an_expired_day_leaves_idle_groups_and_the_disk(spark: SparkSession, tmp_path: Path) -> None:
    """A group with two days and one in another bucket; on the third day only the second group commits.

    Two days and one snapshot are kept. An older change has died.
    """
    warehouse = Warehouse(spark, str(tmp_path / "out"), only={*PLACES, "membership"}, keep=1)
    assert warehouse.files.create(f"changes/{new_run(time.time() - 3600)}", "")
    remembered = spark.sparkContext._jsc.sc().getPersistentRDDs().size()
    source = trace(tmp_path / "in", ["a", "b", "a"], seconds=43_200)
    stream(warehouse, sort_out([str(source)]), days=2).awaitTermination()
    assert history(warehouse) == [("a", None, 0), ("a", 0, 4), ("b", None, 2)]
    trace(source, ["b"], 4, seconds=43_200, members=False)
    stream(warehouse, sort_out([str(source)]), days=2).awaitTermination()
    warehouse.refresh()
    assert history(warehouse) == [("a", None, 4), ("b", None, 8)]
    assert [(row.first, row.last) for row in warehouse.read("gaps").collect()] == [(6, 7)]
    on_disk = {
        path.relative_to(tmp_path / "out" / "data").parent.as_posix() for path in (tmp_path / "out").rglob("*.parquet")
    }
    named_folders = {folder for folders in (warehouse._tables or {}).values() for folder in folders}
    assert all(any(f"{folder}/".startswith(f"{each}/") for each in named_folders) for folder in on_disk), on_disk
    # Spark holds nothing either.
    assert spark.sparkContext._jsc.sc().getPersistentRDDs().size() == remembered


def test_a_failed_change_leaves_nothing_and_readers_see_whole_changes(spark: SparkSession, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    first, second = trace(tmp_path / "a", ["a"]), trace(tmp_path / "b", ["b"])
    warehouse = few(spark, out)
    run(warehouse, first)

    def in_vain() -> None:
        with warehouse.change("run"):
            build(warehouse, sort_out([str(second)]))
            seen = few(spark, out)
            assert groups(seen) == groups(seen, "membership") == ["a"]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_vain()
    assert groups(warehouse) == ["a"]


def test_a_stream_stops_after_a_run(spark: SparkSession, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    first, second = trace(tmp_path / "a", ["a"] * 40), trace(tmp_path / "b", ["b"])
    warehouse = few(spark, out)

    def meanwhile(batch: int) -> None:
        run(few(spark, out), second)

    query = stream(warehouse, sort_out([str(first)]), max_bytes=2000, after_batch=meanwhile)
    with pytest.raises(StreamingQueryException, match="was changed by another run"):
        query.awaitTermination()
    warehouse.refresh()
    assert groups(warehouse) == ["b"]


def test_a_stopping_stream_begins_no_more_steps(spark: SparkSession, tmp_path: Path) -> None:
    stopped = Event()
    written: list[str] = []

    class Stopping(Warehouse):
        def write(self, name: str, rows: DataFrame, *, replaces: Scope | None = None) -> None:
            written.append(name)
            stopped.set()
            super().write(name, rows, replaces=replaces)

    warehouse = Stopping(spark, str(tmp_path / "out"))
    query = stream(warehouse, sort_out([str(trace(tmp_path / "in", ["a"]))]), answers_s=0, stopped=stopped)
    assert stopped.wait(300)
    stop(spark, query)
    assert not query.isActive
    # The steps that had begun side by side.
    assert 1 <= len(written) <= spark.sparkContext.defaultParallelism
    assert warehouse.snapshots.numbers() == []


def test_the_second_change_of_a_snapshot_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    one, other = (few(spark, str(tmp_path / "out")) for _ in range(2))
    with one.change("run"):
        pass
    with pytest.raises(Overtaken), one.change("stream", start_over=False), other.change("stream", start_over=False):
        pass
    assert other.snapshot is not None
    assert one.snapshot == other.snapshot


def test_answers_from_an_incomplete_trace_are_marked(spark: SparkSession, tmp_path: Path) -> None:
    whole, torn = trace(tmp_path / "whole", ["a"]), trace(tmp_path / "torn", ["b"])
    for folder in (whole, torn):
        lines = (folder / "trace.jsonl").read_text().splitlines()
        rounds = [
            {"event": "round", "seq": seq, "mono": 5.0, "wall": 1.76e9 + seq, "group": folder.name, "started": 4.0,
             "ended": 5.0, "cause": "NEW_MEMBER", "generation": seq, "members": ["m"], "waited_for": []}
            for seq in (2, 3)
        ]  # fmt: skip
        (folder / "trace.jsonl").write_text("\n".join([*lines, *map(json.dumps, rounds)]))
    text = (torn / "trace.jsonl").read_text().splitlines()
    (torn / "trace.jsonl").write_text("\n".join(text[:2] + text[3:]))
    warehouse = Warehouse(spark, str(tmp_path / "out"), only={*PLACES, "rounds", "causes"})
    with warehouse.change("run"):
        build(warehouse, sort_out([str(whole), str(torn)]))
        answer(warehouse)
    rows = warehouse.result("causes").collect()
    assert {(row.group_id, row.incomplete) for row in rows} == {("whole", False), ("torn", True)}
    shutil.rmtree(tmp_path / "out")
