"""Tables straight from the trace: events, requests, lines that could not be read; and commits."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_shim.pipeline.schemas import INGESTED, STEADY, STEADY_APIS, TABLES
from kafka_shim.pipeline.tables.columns import conform, keyed, ms_between, timestamp, wall_of


def ingested(trace: DataFrame) -> DataFrame:
    """Rows of the source as those of tables `events`, `requests` and `quarantine` at once: the trace is parsed once for
    all of them. `table` tells them apart; it is the table's name or that of `STEADY`. Columns of the other tables are
    null."""
    table = (
        F.when(F.col("unreadable").isNotNull(), "quarantine")
        .when(F.col("event") == "commit", STEADY["events"])
        .when((F.col("event") == "exchange") & F.col("api").isin(*STEADY_APIS), STEADY["requests"])
        .when(F.col("event") == "exchange", "requests")
        .when(F.col("event") != "parked", "events")
    )
    timed = trace.withColumns({"table": table, "at": timestamp(F.col("wall")), "arrived_at": wall_of("arrived")}).where(
        "table is not null"
    )
    rows = keyed(
        timed.withColumns(
            {
                "ms": ms_between(F.col("arrived_at"), F.col("at")),
                "source": F.lit("trace"),
                "offset": F.lit(None).cast("bigint"),
                "bytes": F.lit(None).cast("bigint"),
                "reason": F.coalesce("unreadable", "reason"),
            }
        )
    )
    columns = {column.name: column.type for name in sorted(INGESTED) for column in TABLES[name].columns}
    return rows.select("table", *(F.col(name).cast(kind).alias(name) for name, kind in columns.items()))


def commits(events: DataFrame) -> DataFrame:
    """Table `commits` of table `events`."""
    chosen = events.where("event = 'commit'")
    exploded = chosen.select(
        *("trace", "seq", "at", "group", "member_id", "generation", "error", "day", "bucket"),
        F.explode_outer("offsets").alias("committed"),
    )
    return conform(exploded.select("*", "committed.topic", "committed.partition", "committed.offset"), "commits")
