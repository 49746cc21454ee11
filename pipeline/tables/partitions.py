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
    """One row an assignment: its number in the group's order, the protocol, and what is known of the next round."""
    order = in_order(*_GROUP)
    later = order.rowsBetween(1, Window.unboundedFollowing)
    halves = events.where("event in ('round', 'assignment')").withColumn("started_at", wall_of("started"))
    round_now = F.col("event") == "round"
    joined = F.map_from_entries(
        F.transform(
            "waited_for",
            lambda each: F.struct(
                each["member_id"].alias("key"),
                (F.unix_micros("started_at") + (each["ms"] * 1000).cast("bigint")).alias("value"),
            ),
        )
    )
    halves = halves.withColumns(
        {
            "protocol": F.last(F.when(round_now, F.col("protocol")), ignorenulls=True).over(order),
            "next_started_at": F.first(F.when(round_now, F.col("started_at")), ignorenulls=True).over(later),
            "next_joined": F.first(F.when(round_now, joined), ignorenulls=True).over(later),
        }
    )
    return halves.where("event = 'assignment'").withColumns(
        {
            "ordinal": F.row_number().over(order),
            "next_at": F.lead("at").over(order),
            "cooperative": cooperative(F.col("protocol")),
        }
    )


def assigned(generations: DataFrame) -> DataFrame:
    """One row a partition of an assignment."""
    by_topic = generations.select(
        *("trace", "group", "seq", "at", "generation", "ordinal", "cooperative", "next_started_at", "next_joined"),
        "next_at",
        F.explode("assignments").alias("of"),
    )
    return by_topic.select("*", "of.member_id", "of.topic", F.explode("of.partitions").alias("partition")).drop("of")


def ownership(events: DataFrame) -> DataFrame:
    """Table `ownership` of table `events`."""
    rows = assigned(generations(events))
    order = Window.partitionBy(*_PARTITION, "member_id").orderBy("ordinal")
    rejoined = F.timestamp_micros(F.try_element_at("next_joined", F.col("member_id")))
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
        }
    )
    return conform(keyed(found, "owned_from"), "ownership")


def partition_pauses(ownership: DataFrame) -> DataFrame:
    """Table `partition_pauses` of table `ownership`."""
    order = Window.partitionBy(*_PARTITION).orderBy("owned_from", "member_id")
    found = ownership.withColumns(
        {"from_member": F.lag("member_id").over(order), "started_at": F.lag("owned_until").over(order)}
    ).where("started_at is not null and owned_from > started_at")
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
        F.collect_list(F.struct("member_id", "had")).alias("owned"),
    )
    in_turn = Window.partitionBy(*_GROUP).orderBy("ordinal")
    found = (
        numbered.select(*key, "seq", "generation", "at", "protocol", "members", "day", "bucket")
        .join(totals, [*key], "left")
        .withColumns(
            {
                "owned_before": F.lag("owned").over(in_turn),
                "all": F.greatest("partitions", F.lag("partitions").over(in_turn)),
                "size": F.size("members"),
            }
        )
    )
    least_each = F.floor(F.col("all") / F.col("size"))
    still_here = F.filter("owned_before", lambda each: F.array_contains("members", each["member_id"]))
    had = F.transform(still_here, lambda each: each["had"])
    zero = F.lit(0).cast("bigint")
    within = F.aggregate(had, zero, lambda total, each: total + F.least(each, F.col("least_each")))
    above = F.aggregate(had, zero, lambda total, each: total + (each > F.col("least_each")).cast("bigint"))
    found = found.withColumn("least_each", least_each).withColumn(
        "best_kept", within + F.least(above, F.col("all") % F.col("size"))
    )
    found = found.withColumns(
        {
            "least": F.when(F.col("owners") < F.col("size"), F.lit(0)).otherwise(F.col("fewest")),
            "members": F.col("size"),
            "stickiness": F.when(F.col("best_kept") > 0, F.least(F.lit(1.0), F.col("kept") / F.col("best_kept"))),
        }
    )
    return conform(found, "assignments")
