"""Tables of group members and of the rounds of classic groups: membership, rounds, pauses of members."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import (
    conform,
    cooperative,
    in_order,
    keyed,
    ms_between,
    of_log,
    wall_of,
)
from kafka_shim.pipeline.tables.lives import HISTORY, after_it, ends_group, in_turn

CAME = ("added", "replaced")
WENT = ("left", "expired", "removed", "fenced", "gone")
_RETRIED = (0, 27, 79)
"""Errors of JoinGroup after which the member retries: none, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED."""


def membership(events: DataFrame) -> DataFrame:
    """Build table `membership` from placed events (`kafka_shim.pipeline.tables.lives`).

    A member of a group with epochs keeps its id when it leaves and comes back, so it may have several stays. The end of
    the group ends them all.
    """
    came, went = F.col("change").isin(*CAME), F.col("change").isin(*WENT)
    order = in_turn(*HISTORY)
    both = events.where("event in ('member', 'group')").withColumn("ends", ends_group(order))
    both = both.withColumns(
        {
            "ended": F.sum(F.col("ends").cast("int")).over(order),
            "end": F.last(F.when(F.col("ends"), F.struct("happened_at", "trace")), ignorenulls=True).over(
                after_it(*HISTORY)
            ),
        }
    )
    key = (*HISTORY, "member_id", "ended")
    before = in_turn(*key).rowsBetween(Window.unboundedPreceding, -1)
    stays = both.where("event = 'member'").withColumn("stay", F.count(F.when(went, 1)).over(before))
    step = F.struct("turn", "seq")
    members = (
        stays.groupBy(*key, "stay")
        .agg(
            F.min_by("trace", step).alias("trace"),
            F.max("instance_id").alias("instance_id"),
            F.max("client_id").alias("client_id"),
            F.max("client_host").alias("client_host"),
            F.min(F.when(came, F.col("happened_at"))).alias("joined_at"),
            F.min_by(F.struct("happened_at", "trace", "change"), F.when(went, step)).alias("departure"),
            F.max(F.col("change") == "pending").alias("was_pending"),
            F.max("end").alias("end"),
        )
        # A member id that was assigned but never used to join is not a member.
        .where("joined_at is not null or (stay = 0 and not was_pending)")
    )
    ended = {
        "left_at": F.coalesce("departure.happened_at", "end.happened_at"),
        "last_run": F.coalesce("departure.trace", "end.trace"),
    }
    members = members.withColumns(ended).withColumns(
        {
            "how": F.when(F.col("left_at").isNotNull(), F.coalesce("departure.change", F.lit("ended"))),
            # The clocks of two nodes may differ.
            "ms": F.when(F.col("left_at") < F.col("joined_at"), F.lit(0.0)).otherwise(
                ms_between(F.col("joined_at"), F.col("left_at"))
            ),
            "happened_at": F.coalesce("joined_at", "left_at"),
        }
    )
    return conform(keyed(members), "membership")


def rounds(events: DataFrame) -> DataFrame:
    """Build the rows of classic groups of table `rounds` from placed events.

    The second half of a round is the next assignment, if it is of the same generation.
    """
    order = in_turn(*HISTORY)
    halves = events.where("event in ('round', 'assignment')").withColumns(
        {
            "next_event": F.lead("event").over(order),
            "next_generation": F.lead("generation").over(order),
            "next_at": F.lead("happened_at").over(order),
            "next_leader_ms": F.lead("leader_ms").over(order),
        }
    )
    stable = (F.col("next_event") == "assignment") & (F.col("next_generation") == F.col("generation"))
    classic_rounds = halves.where("event = 'round'").withColumns(
        {
            "started_at": wall_of("started"),
            "joined_at": wall_of("ended"),
            "stable_at": F.when(stable, F.col("next_at")),
            "join_ms": (F.col("ended") - F.col("started")) * 1000,
            "leader_ms": F.when(stable, F.col("next_leader_ms")),
            "blamed": F.try_element_at("waited_for", F.lit(1))["member_id"],
            "blamed_ms": F.try_element_at("waited_for", F.lit(1))["ms"],
            "cooperative": F.when(F.col("protocol").isNotNull() | ~of_log(), cooperative(F.col("protocol"))),
            "size": F.coalesce("size", F.size("members")),
            "interval_ms": F.lit(0.0),
            "kind": F.lit("classic"),
        }
    )
    zero = F.lit(0.0)
    second = F.coalesce(F.try_element_at("waited_for", F.lit(2))["ms"], F.lit(0.0))
    classic_rounds = classic_rounds.withColumns(
        {
            "behind_ms": F.col("blamed_ms") - second,
            # If a member never joins, the round ends by dropping it: that wait is no initial delay.
            "initial_delay_ms": F.when(of_log() & F.col("blamed").isNull(), F.lit(None))
            .when(
                F.size(F.coalesce("dropped", F.array())) == 0, F.greatest(F.col("join_ms") - F.col("blamed_ms"), zero)
            )
            .otherwise(zero),
            "total_ms": F.coalesce(ms_between(F.col("started_at"), F.col("stable_at")), F.col("join_ms")),
        }
    )
    return conform(keyed(classic_rounds, "started_at"), "rounds")


def member_pauses(requests: DataFrame) -> DataFrame:
    """Build table `member_pauses` from table `requests`."""
    attempts = requests.where(
        F.col("member_id").isNotNull()
        & (
            ((F.col("api") == "JoinGroup") & F.col("error").isin(*_RETRIED))
            | ((F.col("api") == "SyncGroup") & (F.col("error") == 0))
        )
    )
    synced = F.col("api") == "SyncGroup"
    before = in_order("trace", "group_id", "member_id").rowsBetween(Window.unboundedPreceding, -1)
    numbered = attempts.withColumn("number", F.coalesce(F.sum(synced.cast("int")).over(before), F.lit(0)))
    pauses = (
        numbered.groupBy("trace", "group_id", "member_id", "number")
        .agg(
            F.max("client_id").alias("client_id"),
            F.max(F.when(synced, F.col("generation"))).alias("generation"),
            F.max("protocol").alias("protocol"),
            F.min(F.when(~synced, F.col("arrived_at"))).alias("started_at"),
            F.max(F.when(synced, F.col("happened_at"))).alias("ended_at"),
            F.count(F.when(~synced, 1)).alias("joins"),
        )
        .where("started_at is not null and ended_at is not null")
    )
    pauses = pauses.withColumns(
        {
            "cooperative": cooperative(F.col("protocol")),
            "ms": ms_between(F.col("started_at"), F.col("ended_at")),
        }
    )
    return conform(keyed(pauses, "started_at"), "member_pauses")
