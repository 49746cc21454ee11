"""Tables written while a trace is parsed are those that Spark makes of the same trace."""

from pathlib import Path

import orjson
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from kafka_shim.pipeline.parquet import run_task
from kafka_shim.pipeline.schemas import INGESTED
from kafka_shim.pipeline.tables import traces
from kafka_shim.pipeline.trace_tables import write_events
from kafka_shim.pipeline.warehouse import Warehouse

NOW = 1_760_000_000.25
A_DAY = 86_400.0
RECORDED = Path(__file__).parent / "recordings" / "kafka-4.2" / "trace"
OTHER = "not of the schema"


def line(event: str | None, seq: int, **fields: object) -> bytes:
    return orjson.dumps({"event": event, "seq": seq, "mono": 10.0 + seq / 3, "wall": NOW + seq * A_DAY / 3, **fields})


def exchange(seq: int, api: str, request: object = None, answer: object = None, **fields: object) -> bytes:
    about = {"conn": 1, "node": 0, "version": 3, "correlation_id": seq, "client_id": "c", "arrived": 10.0 + seq / 3.1}
    return line("exchange", seq, api=api, **about, request=request or {}, answer=answer or {}, **fields)


def odd(folder: Path) -> Path:
    """A trace with all that is out of the ordinary."""
    lines = [
        line("member", 0, group="größe", member_id="m", change="added"),
        line("member", 1, group=None, member_id="m"),
        line("parked", 2, group="g"),
        line(None, 3, group="g"),
        line("of another release", 4, group="g", what=[1, {"a": 2}]),
        exchange(5, "Heartbeat", {"generation_id": 3, "group_instance_id": "i"}, group="g", member="m", error=0),
        exchange(6, "Heartbeat", {"generation_id": "three"}, group="g", member="m"),
        exchange(7, "ApiVersions", group=None),
        exchange(8, "LeaveGroup", {"members": [{"member_id": "m", "reason": "bye"}]}, group="g", error=25),
        line(
            "commit", 9, group="g", member_id="m", generation=3, offsets=[{"topic": "t", "partition": 1, "offset": 7}]
        ),
        line("commit", 10, group="g", member_id="m", generation=3, offsets=[]),
        line("round", 11, group="g", members=["a", "b"], waited_for=[{"member_id": "a", "ms": 5}], started=12.5),
        line("assignment", 12, group="g", assignments={"a": {"t": [0, 1]}, "b": {}}),
        b'{"event":"member","seq":13,"group":"timeless"}',
        b'{"event":"member","seq":14,"wall":1e17,"mono":1,"group":"beyond all calendars"}',
        b'{"event":"exchange","seq":15,"wall":1760000000,"group":"g","request":{},"answer":{}}',
        b"no JSON at all",
        b"",
        b"[1]",
        b'{"event":"member","seq":"sixteen","wall":1760000000}',
        b'{"event":"commit","seq":17,"wall":1760000000,"group":"g","offs',
    ]
    folder.mkdir()
    (folder / "trace.jsonl").write_bytes(b"\n".join(lines))
    return folder


def test_written_in_tasks_or_by_spark_tables_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    paths = f"{odd(tmp_path / 'odd')},{RECORDED}"
    made, wanted = Warehouse(spark, str(tmp_path / "made")), Warehouse(spark, str(tmp_path / "wanted"))
    made.ingest_traces(paths)
    wanted.ingest(traces.ingested(spark.read.format("kafka_shim_trace").load(paths)), 0)
    assert made.buckets(0) == wanted.buckets(0)
    for name in INGESTED:
        for steady in (True, False):
            assert wanted.read(name, steady=steady).count() > 0
            assertDataFrameEqual(made.read(name, steady=steady), wanted.read(name, steady=steady))
    reasons = made.read("quarantine").orderBy("position").select("reason").collect()
    assert [row.reason.partition(": ")[0] for row in reasons] == [
        "no event",
        OTHER,
        OTHER,
        "no JSON",
        "no event",
        OTHER,
        "no JSON",
    ]
    assert not (tmp_path / "made" / "ingest" / "batch=0.writing").exists()


def test_how_much_is_written_together_makes_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = odd(tmp_path / "odd") / "trace.jsonl"
    part = (str(file), 0, file.stat().st_size)

    def written() -> list[str]:
        attempt = tmp_path / run_task(str(tmp_path), write_events, [part])
        rows = [
            (str(path.parent.relative_to(attempt)), row)
            for path in attempt.rglob("*.parquet")
            for row in pyarrow.parquet.ParquetFile(path).read().to_pylist()
        ]
        return sorted(map(repr, rows))

    at_once = written()
    assert len(at_once) == 19
    monkeypatch.setattr("kafka_shim.pipeline.trace_tables.ROWS", 1)
    monkeypatch.setattr("kafka_shim.pipeline.parquet.OPEN_FILES", 2)
    assert written() == at_once


def test_what_was_there_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = Warehouse(spark, str(tmp_path / "out"))
    warehouse.ingest_traces(str(RECORDED))
    warehouse.ingest_traces(str(odd(tmp_path / "odd")))
    assert {row.trace for row in warehouse.read("events").select("trace").distinct().collect()} == {"odd/trace"}
    beyond = warehouse.read("events").where(F.col("group") == "beyond all calendars").collect()
    assert [(row.seq, row.at, row.day) for row in beyond] == [(14, None, None)]
