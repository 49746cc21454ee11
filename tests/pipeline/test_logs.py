"""Logs of brokers and clients by Spark: the same events as `kafka-shim trace from-log`, with the bytes of their lines,
from files in one part or in many.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from kafka_shim.cli import cli
from kafka_shim.pipeline.needs import places_for
from kafka_shim.pipeline.report import report
from kafka_shim.pipeline.run import build, sort_out
from kafka_shim.pipeline.schemas import LOG
from kafka_shim.pipeline.sources.logs import Scan, events_of, lines_of
from kafka_shim.pipeline.sources.places import Unreadable
from kafka_shim.pipeline.warehouse import Warehouse
from kafka_shim.sources.clients import OVERRUN
from kafka_shim.sources.mixture import NAMELESS
from tests.sources.broker_lines import life
from tests.sources.recordings import FOLDER, Recording, recorded

from .conftest import RECORDINGS

Event = dict[str, Any]
SAME = ("generation", "cause", "trigger", "change", "error", "api", "reason", "size", "session_timeout_ms")


def unpacked(folder: Path, recording: Recording) -> list[Path]:
    """Write the logs of a recording into a folder, without packing."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for each in sorted(recording.folder.glob("*.log.gz")):
        files.append(folder / each.name.removesuffix(".gz"))
        files[-1].write_bytes(gzip.decompress(each.read_bytes()))
    return files


def by_python(*paths: Path) -> list[Event]:
    """Read logs by `kafka-shim trace from-log`."""
    done = CliRunner().invoke(cli, ["trace", "from-log", *map(str, paths)])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def by_spark(spark: SparkSession, *paths: Path) -> list[Event]:
    """Read logs by Spark."""
    lines = lines_of(spark, [str(path) for path in paths], UTC).persist()
    rows = [row.asDict() for row in events_of(lines, 2).collect()]
    lines.unpersist()
    return sorted(rows, key=lambda row: (row["trace"] or "", row["seq"] or 0))


def plain(event: Event, group: str = "group", member: str = "member_id") -> tuple[Any, ...]:
    """Return the fields of an event that both readers have; a field that the log does not show is None."""
    request = {"JoinGroup": event.get("request")}.get(event.get("api") or "")
    of_request = request if isinstance(request, dict) else {}
    fields = {name: event.get(name, of_request.get(name)) for name in SAME}
    if event["event"] == "exchange":
        # The trace has them in the request or in the answer.
        fields |= {"generation": None, "reason": None}
    names = (event.get(group), event.get(member) or event.get("member"))
    values = (each if each not in ("", -1) else None for each in (*names, *fields.values()))
    return event["event"], round(event["wall"], 3), *values


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """The logs of all recordings of 3.9, by group."""
    folder = tmp_path_factory.mktemp("logs")
    return {each.group: unpacked(folder / each.name, each) for each in recorded() if each.release == "3.9"}


def test_spark_tells_what_the_reader_of_one_process_tells(spark: SparkSession, logs: dict[str, list[Path]]) -> None:
    files = [file for files in logs.values() for file in files]
    rows, events = by_spark(spark, *files), by_python(*files)
    for group in logs:
        # One broker wrote several of these logs, so that the end of a group may be in the next.
        expected = [plain(event) for event in events if event.get("group") == group]
        by_group = [
            plain(row, "group_id") for row in rows if row["trace"] == f"{LOG}{group}" and row["event"] != "trace"
        ]
        assert Counter(by_group) == Counter(expected), group
        assert len(by_group) > 5
        assert [row["seq"] for row in rows if row["trace"] == f"{LOG}{group}"] == [*range(1, len(by_group) + 2)]


def test_each_event_has_the_file_and_the_byte_of_its_line(spark: SparkSession, logs: dict[str, list[Path]]) -> None:
    files = next(iter(logs.values()))
    rows = by_spark(spark, *files)
    assert {row["file"] for row in rows} == set(map(str, files))
    for row in rows:
        line = Path(row["file"]).read_bytes()[row["position"] :].partition(b"\n")[0].decode()
        assert row["event"] != "round" or line.endswith("(kafka.coordinator.group.GroupCoordinator)")
        assert row["inferred"], line


def test_parts_of_a_file_change_nothing(spark: SparkSession, logs: dict[str, list[Path]], tmp_path: Path) -> None:
    files = [file for files in logs.values() for file in files if file.name == "server.log"]
    whole = tmp_path / "server.log"
    whole.write_bytes(b"".join(file.read_bytes() for file in files))
    at_once = by_spark(spark, whole)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    try:
        lines = lines_of(spark, [str(whole)], UTC)
        assert lines.where("bytes is not null").count() > 5
        assert by_spark(spark, whole) == at_once
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def test_a_line_is_found_in_any_batch() -> None:
    text = life("3.9").splitlines()
    places = [*range(len(text))]

    def scanned(*sizes: int) -> list[Event]:
        scan, at, rows = Scan(UTC), 0, []
        for size in sizes:
            batch = {"value": text[at : at + size], "file_path": ["file:///a%20b/server.log"] * size}
            batch["file_block_start"] = [0] * size
            at += size
            rows += [row for part in scan.batch(pa.RecordBatch.from_pydict(batch)) for row in part.to_pylist()]
        return [*rows, *(row for part in scan.end() for row in part.to_pylist())]

    once = scanned(len(text))
    assert scanned(*(1 for _ in places)) == once == scanned(3, len(text) - 3)
    assert {row["file"] for row in once} == {"/a b/server.log"}
    assert once[-1]["bytes"] == len(b"".join(text)) + len(text)


def test_the_name_of_a_packed_file_must_say_so() -> None:
    packed = {"value": [gzip.compress(b"a log")], "file_path": ["file:///server.log.1"], "file_block_start": [0]}
    batch = pa.RecordBatch.from_pydict(
        packed, schema=pa.schema({"value": pa.binary(), "file_path": pa.string(), "file_block_start": pa.int64()})
    )
    rows = [row for part in Scan(UTC).batch(batch) for row in part.to_pylist()]
    assert [row["reason"] for row in rows] == ["packed, but its name does not end in .gz or .zst: rename it"]


def test_logs_packed_by_zstd_are_read(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "a [broker]{1}*%20"
    folder.mkdir()
    (folder / "server.log").write_bytes(life("3.9"))
    with pa.CompressedOutputStream(str(folder / "server.log.zst"), "zstd") as packed:
        packed.write(life("3.9"))
    plain_rows, rows = (by_spark(spark, folder / name) for name in ("server.log", "server.log.zst"))
    assert [{**row, "file": ""} for row in rows] == [{**row, "file": ""} for row in plain_rows]


def test_clients_that_name_no_group_have_a_story_of_their_own(spark: SparkSession) -> None:
    """And the broker's line of a departure gets the reason of such a client."""
    folder = FOLDER / "4.4" / "poll-interval-exceeded-confluent-kafka-2.16"
    files = sorted(folder.glob("*.log.gz"))
    rows, events = by_spark(spark, *files), by_python(*files)
    by_group = Counter(plain(row, "group_id") for row in rows if row["event"] != "trace")
    assert by_group == Counter(plain(event) for event in events if event["event"] != "trace")
    assert {row["group_id"] for row in rows} >= {NAMELESS}
    assert {row["reason"] for row in rows if row["change"] == "left" and row["group_id"] != NAMELESS} >= {OVERRUN}


def test_a_stamp_without_a_zone_is_read_in_the_zone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(life("3.9"))
    utc, berlin = (
        lines_of(spark, [str(tmp_path / "server.log")], zone).selectExpr("min(time)").collect()[0][0]
        for zone in (UTC, ZoneInfo("Europe/Berlin"))
    )
    assert utc - berlin == 3_600_000


def test_files_that_are_no_logs_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(bytes(range(256)) * 100)
    lines = lines_of(spark, [str(tmp_path / "picture.png")], UTC).persist()
    with pytest.raises(Unreadable, match="no line of a group coordinator"):
        events_of(lines, 1)
    lines.unpersist()


def test_files_are_sorted_by_their_names(tmp_path: Path) -> None:
    brokers = tmp_path / "brokers"
    for name in ("1/server.log", "1/server1.log.2026-11-28-10", ".hidden", "2/app.log.gz"):
        (brokers / name).parent.mkdir(parents=True, exist_ok=True)
        (brokers / name).touch()
    inputs = sort_out([str(brokers), str(brokers / "1" / "server.log")])
    names = ("1/server.log", "1/server1.log.2026-11-28-10", "2/app.log.gz")
    assert inputs.texts == tuple(str(brokers / name) for name in names)
    assert not inputs.traces
    assert not inputs.logs
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"holds neither a trace .* and no log"):
        sort_out([str(tmp_path / "empty")])
    with pytest.raises(ValueError, match="read logs apart from traces"):
        sort_out([str(brokers), str(RECORDINGS / "lives")])


def test_what_logs_do_not_show_is_null(recorded_logs: Warehouse) -> None:
    rounds = recorded_logs.read("rounds").collect()
    assert {(row.kind, row.inferred, row.cooperative, row.initial_delay_ms) for row in rounds} == {
        ("classic", True, None, None),
        ("consumer", True, True, 0.0),
    }
    assert {row.leader_ms is None for row in rounds if row.kind == "classic"} == {False}
    epochs = [row for row in rounds if row.kind == "consumer"]
    assert {(row.stable_at, row.total_ms, row.interval_ms, row.size, row.members) for row in epochs} == {(None,) * 5}
    assert {(row.kip848_saves_ms, row.partition_pause_ms) for row in recorded_logs.result("migration").collect()} == {
        (None, None)
    }
    requests = recorded_logs.read("requests")
    assert requests.where("version is not null or node is not null or correlation_id is not null").isEmpty()


def test_the_report_on_logs_has_their_rounds(recorded_logs: Warehouse) -> None:
    page = report(recorded_logs, "logs")
    assert "kafka-shim why GROUP --log PATH explains groups of logs" in page
    assert "Stabilized group" in page
    assert "None" not in re.sub(r"<(style|script).*?</\1>|'None'", "", page, flags=re.DOTALL)


def test_logs_bring_no_alarm_about_what_they_lack(recorded_logs: Warehouse) -> None:
    for name in ("violations", "quarantine", "gaps"):
        assert recorded_logs.read(name).collect() == [], name
    assert recorded_logs.result("heartbeat_gaps").collect() == []


def test_a_line_without_a_pattern_is_in_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    line = b"[2026-11-28 10:00:00,000] INFO [GroupCoordinator 1]: The group does what no release did"
    line += b" (kafka.coordinator.group.GroupCoordinator)\n"
    (tmp_path / "server.log").write_bytes(line + life("3.9"))
    warehouse = Warehouse(spark, str(tmp_path / "out"), only=places_for(["quarantine", "rounds"]), little=True)
    with warehouse.change("run"):
        build(warehouse, sort_out([str(tmp_path / "server.log")]))
    (row,) = warehouse.read("quarantine").collect()
    assert (row.source, row.file, row.position) == ("log", str(tmp_path / "server.log"), 0)
    assert "The group does what no release did" in row.reason
    assert warehouse.read("rounds").count() == 4
