"""Tables of the groups that a heartbeat keeps together: consumer groups of KIP-848, share groups and streams groups.

Decides what their epochs, targets and reconciliations are in the tables that classic groups have. An epoch is a round:
it begins when the group epoch is bumped and ends when the last member has come to its target. Its first half is the
coordinator's, until the target is computed; nobody waits for a leader. A member is waited for until it comes to the
epoch, since it gives up first what it is to give up; who comes last is blamed, not who waits for it. A member owns what
its reconciliation says until its next one, or until it goes. Of a streams group partitions are active tasks, topics
their subtopologies.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import conform, in_order, keyed, ms_between
from kafka_shim.pipeline.tables.groups import WENT

KINDS: Final = ("consumer", "share", "streams")
"""What the rule of a member's or a state's event says in such a group."""
_GROUP: Final = ("trace", "group")
_UNDER_WAY: Final = ("Assigning", "Reconciling", "NotReady")


def kinds(events: DataFrame) -> DataFrame:
    """Which of `KINDS` each such group is, one row a group."""
    of_kinds = events.where("event in ('member', 'state')").where(F.col("rule").isin(*KINDS))
    return of_kinds.groupBy(*_GROUP).agg(F.max("rule").alias("kind"))


def rounds(events: DataFrame) -> DataFrame:
    """Their rows of table `rounds`, of table `events`."""
    order = in_order(*_GROUP)
    relevant = events.where(
        F.col("event").isin("epoch", "target", "reconciliation")
        | ((F.col("event") == "state") & F.col("rule").isin(*KINDS))
    )
    is_stable = (F.col("event") == "state") & (F.col("to") == "Stable")
    numbered = relevant.withColumns(
        {
            # A static member that is back comes to an epoch that has long been over.
            "is_over": F.last(F.when(is_stable, F.col("seq")), ignorenulls=True).over(order)
            > F.last(F.when(F.col("event") == "epoch", F.col("seq")), ignorenulls=True).over(order),
            "round": F.count(F.when(F.col("event") == "epoch", 1)).over(order),
            "epoch": F.last(F.when(F.col("event") == "epoch", F.col("generation")), ignorenulls=True).over(order),
            "state": F.last(F.when(F.col("event") == "state", F.col("to")), ignorenulls=True).over(order),
        }
    ).where("round > 0")
    key = (*_GROUP, "round")
    began = F.when(F.col("event") == "epoch", F.struct("seq", "at", "cause", "trigger", "file", "position", "inferred"))
    found = numbered.groupBy(*key).agg(
        F.max("epoch").alias("generation"),
        F.max(began).alias("began"),
        F.min(F.when(F.col("event") == "target", F.col("at"))).alias("joined_at"),
        F.max_by("protocol", F.when(F.col("event") == "target", F.col("seq"))).alias("protocol"),
        F.max_by("state", "seq").alias("state"),
    )
    settled = F.col("to") == "STABLE"
    arrived = (
        numbered.where("event = 'reconciliation' and generation = epoch and not coalesce(is_over, false)")
        .groupBy(*key, "member_id")
        .agg(F.min("at").alias("arrived_at"), F.min(F.when(settled, F.col("at"))).alias("settled_at"))
    )
    arrivals = arrived.groupBy(*key).agg(
        F.max("settled_at").alias("last_settled_at"),
        F.sort_array(F.collect_list(F.struct("arrived_at", "member_id")), asc=False).alias("arrivals"),
    )
    found = found.join(arrivals, [*key], "left").join(kinds(events), [*_GROUP], "left")
    started = F.col("began.at")
    ms = F.transform(
        F.coalesce("arrivals", F.array().cast("array<struct<arrived_at: timestamp, member_id: string>>")),
        lambda each: F.struct(
            each["member_id"].alias("member_id"), ms_between(started, each["arrived_at"]).alias("ms")
        ),
    )
    found = found.withColumns({"waited_for": ms, "started_at": started}).withColumns(
        {
            "stable_at": F.when(~F.coalesce("state", F.lit("")).isin(*_UNDER_WAY), F.col("last_settled_at")),
            "join_ms": ms_between(F.col("started_at"), F.col("joined_at")),
            "blamed": F.try_element_at("waited_for", F.lit(1))["member_id"],
            "blamed_ms": F.try_element_at("waited_for", F.lit(1))["ms"],
            "members": F.transform("waited_for", lambda each: each["member_id"]),
        }
    )
    nothing = F.lit(None)
    second = F.coalesce(F.try_element_at("waited_for", F.lit(2))["ms"], F.lit(0.0))
    found = found.withColumns(
        {
            **{name: F.col(f"began.{name}") for name in ("seq", "cause", "trigger", "file", "position", "inferred")},
            "behind_ms": F.col("blamed_ms") - second,
            "total_ms": F.coalesce(ms_between(F.col("started_at"), F.col("stable_at")), F.col("join_ms"), F.lit(0.0)),
            "size": F.size("members"),
            "cooperative": F.lit(True),
            "initial_delay_ms": F.lit(0.0),
            **dict.fromkeys(("leader_ms", "dropped", "leader"), nothing),
        }
    )
    return conform(keyed(found, "started_at"), "rounds")


def ownership(events: DataFrame) -> DataFrame:
    """Their rows of table `ownership`, of table `events`."""
    gone = (F.col("event") == "member") & F.col("change").isin(*WENT) & F.col("rule").isin(*KINDS)
    steps = events.where((F.col("event") == "reconciliation") | gone)
    in_turn = Window.partitionBy(*_GROUP, "member_id").orderBy("seq")
    steps = steps.withColumns(
        {
            "ordinal": F.row_number().over(in_turn),
            "until": F.lead("at").over(in_turn),
            "why": F.when(F.lead("event").over(in_turn) == "member", "gone").otherwise("revoked"),
        }
    ).where("event = 'reconciliation'")
    by_topic = steps.select(
        *(*_GROUP, "member_id", "at", "generation", "ordinal", "until", "why"), F.explode("assignments").alias("of")
    )
    rows = by_topic.select("*", "of.topic", F.explode("of.partitions").alias("partition")).drop("of")
    held = (*_GROUP, "topic", "partition", "member_id")
    order = Window.partitionBy(*held).orderBy("ordinal")
    # Steps of a member that follow each other are one stretch: their number less their place in it is the same.
    found = (
        rows.withColumn("stretch", F.col("ordinal") - F.row_number().over(order))
        .groupBy(*held, "stretch")
        .agg(
            F.min_by("generation", "ordinal").alias("from_generation"),
            F.max_by("generation", "ordinal").alias("to_generation"),
            F.min("at").alias("owned_from"),
            F.max_by("until", "ordinal").alias("owned_until"),
            F.max_by("why", "ordinal").alias("why"),
        )
        .join(kinds(events), [*_GROUP], "left")
    )
    found = found.withColumns(
        {
            "ms": ms_between(F.col("owned_from"), F.col("owned_until")),
            "ended_by": F.when(F.col("owned_until").isNotNull(), F.col("why")),
            "cooperative": F.lit(True),
        }
    )
    return conform(keyed(found, "owned_from"), "ownership")
