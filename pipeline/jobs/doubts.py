"""Which answers rest on a trace or a log that lacks something. It does not know what the answers are."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def incomplete(gaps: DataFrame, events: DataFrame, history: DataFrame) -> DataFrame:
    """The groups that a gap may be about: `group`, each once. Of a trace all that are in it, as what is missing may be
    about any; of a partition of the log those whose offsets lie there."""
    of_traces = events.where("group is not null").select(F.col("trace").alias("origin"), "group").distinct()
    of_logs = history.where("source = 'segments'").select("origin", "group").distinct()
    return of_traces.unionByName(of_logs).join(gaps, "origin", "left_semi").select("group").distinct()


def marked(answer: DataFrame, incomplete: DataFrame | None) -> DataFrame:
    """An answer by group with column `incomplete`: whether events or records that may matter to it are missing."""
    if incomplete is None:
        return answer.withColumn("incomplete", F.lit(False))
    named = incomplete.withColumn("lacks", F.lit(True))
    # The rows keep their order.
    numbered = answer.withColumn("row", F.monotonically_increasing_id()).join(named, "group", "left")
    found = numbered.withColumn("incomplete", F.coalesce("lacks", F.lit(False))).coalesce(1).sortWithinPartitions("row")
    return found.select(*answer.columns, "incomplete")
