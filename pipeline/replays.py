"""The groups that would gain most from another setting, played again with it: result `replays`.

Decides which groups those are and what of the tables makes up their past; how a past is played is in
`shim/lab/replaying.py`, as for `kafka-shim why`. It is done where Spark's driver runs, group by group: a play takes a
fraction of a second. What was slow about the real members is not played.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from kafka_shim.lab.replaying import play
from kafka_shim.pipeline.warehouse import Warehouse
from kafka_shim.why.past import SESSION_TIMEOUT_S, Change, Past, Stay, assignor_of, placed

WORST: Final = 10
STAYS: Final = 500
"""Of a group with more stays, the last ones are played."""

SCHEMA: Final = (
    "group string, protocol string, stays int, rounds bigint, played_rounds int, static_rounds int,"
    " cooperative_rounds int, both_rounds int, played_pause_s double, static_pause_s double,"
    " cooperative_pause_s double, both_pause_s double"
)


class _Candidate(NamedTuple):
    group: str
    protocol: str
    rounds: int


def replays(warehouse: Warehouse, worst: int = WORST) -> DataFrame:
    """By group: its `stays` of members, the `rounds` it had, and what a play of it has as it was (`played_`), with
    static members, with a cooperative assignor, and with `both`: rounds, and seconds that partitions had no owner."""
    candidates = _candidates(warehouse, worst)
    pasts = _pasts(warehouse, candidates)
    rows = []
    for candidate in candidates:
        past = pasts[candidate.group]
        plays = [play(past.changed(change)) for change in _CHANGES]
        rows.append(
            (
                *(candidate.group, candidate.protocol, len(past.stays), candidate.rounds),
                *(each.rebalances for each in plays),
                *(round(each.partition_seconds, 3) for each in plays),
            )
        )
    return warehouse.spark.createDataFrame(rows, SCHEMA)


_CHANGES: Final = (Change(), Change(static=True), Change(cooperative=True), Change(static=True, cooperative=True))


def _candidates(warehouse: Warehouse, worst: int) -> list[_Candidate]:
    gain = F.col("static_saves_ms") + F.col("kip848_saves_ms")
    ranked = warehouse.result("migration").where("advice != 'none'").orderBy(F.desc(gain), "group").limit(worst)
    return [_Candidate(row.group, row.protocol or "", row.rounds) for row in ranked.collect()]


def _pasts(warehouse: Warehouse, candidates: list[_Candidate]) -> dict[str, Past]:
    """What the tables tell of each of these groups."""
    chosen = F.col("group").isin([each.group for each in candidates])
    last_first = Window.partitionBy("group").orderBy(F.desc(F.coalesce("joined_at", "left_at")), "member_id")
    members = (
        warehouse.read("membership")
        .where(chosen)
        .withColumn("place", F.row_number().over(last_first))
        .where(F.col("place") <= STAYS)
        .collect()
    )
    owned = warehouse.read("ownership").where(chosen).groupBy("group", "topic")
    topics = owned.agg((F.max("partition") + 1).alias("partitions")).collect()
    joins = warehouse.read("requests", steady=False).where(chosen & F.col("session_timeout_ms").isNotNull())
    timeouts = {
        row.group: row.ms / 1000
        for row in joins.groupBy("group").agg(F.max("session_timeout_ms").alias("ms")).collect()
    }
    return {
        each.group: Past(
            placed(_stays([row for row in members if row.group == each.group])),
            {row.topic: row.partitions for row in topics if row.group == each.group},
            assignor_of(each.protocol),
            timeouts.get(each.group, SESSION_TIMEOUT_S),
        )
        for each in candidates
    }


def _stays(rows: list[Row]) -> list[Stay]:
    """Rows of table `membership` as stays, in seconds from the first of them on."""
    first = min((row.joined_at or row.left_at for row in rows), default=None)

    def seconds(at: datetime | None) -> float | None:
        return None if at is None or first is None else (at - first).total_seconds()

    return [
        Stay(
            row.instance_id or row.client_id or row.member_id,
            seconds(row.joined_at) or 0.0,
            seconds(row.left_at),
            row.how or "",
            row.instance_id,
        )
        for row in rows
    ]
