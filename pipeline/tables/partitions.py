"""Computes DataFrames about the partitions of classic groups: owners, pauses, and the balance and moves of each
assignment.

Ownership as a coordinator sees it: a member owns its assignment once the group is Stable. It ends at the first of
several events: an eager member gives up all partitions before it joins again; a cooperative one gives up a partition by
an assignment without it; the member goes; the group ends, or becomes one of another kind. A member that does not join
the next round is gone from the beginning of that round. `waited_for` of the round has the time of each join. A static
member that returns under another id takes over the partitions of its old id.

The functions take placed events (`kafka_shim.pipeline.tables.lives`).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import conform, cooperative, keyed, ms_between, wall_of
from kafka_shim.pipeline.tables.groups import WENT
from kafka_shim.pipeline.tables.lives import HISTORY, after_it, ends_ownership, in_turn

_GROUP = HISTORY
_PARTITION = (*HISTORY, "topic", "partition")


def generations(events: DataFrame) -> DataFrame:
    """Return a row per assignment: its number in the group, the number of its round, the protocol, and the times of the
    next round and of the end of the group."""
    order, later = in_turn(*_GROUP), after_it(*_GROUP)
    halves = _halves(events).withColumns({"started_at": wall_of("started"), "ends": ends_ownership(order)})
    is_round = F.col("event") == "round"
    halves = halves.withColumns(
        {
            "protocol": F.last(F.when(is_round, F.col("protocol")), ignorenulls=True).over(order),
            "next_started_at": F.last(F.when(is_round, F.col("started_at")), ignorenulls=True).over(later),
            "ended_at": F.last(F.when(F.col("ends"), F.col("happened_at")), ignorenulls=True).over(later),
        }
    )
    return halves.where("event = 'assignment'").withColumns(
        {
            "ordinal": F.row_number().over(order),
            "next_at": F.lead("happened_at").over(order),
            "cooperative": cooperative(F.col("protocol")),
        }
    )


def _halves(events: DataFrame) -> DataFrame:
    """Return rounds and assignments with the number of the round in the group, and the events of the group itself."""
    counted = F.count(F.when(F.col("event") == "round", 1)).over(in_turn(*_GROUP))
    return events.where("event in ('round', 'assignment', 'group')").withColumn("round", counted)


def assigned(generations: DataFrame) -> DataFrame:
    """Return a row per partition of an assignment."""
    by_topic = generations.select(
        *(*_GROUP, "trace", "turn", "seq", "happened_at", "generation", "ordinal", "round", "cooperative"),
        *("next_started_at", "next_at", "ended_at"),
        F.explode("assignments").alias("of"),
    )
    return by_topic.select("*", "of.member_id", "of.topic", F.explode("of.partitions").alias("partition")).drop("of")


def _joined(events: DataFrame) -> DataFrame:
    """Return a row per member of a round: when it joined, with the number of the round before."""
    rounds = _halves(events).where("event = 'round'").withColumn("started_at", wall_of("started"))
    each = rounds.select(
        *_GROUP, (F.col("round") - 1).alias("round"), "started_at", F.explode("waited_for").alias("of")
    )
    joined_at = F.timestamp_micros(F.unix_micros("started_at") + (F.col("of.ms") * 1000).cast("bigint"))
    return each.groupBy(*_GROUP, "round", F.col("of.member_id").alias("member_id")).agg(
        F.min(joined_at).alias("rejoined_at")
    )


def _instances(events: DataFrame) -> DataFrame:
    """Return the group instance id of each static member."""
    static = events.where("event = 'member' and instance_id is not null")
    return static.groupBy(*_GROUP, "member_id").agg(F.max("instance_id").alias("instance_id"))


def _taken_over(events: DataFrame, rows: DataFrame) -> DataFrame:
    """Return a row per partition that a static member takes over from its old id, without a round.

    `rows` are those of `assigned`.
    """
    steps = events.where("event = 'assignment' or (event = 'member' and change = 'replaced')")
    number = F.count(F.when(F.col("event") == "assignment", 1)).over(in_turn(*_GROUP))
    replaced = steps.withColumn("ordinal", number).where("event = 'member'")
    replaced = replaced.select(
        *(*_GROUP, "ordinal", "instance_id", F.col("member_id").alias("new_id")),
        F.struct("trace", "turn", "seq", "happened_at").alias("new"),
    )
    old = rows.join(_instances(events), [*_GROUP, "member_id"]).join(replaced, [*_GROUP, "ordinal", "instance_id"])
    old = old.where("member_id != new_id and (next_started_at is null or next_started_at > new.happened_at)")
    of_new = {"member_id": F.col("new_id")} | {
        name: F.col(f"new.{name}") for name in ("trace", "turn", "seq", "happened_at")
    }
    return old.withColumns(of_new).select(*rows.columns)


def _with_departure(events: DataFrame, rows: DataFrame) -> DataFrame:
    """Add `went_at` to rows of members: when the member went after that."""
    went = events.where(F.col("event") == "member").where(F.col("change").isin(*WENT))
    both = rows.withColumn("went", F.lit(None).cast("timestamp")).unionByName(
        went.withColumn("went", F.col("happened_at")), allowMissingColumns=True
    )
    went_at = F.last("went", ignorenulls=True).over(after_it(*_GROUP, "member_id"))
    return both.withColumn("went_at", went_at).where("went is null").select(*rows.columns, "went_at")


def ownership(events: DataFrame) -> DataFrame:
    """Build the rows of classic groups of table `ownership`."""
    rows = assigned(generations(events))
    rows = _with_departure(events, rows.unionByName(_taken_over(events, rows)))
    rows = rows.join(_joined(events), [*_GROUP, "round", "member_id"], "left")
    order = Window.partitionBy(*_PARTITION, "member_id").orderBy("ordinal")
    rejoined = F.col("rejoined_at")
    has_left = F.col("next_started_at").isNotNull() & rejoined.isNull()
    gone_at = F.least("went_at", "ended_at", F.when(has_left, F.col("next_started_at")))
    given_at = F.when(F.col("cooperative"), F.col("next_at")).otherwise(rejoined)
    rows = rows.withColumns({"gone_at": gone_at, "given_at": given_at})
    is_gone = F.col("gone_at").isNotNull() & F.coalesce(F.col("gone_at") <= F.col("given_at"), F.lit(True))
    stays = F.col("cooperative") & (F.lead("ordinal").over(order) == F.col("ordinal") + 1) & ~is_gone
    until = F.least("gone_at", "given_at")
    rows = rows.withColumns(
        {
            "keeps": F.coalesce(stays, F.lit(False)),
            # The clocks of two nodes may differ.
            "until": F.when(until < F.col("happened_at"), F.col("happened_at")).otherwise(until),
            "why": F.when(is_gone, "gone").when(F.col("cooperative"), "revoked").otherwise("rejoin"),
        }
    )
    started = F.coalesce(~F.lag("keeps").over(order), F.lit(True)).cast("int")
    intervals = (
        rows.withColumn("starts", started)
        .withColumn("island", F.sum("starts").over(order))
        .groupBy(*_PARTITION, "member_id", "island")
        .agg(
            F.min_by("trace", "ordinal").alias("trace"),
            F.min_by("generation", "ordinal").alias("from_generation"),
            F.max_by("generation", "ordinal").alias("to_generation"),
            F.min_by("happened_at", "ordinal").alias("owned_from"),
            F.max_by("until", "ordinal").alias("owned_until"),
            F.max_by("why", "ordinal").alias("why"),
            F.max("cooperative").alias("cooperative"),
        )
    )
    intervals = intervals.withColumns(
        {
            "ms": ms_between(F.col("owned_from"), F.col("owned_until")),
            "ended_by": F.when(F.col("owned_until").isNotNull(), F.col("why")),
            "kind": F.lit("classic"),
        }
    )
    return conform(keyed(intervals, "owned_from"), "ownership")


def partition_pauses(ownership: DataFrame) -> DataFrame:
    """Build table `partition_pauses` from table `ownership`. Share groups have none: their members share partitions."""
    order = Window.partitionBy(*_PARTITION).orderBy("owned_from", "member_id")
    pauses = (
        ownership.where("kind != 'share'")
        .withColumns({"from_member": F.lag("member_id").over(order), "started_at": F.lag("owned_until").over(order)})
        .where("started_at is not null and owned_from > started_at")
    )
    pauses = pauses.withColumns(
        {
            "to_member": F.col("member_id"),
            "moved": F.col("from_member") != F.col("member_id"),
            "generation": F.col("from_generation"),
            "ended_at": F.col("owned_from"),
            "ms": ms_between(F.col("started_at"), F.col("owned_from")),
        }
    )
    return conform(keyed(pauses, "started_at"), "partition_pauses")


def assignments(events: DataFrame) -> DataFrame:
    """Build table `assignments` from placed events.

    The most that a balanced assignment could have kept: with n partitions and k members, each member may have n // k
    partitions and n % k of them one more; a member can keep no more than that of its old partitions.
    """
    numbered = generations(events)
    instances = _instances(events)
    # A static member that returns is the same owner under another id.
    owner = F.coalesce("instance_id", "member_id")
    rows = assigned(numbered).join(instances, [*_GROUP, "member_id"], "left").withColumn("owner", owner)
    order = Window.partitionBy(*_PARTITION).orderBy("ordinal")
    before = F.lag("owner").over(order)
    same_owner = (F.lag("ordinal").over(order) == F.col("ordinal") - 1) & (before == F.col("owner"))
    rows = rows.withColumns(
        {"kept": F.coalesce(same_owner, F.lit(False)), "moved": F.coalesce(before != F.col("owner"), F.lit(False))}
    )
    key = (*_GROUP, "ordinal")
    by_member = rows.groupBy(*key, "owner").agg(
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
    balanced = (
        numbered.select(*key, "trace", "seq", "generation", "happened_at", "protocol", "members", "day", "bucket")
        .join(totals, [*key], "left")
        .withColumns({"all": F.greatest("partitions", F.lag("partitions").over(in_turn)), "size": F.size("members")})
        # Null for an empty assignment, because it has no members.
        .withColumn("least_each", F.floor(F.col("all") / F.expr("nullif(size, 0)")))
    )
    # The old partitions of each member that is still in the group.
    here = balanced.select(*key, "least_each", F.explode("members").alias("member_id"))
    here = here.join(instances, [*_GROUP, "member_id"], "left").withColumn("owner", owner)
    still_here = here.join(
        by_member.select(*_GROUP, (F.col("ordinal") + 1).alias("ordinal"), "owner", "had"), [*key, "owner"]
    )
    could = still_here.groupBy(*key).agg(
        F.sum(F.least("had", "least_each")).alias("within"),
        F.count(F.when(F.col("had") > F.col("least_each"), 1)).alias("above"),
    )
    balanced = balanced.join(could, [*key], "left").withColumn(
        "best_kept", F.col("within") + F.least(F.col("above"), F.col("all") % F.expr("nullif(size, 0)"))
    )
    balanced = balanced.withColumns(
        {
            "least": F.when(F.col("owners") < F.col("size"), F.lit(0)).otherwise(F.col("fewest")),
            "members": F.col("size"),
            "stickiness": F.when(F.col("best_kept") > 0, F.least(F.lit(1.0), F.col("kept") / F.col("best_kept"))),
        }
    )
    return conform(balanced, "assignments")
