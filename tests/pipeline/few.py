"""A warehouse of few tables: making all takes longer than most tests need."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame, SparkSession

from kafka_shim.pipeline.warehouse import Warehouse


class Few(Warehouse):
    """Writes these tables, places (`kafka_shim.pipeline.schemas.PLACES`) and answers alone; the others are empty."""

    def __init__(self, spark: SparkSession, path: str, names: Collection[str], kind: str = "parquet") -> None:
        super().__init__(spark, path, kind)
        self._names = names

    def write(self, name: str, rows: DataFrame, *, replaces: Collection[int] | None = None) -> None:
        if name in self._names:
            super().write(name, rows, replaces=replaces)

    def write_result(self, name: str, rows: DataFrame) -> None:
        if name in self._names:
            super().write_result(name, rows)
