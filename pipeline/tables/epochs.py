"""Tables of the groups with epochs: consumer groups of KIP-848, share groups and streams groups.

Maps their epochs, targets and reconciliations to the tables of classic groups. A group epoch is a round: it begins with
the bump of the epoch and ends when the last member reaches its target assignment. Its first half ends when the
coordinator has computed the target; there is no leader. The group waits for a member until it reaches the epoch,
because it first has to revoke partitions; the last member to arrive is blamed, not the members that wait for its
partitions. A member owns the partitions of its latest reconciliation, until the next one or until it leaves. For a
streams group, partitions are active tasks and topics are subtopologies.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import conform, keyed, ms_between, of_log
from kafka_shim.pipeline.tables.groups import WENT
from kafka_shim.pipeline.tables.lives import HISTORY, after_it, ends_ownership, in_turn

KINDS: Final = ("consumer", "share", "streams")
"""The field `rule` of member and state events in such groups."""
_GROUP: Final = HISTORY
_UNDER_WAY: Final = ("Assigning", "Reconciling", "NotReady")


def kinds(events: DataFrame) -> DataFrame:
    """Return the kind, one of `KINDS`, of each such group."""
    of_kinds = events.where("event in ('member', 'state')").where(F.col("rule").isin(*KINDS))
    return of_kinds.groupBy(*_GROUP).agg(F.max("rule").alias("kind"))


def rounds(events: DataFrame) -> DataFrame:
    """Return the rows of table `rounds` for groups with epochs, from placed events."""
    order = in_turn(*_GROUP)
    relevant = events.where(
        F.col("event").isin("epoch", "target", "reconciliation")
        | ((F.col("event") == "state") & F.col("rule").isin(*KINDS))
    )
    is_stable = (F.col("event") == "state") & (F.col("to_state") == "Stable")
    numbered = relevant.withColumns(
        {
            # A static member that returns reaches an epoch after its round is over: that is no arrival.
            "is_over": F.last(F.when(is_stable, F.struct("turn", "seq")), ignorenulls=True).over(order)
            > F.last(F.when(F.col("event") == "epoch", F.struct("turn", "seq")), ignorenulls=True).over(order),
            "round": F.count(F.when(F.col("event") == "epoch", 1)).over(order),
            "epoch": F.last(F.when(F.col("event") == "epoch", F.col("generation")), ignorenulls=True).over(order),
            "state": F.last(F.when(F.col("event") == "state", F.col("to_state")), ignorenulls=True).over(order),
        }
    ).where("round > 0")
    key, step = (*_GROUP, "round"), F.struct("turn", "seq")
    began = F.when(
        F.col("event") == "epoch",
        F.struct("seq", "happened_at", "cause", "trigger", "file", "position", "inferred", "trace", "waits_ms"),
    )
    epoch_rounds = numbered.groupBy(*key).agg(
        F.max("epoch").alias("generation"),
        F.max(began).alias("began"),
        F.min(F.when(F.col("event") == "target", F.col("happened_at"))).alias("joined_at"),
        F.max_by("protocol", F.when(F.col("event") == "target", step)).alias("protocol"),
        F.max_by("state", step).alias("state"),
    )
    settled = F.col("to_state") == "STABLE"
    arrived = (
        numbered.where("event = 'reconciliation' and generation = epoch and not coalesce(is_over, false)")
        .groupBy(*key, "member_id")
        .agg(F.min("happened_at").alias("arrived_at"), F.min(F.when(settled, F.col("happened_at"))).alias("settled_at"))
    )
    arrivals = arrived.groupBy(*key).agg(
        F.max("settled_at").alias("last_settled_at"),
        F.sort_array(F.collect_list(F.struct("arrived_at", "member_id")), asc=False).alias("arrivals"),
    )
    epoch_rounds = epoch_rounds.join(arrivals, [*key], "left").join(kinds(events), [*_GROUP], "left")
    # A log names the kind of the other two.
    of_consumers = F.when(of_log("began.trace"), "consumer")
    epoch_rounds = epoch_rounds.withColumn("kind", F.coalesce("kind", of_consumers))
    started = F.col("began.happened_at")
    ms = F.transform(
        F.coalesce("arrivals", F.array().cast("array<struct<arrived_at: timestamp, member_id: string>>")),
        lambda each: F.struct(
            each["member_id"].alias("member_id"), ms_between(started, each["arrived_at"]).alias("ms")
        ),
    )
    epoch_rounds = epoch_rounds.withColumns({"waited_for": ms, "started_at": started}).withColumns(
        {
            "stable_at": F.when(~F.coalesce("state", F.lit("")).isin(*_UNDER_WAY), F.col("last_settled_at")),
            "join_ms": ms_between(F.col("started_at"), F.col("joined_at")),
            "blamed": F.try_element_at("waited_for", F.lit(1))["member_id"],
            "blamed_ms": F.try_element_at("waited_for", F.lit(1))["ms"],
            "members": F.transform("waited_for", lambda each: each["member_id"]),
        }
    )
    nothing = F.lit(None)
    # A round without a computed target has no first half, and no duration.
    waited = F.least(
        *(F.coalesce(each, F.lit(0.0)) for each in (F.col("began.waits_ms").cast("double"), F.col("join_ms")))
    )
    second = F.coalesce(F.try_element_at("waited_for", F.lit(2))["ms"], F.lit(0.0))
    is_seen = ~of_log("began.trace") | (F.size("members") > 0)
    epoch_rounds = epoch_rounds.withColumns(
        {
            **{
                name: F.col(f"began.{name}")
                for name in ("seq", "cause", "trigger", "file", "position", "inferred", "trace")
            },
            "behind_ms": F.col("blamed_ms") - second,
            # A broker's log does not show when the members reach an epoch.
            "total_ms": F.coalesce(
                ms_between(F.col("started_at"), F.col("stable_at")),
                F.when(~of_log("began.trace"), F.coalesce("join_ms", F.lit(0.0))),
            ),
            **{
                name: F.when(is_seen, each)
                for name, each in (("size", F.size("members")), ("members", F.col("members")))
            },
            "cooperative": F.lit(True),
            "initial_delay_ms": F.lit(0.0),
            "interval_ms": F.when(F.coalesce("began.inferred", F.lit(False)), nothing).otherwise(waited),
            **dict.fromkeys(("leader_ms", "dropped", "leader"), nothing),
        }
    )
    return conform(keyed(epoch_rounds, "started_at"), "rounds")


def ownership(events: DataFrame) -> DataFrame:
    """Return the rows of table `ownership` for groups with epochs, from placed events."""
    is_departure = (F.col("event") == "member") & F.col("change").isin(*WENT) & F.col("rule").isin(*KINDS)
    of_group = events.where(F.col("event").isin("group", "epoch", "reconciliation") | is_departure)
    of_group = of_group.withColumn("ends", ends_ownership(in_turn(*_GROUP)))
    steps = of_group.withColumns(
        {
            "era": F.count(F.when(F.col("ends"), 1)).over(in_turn(*_GROUP)),
            "ended_at": F.last(F.when(F.col("ends"), F.col("happened_at")), ignorenulls=True).over(after_it(*_GROUP)),
        }
    ).where("event not in ('group', 'epoch')")
    of_member = in_turn(*_GROUP, "member_id", "era")
    steps = steps.withColumns(
        {
            "ordinal": F.row_number().over(of_member),
            "until": F.coalesce(F.lead("happened_at").over(of_member), "ended_at"),
            "why": F.when(F.coalesce(F.lead("event").over(of_member), F.lit("member")) == "member", "gone").otherwise(
                "revoked"
            ),
        }
    ).where("event = 'reconciliation'")
    # The clocks of two nodes may differ.
    steps = steps.withColumn(
        "until", F.when(F.col("until") < F.col("happened_at"), F.col("happened_at")).otherwise(F.col("until"))
    )
    by_topic = steps.select(
        *(*_GROUP, "trace", "member_id", "happened_at", "generation", "era", "ordinal", "until", "why"),
        F.explode("assignments").alias("of"),
    )
    rows = by_topic.select("*", "of.topic", F.explode("of.partitions").alias("partition")).drop("of")
    key = (*_GROUP, "topic", "partition", "member_id", "era")
    order = Window.partitionBy(*key).orderBy("ordinal")
    # Consecutive steps form one stretch: their number minus their place in it is constant.
    stretches = (
        rows.withColumn("stretch", F.col("ordinal") - F.row_number().over(order))
        .groupBy(*key, "stretch")
        .agg(
            F.min_by("trace", "ordinal").alias("trace"),
            F.min_by("generation", "ordinal").alias("from_generation"),
            F.max_by("generation", "ordinal").alias("to_generation"),
            F.min_by("happened_at", "ordinal").alias("owned_from"),
            F.max_by("until", "ordinal").alias("owned_until"),
            F.max_by("why", "ordinal").alias("why"),
        )
        .join(kinds(events), [*_GROUP], "left")
    )
    stretches = stretches.withColumns(
        {
            "ms": ms_between(F.col("owned_from"), F.col("owned_until")),
            "ended_by": F.when(F.col("owned_until").isNotNull(), F.col("why")),
            "cooperative": F.lit(True),
        }
    )
    return conform(keyed(stretches, "owned_from"), "ownership")
