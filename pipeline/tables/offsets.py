"""Tables of committed offsets: their history from traces and from segments, lag, and the other records of segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import conform, counted, hashes, keyed, ms_between
from kafka_shim.pipeline.tables.lives import in_turn, placed

_KEY = ("group_id", "topic", "partition")


def history_of_trace(events: DataFrame, requests: DataFrame, lives: DataFrame, deletions: DataFrame) -> DataFrame:
    """Build table `offset_history`, source `trace`, from tables `events`, `requests` and `lives`, and from the rows of
    `topics_deleted`.

    A deleted group and a deleted topic have no offsets: their next commit follows none. The trace does not list the
    offsets that are deleted so; their history just ends.
    """
    columns = ("trace", "seq", "happened_at", "group_id", "member_id", "what", "each.topic", "each.partition")
    happened = events.where("event in ('commit', 'offsets_expired') and coalesce(error, 0) = 0").withColumn(
        "what", F.when(F.col("event") == "commit", "commit").otherwise("expired")
    )
    deleted = requests.where("api = 'OffsetDelete' and error = 0").withColumn("what", F.lit("deleted"))
    needed = columns[:6]
    both = happened.select(*needed, "offsets").unionByName(deleted.select(*needed, "offsets"))
    # Shuffle by group before exploding into a row for each partition: that moves less data.
    changes = both.repartition("group_id").select("*", F.explode("offsets").alias("each"))
    committed = F.col("each.offset").alias("committed_offset")
    changes = changes.where("coalesce(each.error, 0) = 0").select(*columns, committed)
    derived = {
        "committed_offset": F.when(F.col("what") == "commit", F.col("committed_offset")),
        "source": F.lit("trace"),
        "origin": F.col("trace"),
        "position": F.col("seq"),
    }
    changes = _with_topic_life(placed(changes, lives), deletions)
    # With the group in the key Spark needs no other shuffle.
    alike = hashes(*_KEY)
    order = in_turn(*alike, "group_id", "first_run", "life", "topic_life")
    return _differences(changes.withColumns(derived | alike), order)


def topics_deleted(requests: DataFrame) -> DataFrame:
    """Return the deletions of topics: `topic`, `happened_at`."""
    deletions = requests.where("api = 'DeleteTopics'").select("happened_at", F.explode("offsets").alias("each"))
    return deletions.where("each.error = 0 and each.topic is not null").select("each.topic", "happened_at")


def _with_topic_life(changes: DataFrame, deletions: DataFrame) -> DataFrame:
    """Add `topic_life`, the number of times that the topic was deleted before."""
    by_topic = deletions.groupBy("topic").agg(F.collect_list("happened_at").alias("deleted_at"))
    joined = changes.join(F.broadcast(by_topic), "topic", "left")
    # An absent array has no elements.
    earlier = F.filter(
        F.coalesce("deleted_at", F.array().cast("array<timestamp>")), lambda at: at < F.col("happened_at")
    )
    return joined.withColumn("topic_life", F.size(earlier)).drop("deleted_at")


def history_of_segments(records: DataFrame) -> DataFrame:
    """Build table `offset_history`, source `segments`, from rows of the source `kafka_offsets_log`.

    The rows may contain several copies of each log. The rules are those of Kafka's `OffsetMetadataManager.replay` and
    `replayEndTransactionMarker`: an offset of a committed transaction takes effect at the place of the marker, unless a
    later record of the same key already has; of several records of a key in one transaction, the last one takes effect.
    A tombstone cancels earlier writes of open transactions. In short: a record takes effect if and only if no record of
    its key that took effect earlier stands later in the log. One pass in the order of effects decides that, and also
    leaves one of several copies of a record.
    """
    sound = records.where("reason is null and (kind = 'OffsetCommit' or control is not null)")
    commits = sound.select(
        *(
            "log",
            "offsets_partition",
            "record_offset",
            "timestamp",
            *_KEY,
            "committed_offset",
            "tombstone",
            "producer_id",
        ),
        # A marker is transactional, but no write of its transaction.
        (F.col("control").isNull() & F.col("transactional") & ~F.coalesce("tombstone", F.lit(False))).alias("pending"),
        "control",
    )
    plain = commits.where("control is null and not pending").withColumn("effect", F.col("record_offset"))
    of_transactions = _committed(commits.where("control is not null or pending"))
    # Shuffle by key and not by group, so that several tasks share the rows of a large group.
    effective = plain.unionByName(of_transactions).withColumns(hashes("log", *_KEY))
    order = Window.partitionBy("hash", "other_hash").orderBy("effect", "record_offset")
    earlier = F.max("record_offset").over(order.rowsBetween(Window.unboundedPreceding, -1))
    effective = effective.withColumn("earlier", earlier).where("earlier is null or record_offset > earlier")
    derived = {
        "happened_at": F.timestamp_millis("timestamp"),
        "what": F.when(F.col("tombstone"), "tombstone").otherwise("commit"),
        "committed_offset": F.when(~F.col("tombstone"), F.col("committed_offset")),
        "member_id": F.lit(None).cast("string"),
        "source": F.lit("segments"),
        "origin": F.concat(F.lit("__consumer_offsets-"), F.col("offsets_partition").cast("string")),
        "position": F.col("record_offset"),
    }
    return _differences(effective.withColumns(derived), order)


def _committed(records: DataFrame) -> DataFrame:
    """Return the writes of committed transactions: `effect` is the offset of the marker, `timestamp` its time."""
    # Descending: a window frame that ends with the last row costs a pass for each of its rows.
    backwards = Window.partitionBy("log", "producer_id").orderBy(F.desc("record_offset"))
    marker = F.when(F.col("control").isNotNull(), F.struct("record_offset", "control", "timestamp"))
    ended = records.withColumn("marker", F.last(marker, ignorenulls=True).over(backwards))
    names = ("offsets_partition", "record_offset", "committed_offset", "tombstone", "pending", "control")
    last = (
        ended.where("pending and marker.control = 'COMMIT'")
        .groupBy("log", "producer_id", *_KEY, F.col("marker.record_offset").alias("effect"))
        .agg(F.max("marker.timestamp").alias("timestamp"), F.max_by(F.struct(*names), "record_offset").alias("last"))
    )
    return last.select("log", "producer_id", *_KEY, "effect", "timestamp", *(f"last.{name}" for name in names))


def _differences(changes: DataFrame, order: WindowSpec) -> DataFrame:
    """Add the difference to the change before, in this order; returns table `offset_history`."""
    differences = changes.withColumns(
        {"previous": F.lag("committed_offset").over(order), "before": F.lag("happened_at").over(order)}
    )
    differences = differences.withColumns(
        {
            "delta": F.col("committed_offset") - F.col("previous"),
            "gap_ms": ms_between(F.col("before"), F.col("happened_at")),
        }
    )
    return conform(keyed(differences), "offset_history")


def end_offsets_of_trace(events: DataFrame, requests: DataFrame) -> DataFrame:
    """Return end offsets of partitions from the trace: `topic`, `partition`, `happened_at`, `end_offset`.

    They come from events of a coordinator or relay, and from answers of ListOffsets.
    """
    reported = events.where("event = 'end_offsets'").select("happened_at", F.explode("offsets").alias("each"))
    listed = requests.where("api = 'ListOffsets'").select("happened_at", F.explode("offsets").alias("each"))
    return (
        reported.unionByName(listed)
        .where("coalesce(each.error, 0) = 0 and each.offset >= 0")
        .select("each.topic", "each.partition", "happened_at", F.col("each.offset").alias("end_offset"))
    )


def lag(history: DataFrame, end_offsets: DataFrame) -> DataFrame:
    """Build table `lag`: each commit with the last end offset known at its time, and the last commit of each partition
    with the newest one: after a consumer has died, its topic grows on.

    For groups with a trace, the commits in segments are the same commits again, so they are left out.
    """
    of_trace = history.where("source = 'trace'").select("group_id").distinct().withColumn("in_trace", F.lit(True))
    with_end = end_offsets.select("topic", "partition").distinct()
    commits = (
        history.where("what = 'commit'")
        .join(counted(with_end), ["topic", "partition"], "left_semi")
        .join(of_trace, "group_id", "left")
        .where("source = 'trace' or in_trace is null")
        .select(*_KEY, "happened_at", "committed_offset")
    )
    nothing = F.lit(None)
    both = commits.withColumns(
        {"end_offset": nothing.cast("bigint"), "known_at": nothing.cast("timestamp"), "is_commit": F.lit(1)}
    ).unionByName(
        end_offsets.select(
            nothing.cast("string").alias("group_id"),
            "topic",
            "partition",
            "happened_at",
            nothing.cast("bigint").alias("committed_offset"),
            "end_offset",
            F.col("happened_at").alias("known_at"),
            F.lit(0).alias("is_commit"),
        )
    )
    order = Window.partitionBy("topic", "partition").orderBy("happened_at", "is_commit")
    every = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    behind_end = both.withColumns(
        {name: F.last(name, ignorenulls=True).over(order) for name in ("end_offset", "known_at")}
        | {"newest": F.last("end_offset", ignorenulls=True).over(every)}
    ).where("is_commit = 1")
    is_last = F.lead("happened_at").over(Window.partitionBy(*_KEY).orderBy("happened_at")).isNull()
    behind_end = behind_end.withColumn("newest_end_offset", F.when(is_last, F.col("newest")))
    derived = {
        name: F.when(F.col(end).isNotNull(), F.greatest(F.col(end) - F.col("committed_offset"), F.lit(0)))
        for name, end in (("lag", "end_offset"), ("behind", "newest_end_offset"))
    }
    with_end = behind_end.where("end_offset is not null or newest_end_offset is not null")
    return conform(keyed(with_end.withColumns(derived)), "lag")


def log_records(records: DataFrame) -> DataFrame:
    """Build table `log_records` from rows of the source `kafka_offsets_log`."""
    return conform(records.where("reason is null and kind != 'OffsetCommit'"), "log_records")


def quarantine(records: DataFrame) -> DataFrame:
    """Build table `quarantine` from rows of the source `kafka_offsets_log`."""
    damaged = records.where("reason is not null and kind is null").select(
        F.lit("segments").alias("source"),
        "file",
        "position",
        F.when(F.col("record_offset") >= 0, F.col("record_offset")).alias("log_offset"),
        F.col("damaged_bytes").alias("bytes"),
        "reason",
    )
    return conform(damaged, "quarantine")


def gaps(records: DataFrame) -> DataFrame:
    """Build table `gaps` from rows of the source `kafka_offsets_log`."""
    missing = records.where("kind = 'gap'").select(
        F.lit("segments").alias("source"),
        F.coalesce(F.concat(F.lit("__consumer_offsets-"), F.col("offsets_partition").cast("string")), "log").alias(
            "origin"
        ),
        F.col("record_offset").alias("first"),
        F.col("committed_offset").alias("last"),
        "reason",
    )
    return conform(missing.distinct(), "gaps")


LOG_TABLES: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "log_records": log_records,
    "log_quarantine": quarantine,
    "log_gaps": gaps,
}
"""The tables of segments other than the history of offsets, by place (`kafka_shim.pipeline.schemas.PLACES`)."""
