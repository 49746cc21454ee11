"""Parquet files that tasks write themselves, where no row need go through Spark.

Decides how the files of a task lie and how they come into place. A task writes into a folder of its own, and its files
count only once all tasks are done: what one that failed left behind is thrown away. Spark is asked to run the tasks and
to run again those that fail. Driver and workers must see the files under the same path. It does not know the tables.
"""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import SparkSession

from kafka_shim.pipeline.decode.varints import Ints
from kafka_shim.pipeline.schemas import BUCKETS

OPEN_FILES: Final = 64
NO_DAY: Final = -1 << 24
"""The day of what has no time."""

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_EPOCH: Final = datetime.date(1970, 1, 1)


def write_by_tasks(spark: SparkSession, planned: Sequence[Any], work: Callable[[Any, Files], None], out: str) -> None:
    """Does `work` for each of the planned tasks, on Spark's workers; the files of all of them replace folder `out`."""
    final, staged = Path(out), Path(f"{out}.writing")
    shutil.rmtree(staged, ignore_errors=True)
    done = []
    if planned:
        run = partial(run_task, str(staged), work)
        done = spark.sparkContext.parallelize(planned, len(planned)).map(run).collect()
    shutil.rmtree(final, ignore_errors=True)
    final.mkdir(parents=True)
    for attempt in done:
        for written in (staged / attempt).rglob("*.parquet"):
            place = final / written.relative_to(staged / attempt)
            place.parent.mkdir(parents=True, exist_ok=True)
            written.rename(place)
    shutil.rmtree(staged, ignore_errors=True)


def run_task(staged: str, work: Callable[[Any, Files], None], task: Any) -> str:
    """Does the work of one task; the name of the folder in `staged` that holds its files."""
    attempt = uuid4().hex
    files = Files(Path(staged) / attempt)
    work(task, files)
    files.close()
    return attempt


def places(days: Ints, buckets: Ints) -> tuple[Ints, Iterator[tuple[str, int, int]]]:
    """The order in which rows of the same day and bucket are side by side, and then the folder of each such part, its
    start and its end. `days` are since 1970, or `NO_DAY`."""
    known = days[days != NO_DAY]
    first = int(known.min()) if known.size else 0
    # What has no day comes after everything that has one.
    last = int(known.max()) - first + 1 if known.size else 0
    place = np.where(days == NO_DAY, last, days - first) * BUCKETS + buckets
    # numpy sorts short numbers by radix.
    if place.size and int(place.max()) < 1 << 16:
        place = place.astype(np.uint16)
    order: Ints = np.argsort(place, kind="stable")
    place = place[order]

    def parts() -> Iterator[tuple[str, int, int]]:
        starts = np.flatnonzero(np.append(True, place[1:] != place[:-1])) if place.size else np.zeros(0, np.int64)
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), place.size], strict=True):
            day, bucket = divmod(int(place[start]), BUCKETS)
            date = _NULL if day == last else _EPOCH + datetime.timedelta(days=first + day)
            yield f"day={date}/bucket={bucket}", start, end

    return order, parts()


class Files:
    """The files of one task: of each folder one, or several if there are very many folders."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, pa.parquet.ParquetWriter] = {}
        self._count = 0

    def write(
        self,
        where: str,
        table: pa.Table,
        dictionaries: Collection[str] = (),
        filtered: Collection[str] | None = None,
        near: Collection[str] = (),
    ) -> None:
        """Adds rows to folder `where`, as a row group. Columns in `dictionaries` hold few different values; of those in
        `filtered`, or all, the least and the greatest value are told, so that readers may pass over the rows; of those
        in `near`, numbers that are near the ones before, the differences are kept."""
        if where not in self._open:
            if len(self._open) == OPEN_FILES:
                self.close()
            folder = self._folder / where
            folder.mkdir(parents=True, exist_ok=True)
            self._count += 1
            self._open[where] = pa.parquet.ParquetWriter(
                folder / f"part-{self._folder.name}-{self._count:05d}.parquet",
                table.schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=[name for name in table.schema.names if name in dictionaries],
                write_statistics=True if filtered is None else [n for n in table.schema.names if n in filtered],
                column_encoding={name: "DELTA_BINARY_PACKED" for name in near if name in table.schema.names},
                store_schema=False,
            )
        self._open[where].write_table(table)

    def close(self) -> None:
        """Ends all files; more may be begun."""
        for writer in self._open.values():
            writer.close()
        self._open.clear()
