"""Tables directly from the trace: events, requests, unreadable lines, gaps, and commits."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.schemas import STEADY, STEADY_APIS, TABLES
from kafka_shim.pipeline.tables.columns import conform, keyed, ms_between, timestamp, wall_of

_BLOCK: Final = 4096
"""How many sequence numbers form a block; blocks are counted as a whole."""
_MISSING: Final = "events are missing"
_TWICE: Final = "events are there more than once"


def ingested(trace: DataFrame, source: str = "trace") -> DataFrame:
    """Convert rows of a source to rows of tables `events`, `requests` and `quarantine`, in one pass over it.

    Column `place` is the place of the row (`kafka_shim.pipeline.schemas.PLACES`). Columns of the other tables are null.
    If the source has only the columns of some lines, so has the result.
    """
    there = set(trace.columns)
    if "api" not in there:
        trace = trace.withColumn("api", F.lit(None).cast("string"))
    place = (
        F.when(F.col("unreadable").isNotNull(), "trace_quarantine")
        .when(F.col("event") == "commit", STEADY["events"])
        .when((F.col("event") == "exchange") & F.col("api").isin(*STEADY_APIS), STEADY["requests"])
        .when(F.col("event") == "exchange", "requests")
        .otherwise("events")
    )
    derived = {"place": place, "happened_at": timestamp(F.col("wall"))}
    if "arrived" in there:
        derived["arrived_at"] = wall_of("arrived")
    rows = trace.withColumns(derived)
    if "arrived" in there:
        rows = rows.withColumn("ms", ms_between(F.col("arrived_at"), F.col("happened_at")))
    nothing = F.lit(None).cast("bigint")
    reason = F.coalesce("unreadable", "reason") if "reason" in there else F.col("unreadable")
    rows = rows.withColumns({"source": F.lit(source), "log_offset": nothing, "bytes": nothing, "reason": reason})
    rows = keyed(rows)
    columns = {c.name: c.type for name in ("events", "requests", "quarantine") for c in TABLES[name].columns}
    present = {name: kind for name, kind in columns.items() if name in rows.columns}
    return rows.select("place", *(F.col(name).cast(kind).alias(name) for name, kind in present.items()))


def gaps_between(seqs: DataFrame) -> DataFrame:
    """Return gaps between blocks, and the suspicious blocks, from the columns `trace` and `seq` of all events.

    A row with `in_doubt` is a block with missing or repeated numbers between `first` and `last`; `gaps_within` looks
    into it. Only the counts of blocks are shuffled, not the numbers.
    """
    blocks = seqs.where("seq is not null").groupBy("trace", F.floor(F.col("seq") / _BLOCK).alias("block"))
    counted = blocks.agg(F.min("seq").alias("least"), F.max("seq").alias("most"), F.count("*").alias("there"))
    before = F.lag("most").over(Window.partitionBy("trace").orderBy("block"))
    counted = counted.withColumn("before", before)
    between = counted.where("least > before + 1").select(
        "trace",
        (F.col("before") + 1).alias("first"),
        (F.col("least") - 1).alias("last"),
        F.lit(False).alias("in_doubt"),
    )
    within = counted.where("there != most - least + 1").select(
        "trace", F.col("least").alias("first"), F.col("most").alias("last"), F.lit(True).alias("in_doubt")
    )
    return between.unionByName(within)


def gaps_within(seqs: DataFrame, in_doubt: DataFrame) -> DataFrame:
    """Return the gaps and repetitions within the suspicious blocks of `gaps_between`."""
    block = F.floor(F.col("seq") / _BLOCK)
    blocks = in_doubt.where("in_doubt").select("trace", F.floor(F.col("first") / _BLOCK).alias("block"))
    numbers = seqs.where("seq is not null").withColumn("block", block).join(blocks, ["trace", "block"], "left_semi")
    before = F.lag("seq").over(Window.partitionBy("trace", "block").orderBy("seq"))
    steps = numbers.withColumn("before", before)
    missing = steps.where("seq > before + 1").select(
        "trace", (F.col("before") + 1).alias("first"), (F.col("seq") - 1).alias("last"), F.lit(_MISSING).alias("reason")
    )
    twice = steps.where("seq = before").groupBy("trace", "block")
    return missing.unionByName(
        twice.agg(F.min("seq").alias("first"), F.max("seq").alias("last")).select(
            "trace", "first", "last", F.lit(_TWICE).alias("reason")
        )
    )


def gaps(seqs: DataFrame) -> DataFrame:
    """Build table `gaps` from the columns `trace` and `seq` of all events. Reads the data immediately, to do no more
    work than needed."""
    # At most two rows per block of some thousand events. Caching them in Spark instead would hold them for ever.
    rows = gaps_between(seqs).collect()
    between = seqs.sparkSession.createDataFrame(
        rows, "trace string, first bigint, last bigint, in_doubt boolean"
    ).coalesce(1)
    whole = between.where("not in_doubt").select("trace", "first", "last", F.lit(_MISSING).alias("reason"))
    if any(row.in_doubt for row in rows):
        whole = whole.unionByName(gaps_within(seqs, between))
    return conform(whole.withColumns({"source": F.lit("trace"), "origin": F.col("trace")}), "gaps")


def commits(events: DataFrame) -> DataFrame:
    """Build table `commits` from table `events`."""
    chosen = events.where("event = 'commit'")
    exploded = chosen.select(
        *("trace", "seq", "happened_at", "group_id", "member_id", "generation", "error", "day", "bucket"),
        F.explode_outer("offsets").alias("committed"),
    )
    return conform(
        exploded.select(
            "*", "committed.topic", "committed.partition", F.col("committed.offset").alias("committed_offset")
        ),
        "commits",
    )
