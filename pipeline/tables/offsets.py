"""Tables of committed offsets: their history from traces and from segments, lag, and what segments have besides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import conform, counted, hashes, keyed, ms_between

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
    made = {
        "offset": F.when(F.col("what") == "commit", F.col("offset")),
        "source": F.lit("trace"),
        "origin": F.col("trace"),
        "position": F.col("seq"),
    }
    # A group moves between traces, so time decides. The group is there because its rows have been brought together.
    alike = hashes(*_KEY)
    order = Window.partitionBy(*alike, "group").orderBy("at", "seq")
    return _differences(found.withColumns(made | alike), order)


def history_of_segments(records: DataFrame) -> DataFrame:
    """Table `offset_history`, source `segments`, of rows of the source `kafka_offsets_log`, of one copy of each log or
    of several.

    As Kafka's `OffsetMetadataManager.replay` and `replayEndTransactionMarker` have it: what a transaction wrote counts
    from the place of its marker on if the transaction is committed, and then only if no record of the same key after it
    counts already; of several such records of a transaction the last does. A tombstone takes back what open
    transactions wrote before it. Records of a key thus count if and only if none that took effect earlier stands later
    in the log, which one pass in the order of effects tells, and which leaves of copies of a record one.
    """
    sound = records.where("reason is null and (kind = 'OffsetCommit' or control is not null)")
    commits = sound.select(
        *("log", "offsets_partition", "record_offset", "timestamp", *_KEY, "offset", "tombstone", "producer_id"),
        (F.col("transactional") & ~F.coalesce("tombstone", F.lit(False))).alias("pending"),
        "control",
    )
    plain = commits.where("control is null and not pending").withColumn("effect", F.col("record_offset"))
    of_transactions = _committed(commits.where("control is not null or pending"))
    # By key and not by group: the rows of a large group are the work of several tasks.
    found = plain.unionByName(of_transactions).withColumns(hashes("log", *_KEY))
    order = Window.partitionBy("hash", "other_hash").orderBy("effect", "record_offset")
    earlier = F.max("record_offset").over(order.rowsBetween(Window.unboundedPreceding, -1))
    found = found.withColumn("earlier", earlier).where("earlier is null or record_offset > earlier")
    made = {
        "at": F.timestamp_millis("timestamp"),
        "what": F.when(F.col("tombstone"), "tombstone").otherwise("commit"),
        "offset": F.when(~F.col("tombstone"), F.col("offset")),
        "member_id": F.lit(None).cast("string"),
        "source": F.lit("segments"),
        "origin": F.concat(F.lit("__consumer_offsets-"), F.col("offsets_partition").cast("string")),
        "position": F.col("record_offset"),
    }
    return _differences(found.withColumns(made), order)


def _committed(records: DataFrame) -> DataFrame:
    """What committed transactions wrote, of records of transactions and their markers: `effect` is the offset of the
    marker, `timestamp` its time."""
    # Backwards, as a frame that ends with the last row costs a pass for each of its rows.
    backwards = Window.partitionBy("log", "producer_id").orderBy(F.desc("record_offset"))
    marker = F.when(F.col("control").isNotNull(), F.struct("record_offset", "control", "timestamp"))
    ended = records.withColumn("marker", F.last(marker, ignorenulls=True).over(backwards))
    names = ("offsets_partition", "record_offset", "offset", "tombstone", "pending", "control")
    last = (
        ended.where("pending and marker.control = 'COMMIT'")
        .groupBy("log", "producer_id", *_KEY, F.col("marker.record_offset").alias("effect"))
        .agg(F.max("marker.timestamp").alias("timestamp"), F.max_by(F.struct(*names), "record_offset").alias("last"))
    )
    return last.select("log", "producer_id", *_KEY, "effect", "timestamp", *(f"last.{name}" for name in names))


def _differences(changes: DataFrame, order: WindowSpec) -> DataFrame:
    """Changes of offsets with what was before each, in the order given, as table `offset_history`."""
    found = changes.withColumns({"previous": F.lag("offset").over(order), "before": F.lag("at").over(order)})
    found = found.withColumns(
        {"delta": F.col("offset") - F.col("previous"), "gap_ms": ms_between(F.col("before"), F.col("at"))}
    )
    return conform(keyed(found), "offset_history")


def end_offsets_of_trace(events: DataFrame, requests: DataFrame) -> DataFrame:
    """Ends of partitions, as a coordinator or a relay told them or ListOffsets answered: `topic`, `partition`, `at`,
    `end_offset`."""
    reported = events.where("event = 'end_offsets'").select("at", F.explode("offsets").alias("each"))
    listed = requests.where("api = 'ListOffsets'").select("at", F.explode("offsets").alias("each"))
    return (
        reported.unionByName(listed)
        .where("coalesce(each.error, 0) = 0 and each.offset >= 0")
        .select("each.topic", "each.partition", "at", F.col("each.offset").alias("end_offset"))
    )


def lag(history: DataFrame, end_offsets: DataFrame) -> DataFrame:
    """Table `lag`: each commit with the last end offset known at its time. Of a group that is in a trace, its segments
    tell the same commits once more."""
    of_trace = history.where("source = 'trace'").select("group").distinct().withColumn("in_trace", F.lit(True))
    named = end_offsets.select("topic", "partition").distinct()
    commits = (
        history.where("what = 'commit'")
        .join(counted(named), ["topic", "partition"], "left_semi")
        .join(of_trace, "group", "left")
        .where("source = 'trace' or in_trace is null")
        .select(*_KEY, "at", "offset")
    )
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
    behind_end = both.withColumns(
        {name: F.last(name, ignorenulls=True).over(order) for name in ("end_offset", "known_at")}
    ).where("is_commit = 1 and end_offset is not null")
    behind = F.greatest(F.col("end_offset") - F.col("offset"), F.lit(0))
    return conform(keyed(behind_end.withColumn("lag", behind)), "lag")


def log_records(records: DataFrame) -> DataFrame:
    """Table `log_records` of rows of the source `kafka_offsets_log`."""
    return conform(records.where("reason is null and kind != 'OffsetCommit'"), "log_records")


def quarantine(records: DataFrame) -> DataFrame:
    """Table `quarantine` of rows of the source `kafka_offsets_log`."""
    damaged = records.where("reason is not null and kind is null").select(
        F.lit("segments").alias("source"),
        "file",
        "position",
        F.when(F.col("record_offset") >= 0, F.col("record_offset")).alias("offset"),
        F.col("damaged_bytes").alias("bytes"),
        "reason",
    )
    return conform(damaged, "quarantine")


def gaps(records: DataFrame) -> DataFrame:
    """Table `gaps` of rows of the source `kafka_offsets_log`."""
    found = records.where("kind = 'gap'").select(
        F.lit("segments").alias("source"),
        F.coalesce(F.concat(F.lit("__consumer_offsets-"), F.col("offsets_partition").cast("string")), "log").alias(
            "origin"
        ),
        F.col("record_offset").alias("first"),
        F.col("offset").alias("last"),
        "reason",
    )
    return conform(found.distinct(), "gaps")


LOG_TABLES: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "log_records": log_records,
    "log_quarantine": quarantine,
    "log_gaps": gaps,
}
"""What is made of segments besides the history of offsets, of rows of the source, by place
(`kafka_shim.pipeline.schemas.PLACES`)."""
