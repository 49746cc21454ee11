"""Tables straight from the trace: events, requests, lines that could not be read, what is missing; and commits."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.schemas import STEADY, STEADY_APIS, TABLES
from kafka_shim.pipeline.tables.columns import conform, keyed, ms_between, timestamp, wall_of

_BLOCK: Final = 4096
"""How many sequence numbers are counted together."""
_MISSING: Final = "events are missing"
_TWICE: Final = "events are there more than once"


def ingested(trace: DataFrame) -> DataFrame:
    """Rows of the source as those of tables `events`, `requests` and `quarantine` at once: the trace is parsed once for
    all of them. `table` tells them apart; it is the place of the row (`kafka_shim.pipeline.schemas.PLACES`). Columns of
    the other tables are null. A source of some lines only has only their columns, and so have the rows."""
    there = set(trace.columns)
    if "api" not in there:
        trace = trace.withColumn("api", F.lit(None).cast("string"))
    table = (
        F.when(F.col("unreadable").isNotNull(), "quarantine")
        .when(F.col("event") == "commit", STEADY["events"])
        .when((F.col("event") == "exchange") & F.col("api").isin(*STEADY_APIS), STEADY["requests"])
        .when(F.col("event") == "exchange", "requests")
        .otherwise("events")
    )
    made = {"table": table, "at": timestamp(F.col("wall"))}
    if "arrived" in there:
        made["arrived_at"] = wall_of("arrived")
    rows = trace.withColumns(made)
    if "arrived" in there:
        rows = rows.withColumn("ms", ms_between(F.col("arrived_at"), F.col("at")))
    nothing = F.lit(None).cast("bigint")
    reason = F.coalesce("unreadable", "reason") if "reason" in there else F.col("unreadable")
    rows = rows.withColumns({"source": F.lit("trace"), "offset": nothing, "bytes": nothing, "reason": reason})
    rows = keyed(rows)
    columns = {c.name: c.type for name in ("events", "requests", "quarantine") for c in TABLES[name].columns}
    present = {name: kind for name, kind in columns.items() if name in rows.columns}
    return rows.select("table", *(F.col(name).cast(kind).alias(name) for name, kind in present.items()))


def gaps_between(seqs: DataFrame) -> DataFrame:
    """Table `gaps` of the columns `trace` and `seq` of all events, and `in_doubt`: whether sequence numbers are missing
    or there twice between `first` and `last`, for `gaps_within` to say which. Only few numbers are ever brought
    together: those of a block of a trace are counted."""
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
    """The rows of `gaps_between` that are in doubt, looked into."""
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
    """Table `gaps` of the columns `trace` and `seq` of all events. Looks at the data now, to do no more than it has
    to."""
    # At most two rows for every block of some thousand events. Spark would keep for ever what it were to remember.
    rows = gaps_between(seqs).collect()
    found = seqs.sparkSession.createDataFrame(
        rows, "trace string, first bigint, last bigint, in_doubt boolean"
    ).coalesce(1)
    whole = found.where("not in_doubt").select("trace", "first", "last", F.lit(_MISSING).alias("reason"))
    if any(row.in_doubt for row in rows):
        whole = whole.unionByName(gaps_within(seqs, found))
    return conform(whole.withColumns({"source": F.lit("trace"), "origin": F.col("trace")}), "gaps")


def commits(events: DataFrame) -> DataFrame:
    """Table `commits` of table `events`."""
    chosen = events.where("event = 'commit'")
    exploded = chosen.select(
        *("trace", "seq", "at", "group", "member_id", "generation", "error", "day", "bucket"),
        F.explode_outer("offsets").alias("committed"),
    )
    return conform(exploded.select("*", "committed.topic", "committed.partition", "committed.offset"), "commits")
