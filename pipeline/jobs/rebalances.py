"""Jobs about rebalances: which groups storm, why, who is slow, what it costs, what would have saved it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import in_one_part, ms_between

STORM_GAP_S: Final = 120
"""Rounds at most this far apart belong together."""
STORM_ROUNDS: Final = 6
"""So many rounds together are a storm; a change to a cooperative group and back takes four."""
BACK_WITHIN_S: Final = 45
"""session.timeout.ms of today's consumers: a static member that is back within it was never missed."""


def storms(rounds: DataFrame, gap_s: int = STORM_GAP_S, least: int = STORM_ROUNDS) -> DataFrame:
    """Sessions of rounds: `group`, `began`, `ended`, `rounds`, `causes` (by how often), `rebalancing_ms` (sum of the
    rounds), `share` of the session spent rebalancing. Members that only join are none where each makes an epoch of its
    own: that is how such a group starts."""
    order = Window.partitionBy("group").orderBy("started_at", "seq")
    apart = ms_between(F.lag(F.coalesce("stable_at", "joined_at")).over(order), F.col("started_at"))
    begins = F.coalesce(apart > gap_s * 1000, F.lit(True)).cast("int")
    sessions = rounds.withColumn("begins", begins).withColumn("session", F.sum("begins").over(order))
    by_cause = sessions.groupBy("group", "session", "cause").agg(
        F.min("started_at").alias("began"),
        F.max(F.coalesce("stable_at", "joined_at")).alias("ended"),
        F.count("*").alias("rounds"),
        F.sum("total_ms").alias("rebalancing_ms"),
        F.min("generation").alias("first"),
        F.max("generation").alias("last"),
        F.max(F.coalesce((F.col("cause") != "NEW_MEMBER") | (F.col("kind") == "classic"), F.lit(True))).alias(
            "is_trouble"
        ),
    )
    found = by_cause.groupBy("group", "session").agg(
        F.min("began").alias("began"),
        F.max("ended").alias("ended"),
        F.sum("rounds").alias("rounds"),
        F.sum("rebalancing_ms").alias("rebalancing_ms"),
        F.min("first").alias("first_generation"),
        F.max("last").alias("last_generation"),
        F.max("is_trouble").alias("is_trouble"),
        F.sort_array(F.collect_list(F.struct(F.col("rounds"), F.col("cause"))), asc=False).alias("causes"),
    )
    found = (
        found.where((F.col("rounds") >= least) & F.col("is_trouble"))
        .withColumn("share", F.col("rebalancing_ms") / ms_between(F.col("began"), F.col("ended")))
        .withColumn("causes", F.transform("causes", lambda each: F.concat_ws(" ", each["rounds"], each["cause"])))
        .drop("session", "is_trouble")
    )
    return in_one_part(found, F.desc("rounds"), "group")


def blame(rounds: DataFrame, membership: DataFrame) -> DataFrame:
    """Who groups waited for: by `group`, `client_id` and `role` (member, which joined last, or gave partitions up last;
    leader, which assigned), how many `rounds`, `ms` in sum and at most. A member's ms are those it came after the last
    but one."""
    members = rounds.where("blamed is not null").select(
        "trace",
        "group",
        F.col("blamed").alias("member_id"),
        F.lit("member").alias("role"),
        F.col("behind_ms").alias("ms"),
    )
    leaders = rounds.where("leader_ms is not null").select(
        "trace",
        "group",
        F.col("leader").alias("member_id"),
        F.lit("leader").alias("role"),
        F.col("leader_ms").alias("ms"),
    )
    names = membership.select("trace", "group", "member_id", "client_id")
    found = (
        members.unionByName(leaders)
        .join(names, ["trace", "group", "member_id"], "left")
        .groupBy("group", F.coalesce("client_id", "member_id").alias("client_id"), "role")
        .agg(
            F.count("*").alias("rounds"),
            F.sum("ms").alias("ms"),
            F.max("ms").alias("most_ms"),
            F.max_by("member_id", "ms").alias("worst_member_id"),
        )
    )
    return in_one_part(found, F.desc("ms"), "group")


def causes(rounds: DataFrame) -> DataFrame:
    """The histogram of causes: `group`, `day`, `cause`, `rounds`, `total_ms`."""
    by = ("group", "day", "cause")
    found = rounds.groupBy(*by).agg(F.count("*").alias("rounds"), F.sum("total_ms").alias("total_ms"))
    return in_one_part(found, *by)


def cost(rounds: DataFrame, member_pauses: DataFrame, partition_pauses: DataFrame) -> DataFrame:
    """Eager against cooperative and against the other kinds of groups, which always are, one row each: what rounds took
    and what stood still meanwhile.

    `needless_ms` are the pauses of partitions that came back to the same member.
    """
    key = ["kind", "cooperative"]
    by_round = rounds.groupBy(*key).agg(
        F.count_distinct("group").alias("groups"),
        F.count("*").alias("rounds"),
        F.avg("total_ms").alias("mean_round_ms"),
        F.percentile_approx("total_ms", 0.99).alias("p99_round_ms"),
    )
    # The others have no pauses of members.
    by_member = (
        member_pauses.withColumn("kind", F.lit("classic"))
        .groupBy(*key)
        .agg(F.count("*").alias("member_pauses"), F.sum("ms").alias("member_pause_ms"))
    )
    by_partition = partition_pauses.groupBy(*key).agg(
        F.count("*").alias("partition_pauses"),
        F.sum("ms").alias("partition_pause_ms"),
        F.sum(F.when(~F.col("moved"), F.col("ms")).otherwise(0.0)).alias("needless_ms"),
    )
    found = by_round.join(by_member, key, "left").join(by_partition, key, "left")
    found = found.withColumn("partition_ms_a_round", F.col("partition_pause_ms") / F.col("rounds"))
    return in_one_part(found, *key)


def migration(rounds: DataFrame, membership: DataFrame, partition_pauses: DataFrame) -> DataFrame:
    """Which groups gain most from another membership or protocol, by what their own history would have been without.

    `static_saves_rounds`: a member went, and within its session time the same client was back under a new id. A static
    member that restarts like that keeps its place: neither of the two rounds happens, nor those that follow from them.
    `kip848_saves_ms`: pauses of partitions that came back to the member that had them, which KIP-848 and cooperative
    assignors never stop; and for all others, the part of the pause spent on waiting for members that had nothing to do
    with the partition is still counted as spent, so this is a lower bound.
    """
    client = ("trace", "group", "client_id")
    order = Window.partitionBy(*client).orderBy("joined_at")
    restarts = (
        membership.where("client_id != '' and instance_id is null")
        .withColumn("back_at", F.lead("joined_at").over(order))
        .where("left_at is not null and how in ('left', 'expired') and back_at >= left_at")
        .withColumn("away_ms", ms_between(F.col("left_at"), F.col("back_at")))
        .where(F.col("away_ms") <= BACK_WITHIN_S * 1000)
        .select("trace", "group", "member_id", "left_at", "back_at")
    )
    touched = _within(rounds, restarts)
    static = touched.groupBy("group").agg(
        F.count("*").alias("static_saves_rounds"), F.sum("total_ms").alias("static_saves_ms")
    )
    bounces = restarts.groupBy("group").agg(F.count("*").alias("restarts"))
    pauses = (
        partition_pauses.where("kind = 'classic'")
        .groupBy("group")
        .agg(
            F.sum("ms").alias("partition_pause_ms"),
            F.sum(F.when(~F.col("moved"), F.col("ms")).otherwise(0.0)).alias("kip848_saves_ms"),
        )
    )
    every = rounds.groupBy("group").agg(
        F.count("*").alias("rounds"),
        F.sum("total_ms").alias("rebalancing_ms"),
        F.max_by("protocol", "started_at").alias("protocol"),
    )
    found = every.join(bounces, "group", "left").join(static, "group", "left").join(pauses, "group", "left")
    found = found.fillna(0)
    advice = (
        F.when(
            (F.col("static_saves_rounds") > 0) & (F.col("static_saves_rounds") * 2 >= F.col("rounds")),
            "static membership",
        )
        .when(F.col("kip848_saves_ms") > 0, "KIP-848")
        .otherwise("none")
    )
    saves = F.desc(F.col("static_saves_ms") + F.col("kip848_saves_ms"))
    return in_one_part(found.withColumn("advice", advice), saves, "group")


def _within(rounds: DataFrame, restarts: DataFrame) -> DataFrame:
    """The rounds that began between a member's leave, or just before it, and the end of the one that took it back.

    Gone through in the order of time, a round is one if some restart before it ends after it: one pass over a group.
    """
    begun = restarts.select(
        *("trace", "group", (F.col("left_at") - F.expr("interval 10 milliseconds")).alias("at")),
        *(F.lit(None).cast("bigint").alias("seq"), F.lit(None).cast("double").alias("total_ms")),
        (F.col("back_at") + F.expr("interval 1 second")).alias("ends"),
    )
    started = rounds.select(
        *("trace", "group", F.col("started_at").alias("at"), "seq", "total_ms"),
        F.lit(None).cast("timestamp").alias("ends"),
    )
    # At the same time the restart comes first.
    order = Window.partitionBy("trace", "group").orderBy("at", F.col("ends").isNull())
    ends = F.max("ends").over(order.rowsBetween(Window.unboundedPreceding, 0))
    both = begun.unionByName(started).withColumn("latest", ends)
    return both.where("seq is not null and latest >= at").select("trace", "seq", "group", "total_ms")
