"""A warehouse: the Parquet files of all tables and answers, and how they are written and read.

    OUT/data/TABLE/run=ID/day=.../bucket=...    rows of a table; of small input, without folders of days and buckets
    OUT/data/RESULT/run=ID                      the answer of a job; the same as CSV in RESULT.csv
    OUT/latest                                  `run=ID` if these folders are the whole of each table
    OUT/snapshots/NUMBER.json                   which of these folders count (`kafka_shim.pipeline.snapshots`)

Spark writes and commits the files. They count once a snapshot names them: all files of a run or of a micro-batch at
once. A table in several places (`kafka_shim.pipeline.schemas.PLACES`) has a folder `place=...` for each in its folder
of the run; rows that come straight from a trace are in table `mixed`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from functools import reduce
from itertools import groupby
from threading import Lock
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kafka_shim.pipeline.formats import Tables, needs_of
from kafka_shim.pipeline.schemas import PARTITIONED, PLACES, STEADY, TABLES, UNITED, Table
from kafka_shim.pipeline.snapshots import KEPT, Files, Overtaken, Snapshot, Snapshots, new_run, reaching
from kafka_shim.pipeline.sources import stores_of
from kafka_shim.pipeline.tables.columns import Scope, conform

_SHUFFLED: Final = frozenset(
    {"membership", "rounds", "member_pauses", "ownership", "partition_pauses", "assignments", "lag", "violations"}
)
"""Small tables. Their rows are shuffled by day and bucket first, so that each such partition is one file."""
_DIFFERENT: Final = frozenset({"bigint", "timestamp", "double"})
_KEYS: Final = ("day", "bucket")
APART: Final = ("place", *_KEYS)
"""The columns that name the folders of `Warehouse.append_apart`."""
COMPACTED_AT: Final = 32
"""A place written in more parts is compacted to one."""
LATEST: Final = "latest"
"""The file that names the newest run, for readers of other programs."""


FEW: Final = 200
"""Up to this many groups in a batch, only these groups are derived again, not their whole buckets."""


class Added(NamedTuple):
    """The result of `Warehouse.append_apart`.

    The folder of the new rows, their buckets, and the buckets with rows other than commits and heartbeats of stable
    groups (`kafka_shim.pipeline.schemas.STEADY`).
    """

    folder: str
    buckets: set[int]
    changed: set[int]


class Touched(NamedTuple):
    """The groups of new rows, and those of them with rows other than commits and heartbeats of stable groups."""

    groups: Scope
    changed: Scope


class Warehouse:
    """The tables in one folder, on any store that Spark can write to.

    Reads come from one snapshot: the newest at the first read; within `change`, that of the change.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        kind: str = "parquet",
        only: Collection[str] | None = None,
        keep: int = KEPT,
        little: bool = False,
    ) -> None:
        """Open the warehouse at `path`.

        `kind` is the format of the tables to write: `parquet`, or one of `formats.Tables`; rows from traces and answers
        are always Parquet files. With `only`, no other places and answers are built
        (`kafka_shim.pipeline.schemas.PLACES`); the others are empty. After a change the last `keep` snapshots remain.
        With `little`, for a run of small input, the files of a table are not apart by day and bucket: a file costs more
        than its rows.
        """
        self.spark = spark
        self.kind = kind
        self.only = only
        self.keep = keep
        self.little = little
        # The formats of lakes merge by bucket, so single groups do not matter there.
        self.few = FEW if kind == "parquet" else 0
        self.files = Files(path, stores_of(spark))
        self.path = self.files.root
        self.snapshots = Snapshots(self.files)
        self._snapshot: Snapshot | None = None
        self._tables: dict[str, list[str]] | None = None
        self._under_way: str | None = None
        # Several threads may write: each another table, or several one place.
        self._adding = Lock()
        self._schemas: dict[str, tuple[str, StructType]] = {}

    # Snapshots.

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot to read from; None if there is none yet."""
        if self._snapshot is None:
            self.refresh()
        return self._snapshot

    def refresh(self) -> None:
        """Read from the newest snapshot from now on."""
        self._snapshot = self.snapshots.newest()
        self._tables = (
            {name: list(folders) for name, folders in self._snapshot.tables.items()} if self._snapshot else {}
        )

    @contextmanager
    def change(
        self,
        command: str,
        inputs: Collection[str] = (),
        *,
        start_over: bool = True,
        stream: str | None = None,
        batch: int | None = None,
    ) -> Iterator[None]:
        """Collect the writes of the block and make them count all at once at its end, or not at all if it raises.

        With `start_over`, the change begins with empty tables and replaces all there is at its end. Otherwise it
        extends the snapshot at its beginning; raises `Overtaken` if another command added a snapshot since. Raises
        `Unwritable`.
        """
        began = time.time()
        run = new_run(began)
        mark = f"changes/{run}"
        with reaching(self.path):
            self.refresh()
            self.files.create(mark, "")
        before = self._snapshot
        if start_over:
            self._tables = {}
        self._under_way = run
        try:
            yield
            assert self._tables is not None
            while True:
                newest = self.snapshots.newest()
                if not start_over and newest != before:
                    raise self.overtaken()
                number = 1 + (newest.number if newest else 0)
                # The time is that of the beginning: files that another command writes since then stay.
                only = None if self.only is None else sorted(self.only)
                snapshot = Snapshot(number, command, self._tables, list(inputs), began, stream, batch, only)
                if self.snapshots.add(snapshot):
                    break
        except BaseException:
            self.refresh()
            raise
        finally:
            self._under_way = None
            self.files.remove(mark)
        self._snapshot = snapshot
        self._point_to(run)
        self.snapshots.expire(self.keep)

    def _point_to(self, run: str) -> None:
        """Tell readers of other programs which folders count, if all that count are of this run."""
        folders = [folder for each in (self._tables or {}).values() for folder in each if "@" not in folder]
        if all(folder.split("/")[1] == run for folder in folders):
            self.files.write(LATEST, f"{run}\n")
        else:
            self.files.remove(LATEST)

    # Writing.

    def makes(self, name: str) -> bool:
        """Return true if this place or answer is built here."""
        return self.only is None or any(each in self.only for each in (name, *UNITED.get(name, ())))

    def write(self, name: str, rows: DataFrame, *, replaces: Scope | None = None) -> None:
        """Overwrite a table or one place of it; with `replaces`, only the rows of those groups."""
        table = PLACES.get(name, name)
        # Readers of a lake format get a table as a whole (`UNITED`), so its places need not be in that format.
        kind = self.kind if name == table else "parquet"
        writer = conform(rows, table)
        by_bucket = replaces is not None
        before = self._commit(name)
        if replaces is not None and self._folders(name):
            if kind != (before or "parquet/").partition("/")[0]:
                # The table is in another format: write all of it again in this one.
                writer = writer.unionAll(self._rows(TABLES[table], [name]).where(~replaces.has))
                replaces = None
            elif before is None and replaces.groups is not None:
                # Parquet files are replaced as a whole: copy the rows of the other groups in them.
                files = self._rows(TABLES[table], [name], Scope(replaces.buckets))
                writer = writer.unionAll(files.where(~replaces.has))
        if not self.little and (name in _SHUFFLED or (replaces is not None and replaces.groups is not None)):
            writer = writer.repartition(*_KEYS)
        if kind == "parquet":
            others = [] if replaces is None else self._other_buckets(name, replaces.buckets)
            self._replace(name, [*others, *self._write(writer, name, by_bucket=by_bucket)])
        elif replaces is None or before is None:
            self._replace(name, [Tables(self.spark, self.path, kind).write(name, writer, table in PARTITIONED)])
        else:
            self._replace(name, [self._lake(before).merge(name, writer, replaces, before)])

    def append_apart(self, rows: DataFrame, *, lines: str = "all", by_day: bool = False) -> Added:
        """Add rows of several tables at once; column `place` names the place of each row, `lines` what they are.

        Places are those of `kafka_shim.pipeline.schemas.PLACES`. With `by_day`, `forget` can drop single days of the
        rows.
        """
        folder = f"mixed/{self._changing()}/lines={lines}"
        writer = rows.write.options(**_without_dictionary(rows)).partitionBy(*APART[: 1 if self.little else None])
        writer.parquet(f"{self.path}/data/{folder}")
        touched: set[int] = set()
        changed: set[int] = set()
        for name in self.files.names(f"data/{folder}"):
            place = name.removeprefix("place=")
            if place in PLACES:
                parts = self._parts(f"{folder}/{name}")
                folders = _days(parts) if by_day else [f"{folder}/{name}"]
                with self._adding:
                    self._replace(place, [*self._folders(place), *folders])
                buckets = {int(part.rpartition("=")[2]) for part in parts}
                touched |= buckets
                if place not in STEADY.values():
                    changed |= buckets
        return Added(folder, touched, changed)

    def touched(self, added: Added) -> Touched:
        """Return the groups of these rows; if they are more than `few`, all groups of their buckets."""
        if not self.few:
            return Touched(Scope(added.buckets), Scope(added.changed))
        rows = self.spark.read.schema("group_id string, place string").parquet(f"{self.path}/data/{added.folder}")
        is_changed = F.max(~F.col("place").isin(*STEADY.values())).alias("is_changed")
        groups = rows.where(F.col("group_id").isNotNull()).groupBy("group_id").agg(is_changed)
        rows_of_groups = groups.orderBy(F.desc("is_changed")).limit(self.few + 1).collect()
        every = [row.group_id for row in rows_of_groups]
        those = [row.group_id for row in rows_of_groups if row.is_changed]
        return Touched(
            Scope(added.buckets, every if len(every) <= self.few else None),
            Scope(added.changed, those if len(those) <= self.few else None),
        )

    def forget(self, days: int) -> list[int]:
        """Drop all rows older than the last `days` days of events, within a change; return the buckets that lost
        rows."""
        assert self._tables is not None
        # Stable groups write only commits and heartbeats for days, so look at those places too.
        places = (*STEADY, *STEADY.values())
        every = [_day(folder) for place in places for folder in self._folders(place)]
        newest = max((day for day in every if day is not None), default=None)
        if newest is None:
            return []
        first = (date.fromisoformat(newest) - timedelta(days=days - 1)).isoformat()
        goes_on = {
            name: [each for each in folders if (_day(each) or first) >= first] for name, folders in self._tables.items()
        }
        if goes_on == self._tables:
            return []
        dropped = {folder for place in places for folder in {*self._folders(place)} - {*goes_on.get(place, [])}}
        self._tables = goes_on
        for name in goes_on:
            commit = self._commit(name)
            if commit is not None and PLACES.get(name, name) in PARTITIONED:
                self._replace(name, [self._lake(commit).forget(name, first, commit)])
        return sorted(
            {int(name[7:]) for day in dropped for name in self.files.names(f"data/{day}") if name[:7] == "bucket="}
        )

    def overtaken(self) -> Overtaken:
        """Return the error to raise if another command has changed the warehouse."""
        newest = self.snapshots.newest()
        return Overtaken(
            f"{self.path} was changed by another {newest.command if newest else 'command'} at the same time"
        )

    def _changing(self) -> str:
        """Return the run that is written now."""
        if self._under_way is None:
            raise RuntimeError("a warehouse is written within a change")
        return self._under_way

    def _write(self, rows: DataFrame, name: str, *, by_bucket: bool = False, run: str | None = None) -> list[str]:
        """Write rows into a new folder; return its name, or with `by_bucket` the names of its days and buckets."""
        table = PLACES.get(name, name)
        folder = f"{table}/{run or self._changing()}" + (f"/place={name}" if name != table else "")
        mode = rows.write.mode("error").options(**_without_dictionary(rows))
        if table in PARTITIONED and not self.little:
            mode = mode.partitionBy(*_KEYS)
        mode.parquet(f"{self.path}/data/{folder}")
        return self._parts(folder) if by_bucket and table in PARTITIONED else [folder]

    def _parts(self, folder: str) -> list[str]:
        """Return the folders of all days and buckets in a folder of data."""
        days = [name for name in self.files.names(f"data/{folder}") if name.startswith("day=")]
        return [f"{folder}/{day}/{bucket}" for day in days for bucket in self.files.names(f"data/{folder}/{day}")]

    def _other_buckets(self, name: str, buckets: Collection[int]) -> list[str]:
        return [each for each in self._folders(name) if _bucket(each) not in buckets]

    def _commit(self, name: str) -> str | None:
        """Return the commit that the snapshot names for a table in a lake format; None if the table is Parquet."""
        return next((folder for folder in self._folders(name) if "@" in folder), None)

    def _lake(self, commit: str) -> Tables:
        return Tables(self.spark, self.path, commit.partition("/")[0])

    def _replace(self, name: str, folders: list[str]) -> None:
        self._changing()
        assert self._tables is not None
        self._tables[name] = folders

    # Reading.

    def _folders(self, name: str) -> list[str]:
        if self._tables is None:
            self.refresh()
        assert self._tables is not None
        return self._tables.get(name, [])

    def has(self, name: str) -> bool:
        """Return true if a place or a result was written."""
        return bool(self._folders(name))

    def has_traces(self) -> bool:
        """Return true if any trace was read."""
        return any(self.has(place) for place in (*STEADY, *STEADY.values()))

    def computed(self, name: str) -> bool:
        """Return true if the command that made the snapshot computed this table."""
        only = None if self.snapshot is None else self.snapshot.only
        return only is None or any(place in only for place, table in {name: name, **PLACES}.items() if table == name)

    def has_log(self) -> bool:
        """Return true if any segment was read."""
        return self.has("log_records")

    def read(self, name: str, scope: Scope | None = None, *, steady: bool | None = None) -> DataFrame:
        """Read a table, of all groups or of those in `scope`; empty if nothing was written.

        For `events` and `requests`, `steady` selects the commits and heartbeats of stable groups, or all other rows
        (`schemas.STEADY`).
        """
        table = TABLES[name]
        places = [place for place, of in PLACES.items() if of == name and (steady is None or steady == (place != name))]
        return self._rows(table, places or [name], scope)

    def _rows(self, table: Table, places: Collection[str], scope: Scope | None = None) -> DataFrame:
        every = [folder for place in places for folder in self._folders(place)]
        if scope is not None:
            # Otherwise Spark would list the files of all buckets.
            every = [each for each in every if "/bucket=" not in each or _bucket(each) in scope.buckets]
        folders = [folder for folder in every if "@" not in folder]
        reader = self.spark.read.schema(table.ddl).option("basePath", f"{self.path}/data")
        added = [name for name in ("run", "lines", "place", *_KEYS) if name not in table.names]
        frames = [
            # The columns are in the order of the table; drop those that Spark adds from folder names.
            reader.parquet(*(f"{self.path}/data/{folder}" for folder in alike)).drop(*added)
            # Spark reads folders of one form at a time.
            for _, alike in groupby(sorted(folders, key=_form), _form)
        ]
        for commit in set(every) - set(folders):
            rows = self._lake(commit).read(commit)
            frames.append(conform(rows, next(n for n, t in TABLES.items() if t is table)))
        rows = reduce(DataFrame.unionByName, frames) if frames else self.spark.createDataFrame([], table.schema)
        return rows if scope is None else rows.where(scope.has)

    def at(self, number: int) -> Warehouse:
        """Return the warehouse as of an older snapshot. Raises ValueError if that snapshot is deleted."""
        if number not in self.snapshots.numbers():
            raise ValueError(f"{self.path} has no snapshot {number} (any more)")
        warehouse = Warehouse(self.spark, self.path, self.kind, self.only, self.keep, self.little)
        warehouse._snapshot = self.snapshots.read(number)
        warehouse._tables = dict(warehouse._snapshot.tables)
        return warehouse

    def compact(self, parts: int = COMPACTED_AT) -> list[str]:
        """Rewrite each place of more than `parts` writes as one write, within a change; return the names of these
        places."""
        many = []
        for name in PLACES:
            folders = self._folders(name)
            writes = {"/".join(each.split("/")[:2]) for each in folders}
            if len(writes) > parts and not any("/bucket=" in each for each in folders):
                many.append(name)
        for name in many:
            by_day = any("/day=" in each for each in self._folders(name))
            rows = self._rows(TABLES[PLACES[name]], [name])
            if PLACES[name] in PARTITIONED:
                rows = rows.repartition(*_KEYS)
            written = self._write(rows, name, run=new_run(time.time()))
            self._replace(name, _days(self._parts(written[0])) if by_day and len(written) == 1 else written)
        return many

    def compact_all(self) -> list[str]:
        """Rewrite each place of several writes, as a change of its own; return the names of the tables.

        The command that made the warehouse can go on from this change.
        """
        self.refresh()
        now = self._snapshot
        if now is None:
            return []
        with self.change("compact", now.inputs, start_over=False, stream=now.stream, batch=now.batch):
            done = self.compact(1)
            for name in list(self._tables or {}):
                commit = self._commit(name)
                if commit is not None:
                    compacted = self._lake(commit).compact(name, commit)
                    if compacted != commit:
                        self._replace(name, [compacted])
                        done.append(name)
        return done

    def expire(self, keep: int = KEPT) -> int:
        """Delete all snapshots but the last `keep`, and the files that only they name; return the number of folders
        deleted.

        Commits of tables in lake formats are deleted with the last snapshot that names them.
        """
        count = self.snapshots.expire(keep)
        snapshots = [self.snapshots.read(number) for number in self.snapshots.numbers()]
        if not snapshots:
            return count
        # Commits of a change under way are in no snapshot yet: keep all since its beginning.
        since = min([*(each.at for each in snapshots), *self.snapshots.under_way()])
        commits_of: dict[str, list[str]] = {}
        for each in snapshots:
            for name, folders in each.tables.items():
                commits_of.setdefault(name, []).extend(folder for folder in folders if "@" in folder)
        for name, commits in commits_of.items():
            for kind in needs_of([commits]):
                Tables(self.spark, self.path, kind).expire(name, commits, since)
        return count

    def views(self) -> None:
        """Register each computed table and answer as an SQL view of the same name."""
        for name in filter(self.computed, TABLES):
            self.read(name).createOrReplaceTempView(name)
        for name in self._tables or {}:
            if name not in TABLES and name not in PLACES and not name.endswith(".csv"):
                self.result(name).createOrReplaceTempView(name)

    # Results.

    def write_result(self, name: str, rows: DataFrame) -> None:
        """Write an answer as one Parquet file and one CSV file; the CSV joins arrays by commas."""
        run = self._changing()
        rows.coalesce(1).write.parquet(f"{self.path}/data/{name}/{run}")
        self._schemas[name] = (run, rows.schema)
        self._replace(name, [f"{name}/{run}"])
        written = self.result(name)
        flat = written.select(
            *(
                F.concat_ws(", ", column).alias(column) if kind.startswith("array<string") else F.col(column)
                for column, kind in written.dtypes
            )
        )
        flat.coalesce(1).write.csv(f"{self.path}/data/{name}.csv/{run}", header=True, escape='"')
        self._replace(f"{name}.csv", [f"{name}.csv/{run}"])

    def result(self, name: str) -> DataFrame:
        """Read an answer."""
        (folder,) = self._folders(name)
        reader = self.spark.read
        run, schema = self._schemas.get(name, (None, None))
        # With a schema at hand Spark does not need a job to read it from the file.
        if schema is not None and folder == f"{name}/{run}":
            reader = reader.schema(schema)
        return reader.parquet(f"{self.path}/data/{folder}")

    def folder(self, name: str) -> str:
        """Return the folder of a table or a result that was written in one piece."""
        (folder,) = self._folders(name)
        return f"{self.path}/data/{folder}"


def _without_dictionary(rows: DataFrame) -> dict[str, str]:
    """Return Parquet options that turn dictionaries off for columns of mostly distinct values: they are built in
    vain."""
    return {f"parquet.enable.dictionary#{name}": "false" for name, kind in rows.dtypes if kind in _DIFFERENT}


def _form(folder: str) -> tuple[str, bool]:
    """Return what tells the levels of this folder from those of others."""
    return folder.partition("/")[0], "/place=" in folder


def _day(folder: str) -> str | None:
    """Return the day of all rows in a folder, if its name has one."""
    match = re.search(r"/day=(\d{4}-\d\d-\d\d)", folder)
    return None if match is None else match[1]


def _bucket(folder: str) -> int:
    """Return the bucket of all rows in a folder; its name ends with it."""
    return int(folder.rpartition("/bucket=")[2])


def _days(parts: Iterable[str]) -> list[str]:
    """Return the day folders that contain these bucket folders."""
    return list(dict.fromkeys(part.rpartition("/")[0] for part in parts))
