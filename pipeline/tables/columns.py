"""Expressions the tables share: times, partition columns, the shape a schema asks for."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from kafka_shim.pipeline.schemas import BUCKETS, TABLES

LAST_SECOND: Final = 253_402_300_799.0
"""The last of the year 9999; calendars go no further."""


class Scope:
    """Groups: those in these buckets, and of them the ones of these names, or all. Rows about no group are in it if
    their bucket is."""

    def __init__(self, buckets: Collection[int], groups: Collection[str] | None = None) -> None:
        self.buckets = sorted(buckets)
        self.groups = None if groups is None else sorted(groups)

    @cached_property
    def has(self) -> Column:
        """Whether a row is about any of them. Kept, as every name in it is a call of Java."""
        of_buckets = F.col("bucket").isin(self.buckets)
        if self.groups is None:
            return of_buckets
        group = F.col("group")
        return of_buckets & (group.isNull() | group.isin(self.groups))


def timestamp(seconds: Column) -> Column:
    """A timestamp of seconds of Unix time; null for those that no calendar has."""
    return F.when(F.abs(seconds) <= LAST_SECOND, F.timestamp_micros(F.rint(seconds * 1e6).cast("bigint")))


def wall_of(mono: str) -> Column:
    """The timestamp of a column of monotonic seconds: an event has its own time on both clocks."""
    return timestamp(F.col("wall") - (F.col("mono") - F.col(mono)))


def ms_between(start: Column, end: Column) -> Column:
    """Milliseconds from one timestamp to another."""
    return (F.unix_micros(end) - F.unix_micros(start)) / F.lit(1000.0)


def cooperative(protocol: Column) -> Column:
    """Whether members keep what they own through a round. A coordinator does not see it; by the assignor's name."""
    return F.coalesce(protocol.contains("cooperative"), F.lit(False))


def keyed(frame: DataFrame, at: str = "at") -> DataFrame:
    """With `day` and `bucket`."""
    return frame.withColumns({"day": F.to_date(at), "bucket": F.pmod(F.hash("group"), F.lit(BUCKETS))})


def conform(frame: DataFrame, table: str) -> DataFrame:
    """The columns the table's schema declares, in its order and of its types."""
    present = set(frame.columns)
    missing = [name for name in TABLES[table].names if name not in present]
    if missing:
        raise ValueError(f"table {table} lacks {', '.join(missing)}")
    # As SQL, since every call of a Column is one of Java.
    return frame.selectExpr(*(f"cast(`{c.name}` as {c.type}) as `{c.name}`" for c in TABLES[table].columns))


def in_order(*by: str) -> WindowSpec:
    """A window over the rows of the same `by`, in the order of the trace."""
    return Window.partitionBy(*by).orderBy("seq")


def hashes(*names: str) -> dict[str, Column]:
    """Two numbers that stand for these columns: with 128 bits, only rows alike in the columns are alike in them, where
    null counts for nothing. To sort by them takes no look at texts, which are the same in all rows of a history."""
    return {"hash": F.xxhash64(*names), "other_hash": F.xxhash64(F.lit(1), *names)}


def counted(frame: DataFrame, most: int = 10_000) -> DataFrame:
    """The same rows. If there are not more than `most`, Spark knows how few, and brings them to what joins with them,
    where it else would bring both together; none are joined with nothing. Looks at the data now."""
    few = frame.limit(most + 1).toArrow()
    return frame if few.num_rows > most else frame.sparkSession.createDataFrame(few, frame.schema)


def in_one_part(frame: DataFrame, *by: str | Column) -> DataFrame:
    """All rows in this order, in one part: what is one file in the end. Sorted over several, all that makes the rows is
    computed twice, as where to part them is found by a sample."""
    return frame.repartition(1).orderBy(*by)
