"""Table `lives`: when each group began, moved and ended; and the order of its events through restarts.

A trace is one run of one server. A group lives through several: the server stops and starts, or another node loads the
group. Sequence numbers begin again in each run, and clocks differ, so neither orders the events of such a group. The
events `created` and `loaded` begin a life of a group in a run, and the lives of a group follow each other: in order of
generations if the group was handed over, because these cannot go back; else in order of time. Runs of different
clusters may have groups of one name at the same time; these lives do not follow each other.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import conform, keyed

HISTORY: Final = ("first_run", "group_id")
"""The columns of `placed` that name a group in all runs that follow each other."""
_ENDS: Final = ("deleted", "expired", "created")


def in_turn(*by: str) -> WindowSpec:
    """Return a window over placed events with the same `by`, in the order of their lives."""
    return Window.partitionBy(*by).orderBy("turn", "seq")


def after_it(*by: str) -> WindowSpec:
    """Return a window over the placed events after an event.

    It is in descending order: Spark computes such a frame in one pass over a group.
    """
    order = Window.partitionBy(*by).orderBy(F.desc("turn"), F.desc("seq"))
    return order.rowsBetween(Window.unboundedPreceding, -1)


def ends_group(order: WindowSpec) -> Column:
    """Return the condition that an event ends whatever the group was before, among `group` and `member` events.

    A group that changes its kind is deleted and created at one moment, and goes on.
    """
    change, here = F.col("change"), F.struct("trace", "mono")
    replaced = (change == "deleted") & (F.lead("change").over(order) == "created") & (F.lead(here).over(order) == here)
    replaces = (change == "created") & (F.lag("change").over(order) == "deleted") & (F.lag(here).over(order) == here)
    is_end = (F.col("event") == "group") & change.isin(*_ENDS)
    return is_end & ~F.coalesce(replaced, F.lit(False)) & ~F.coalesce(replaces, F.lit(False))


def ends_ownership(order: WindowSpec) -> Column:
    """Return the condition that an event ends all ownership in a group, among `group` events and those of rounds.

    A group may be loaded in another generation than its last one in the trace of a killed server, which lacks its last
    events: the owners are unknown then.
    """
    of_group = F.when(F.col("event").isin("round", "epoch", "group"), F.col("generation"))
    before = F.last(of_group, ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, -1))
    other = (F.col("change") == "loaded") & (F.col("generation") != before)
    return (F.col("event") == "group") & (F.col("change").isin(*_ENDS) | F.coalesce(other, F.lit(False)))


def lives(events: DataFrame) -> DataFrame:
    """Build table `lives` from table `events` without commits. A group with one life has no row."""
    within = Window.partitionBy("trace", "group_id").orderBy("seq")
    begins = F.col("change").isin("created", "loaded") & (ends_group(within) | (F.col("change") == "loaded"))
    names = ("trace", "group_id", "seq", "happened_at", "generation", "begin")
    of_groups = events.where("event = 'group'").withColumn("begin", F.when(begins, F.col("change"))).select(*names)
    others = events.where("group_id is not null and event != 'group'")
    every = others.withColumn("begin", F.lit(None).cast("string")).select(*names).unionByName(of_groups)
    every = every.withColumn("number", F.count("begin").over(within))
    pieces = every.groupBy("trace", "group_id", "number").agg(
        F.min("seq").alias("since"),
        F.min("happened_at").alias("happened_at"),
        F.max("happened_at").alias("last_at"),
        F.max("begin").alias("begin"),
        F.min_by("generation", F.when(F.col("generation").isNotNull(), F.col("seq"))).alias("generation"),
    )
    of_group, in_run = Window.partitionBy("group_id"), Window.partitionBy("trace", "group_id")
    is_loaded = F.coalesce(F.col("begin") == "loaded", F.lit(False))
    pieces = pieces.withColumns(
        {
            "is_loaded": is_loaded,
            "until": F.lead("since").over(in_run.orderBy("number")),
            "pieces": F.count("*").over(of_group),
            "created": F.count(F.when(~is_loaded, 1)).over(of_group),
        }
    ).where("pieces > 1")
    handed = F.col("created") <= 1
    turn = F.struct(
        F.when(handed, F.col("is_loaded")).otherwise(F.lit(False)),
        F.when(handed, F.coalesce("generation", F.lit(-1))).otherwise(F.lit(0)),
        F.col("happened_at"),
        F.col("number"),
    )
    in_sequence = Window.partitionBy("group_id").orderBy("order")
    before = in_sequence.rowsBetween(Window.unboundedPreceding, -1)
    pieces = pieces.withColumn("order", turn).withColumns(
        {
            "turn": F.row_number().over(in_sequence),
            "overlaps": ~F.col("is_loaded") & (F.max("last_at").over(before) > F.col("happened_at")),
            "life": F.count(F.when(~F.col("is_loaded"), 1)).over(in_sequence),
            "first_run": F.first("trace").over(in_sequence),
        }
    )
    apart = F.coalesce(F.max("overlaps").over(of_group), F.lit(False))
    pieces = pieces.withColumn("first_run", F.when(apart, F.col("trace")).otherwise(F.col("first_run"))).withColumn(
        "since", F.when(F.col("number") == F.min("number").over(in_run), F.lit(0)).otherwise(F.col("since"))
    )
    return conform(keyed(pieces), "lives")


def placed(rows: DataFrame, lives: DataFrame) -> DataFrame:
    """Add `first_run`, `turn` and `life` to rows with `trace`, `group_id` and `seq`; `lives` is table `lives`."""
    names = {"trace": "of_trace", "group_id": "of_group", "first_run": "its_first_run", "turn": "its_turn"}
    few = lives.select(*(F.col(name).alias(other) for name, other in names.items()), "since", "until", "life")
    at = (F.col("trace") == F.col("of_trace")) & (F.col("group_id") == F.col("of_group"))
    at &= (F.col("seq") >= F.col("since")) & (F.col("until").isNull() | (F.col("seq") < F.col("until")))
    derived = {
        "first_run": F.coalesce("its_first_run", "trace"),
        "turn": F.coalesce("its_turn", F.lit(0)),
        "life": F.coalesce("life", F.lit(0)),
    }
    # Few groups have several lives: their rows fit into the memory of each task.
    return rows.join(F.broadcast(few), at, "left").withColumns(derived).drop(*names.values(), "since", "until")
