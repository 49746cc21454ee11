"""Jobs about committed offsets: which went back, where commits stopped, whether trace and segments tell the same."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import in_one_part

_KEY = ("group", "topic", "partition")
LEAST_GAP_S: Final = 60
TIMES_MEDIAN: Final = 10


def regressions(history: DataFrame) -> DataFrame:
    """Commits lower than the one before: `group`, `topic`, `partition`, `at`, `offset`, `previous`, `delta`."""
    found = history.where("what = 'commit' and delta < 0").select(
        "source", *_KEY, "at", "offset", "previous", "delta", "member_id", "origin", "position"
    )
    return in_one_part(found, "delta", *_KEY)


def gaps(history: DataFrame, least_s: int = LEAST_GAP_S, times_median: int = TIMES_MEDIAN) -> DataFrame:
    """Times without a commit of a partition that are longer than `least_s` and than `times_median` times its median:
    the columns of the history and `median_ms`. `at` is when commits came again."""
    long = history.where(F.col("what") == "commit").where(F.col("gap_ms") > least_s * 1000)
    # Medians are dear, and few partitions have a long gap.
    of_those = history.join(long.select("source", *_KEY).distinct(), ["source", *_KEY], "left_semi")
    medians = of_those.groupBy("source", *_KEY).agg(F.percentile_approx("gap_ms", 0.5).alias("median_ms"))
    found = (
        long.join(medians, ["source", *_KEY])
        .where(F.col("gap_ms") > F.col("median_ms") * times_median)
        .select("source", *_KEY, "at", "gap_ms", "median_ms", "offset", "previous", "member_id")
    )
    return in_one_part(found, F.desc("gap_ms"), *_KEY)


def agreement(history: DataFrame) -> DataFrame:
    """Committed offsets by trace against by segments, one row a partition of a group: how many commits only one of
    them has, the last offset of both, and whether they `agree`: the last offsets are equal and segments have nothing
    that the trace lacks. Compaction takes commits from segments, so what only the trace has is no disagreement."""
    commits = history.where("what = 'commit'")
    counted = commits.groupBy(*_KEY, "offset").agg(
        F.count(F.when(F.col("source") == "trace", 1)).alias("in_trace"),
        F.count(F.when(F.col("source") == "segments", 1)).alias("in_segments"),
        F.max(F.when(F.col("source") == "trace", F.struct("at", "position"))).alias("last_in_trace"),
        F.max(F.when(F.col("source") == "segments", F.col("position"))).alias("last_in_segments"),
    )
    found = counted.groupBy(*_KEY).agg(
        F.sum(F.greatest(F.col("in_trace") - F.col("in_segments"), F.lit(0))).alias("only_in_trace"),
        F.sum(F.greatest(F.col("in_segments") - F.col("in_trace"), F.lit(0))).alias("only_in_segments"),
        F.max_by("offset", "last_in_trace").alias("trace_offset"),
        F.max_by("offset", "last_in_segments").alias("segments_offset"),
    )
    agrees = F.col("trace_offset").eqNullSafe(F.col("segments_offset")) & (F.col("only_in_segments") == 0)
    return in_one_part(found.withColumn("agree", agrees), "agree", *_KEY)
