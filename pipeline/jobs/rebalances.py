"""Jobs about rebalances: storms, slow members, causes, cost, and savings by other settings."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import in_one_part, ms_between, of_log

STORM_GAP_S: Final = 120
"""Maximum seconds between two rounds of one storm."""
STORM_ROUNDS: Final = 6
"""Least number of rounds of a storm; a change to a cooperative group and back takes four."""
BACK_WITHIN_S: Final = 45
"""Default session.timeout.ms of consumers, in seconds: a static member that returns within it causes no rebalance."""


def storms(rounds: DataFrame, gap_s: int = STORM_GAP_S, least: int = STORM_ROUNDS) -> DataFrame:
    """Return sessions of many rounds, each close to the next: `group_id`, `began`, `ended`, `rounds` and more.

    `causes` (by frequency), `rebalancing_ms` (sum of the rounds), `share` of the session spent rebalancing. In groups
    with epochs every join is an epoch, so a session of joins alone is no storm: that is how such a group starts.
    """
    order = Window.partitionBy("group_id").orderBy("started_at", "seq")
    apart = ms_between(F.lag(F.coalesce("stable_at", "joined_at")).over(order), F.col("started_at"))
    begins = F.coalesce(apart > gap_s * 1000, F.lit(True)).cast("int")
    sessions = rounds.withColumn("begins", begins).withColumn("session", F.sum("begins").over(order))
    by_cause = sessions.groupBy("group_id", "session", "cause").agg(
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
    long_sessions = by_cause.groupBy("group_id", "session").agg(
        F.min("began").alias("began"),
        F.max("ended").alias("ended"),
        F.sum("rounds").alias("rounds"),
        F.sum("rebalancing_ms").alias("rebalancing_ms"),
        F.min("first").alias("first_generation"),
        F.max("last").alias("last_generation"),
        F.max("is_trouble").alias("is_trouble"),
        F.sort_array(F.collect_list(F.struct(F.col("rounds"), F.col("cause"))), asc=False).alias("causes"),
    )
    long_sessions = (
        long_sessions.where((F.col("rounds") >= least) & F.col("is_trouble"))
        .withColumn("share", F.col("rebalancing_ms") / ms_between(F.col("began"), F.col("ended")))
        .withColumn("causes", F.transform("causes", lambda each: F.concat_ws(" ", each["rounds"], each["cause"])))
        .drop("session", "is_trouble")
    )
    return in_one_part(long_sessions, F.desc("rounds"), "group_id")


def blame(rounds: DataFrame, membership: DataFrame) -> DataFrame:
    """Return the members that groups waited for, by `group_id`, `client_id`, `client_host` and `role`: `rounds`, `ms`
    in sum and at most. Many clients share one client id, which is Java's default.

    Role `member`: it joined last, or gave up partitions last; its ms count from the last member but one. Role `leader`:
    the time it took to assign.
    """
    members = rounds.where("blamed is not null").select(
        "group_id",
        F.col("blamed").alias("member_id"),
        F.lit("member").alias("role"),
        F.col("behind_ms").alias("ms"),
    )
    leaders = rounds.where("leader_ms is not null").select(
        "group_id",
        F.col("leader").alias("member_id"),
        F.lit("leader").alias("role"),
        F.col("leader_ms").alias("ms"),
    )
    names = membership.groupBy("group_id", "member_id").agg(
        *(F.max(name).alias(name) for name in ("client_id", "client_host"))
    )
    waits = (
        members.unionByName(leaders)
        .join(names, ["group_id", "member_id"], "left")
        .groupBy("group_id", F.coalesce("client_id", "member_id").alias("client_id"), "client_host", "role")
        .agg(
            F.count("*").alias("rounds"),
            F.sum("ms").alias("ms"),
            F.max("ms").alias("most_ms"),
            F.max_by("member_id", "ms").alias("worst_member_id"),
        )
    )
    return in_one_part(waits, F.desc("ms"), "group_id")


def causes(rounds: DataFrame) -> DataFrame:
    """Count rounds by cause: `group_id`, `day`, `cause`, `rounds`, `total_ms`."""
    by = ("group_id", "day", "cause")
    counts = rounds.groupBy(*by).agg(F.count("*").alias("rounds"), F.sum("total_ms").alias("total_ms"))
    return in_one_part(counts, *by)


def cost(rounds: DataFrame, member_pauses: DataFrame, partition_pauses: DataFrame) -> DataFrame:
    """Compare eager and cooperative rounds, and those of the other kinds of groups, which are always cooperative.

    A row for each: duration of the rounds, their time before the assignment interval had passed (`interval_ms`), and
    pauses of members and partitions. `needless_ms` are the pauses of partitions that returned to the same member.
    """
    key = ["kind", "cooperative"]
    by_round = rounds.groupBy(*key).agg(
        F.count_distinct("group_id").alias("groups"),
        F.count("*").alias("rounds"),
        F.avg("total_ms").alias("mean_round_ms"),
        F.percentile_approx("total_ms", 0.99).alias("p99_round_ms"),
        F.sum("interval_ms").alias("interval_ms"),
    )
    # Groups with epochs have no pauses of members.
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
    costs = by_round.join(by_member, key, "left").join(by_partition, key, "left")
    costs = costs.withColumn("partition_ms_a_round", F.col("partition_pause_ms") / F.col("rounds"))
    return in_one_part(costs, *key)


def migration(rounds: DataFrame, membership: DataFrame, partition_pauses: DataFrame) -> DataFrame:
    """Estimate the gain of each group from static membership or from KIP-848, by its own history.

    `static_saves_rounds`: a member left, and within its session timeout the same client, by client id and host,
    returned under a new id. A
    static member keeps its place through such a restart: neither of the two rounds happens, nor those that follow from
    them. `kip848_saves_ms`: pauses of partitions that returned to the same member; KIP-848 and cooperative assignors
    never pause these. For all other partitions, waiting for members without any part in the move still counts as spent,
    so this is a lower bound.
    """
    client = ("first_run", "group_id", "client_id", "client_host")
    dynamic = membership.where("client_id != '' and instance_id is null")
    names = (*client, "trace", "member_id", "left_at")
    nothing = F.lit(None).cast("timestamp")
    departures = dynamic.where("how in ('left', 'expired')").select(
        *names, F.col("left_at").alias("happened_at"), nothing.alias("back")
    )
    came = dynamic.where("joined_at is not null").select(
        *names, F.col("joined_at").alias("happened_at"), F.col("joined_at").alias("back")
    )
    # At equal times the departure comes first.
    later = Window.partitionBy(*client).orderBy(F.desc("happened_at"), F.col("back").isNull())
    back_at = F.last("back", ignorenulls=True).over(later.rowsBetween(Window.unboundedPreceding, -1))
    restarts = (
        departures.unionByName(came)
        .withColumn("back_at", back_at)
        .where("back is null and back_at is not null")
        # One return ends one absence: the last one before.
        .withColumn("again", F.row_number().over(Window.partitionBy(*client, "back_at").orderBy(F.desc("left_at"))))
        .where((F.col("again") == 1) & (ms_between(F.col("left_at"), F.col("back_at")) <= BACK_WITHIN_S * 1000))
        .select("trace", "group_id", "member_id", "left_at", "back_at")
    )
    touched = _within(rounds, restarts)
    static = touched.groupBy("group_id").agg(
        F.count("*").alias("static_saves_rounds"), F.sum("total_ms").alias("static_saves_ms")
    )
    bounces = restarts.groupBy("group_id").agg(F.count("*").alias("restarts"))
    pauses = (
        partition_pauses.where("kind = 'classic'")
        .groupBy("group_id")
        .agg(
            F.sum("ms").alias("partition_pause_ms"),
            F.sum(F.when(~F.col("moved"), F.col("ms")).otherwise(0.0)).alias("kip848_saves_ms"),
        )
    )
    every = rounds.groupBy("group_id").agg(
        F.count("*").alias("rounds"),
        F.sum("total_ms").alias("rebalancing_ms"),
        F.max_by("protocol", "started_at").alias("protocol"),
        F.max(of_log()).alias("of_log"),
    )
    savings = every.join(bounces, "group_id", "left").join(static, "group_id", "left").join(pauses, "group_id", "left")
    savings = savings.fillna(0, ["restarts", "static_saves_rounds", "static_saves_ms"])
    # Of brokers' logs alone, no partition has a known pause.
    pauses_of = {name: F.when(~F.col("of_log"), 0.0) for name in ("partition_pause_ms", "kip848_saves_ms")}
    savings = savings.withColumns({name: F.coalesce(name, none) for name, none in pauses_of.items()}).drop("of_log")
    advice = (
        F.when(
            (F.col("static_saves_rounds") > 0) & (F.col("static_saves_rounds") * 2 >= F.col("rounds")),
            "static membership",
        )
        .when(F.col("kip848_saves_ms") > 0, "KIP-848")
        .when(F.col("kip848_saves_ms").isNotNull(), "none")
    )
    saves = F.desc(F.col("static_saves_ms") + F.coalesce("kip848_saves_ms", F.lit(0.0)))
    return in_one_part(savings.withColumn("advice", advice), saves, "group_id")


def _within(rounds: DataFrame, restarts: DataFrame) -> DataFrame:
    """Return the rounds that began within a restart: from just before the leave to the end of the round of the return.

    One pass over a group in order of time: a round belongs to a restart if one that began earlier ends later.
    """
    intervals = restarts.select(
        *("trace", "group_id", (F.col("left_at") - F.expr("interval 10 milliseconds")).alias("happened_at")),
        *(F.lit(None).cast("bigint").alias("seq"), F.lit(None).cast("double").alias("total_ms")),
        (F.col("back_at") + F.expr("interval 1 second")).alias("ends"),
    )
    started = rounds.select(
        *("trace", "group_id", F.col("started_at").alias("happened_at"), "seq", "total_ms"),
        F.lit(None).cast("timestamp").alias("ends"),
    )
    # At equal times the restart sorts before the round.
    order = Window.partitionBy("trace", "group_id").orderBy("happened_at", F.col("ends").isNull())
    ends = F.max("ends").over(order.rowsBetween(Window.unboundedPreceding, 0))
    both = intervals.unionByName(started).withColumn("latest", ends)
    return both.where("seq is not null and latest >= happened_at").select("trace", "seq", "group_id", "total_ms")
