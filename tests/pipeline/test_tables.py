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
from kafka_shim.pipeline.tables import groups, lives, offsets, partitions, traces
from kafka_shim.pipeline.tables.columns import counted

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds)


def trace(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Return rows of the source; `t` is the time on both clocks."""
    names = EVENTS.names
    filled = [
        tuple(
            {"trace": "t", "file": "f", "position": 0, "seq": seq, "group_id": "g", **row}.get(name) for name in names
        )
        for seq, row in enumerate(rows)
    ]
    return spark.createDataFrame(filled, EVENTS.schema)


def table(frame: DataFrame, name: str) -> DataFrame:
    """Return a table directly from the trace."""
    places = (name, STEADY.get(name, name))
    rows = traces.ingested(frame).where(F.col("place").isin(*places)).select(*TABLES[name].names)
    return lives.placed(rows, no_lives(frame.sparkSession)) if name == "events" else rows


def no_lives(spark: SparkSession) -> DataFrame:
    """Return table `lives` of groups with one life each."""
    return spark.createDataFrame([], TABLES["lives"].schema)


def clock(t: float) -> dict[str, Any]:
    return {"wall": t, "mono": t}


def round_(
    t: float, generation: int, joined: dict[str, float], protocol: str, cause: str = "NEW_MEMBER"
) -> dict[str, Any]:
    """Return a round that began at `t`; `joined` is when each member joined, in seconds after that."""
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


def test_rounds_have_their_halves(spark: SparkSession) -> None:
    rows = groups.rounds(two_generations(spark, "range")).orderBy("generation").collect()
    assert [(r.join_ms, r.leader_ms, r.total_ms, r.size) for r in rows] == [(1000, 500, 1500, 2), (4000, 500, 4500, 3)]
    second = rows[1]
    assert (second.blamed, second.blamed_ms, second.behind_ms, second.cooperative) == ("b", 4000, 2000, False)
    assert (second.started_at, second.joined_at, second.stable_at) == (at(200), at(204), at(204.5))


def test_an_overtaken_round_never_became_stable(spark: SparkSession) -> None:
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
def test_ownership_and_pauses_depend_on_the_assignor(
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


def test_assignments_have_the_best_stickiness(spark: SparkSession) -> None:
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


def test_a_pause_includes_failed_joins(spark: SparkSession) -> None:
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


def test_membership_ends_with_a_fence(spark: SparkSession) -> None:
    changes = [("pending", "x"), ("pending", "a"), ("added", "a"), ("fenced", "a"), ("replaced", "b"), ("expired", "x")]
    rows = [
        {**clock(float(t)), "event": "member", "member_id": member, "change": change, "client_id": "c"}
        for t, (change, member) in enumerate(changes)
    ]
    members = groups.membership(table(trace(spark, rows), "events")).orderBy("member_id").collect()
    assert [(r.member_id, r.how, r.ms) for r in members] == [("a", "fenced", 1000.0), ("b", None, None)]


def test_few_rows_are_broadcast(spark: SparkSession) -> None:
    many = spark.range(100_000).withColumn("name", F.col("id").cast("string"))
    joins = [many.join(counted(many.where(F.col("id") < there), 10), ["name"]) for there in (0, 10, 11)]
    assert [rows.count() for rows in joins] == [0, 10, 11]
    plans = [rows._jdf.queryExecution().executedPlan().toString() for rows in joins]
    assert ["Range" in plan for plan in plans] == [False, True, True]
    assert ["LocalTableScan" in plan for plan in plans] == [True, True, False]


def test_a_quiet_time_ends_a_storm(spark: SparkSession) -> None:
    times = [0, 30, 60, 90, 120, 150, 1000, 1030, 2000]
    rows = [round_(1000.0 + t, n + 1, {"a": 1.0}, "range") for n, t in enumerate(times)]
    rounds = groups.rounds(table(trace(spark, rows), "events"))
    (storm,) = rebalances.storms(rounds).collect()
    assert (storm.rounds, storm.first_generation, storm.last_generation) == (6, 1, 6)
    assert (storm.began, storm.ended, storm.causes) == (at(1000), at(1151), ["6 NEW_MEMBER"])
    assert rebalances.storms(rounds, least=2).count() == 2


def test_restarts_under_one_client_id_are_those_of_their_hosts(spark: SparkSession) -> None:
    """Three hosts with Java's default client id restart once each, one while another is away."""
    stays = [("a", "h1", 0, 100), ("b", "h2", 0, 105), ("c", "h3", 0, 200)]
    stays += [("d", "h1", 110, None), ("e", "h2", 115, None), ("f", "h3", 210, None)]
    names = TABLES["membership"].names
    rows = [
        {
            "trace": "t",
            "first_run": "t",
            "group_id": "g",
            "member_id": member,
            "client_id": "consumer-g-1",
            "client_host": host,
            "joined_at": at(joined),
            "left_at": None if until is None else at(until),
            "how": None if until is None else "left",
        }
        for member, host, joined, until in stays
    ]
    membership = spark.createDataFrame(
        [tuple(row.get(name) for name in names) for row in rows], TABLES["membership"].schema
    )
    events = [round_(float(t), n, {"d": 1.0, "e": 0.0}, "range") for n, t in enumerate((100, 110, 200, 210), 1)]
    rounds = groups.rounds(table(trace(spark, events), "events"))
    pauses = spark.createDataFrame([], TABLES["partition_pauses"].schema)
    (row,) = rebalances.migration(rounds, membership, pauses).collect()
    assert (row.restarts, row.static_saves_rounds, row.advice) == (3, 4, "static membership")
    blamed = rebalances.blame(rounds, membership).where("role = 'member'").collect()
    assert [(each.client_id, each.client_host, each.rounds) for each in blamed] == [("consumer-g-1", "h1", 4)]


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
        "group_id": "g",
        "topic": "t",
        "partition": 0,
    }
    return {**common, **commit, **fields}


def marker(place: int, control: str, producer_id: int) -> dict[str, Any]:
    """Return the end of a transaction, as the source reads it: without a key, and transactional."""
    nothing = dict.fromkeys(("group_id", "topic", "partition", "tombstone"))
    ends = {"kind": "control", "control": control, "producer_id": producer_id, "transactional": True}
    return log_row(place, **nothing, **ends)


def log_of(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(
        [tuple(row.get(name) for name in LOG_RECORDS.names) for row in rows], LOG_RECORDS.schema
    )


def test_a_transaction_takes_effect_when_committed(spark: SparkSession) -> None:
    rows = [
        log_row(0, committed_offset=10),
        log_row(1, committed_offset=99, transactional=True, producer_id=7),
        log_row(2, committed_offset=12),
        log_row(3, committed_offset=97, transactional=True, producer_id=8),
        log_row(4, committed_offset=11, transactional=True, producer_id=8),
        marker(5, "ABORT", 7),
        marker(6, "COMMIT", 8),
        log_row(7, committed_offset=98, transactional=True, producer_id=7),
        log_row(8, tombstone=True),
        {"file": "f", "position": 5, "record_offset": 9, "reason": "broken", "damaged_bytes": 7},
    ]
    frame = log_of(spark, rows)
    history = offsets.history_of_segments(frame)
    changes = history.orderBy("position").collect()
    assert [(r.what, r.committed_offset, r.previous, r.delta, r.position) for r in changes] == [
        ("commit", 10, None, None, 0),
        ("commit", 12, 10, 2, 2),
        ("commit", 11, 12, -1, 4),
        ("tombstone", None, 11, None, 8),
    ]
    assert [row.committed_offset for row in offset_jobs.regressions(history).collect()] == [11]
    (broken,) = offsets.quarantine(frame).collect()
    assert (broken.file, broken.position, broken.log_offset, broken.bytes, broken.reason) == ("f", 5, 9, 7, "broken")


def test_a_later_commit_wins_over_the_end_of_a_transaction(spark: SparkSession) -> None:
    rows = [
        log_row(0, committed_offset=10),
        log_row(1, committed_offset=11, transactional=True, producer_id=7),
        log_row(2, committed_offset=12),
        marker(3, "COMMIT", 7),
        # A tombstone also cancels writes that are not yet committed.
        log_row(4, committed_offset=13, transactional=True, producer_id=7),
        log_row(5, tombstone=True),
        marker(6, "COMMIT", 7),
    ]
    history = offsets.history_of_segments(log_of(spark, rows))
    assert [row.committed_offset for row in history.orderBy("position").collect()] == [10, 12, None]
    assert offset_jobs.regressions(history).collect() == []


def test_lag_uses_the_last_known_end_offset(spark: SparkSession) -> None:
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
    requests = table(frame, "requests")
    deletions = offsets.topics_deleted(requests)
    history = offsets.history_of_trace(table(frame, "events"), requests, no_lives(spark), deletions)
    ends = spark.createDataFrame(
        [("t", 0, at(15), 20), ("t", 0, at(25), 9), ("t", 0, at(99), 5000), ("u", 0, at(1), 7)],
        "topic string, partition int, happened_at timestamp, end_offset bigint",
    )
    lags = offsets.lag(history, ends).orderBy("happened_at").collect()
    assert [(r.committed_offset, r.end_offset, r.lag, r.known_at) for r in lags] == [
        (8, 20, 12, at(15)),
        (9, 9, 0, at(25)),
    ]
    # The consumer died; its topic grew on.
    assert [(r.newest_end_offset, r.behind) for r in lags] == [(None, None), (5000, 4991)]


def test_the_sources_yield_their_schemas(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    for arrow, declared in ((events.SCHEMA, EVENTS), (records.SCHEMA, LOG_RECORDS)):
        assert isinstance(arrow, pa.Schema)
        assertSchemaEqual(from_arrow_schema(arrow), declared.schema)


def test_the_page_lists_every_column() -> None:
    page = (DOCS / documents.PAGE).read_text()
    assert page == documents.columns(), "run: python -m kafka_shim.pipeline.documents docs"
