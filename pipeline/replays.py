"""Table `replays`: the groups that lost most time to rebalances, simulated again with other settings.

Chooses the groups that would gain most from another setting and reads their history from the tables;
`shim/lab/replaying.py` simulates a history, as for `kafka-shim why`. It runs in Spark's driver, group by group: a
simulation takes a fraction of a second. Members in the simulation are never slow.
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
"""Maximum number of stays to simulate per group: the last ones."""

SCHEMA: Final = (
    "group_id string, protocol string, stays int, rounds bigint, played_rounds int, static_rounds int,"
    " cooperative_rounds int, both_rounds int, played_pause_s double, static_pause_s double,"
    " cooperative_pause_s double, both_pause_s double"
)


class _Candidate(NamedTuple):
    group_id: str
    protocol: str
    rounds: int


def replays(warehouse: Warehouse, worst: int = WORST) -> DataFrame:
    """Return a row per group: its `stays` of members, the `rounds` it had, and the outcome of each simulation.

    The simulations: unchanged (`played_`), with static members, with a cooperative assignor, with `both`. Their outcome
    is a number of rounds and the seconds in which partitions had no owner.
    """
    candidates = _candidates(warehouse, worst)
    pasts = _pasts(warehouse, candidates)
    rows = []
    for candidate in candidates:
        past = pasts[candidate.group_id]
        plays = [play(past.changed(change)) for change in _CHANGES]
        rows.append(
            (
                *(candidate.group_id, candidate.protocol, len(past.stays), candidate.rounds),
                *(each.rebalances for each in plays),
                *(round(each.partition_seconds, 3) for each in plays),
            )
        )
    return warehouse.spark.createDataFrame(rows, SCHEMA)


_CHANGES: Final = (Change(), Change(static=True), Change(cooperative=True), Change(static=True, cooperative=True))


def _candidates(warehouse: Warehouse, worst: int) -> list[_Candidate]:
    gain = F.col("static_saves_ms") + F.col("kip848_saves_ms")
    ranked = (
        warehouse.result("migration")
        .where("advice != 'none'")
        .where(gain.isNotNull())
        .orderBy(F.desc(gain), "group_id")
        .limit(worst)
    )
    return [_Candidate(row.group_id, row.protocol or "", row.rounds) for row in ranked.collect()]


def _pasts(warehouse: Warehouse, candidates: list[_Candidate]) -> dict[str, Past]:
    """Read the history of each of these groups from the tables."""
    chosen = F.col("group_id").isin([each.group_id for each in candidates])
    last_first = Window.partitionBy("group_id").orderBy(F.desc(F.coalesce("joined_at", "left_at")), "member_id")
    members = (
        warehouse.read("membership")
        .where(chosen)
        .withColumn("place", F.row_number().over(last_first))
        .where(F.col("place") <= STAYS)
        .collect()
    )
    owned = warehouse.read("ownership").where(chosen).groupBy("group_id", "topic")
    topics = owned.agg((F.max("partition") + 1).alias("partitions")).collect()
    joins = warehouse.read("requests", steady=False).where(chosen & F.col("session_timeout_ms").isNotNull())
    timeouts = {
        row.group_id: row.ms / 1000
        for row in joins.groupBy("group_id").agg(F.max("session_timeout_ms").alias("ms")).collect()
    }
    return {
        each.group_id: Past(
            placed(_stays([row for row in members if row.group_id == each.group_id])),
            {row.topic: row.partitions for row in topics if row.group_id == each.group_id},
            assignor_of(each.protocol),
            timeouts.get(each.group_id, SESSION_TIMEOUT_S),
        )
        for each in candidates
    }


def _stays(rows: list[Row]) -> list[Stay]:
    """Convert rows of table `membership` to stays, in seconds from the first of them."""
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
