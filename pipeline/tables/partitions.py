"""Tables of who owned what: ownership, pauses of partitions, assignments with balance and movement.

What a coordinator sees of ownership: a member owns what it is assigned once the group is Stable. An eager member gives
all of it up before it joins again; a cooperative one keeps it until an assignment without it. A member that does not
join the next round is gone from its start. When each member joined is in `waited_for` of the round.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import conform, cooperative, in_order, keyed, ms_between, wall_of

_GROUP = ("trace", "group")
_PARTITION = ("trace", "group", "topic", "partition")


def generations(events: DataFrame) -> DataFrame:
    """One row an assignment: its number in the group's order, the number of its round, the protocol, and when the next
    round began."""
    order = in_order(*_GROUP)
    # Backwards what comes next stands before, and a frame that ends with the row is one pass over the group.
    later = Window.partitionBy(*_GROUP).orderBy(F.desc("seq")).rowsBetween(Window.unboundedPreceding, -1)
    halves = _halves(events).withColumn("started_at", wall_of("started"))
    is_round = F.col("event") == "round"
    halves = halves.withColumns(
        {
            "protocol": F.last(F.when(is_round, F.col("protocol")), ignorenulls=True).over(order),
            "next_started_at": F.last(F.when(is_round, F.col("started_at")), ignorenulls=True).over(later),
        }
    )
    return halves.where("event = 'assignment'").withColumns(
        {
            "ordinal": F.row_number().over(order),
            "next_at": F.lead("at").over(order),
            "cooperative": cooperative(F.col("protocol")),
        }
    )


def _halves(events: DataFrame) -> DataFrame:
    """Rounds and assignments, with the number of the round in its group's order."""
    counted = F.count(F.when(F.col("event") == "round", 1)).over(in_order(*_GROUP))
    return events.where("event in ('round', 'assignment')").withColumn("round", counted)


def assigned(generations: DataFrame) -> DataFrame:
    """One row a partition of an assignment."""
    by_topic = generations.select(
        *("trace", "group", "seq", "at", "generation", "ordinal", "round", "cooperative", "next_started_at", "next_at"),
        F.explode("assignments").alias("of"),
    )
    return by_topic.select("*", "of.member_id", "of.topic", F.explode("of.partitions").alias("partition")).drop("of")


def _joined(events: DataFrame) -> DataFrame:
    """One row a member of a round: when it joined, with the number of the round before."""
    rounds = _halves(events).where("event = 'round'").withColumn("started_at", wall_of("started"))
    each = rounds.select(
        *_GROUP, (F.col("round") - 1).alias("round"), "started_at", F.explode("waited_for").alias("of")
    )
    joined_at = F.timestamp_micros(F.unix_micros("started_at") + (F.col("of.ms") * 1000).cast("bigint"))
    return each.groupBy(*_GROUP, "round", F.col("of.member_id").alias("member_id")).agg(
        F.min(joined_at).alias("rejoined_at")
    )


def ownership(events: DataFrame) -> DataFrame:
    """Rows of classic groups of table `ownership`, of table `events`."""
    rows = assigned(generations(events)).join(_joined(events), [*_GROUP, "round", "member_id"], "left")
    order = Window.partitionBy(*_PARTITION, "member_id").orderBy("ordinal")
    rejoined = F.col("rejoined_at")
    keeps = F.col("cooperative") & (F.lead("ordinal").over(order) == F.col("ordinal") + 1)
    gone = F.col("next_started_at").isNotNull() & rejoined.isNull()
    rows = rows.withColumns(
        {
            "keeps": F.coalesce(keeps, F.lit(False)),
            "until": F.when(gone, F.col("next_started_at"))
            .when(F.col("cooperative"), F.col("next_at"))
            .otherwise(rejoined),
            "why": F.when(gone, "gone").when(F.col("cooperative"), "revoked").otherwise("rejoin"),
        }
    )
    started = F.coalesce(~F.lag("keeps").over(order), F.lit(True)).cast("int")
    found = (
        rows.withColumn("starts", started)
        .withColumn("island", F.sum("starts").over(order))
        .groupBy(*_PARTITION, "member_id", "island")
        .agg(
            F.min_by("generation", "ordinal").alias("from_generation"),
            F.max_by("generation", "ordinal").alias("to_generation"),
            F.min("at").alias("owned_from"),
            F.max_by("until", "ordinal").alias("owned_until"),
            F.max_by("why", "ordinal").alias("why"),
            F.max("cooperative").alias("cooperative"),
        )
    )
    found = found.withColumns(
        {
            "ms": ms_between(F.col("owned_from"), F.col("owned_until")),
            "ended_by": F.when(F.col("owned_until").isNotNull(), F.col("why")),
            "kind": F.lit("classic"),
        }
    )
    return conform(keyed(found, "owned_from"), "ownership")


def partition_pauses(ownership: DataFrame) -> DataFrame:
    """Table `partition_pauses` of table `ownership`. Members of a share group share its partitions."""
    order = Window.partitionBy(*_PARTITION).orderBy("owned_from", "member_id")
    found = (
        ownership.where("kind != 'share'")
        .withColumns({"from_member": F.lag("member_id").over(order), "started_at": F.lag("owned_until").over(order)})
        .where("started_at is not null and owned_from > started_at")
    )
    found = found.withColumns(
        {
            "to_member": F.col("member_id"),
            "moved": F.col("from_member") != F.col("member_id"),
            "generation": F.col("from_generation"),
            "ended_at": F.col("owned_from"),
            "ms": ms_between(F.col("started_at"), F.col("owned_from")),
        }
    )
    return conform(keyed(found, "started_at"), "partition_pauses")


def assignments(events: DataFrame) -> DataFrame:
    """Table `assignments` of table `events`.

    The most that a balanced assignment could have kept: with n partitions and k members each may have n // k, and
    n % k of them one more; a member can keep no more than that of what it had.
    """
    numbered = generations(events)
    rows = assigned(numbered)
    order = Window.partitionBy(*_PARTITION).orderBy("ordinal")
    before = F.lag("member_id").over(order)
    kept = (F.lag("ordinal").over(order) == F.col("ordinal") - 1) & (before == F.col("member_id"))
    rows = rows.withColumns(
        {"kept": F.coalesce(kept, F.lit(False)), "moved": F.coalesce(before != F.col("member_id"), F.lit(False))}
    )
    key = (*_GROUP, "ordinal")
    by_member = rows.groupBy(*key, "member_id").agg(
        F.count("*").alias("had"),
        F.count(F.when(F.col("kept"), 1)).alias("kept"),
        F.count(F.when(F.col("moved"), 1)).alias("moved"),
    )
    totals = by_member.groupBy(*key).agg(
        F.sum("had").alias("partitions"),
        F.min("had").alias("fewest"),
        F.max("had").alias("most"),
        F.count("*").alias("owners"),
        F.sum("kept").alias("kept"),
        F.sum("moved").alias("moved"),
    )
    in_turn = Window.partitionBy(*_GROUP).orderBy("ordinal")
    found = (
        numbered.select(*key, "seq", "generation", "at", "protocol", "members", "day", "bucket")
        .join(totals, [*key], "left")
        .withColumns({"all": F.greatest("partitions", F.lag("partitions").over(in_turn)), "size": F.size("members")})
        # An assignment to nobody has nothing to share.
        .withColumn("least_each", F.floor(F.col("all") / F.expr("nullif(size, 0)")))
    )
    # What each member that is still there had before.
    still_here = found.select(*key, "least_each", F.explode("members").alias("member_id")).join(
        by_member.select(*_GROUP, (F.col("ordinal") + 1).alias("ordinal"), "member_id", "had"), [*key, "member_id"]
    )
    could = still_here.groupBy(*key).agg(
        F.sum(F.least("had", "least_each")).alias("within"),
        F.count(F.when(F.col("had") > F.col("least_each"), 1)).alias("above"),
    )
    found = found.join(could, [*key], "left").withColumn(
        "best_kept", F.col("within") + F.least(F.col("above"), F.col("all") % F.expr("nullif(size, 0)"))
    )
    found = found.withColumns(
        {
            "least": F.when(F.col("owners") < F.col("size"), F.lit(0)).otherwise(F.col("fewest")),
            "members": F.col("size"),
            "stickiness": F.when(F.col("best_kept") > 0, F.least(F.lit(1.0), F.col("kept") / F.col("best_kept"))),
        }
    )
    return conform(found, "assignments")
