"""A mark on answers about groups with gaps in their trace or log."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def incomplete(gaps: DataFrame, events: DataFrame, history: DataFrame) -> DataFrame:
    """Return the groups that a gap may concern: `group_id`, each once.

    A gap in a trace may concern every group in that trace; a gap in a partition of the log, every group with offsets
    there.
    """
    of_traces = events.where("group_id is not null").select(F.col("trace").alias("origin"), "group_id").distinct()
    of_logs = history.where("source = 'segments'").select("origin", "group_id").distinct()
    return of_traces.unionByName(of_logs).join(gaps, "origin", "left_semi").select("group_id").distinct()


def marked(answer: DataFrame, incomplete: DataFrame | None) -> DataFrame:
    """Add column `incomplete` to an answer by group: true if events or records of the group may be missing."""
    if incomplete is None:
        return answer.withColumn("incomplete", F.lit(False))
    lacking = incomplete.withColumn("lacks", F.lit(True))
    # The row number restores the order of the answer after the join.
    numbered = answer.withColumn("row", F.monotonically_increasing_id()).join(lacking, "group_id", "left")
    joined = (
        numbered.withColumn("incomplete", F.coalesce("lacks", F.lit(False))).coalesce(1).sortWithinPartitions("row")
    )
    return joined.select(*answer.columns, "incomplete")
