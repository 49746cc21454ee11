"""Tables of who was in a group and how it rebalanced: membership, rounds, pauses of members."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import conform, cooperative, in_order, keyed, ms_between, wall_of

CAME = ("added", "replaced")
WENT = ("left", "expired", "removed", "fenced")
_RETRIED = (0, 27, 79)
"""Errors of JoinGroup after which the member goes on joining: none, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED."""


def membership(events: DataFrame) -> DataFrame:
    """Table `membership` of table `events`. A member id never comes back, so each has one interval."""
    came, went = F.col("change").isin(*CAME), F.col("change").isin(*WENT)
    found = (
        events.where("event = 'member'")
        .groupBy("trace", "group", "member_id")
        .agg(
            F.max("instance_id").alias("instance_id"),
            F.max("client_id").alias("client_id"),
            F.max("client_host").alias("client_host"),
            F.min(F.when(came, F.col("at"))).alias("joined_at"),
            F.min(F.when(went, F.col("at"))).alias("left_at"),
            F.min_by("change", F.when(went, F.col("seq"))).alias("change"),
            F.max(F.col("change") == "pending").alias("was_pending"),
        )
        # An id that was handed out and never used was no member.
        .where("joined_at is not null or not was_pending")
    )
    found = found.withColumns(
        {
            "how": F.when(F.col("left_at").isNotNull(), F.col("change")),
            "ms": ms_between(F.col("joined_at"), F.col("left_at")),
            "at": F.coalesce("joined_at", "left_at"),
        }
    )
    return conform(keyed(found), "membership")


def rounds(events: DataFrame) -> DataFrame:
    """Rows of classic groups of table `rounds`, of table `events`. A round's second half is the assignment that comes
    next, of its generation."""
    order = in_order("trace", "group")
    halves = events.where("event in ('round', 'assignment')").withColumns(
        {
            "next_event": F.lead("event").over(order),
            "next_generation": F.lead("generation").over(order),
            "next_at": F.lead("at").over(order),
            "next_leader_ms": F.lead("leader_ms").over(order),
        }
    )
    stable = (F.col("next_event") == "assignment") & (F.col("next_generation") == F.col("generation"))
    found = halves.where("event = 'round'").withColumns(
        {
            "started_at": wall_of("started"),
            "joined_at": wall_of("ended"),
            "stable_at": F.when(stable, F.col("next_at")),
            "join_ms": (F.col("ended") - F.col("started")) * 1000,
            "leader_ms": F.when(stable, F.col("next_leader_ms")),
            "blamed": F.try_element_at("waited_for", F.lit(1))["member_id"],
            "blamed_ms": F.try_element_at("waited_for", F.lit(1))["ms"],
            "cooperative": cooperative(F.col("protocol")),
            "size": F.size("members"),
            "kind": F.lit("classic"),
        }
    )
    zero = F.lit(0.0)
    second = F.coalesce(F.try_element_at("waited_for", F.lit(2))["ms"], F.lit(0.0))
    found = found.withColumns(
        {
            "behind_ms": F.col("blamed_ms") - second,
            # A group that waits for somebody who never comes drops it in the end.
            "initial_delay_ms": F.when(
                F.size(F.coalesce("dropped", F.array())) == 0, F.greatest(F.col("join_ms") - F.col("blamed_ms"), zero)
            ).otherwise(zero),
            "total_ms": F.coalesce(ms_between(F.col("started_at"), F.col("stable_at")), F.col("join_ms")),
        }
    )
    return conform(keyed(found, "started_at"), "rounds")


def member_pauses(requests: DataFrame) -> DataFrame:
    """Table `member_pauses` of table `requests`."""
    attempts = requests.where(
        F.col("member_id").isNotNull()
        & (
            ((F.col("api") == "JoinGroup") & F.col("error").isin(*_RETRIED))
            | ((F.col("api") == "SyncGroup") & (F.col("error") == 0))
        )
    )
    synced = F.col("api") == "SyncGroup"
    before = in_order("trace", "group", "member_id").rowsBetween(Window.unboundedPreceding, -1)
    numbered = attempts.withColumn("number", F.coalesce(F.sum(synced.cast("int")).over(before), F.lit(0)))
    found = (
        numbered.groupBy("trace", "group", "member_id", "number")
        .agg(
            F.max("client_id").alias("client_id"),
            F.max(F.when(synced, F.col("generation"))).alias("generation"),
            F.max("protocol").alias("protocol"),
            F.min(F.when(~synced, F.col("arrived_at"))).alias("started_at"),
            F.max(F.when(synced, F.col("at"))).alias("ended_at"),
            F.count(F.when(~synced, 1)).alias("joins"),
        )
        .where("started_at is not null and ended_at is not null")
    )
    found = found.withColumns(
        {
            "cooperative": cooperative(F.col("protocol")),
            "ms": ms_between(F.col("started_at"), F.col("ended_at")),
        }
    )
    return conform(keyed(found, "started_at"), "member_pauses")
