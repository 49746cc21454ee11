"""Jobs about committed offsets: regressions, gaps between commits, agreement of traces with segments."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_shim.pipeline.tables.columns import in_one_part

_KEY = ("group_id", "topic", "partition")
LEAST_GAP_S: Final = 60
TIMES_MEDIAN: Final = 10


def regressions(history: DataFrame) -> DataFrame:
    """Return commits lower than the one before, with `previous` and `delta`."""
    backward = history.where("what = 'commit' and delta < 0").select(
        "source", *_KEY, "happened_at", "committed_offset", "previous", "delta", "member_id", "origin", "position"
    )
    return in_one_part(backward, "delta", *_KEY)


def gaps(history: DataFrame, least_s: int = LEAST_GAP_S, times_median: int = TIMES_MEDIAN) -> DataFrame:
    """Return the long times without a commit of a partition: the columns of the history, and `median_ms`.

    Long means more than `least_s` and more than `times_median` times the partition's median. `happened_at` is the time
    of the next commit.
    """
    long = history.where(F.col("what") == "commit").where(F.col("gap_ms") > least_s * 1000)
    # Medians are expensive, and few partitions have a long gap.
    of_those = history.join(long.select("source", *_KEY).distinct(), ["source", *_KEY], "left_semi")
    medians = of_those.groupBy("source", *_KEY).agg(F.percentile_approx("gap_ms", 0.5).alias("median_ms"))
    long_gaps = (
        long.join(medians, ["source", *_KEY])
        .where(F.col("gap_ms") > F.col("median_ms") * times_median)
        .select("source", *_KEY, "happened_at", "gap_ms", "median_ms", "committed_offset", "previous", "member_id")
    )
    return in_one_part(long_gaps, F.desc("gap_ms"), *_KEY)


def agreement(history: DataFrame) -> DataFrame:
    """Compare the committed offsets of traces with those of segments, a row per partition of a group.

    How many commits only one of them has, the last offset of both, and `agree`: the last offsets are equal and segments
    have no commit that the trace lacks. Compaction removes commits from segments, so a commit only in the trace is no
    disagreement.
    """
    commits = history.where("what = 'commit'")
    counted = commits.groupBy(*_KEY, "committed_offset").agg(
        F.count(F.when(F.col("source") == "trace", 1)).alias("in_trace"),
        F.count(F.when(F.col("source") == "segments", 1)).alias("in_segments"),
        F.max(F.when(F.col("source") == "trace", F.struct("happened_at", "position"))).alias("last_in_trace"),
        F.max(F.when(F.col("source") == "segments", F.col("position"))).alias("last_in_segments"),
    )
    compared = counted.groupBy(*_KEY).agg(
        F.sum(F.greatest(F.col("in_trace") - F.col("in_segments"), F.lit(0))).alias("only_in_trace"),
        F.sum(F.greatest(F.col("in_segments") - F.col("in_trace"), F.lit(0))).alias("only_in_segments"),
        F.max_by("committed_offset", "last_in_trace").alias("trace_offset"),
        F.max_by("committed_offset", "last_in_segments").alias("segments_offset"),
    )
    agrees = F.col("trace_offset").eqNullSafe(F.col("segments_offset")) & (F.col("only_in_segments") == 0)
    return in_one_part(compared.withColumn("agree", agrees), "agree", *_KEY)
