"""Tables of a few events written by hand, so that every number can be followed."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual, assertSchemaEqual

from kafka_shim.pipeline import documents
from kafka_shim.pipeline.decode import events, records
from kafka_shim.pipeline.jobs import offsets as offset_jobs
from kafka_shim.pipeline.jobs import rebalances
from kafka_shim.pipeline.schemas import EVENTS, LOG_RECORDS, STEADY, TABLES
from kafka_shim.pipeline.tables import groups, offsets, partitions, traces
from kafka_shim.pipeline.tables.columns import counted

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds)


def trace(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Rows of the source: `t` is both clocks."""
    names = EVENTS.names
    filled = [
        tuple({"trace": "t", "file": "f", "position": 0, "seq": seq, "group": "g", **row}.get(name) for name in names)
        for seq, row in enumerate(rows)
    ]
    return spark.createDataFrame(filled, EVENTS.schema)


def table(frame: DataFrame, name: str) -> DataFrame:
    """A table straight from the trace."""
    places = (name, STEADY.get(name, name))
    return traces.ingested(frame).where(F.col("table").isin(*places)).select(*TABLES[name].names)


def clock(t: float) -> dict[str, Any]:
    return {"wall": t, "mono": t}


def round_(
    t: float, generation: int, joined: dict[str, float], protocol: str, cause: str = "NEW_MEMBER"
) -> dict[str, Any]:
    """A round that began at `t`; `joined` says when each member joined, in seconds after that."""
    waited = sorted(((s * 1000, member) for member, s in joined.items()), reverse=True)
    ended = t + max(joined.values())
    return {
        **clock(ended),
        "event": "round",
        "generation": generation,
        "cause": "NEW_MEMBER",
        "trigger": "a",
        "started": t,
        "ended": ended,
        "waited_for": [(member, ms) for ms, member in waited],
        "dropped": [],
        "leader": "a",
        "protocol": protocol,
        "members": list(joined),
    }


def assignment(t: float, generation: int, owned: dict[str, list[int]]) -> dict[str, Any]:
    return {
        **clock(t),
        "event": "assignment",
        "generation": generation,
        "leader": "a",
        "leader_ms": 500.0,
        "members": list(owned),
        "assignments": [(member, "t", numbers) for member, numbers in owned.items() if numbers],
    }


def two_generations(spark: SparkSession, protocol: str) -> DataFrame:
    return table(
        trace(
            spark,
            [
                round_(100.0, 1, {"a": 0.0, "b": 1.0}, protocol),
                assignment(101.5, 1, {"a": [0, 1], "b": [2, 3]}),
                round_(200.0, 2, {"a": 2.0, "b": 4.0, "c": 0.0}, protocol),
                assignment(204.5, 2, {"a": [0], "b": [2, 3], "c": [1]}),
            ],
        ),
        "events",
    )


def test_rounds(spark: SparkSession) -> None:
    found = groups.rounds(two_generations(spark, "range")).orderBy("generation").collect()
    assert [(r.join_ms, r.leader_ms, r.total_ms, r.size) for r in found] == [(1000, 500, 1500, 2), (4000, 500, 4500, 3)]
    second = found[1]
    assert (second.blamed, second.blamed_ms, second.behind_ms, second.cooperative) == ("b", 4000, 2000, False)
    assert (second.started_at, second.joined_at, second.stable_at) == (at(200), at(204), at(204.5))


def test_a_round_that_another_one_overtook_was_never_stable(spark: SparkSession) -> None:
    rows = [round_(1.0, 1, {"a": 1.0}, "range"), round_(3.0, 2, {"a": 1.0}, "range"), assignment(5.0, 2, {"a": [0]})]
    first, second = groups.rounds(table(trace(spark, rows), "events")).orderBy("generation").collect()
    assert (first.stable_at, first.leader_ms, first.total_ms) == (None, None, 1000)
    assert (second.stable_at, second.total_ms) == (at(5), 2000)


@pytest.mark.parametrize(
    ("protocol", "expected", "pauses"),
    [
        (
            "range",
            [
                (0, "a", 1, 1, 101.5, 202.0, "rejoin"),
                (0, "a", 2, 2, 204.5, None, None),
                (1, "a", 1, 1, 101.5, 202.0, "rejoin"),
                (1, "c", 2, 2, 204.5, None, None),
                (2, "b", 1, 1, 101.5, 204.0, "rejoin"),
                (2, "b", 2, 2, 204.5, None, None),
                (3, "b", 1, 1, 101.5, 204.0, "rejoin"),
                (3, "b", 2, 2, 204.5, None, None),
            ],
            [(0, 2500.0, False), (1, 2500.0, True), (2, 500.0, False), (3, 500.0, False)],
        ),
        (
            "cooperative-sticky",
            [
                (0, "a", 1, 2, 101.5, None, None),
                (1, "a", 1, 1, 101.5, 204.5, "revoked"),
                (1, "c", 2, 2, 204.5, None, None),
                (2, "b", 1, 2, 101.5, None, None),
                (3, "b", 1, 2, 101.5, None, None),
            ],
            [],
        ),
    ],
)
def test_ownership_and_pauses_of_partitions(
    spark: SparkSession, protocol: str, expected: list[Any], pauses: list[Any]
) -> None:
    owned = partitions.ownership(two_generations(spark, protocol))
    columns = ("partition", "member_id", "from_generation", "to_generation", "owned_from", "owned_until", "ended_by")
    expected = [
        (p, m, f, t, at(begin), None if end is None else at(end), by) for p, m, f, t, begin, end, by in expected
    ]
    schema = owned.select(*columns).schema
    assertDataFrameEqual(owned.select(*columns), spark.createDataFrame(expected, schema))
    paused = partitions.partition_pauses(owned).orderBy("partition").collect()
    assert [(row.partition, row.ms, row.moved) for row in paused] == pauses


def test_assignments_and_the_best_that_could_have_been_kept(spark: SparkSession) -> None:
    first, second = partitions.assignments(two_generations(spark, "range")).orderBy("generation").collect()
    assert (first.partitions, first.least, first.most, first.kept, first.moved, first.stickiness) == (
        4,
        2,
        2,
        0,
        0,
        None,
    )
    # Four partitions on three members: one may have two. b kept both, a one, c got one of a's.
    assert (second.members, second.least, second.most, second.kept, second.moved) == (3, 1, 2, 3, 1)
    assert (second.best_kept, second.stickiness) == (3, 1.0)


def exchange(t: float, api: str, arrived: float, **fields: Any) -> dict[str, Any]:
    common = {"event": "exchange", "api": api, "arrived": arrived, "error": 0, "member_id": "a"}
    return {**clock(t), **common, **fields}


def test_a_pause_lasts_over_joins_that_failed(spark: SparkSession) -> None:
    rows = [
        exchange(11.0, "JoinGroup", 10.0, generation=1, protocol="range"),
        exchange(12.0, "SyncGroup", 11.5, generation=1, error=27),
        exchange(14.0, "JoinGroup", 13.0, generation=2, protocol="range"),
        exchange(15.0, "SyncGroup", 14.5, generation=2),
        exchange(16.0, "Heartbeat", 15.9, generation=2),
        exchange(21.0, "JoinGroup", 20.0, generation=3, protocol="range"),
    ]
    (pause,) = groups.member_pauses(table(trace(spark, rows), "requests")).collect()
    assert (pause.ms, pause.joins, pause.generation, pause.started_at) == (5000.0, 2, 2, at(10))


def test_membership(spark: SparkSession) -> None:
    changes = [("pending", "x"), ("pending", "a"), ("added", "a"), ("fenced", "a"), ("replaced", "b"), ("expired", "x")]
    rows = [
        {**clock(float(t)), "event": "member", "member_id": member, "change": change, "client_id": "c"}
        for t, (change, member) in enumerate(changes)
    ]
    found = groups.membership(table(trace(spark, rows), "events")).orderBy("member_id").collect()
    assert [(r.member_id, r.how, r.ms) for r in found] == [("a", "fenced", 1000.0), ("b", None, None)]


def test_few_rows_go_to_what_joins_with_them(spark: SparkSession) -> None:
    many = spark.range(100_000).withColumn("name", F.col("id").cast("string"))
    found = [many.join(counted(many.where(F.col("id") < there), 10), ["name"]) for there in (0, 10, 11)]
    assert [rows.count() for rows in found] == [0, 10, 11]
    plans = [rows._jdf.queryExecution().executedPlan().toString() for rows in found]
    assert ["Range" in plan for plan in plans] == [False, True, True]
    assert ["LocalTableScan" in plan for plan in plans] == [True, True, False]


def test_storms_end_where_the_group_rests(spark: SparkSession) -> None:
    times = [0, 30, 60, 90, 120, 150, 1000, 1030, 2000]
    rows = [round_(1000.0 + t, n + 1, {"a": 1.0}, "range") for n, t in enumerate(times)]
    rounds = groups.rounds(table(trace(spark, rows), "events"))
    (storm,) = rebalances.storms(rounds).collect()
    assert (storm.rounds, storm.first_generation, storm.last_generation) == (6, 1, 6)
    assert (storm.began, storm.ended, storm.causes) == (at(1000), at(1151), ["6 NEW_MEMBER"])
    assert rebalances.storms(rounds, least=2).count() == 2


def log_row(place: int, **fields: Any) -> dict[str, Any]:
    common = {
        "log": "l",
        "offsets_partition": 3,
        "record_offset": place,
        "timestamp": 10**6 + place,
        "producer_id": -1,
    }
    commit = {
        "kind": "OffsetCommit",
        "tombstone": False,
        "transactional": False,
        "group": "g",
        "topic": "t",
        "partition": 0,
    }
    return {**common, **commit, **fields}


def log_of(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(
        [tuple(row.get(name) for name in LOG_RECORDS.names) for row in rows], LOG_RECORDS.schema
    )


def test_what_a_transaction_wrote_counts_once_it_is_committed(spark: SparkSession) -> None:
    rows = [
        log_row(0, offset=10),
        log_row(1, offset=99, transactional=True, producer_id=7),
        log_row(2, offset=12),
        log_row(3, offset=97, transactional=True, producer_id=8),
        log_row(4, offset=11, transactional=True, producer_id=8),
        log_row(5, kind="control", control="ABORT", producer_id=7),
        log_row(6, kind="control", control="COMMIT", producer_id=8),
        log_row(7, offset=98, transactional=True, producer_id=7),
        log_row(8, tombstone=True),
        {"file": "f", "position": 5, "record_offset": 9, "reason": "broken", "damaged_bytes": 7},
    ]
    frame = log_of(spark, rows)
    history = offsets.history_of_segments(frame)
    found = history.orderBy("position").collect()
    assert [(r.what, r.offset, r.previous, r.delta, r.position) for r in found] == [
        ("commit", 10, None, None, 0),
        ("commit", 12, 10, 2, 2),
        ("commit", 11, 12, -1, 4),
        ("tombstone", None, 11, None, 8),
    ]
    assert [row.offset for row in offset_jobs.regressions(history).collect()] == [11]
    (broken,) = offsets.quarantine(frame).collect()
    assert (broken.file, broken.position, broken.offset, broken.bytes, broken.reason) == ("f", 5, 9, 7, "broken")


def test_a_commit_later_in_the_log_outlasts_the_end_of_a_transaction(spark: SparkSession) -> None:
    rows = [
        log_row(0, offset=10),
        log_row(1, offset=11, transactional=True, producer_id=7),
        log_row(2, offset=12),
        log_row(3, kind="control", control="COMMIT", producer_id=7),
        # And a tombstone takes back what is not yet committed.
        log_row(4, offset=13, transactional=True, producer_id=7),
        log_row(5, tombstone=True),
        log_row(6, kind="control", control="COMMIT", producer_id=7),
    ]
    history = offsets.history_of_segments(log_of(spark, rows))
    assert [row.offset for row in history.orderBy("position").collect()] == [10, 12, None]
    assert offset_jobs.regressions(history).collect() == []


def test_lag_by_the_last_end_offset_known_then(spark: SparkSession) -> None:
    rows = [
        {
            **clock(t),
            "event": "commit",
            "member_id": "a",
            "generation": 1,
            "error": 0,
            "offsets": [("t", 0, offset, None)],
        }
        for t, offset in ((10.0, 5), (20.0, 8), (30.0, 9))
    ]
    frame = trace(spark, rows)
    history = offsets.history_of_trace(table(frame, "events"), table(frame, "requests"))
    ends = spark.createDataFrame(
        [("t", 0, at(15), 20), ("t", 0, at(25), 9), ("u", 0, at(1), 7)],
        "topic string, partition int, at timestamp, end_offset bigint",
    )
    found = offsets.lag(history, ends).orderBy("at").collect()
    assert [(r.offset, r.end_offset, r.lag, r.known_at) for r in found] == [(8, 20, 12, at(15)), (9, 9, 0, at(25))]


def test_the_sources_yield_what_their_schemas_say(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    for arrow, declared in ((events.SCHEMA, EVENTS), (records.SCHEMA, LOG_RECORDS)):
        assert isinstance(arrow, pa.Schema)
        assertSchemaEqual(from_arrow_schema(arrow), declared.schema)


def test_the_page_lists_every_column() -> None:
    page = (DOCS / documents.PAGE).read_text()
    assert page == documents.columns(), "run: python -m kafka_shim.pipeline.documents docs"
