"""Expressions that the tables share: times, partition columns, conformity to a schema."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from kafka_shim.pipeline.schemas import BUCKETS, LOG, TABLES

LAST_SECOND: Final = 253_402_300_799.0
"""The last second of the year 9999, the maximum of Python's and Spark's calendars."""


class Scope:
    """A set of groups: all groups of these buckets, or only the ones of these names.

    Rows without a group belong to the scope if their bucket does.
    """

    def __init__(self, buckets: Collection[int], groups: Collection[str] | None = None) -> None:
        self.buckets = sorted(buckets)
        self.groups = None if groups is None else sorted(groups)

    @cached_property
    def has(self) -> Column:
        """The condition that a row belongs to the scope; cached, because each name in it costs a call to Java."""
        of_buckets = F.col("bucket").isin(self.buckets)
        if self.groups is None:
            return of_buckets
        group = F.col("group_id")
        return of_buckets & (group.isNull() | group.isin(self.groups))


def timestamp(seconds: Column) -> Column:
    """Convert Unix seconds to a timestamp; null for seconds outside the calendar."""
    return F.when(F.abs(seconds) <= LAST_SECOND, F.timestamp_micros(F.rint(seconds * 1e6).cast("bigint")))


def wall_of(mono: str) -> Column:
    """Convert a column of monotonic seconds to a timestamp, by the event's own time on both clocks."""
    return timestamp(F.col("wall") - (F.col("mono") - F.col(mono)))


def ms_between(start: Column, end: Column) -> Column:
    """Return the milliseconds from one timestamp to another."""
    return (F.unix_micros(end) - F.unix_micros(start)) / F.lit(1000.0)


def cooperative(protocol: Column) -> Column:
    """Return true if members keep their partitions through a round; guessed by the name of the assignor."""
    return F.coalesce(protocol.contains("cooperative"), F.lit(False))


def of_log(trace: str = "trace") -> Column:
    """Return the condition that a row is from the logs of brokers and clients, which lack much."""
    return F.col(trace).startswith(LOG)


def keyed(frame: DataFrame, at: str = "happened_at") -> DataFrame:
    """Add the columns `day` and `bucket`."""
    return frame.withColumns({"day": F.to_date(at), "bucket": F.pmod(F.hash("group_id"), F.lit(BUCKETS))})


def conform(frame: DataFrame, table: str) -> DataFrame:
    """Select the columns of the table's schema, in its order and types. Raises ValueError for a missing column."""
    present = set(frame.columns)
    missing = [name for name in TABLES[table].names if name not in present]
    if missing:
        raise ValueError(f"table {table} lacks {', '.join(missing)}")
    # SQL text needs one call to Java; each Column would need several.
    return frame.selectExpr(*(f"cast(`{c.name}` as {c.type}) as `{c.name}`" for c in TABLES[table].columns))


def in_order(*by: str) -> WindowSpec:
    """Return a window over the rows with the same `by`, in the order of the trace."""
    return Window.partitionBy(*by).orderBy("seq")


def hashes(*names: str) -> dict[str, Column]:
    """Return two hashes of these columns, together 128 bits: equal only for equal columns, not counting nulls.

    Sorting by hashes avoids comparing texts, which are the same in all rows of a history.
    """
    return {"hash": F.xxhash64(*names), "other_hash": F.xxhash64(F.lit(1), *names)}


def counted(frame: DataFrame, most: int = 10_000) -> DataFrame:
    """Return the same rows; up to `most` rows, as a local frame, which Spark can broadcast in a join.

    Otherwise Spark would shuffle both sides of the join. Reads the data immediately.
    """
    few = frame.limit(most + 1).toArrow()
    return frame if few.num_rows > most else frame.sparkSession.createDataFrame(few, frame.schema)


def in_one_part(frame: DataFrame, *by: str | Column) -> DataFrame:
    """Sort the rows into one partition, so one file. With several partitions Spark would compute the rows twice, to
    sample them for the boundaries."""
    return frame.repartition(1).orderBy(*by)
