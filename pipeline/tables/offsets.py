"""Tables of committed offsets: their history from traces and from segments, lag, and what segments have besides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import conform, hashes, keyed, ms_between

_KEY = ("group", "topic", "partition")


def history_of_trace(events: DataFrame, requests: DataFrame) -> DataFrame:
    """Table `offset_history`, source `trace`, of tables `events` and `requests`.

    A deletion of a whole group does not say which offsets it had; their history just ends.
    """
    columns = ("trace", "seq", "at", "group", "member_id", "what", "each.topic", "each.partition", "each.offset")
    happened = events.where("event in ('commit', 'offsets_expired') and coalesce(error, 0) = 0").withColumn(
        "what", F.when(F.col("event") == "commit", "commit").otherwise("expired")
    )
    deleted = requests.where("api = 'OffsetDelete' and error = 0").withColumn("what", F.lit("deleted"))
    needed = columns[:6]
    both = happened.select(*needed, "offsets").unionByName(deleted.select(*needed, "offsets"))
    # Brought together by group before there is a row for every partition: that moves less.
    found = both.repartition("group").select("*", F.explode("offsets").alias("each"))
    found = found.where("coalesce(each.error, 0) = 0").select(*columns)
    return _history(
        found.withColumns(
            {
                "offset": F.when(F.col("what") == "commit", F.col("offset")),
                "source": F.lit("trace"),
                "log": F.lit(None).cast("string"),
                "origin": F.col("trace"),
                "position": F.col("seq"),
            }
        )
    )


def history_of_segments(records: DataFrame) -> DataFrame:
    """Table `offset_history`, source `segments`, of rows of the source `kafka_offsets_log`.

    What a transaction wrote counts once it is committed, from the place of its marker on; without one it never did.
    """
    records = records.where("reason is null")
    ends = records.where("kind = 'control' and control is not null").select(
        "offsets_partition",
        "producer_id",
        F.col("record_offset").alias("marker"),
        "control",
        F.col("timestamp").alias("ended"),
    )
    commits = records.where("kind = 'OffsetCommit'").select(
        *("offsets_partition", "record_offset", "timestamp", *_KEY, "offset", "tombstone"),
        *("transactional", "producer_id", "file"),
    )
    plain = commits.where("not transactional")
    pending = commits.where("transactional")
    key = ["offsets_partition", "producer_id"]
    decided = (
        pending.join(ends, key)
        .where("marker > record_offset")
        .groupBy(*key, "record_offset")
        .agg(
            F.min("marker").alias("marker"),
            F.min_by("control", "marker").alias("control"),
            F.min_by("ended", "marker").alias("ended"),
        )
        .where("control = 'COMMIT'")
    )
    effective = (
        pending.join(decided, [*key, "record_offset"])
        .withColumn("timestamp", F.col("ended"))
        # Several offsets of one transaction take effect at one marker: they keep their order.
        .withColumn("effect", F.col("marker"))
    )
    found = plain.withColumn("effect", F.col("record_offset")).unionByName(effective.select(*plain.columns, "effect"))
    return _history(
        found.withColumns(
            {
                "at": F.timestamp_millis("timestamp"),
                "seq": F.col("effect"),
                "what": F.when(F.col("tombstone"), "tombstone").otherwise("commit"),
                "member_id": F.lit(None).cast("string"),
                "source": F.lit("segments"),
                # Copies of a partition, of several brokers, have a history each.
                "log": F.regexp_extract("file", "^(.*)/[^/]*$", 1),
                "origin": F.concat(F.lit("__consumer_offsets-"), F.col("offsets_partition").cast("string")),
                "position": F.col("record_offset"),
            }
        )
    )


def _history(changes: DataFrame) -> DataFrame:
    # Segments have a place for every change; a group moves between traces, so there time decides first. The group is
    # there because its rows have been brought together already.
    alike = hashes("source", "log", *_KEY)
    changes = changes.withColumns(alike | {"time": F.when(F.col("source") == "trace", F.col("at"))})
    order = Window.partitionBy(*alike, "group").orderBy("time", "seq", "position")
    found = changes.withColumns({"previous": F.lag("offset").over(order), "before": F.lag("at").over(order)})
    found = found.withColumns(
        {"delta": F.col("offset") - F.col("previous"), "gap_ms": ms_between(F.col("before"), F.col("at"))}
    )
    return conform(keyed(found), "offset_history")


def end_offsets_of_trace(events: DataFrame, requests: DataFrame) -> DataFrame:
    """Ends of partitions, as a coordinator or a relay told them or ListOffsets answered: `topic`, `partition`, `at`,
    `end_offset`."""
    told = events.where("event = 'end_offsets'").select("at", F.explode("offsets").alias("each"))
    listed = requests.where("api = 'ListOffsets'").select("at", F.explode("offsets").alias("each"))
    return (
        told.unionByName(listed)
        .where("coalesce(each.error, 0) = 0 and each.offset >= 0")
        .select("each.topic", "each.partition", "at", F.col("each.offset").alias("end_offset"))
    )


def lag(history: DataFrame, end_offsets: DataFrame) -> DataFrame:
    """Table `lag`: each commit with the last end offset known at its time. Of a group that is in a trace, its segments
    tell the same commits once more."""
    of_trace = history.where("source = 'trace'").select("group").distinct().withColumn("in_trace", F.lit(True))
    commits = (
        history.where("what = 'commit'")
        .join(F.broadcast(of_trace), "group", "left")
        .where("source = 'trace' or in_trace is null")
        .select(*_KEY, "at", "offset")
    )
    named = end_offsets.select("topic", "partition").distinct()
    commits = commits.join(F.broadcast(named), ["topic", "partition"], "left_semi")
    nothing = F.lit(None)
    both = commits.withColumns(
        {"end_offset": nothing.cast("bigint"), "known_at": nothing.cast("timestamp"), "is_commit": F.lit(1)}
    ).unionByName(
        end_offsets.select(
            nothing.cast("string").alias("group"),
            "topic",
            "partition",
            "at",
            nothing.cast("bigint").alias("offset"),
            "end_offset",
            F.col("at").alias("known_at"),
            F.lit(0).alias("is_commit"),
        )
    )
    order = Window.partitionBy("topic", "partition").orderBy("at", "is_commit")
    known = both.withColumns(
        {name: F.last(name, ignorenulls=True).over(order) for name in ("end_offset", "known_at")}
    ).where("is_commit = 1 and end_offset is not null")
    behind = F.greatest(F.col("end_offset") - F.col("offset"), F.lit(0))
    return conform(keyed(known.withColumn("lag", behind)), "lag")


def log_records(records: DataFrame) -> DataFrame:
    """Table `log_records` of rows of the source `kafka_offsets_log`."""
    return conform(records.where("reason is null and kind != 'OffsetCommit'"), "log_records")


def quarantine(records: DataFrame) -> DataFrame:
    """Table `quarantine` of rows of the source `kafka_offsets_log`."""
    damaged = records.where("reason is not null").select(
        F.lit("segments").alias("source"),
        "file",
        "position",
        F.when(F.col("record_offset") >= 0, F.col("record_offset")).alias("offset"),
        F.col("damaged_bytes").alias("bytes"),
        "reason",
    )
    return conform(damaged, "quarantine")


LOG_TABLES: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "log_records": log_records,
    "quarantine": quarantine,
    "offset_history": history_of_segments,
}
"""The tables that come from segments, of rows of the source. `log_tables.py` makes the same without Spark's rows,
where it can."""
