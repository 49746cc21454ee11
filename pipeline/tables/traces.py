"""Tables straight from the trace: events, requests, commits, and lines that could not be read."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.tables.columns import conform, keyed, ms_between, timestamp, wall_of


def events(trace: DataFrame) -> DataFrame:
    """Table `events` of rows of the source."""
    chosen = trace.where("event is not null and event not in ('exchange', 'parked')")
    return conform(keyed(chosen.withColumn("at", timestamp(F.col("wall")))), "events")


def requests(trace: DataFrame) -> DataFrame:
    """Table `requests` of rows of the source."""
    chosen = trace.where("event = 'exchange'")
    chosen = chosen.withColumns({"at": timestamp(F.col("wall")), "arrived_at": wall_of("arrived")})
    return conform(keyed(chosen.withColumn("ms", ms_between(F.col("arrived_at"), F.col("at")))), "requests")


def quarantine(trace: DataFrame) -> DataFrame:
    """Table `quarantine` of rows of the source."""
    chosen = trace.where("unreadable is not null")
    return conform(
        chosen.select(
            F.lit("trace").alias("source"),
            "file",
            "position",
            F.lit(None).alias("offset"),
            F.lit(None).alias("bytes"),
            F.col("unreadable").alias("reason"),
        ),
        "quarantine",
    )


def commits(events: DataFrame) -> DataFrame:
    """Table `commits` of table `events`."""
    chosen = events.where("event = 'commit'")
    exploded = chosen.select(
        *("trace", "seq", "at", "group", "member_id", "generation", "error", "day", "bucket"),
        F.explode_outer("offsets").alias("committed"),
    )
    return conform(exploded.select("*", "committed.topic", "committed.partition", "committed.offset"), "commits")
