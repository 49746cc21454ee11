"""Where the tables lie as Parquet files, and how they are written and read. It does not know what is in them.

    OUT/data/TABLE/write=ID/day=.../bucket=...    rows of a table; those that were read from a trace as they came
    OUT/data/RESULT/write=ID                      what a job says, and the same as CSV in RESULT.csv
    OUT/snapshots/NUMBER.json                     which of these folders count (`kafka_shim.pipeline.snapshots`)

Spark writes and commits the files. They count once a snapshot names them, all of a run or of a micro-batch at once.
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
from kafka_shim.pipeline.schemas import PARTITIONED, PLACES, STEADY, TABLES, Table
from kafka_shim.pipeline.snapshots import KEPT, Files, Overtaken, Snapshot, Snapshots, new_write, reaching
from kafka_shim.pipeline.tables.columns import Scope, conform

_SHUFFLED: Final = frozenset(
    {"membership", "rounds", "member_pauses", "ownership", "partition_pauses", "assignments", "lag", "violations"}
)
"""Small tables, whose rows are brought together by partition first, so that a partition is one file."""
_DIFFERENT: Final = frozenset({"bigint", "timestamp", "double"})
_KEYS: Final = ("day", "bucket")
APART: Final = ("table", *_KEYS)
"""What tells the folders of `Warehouse.append_apart` apart."""
COMPACTED_AT: Final = 32
"""A place written in more parts is written again as one."""


FEW: Final = 200
"""A batch about so many groups at most is about these and not about their buckets."""


class Added(NamedTuple):
    """Where rows of several tables lie that were added, the buckets they are in, and those of them with rows that do
    not come of groups at rest (`kafka_shim.pipeline.schemas.STEADY`)."""

    folder: str
    buckets: set[int]
    changed: set[int]


class Touched(NamedTuple):
    """Groups that rows were added about, and those of them with rows that do not come of groups at rest."""

    groups: Scope
    changed: Scope


class Warehouse:
    """The tables at one place, which may be any that Spark can write to.

    What is read is that of one snapshot, the newest when it was first asked for; within `change` that of the change.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        kind: str = "parquet",
        only: Collection[str] | None = None,
        keep: int = KEPT,
    ) -> None:
        """`kind` is the format of the tables that are written: `parquet`, or that of a `formats.Tables`; rows as they
        came from traces, and answers, are Parquet files in any case. Of all places and answers `only` these are made
        (`kafka_shim.pipeline.schemas.PLACES`), the others are empty. After a change the last `keep` snapshots stay."""
        self.spark = spark
        self.kind = kind
        self.only = only
        self.keep = keep
        # What differs is found by bucket where it is merged.
        self.few = FEW if kind == "parquet" else 0
        self.files = Files(spark, path)
        self.path = self.files.root
        self.snapshots = Snapshots(self.files)
        self._snapshot: Snapshot | None = None
        self._tables: dict[str, list[str]] | None = None
        self._changing = False
        # Several threads may write, each another table, or add to one.
        self._adding = Lock()
        self._schemas: dict[str, tuple[str, StructType]] = {}

    # Snapshots.

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that is read; None if there is none yet."""
        if self._snapshot is None:
            self.refresh()
        return self._snapshot

    def refresh(self) -> None:
        """Reads what is newest from now on."""
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
        anew: bool = True,
        stream: str | None = None,
        batch: int | None = None,
    ) -> Iterator[None]:
        """What is written within counts when this is left, all at once, and not at all if it is left by an exception.

        `anew` begins with nothing, and puts what was written in place of whatever is there by then. Otherwise the
        change is one of the snapshot that is there at its beginning: raises `Overtaken` if that is not the newest any
        more. Raises `Unwritable`.
        """
        began = time.time()
        mark = f"changes/{new_write(began)}"
        with reaching(self.path):
            self.refresh()
            self.files.create(mark, "")
        before = self._snapshot
        if anew:
            self._tables = {}
        self._changing = True
        try:
            yield
            assert self._tables is not None
            while True:
                newest = self.snapshots.newest()
                if not anew and newest != before:
                    raise self.overtaken()
                number = 1 + (newest.number if newest else 0)
                # The time it began: what others write meanwhile is theirs.
                made = Snapshot(number, command, self._tables, list(inputs), began, stream, batch)
                if self.snapshots.add(made):
                    break
        except BaseException:
            self.refresh()
            raise
        finally:
            self._changing = False
            self.files.remove(mark)
        self._snapshot = made
        self.snapshots.expire(self.keep)

    # Writing.

    def makes(self, name: str) -> bool:
        """Whether this place or answer is made here."""
        return self.only is None or name in self.only

    def write(self, name: str, rows: DataFrame, *, replaces: Scope | None = None) -> None:
        """Write a table or a place of one, instead of what it was, or of what it was about the groups of `replaces`."""
        table = PLACES.get(name, name)
        writer = conform(rows, table)
        by_bucket = replaces is not None
        before = self._commit(name)
        if replaces is not None and self._folders(name):
            if self.kind != (before or "parquet/").partition("/")[0]:
                # What was written in another format is written again in this one.
                writer = writer.unionAll(self._rows(TABLES[table], [name]).where(~replaces.has))
                replaces = None
            elif before is None and replaces.groups is not None:
                # The rest of a file is as it was.
                files = self._rows(TABLES[table], [name], Scope(replaces.buckets))
                writer = writer.unionAll(files.where(~replaces.has))
        if name in _SHUFFLED or (replaces is not None and replaces.groups is not None):
            writer = writer.repartition(*_KEYS)
        if self.kind == "parquet":
            kept = [] if replaces is None else self._other_buckets(name, replaces.buckets)
            self._replace(name, [*kept, *self._write(writer, name, by_bucket=by_bucket)])
        elif replaces is None or before is None:
            self._replace(name, [Tables(self.spark, self.path, self.kind).write(name, writer, table in PARTITIONED)])
        else:
            self._replace(name, [self._lake(before).merge(name, writer, replaces, before)])

    def append_apart(self, rows: DataFrame, *, by_day: bool = False) -> Added:
        """Add rows of several tables at once: column `table` names the place of each
        (`kafka_shim.pipeline.schemas.PLACES`). What is named `by_day` `forget` can let go of."""
        folder = f"mixed/{new_write(time.time())}"
        rows.write.options(**_without_dictionary(rows)).partitionBy("table", *_KEYS).parquet(
            f"{self.path}/data/{folder}"
        )
        touched: set[int] = set()
        changed: set[int] = set()
        for table in self.files.names(f"data/{folder}"):
            place = table.removeprefix("table=")
            if place in PLACES:
                parts = self._parts(f"{folder}/{table}")
                named = _days(parts) if by_day else [f"{folder}/{table}"]
                with self._adding:
                    self._replace(place, [*self._folders(place), *named])
                buckets = {int(part.rpartition("=")[2]) for part in parts}
                touched |= buckets
                if place not in STEADY.values():
                    changed |= buckets
        return Added(folder, touched, changed)

    def touched(self, added: Added) -> Touched:
        """The groups that these rows are about; if they are more than `few`, all that are in their buckets."""
        if not self.few:
            return Touched(Scope(added.buckets), Scope(added.changed))
        rows = self.spark.read.schema("`group` string, `table` string").parquet(f"{self.path}/data/{added.folder}")
        is_changed = F.max(~F.col("table").isin(*STEADY.values())).alias("is_changed")
        named = rows.where(F.col("group").isNotNull()).groupBy("group").agg(is_changed)
        found = named.orderBy(F.desc("is_changed")).limit(self.few + 1).collect()
        every = [row.group for row in found]
        those = [row.group for row in found if row.is_changed]
        return Touched(
            Scope(added.buckets, every if len(every) <= self.few else None),
            Scope(added.changed, those if len(those) <= self.few else None),
        )

    def forget(self, days: int) -> list[int]:
        """Let go of all rows about days before the last so many that events are of, within a change; returns the
        buckets of groups that had any."""
        assert self._tables is not None
        # Where groups are at rest nothing else than commits and heartbeats comes for days.
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
        gone = {folder for place in places for folder in {*self._folders(place)} - {*goes_on.get(place, [])}}
        self._tables = goes_on
        for name in goes_on:
            commit = self._commit(name)
            if commit is not None and PLACES.get(name, name) in PARTITIONED:
                self._replace(name, [self._lake(commit).forget(name, first, commit)])
        return sorted(
            {int(name[7:]) for day in gone for name in self.files.names(f"data/{day}") if name[:7] == "bucket="}
        )

    def overtaken(self) -> Overtaken:
        """What is to be raised where somebody else has changed the warehouse."""
        newest = self.snapshots.newest()
        return Overtaken(f"{self.path} was changed by another {newest.command if newest else 'command'} meanwhile")

    def _write(self, rows: DataFrame, name: str, *, by_bucket: bool = False) -> list[str]:
        """Writes rows into a folder of their own; returns its name, or those of its days and buckets."""
        table = PLACES.get(name, name)
        write = new_write(time.time())
        mode = rows.write.mode("errorifexists").options(**_without_dictionary(rows))
        if table in PARTITIONED:
            mode = mode.partitionBy(*_KEYS)
        mode.parquet(f"{self.path}/data/{name}/{write}")
        folder = f"{name}/{write}"
        return self._parts(folder) if by_bucket and table in PARTITIONED else [folder]

    def _parts(self, folder: str) -> list[str]:
        """The folders of a day and a bucket in a folder of data."""
        days = [name for name in self.files.names(f"data/{folder}") if name.startswith("day=")]
        return [f"{folder}/{day}/{bucket}" for day in days for bucket in self.files.names(f"data/{folder}/{day}")]

    def _other_buckets(self, name: str, buckets: Collection[int]) -> list[str]:
        return [each for each in self._folders(name) if _bucket(each) not in buckets]

    def _commit(self, name: str) -> str | None:
        """What is named of a table in one of the formats of lakes."""
        return next((folder for folder in self._folders(name) if "@" in folder), None)

    def _lake(self, commit: str) -> Tables:
        return Tables(self.spark, self.path, commit.partition("/")[0])

    def _replace(self, name: str, folders: list[str]) -> None:
        if not self._changing:
            raise RuntimeError("a warehouse is written within a change")
        assert self._tables is not None
        self._tables[name] = folders

    # Reading.

    def _folders(self, name: str) -> list[str]:
        if self._tables is None:
            self.refresh()
        assert self._tables is not None
        return self._tables.get(name, [])

    def has(self, name: str) -> bool:
        """Whether a place or a result was written."""
        return bool(self._folders(name))

    def has_traces(self) -> bool:
        """Whether any trace was read."""
        return self.has("events")

    def has_log(self) -> bool:
        """Whether any segment was read."""
        return self.has("log_records")

    def read(self, name: str, scope: Scope | None = None, *, steady: bool | None = None) -> DataFrame:
        """A table, of all groups or of some; empty if nothing was written. Of `events` and `requests`
        `steady` chooses what groups at rest bring about, or the rest (`schemas.STEADY`)."""
        table = TABLES[name]
        places = [place for place, of in PLACES.items() if of == name and (steady is None or steady == (place != name))]
        return self._rows(table, places or [name], scope)

    def _rows(self, table: Table, places: Collection[str], scope: Scope | None = None) -> DataFrame:
        named = [folder for place in places for folder in self._folders(place)]
        if scope is not None:
            # Spark would list those of all buckets.
            named = [each for each in named if "/bucket=" not in each or _bucket(each) in scope.buckets]
        folders = [folder for folder in named if "@" not in folder]
        reader = self.spark.read.schema(table.ddl).option("basePath", f"{self.path}/data")
        added = [name for name in ("write", "table", *_KEYS) if name not in table.names]
        found = [
            # The columns stand as the table has them, but for those that the names of folders add.
            reader.parquet(*(f"{self.path}/data/{folder}" for folder in alike)).drop(*added)
            # What was written together with other tables lies one folder deeper.
            for _, alike in groupby(sorted(folders), lambda folder: folder.partition("/")[0])
        ]
        for commit in set(named) - set(folders):
            rows = self._lake(commit).read(commit)
            found.append(conform(rows, next(n for n, t in TABLES.items() if t is table)))
        rows = reduce(DataFrame.unionByName, found) if found else self.spark.createDataFrame([], table.schema)
        return rows if scope is None else rows.where(scope.has)

    def at(self, number: int) -> Warehouse:
        """The warehouse as a snapshot that is still there has it. Raises ValueError if it is not."""
        if number not in self.snapshots.numbers():
            raise ValueError(f"{self.path} has no snapshot {number} (any more)")
        found = Warehouse(self.spark, self.path, self.kind, self.only, self.keep)
        found._snapshot = self.snapshots.read(number)
        found._tables = dict(found._snapshot.tables)
        return found

    def compact(self, parts: int = COMPACTED_AT) -> list[str]:
        """Writes again, as one, what was written in more than so many parts, within a change; returns what that was."""
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
            written = self._write(rows, name)
            self._replace(name, _days(self._parts(written[0])) if by_day and len(written) == 1 else written)
        return many

    def compact_all(self) -> list[str]:
        """Writes again what lies in several parts, as a change of its own that whoever made the warehouse may go on
        from; returns which tables that was."""
        self.refresh()
        now = self._snapshot
        if now is None:
            return []
        with self.change("compact", now.inputs, anew=False, stream=now.stream, batch=now.batch):
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
        """Takes away all snapshots but the last `keep`, and all that none of these names; returns how many folders of
        files went. Commits of tables in formats of lakes go with the snapshots that name them."""
        gone = self.snapshots.expire(keep)
        kept = [self.snapshots.read(number) for number in self.snapshots.numbers()]
        if not kept:
            return gone
        # What others are writing is not named yet.
        since = min([*(each.at for each in kept), *self.snapshots.under_way()])
        named: dict[str, list[str]] = {}
        for each in kept:
            for name, folders in each.tables.items():
                named.setdefault(name, []).extend(folder for folder in folders if "@" in folder)
        for name, commits in named.items():
            for kind in needs_of([commits]):
                Tables(self.spark, self.path, kind).expire(name, commits, since)
        return gone

    def views(self) -> None:
        """Makes every table and every answer a view of its name, for SQL."""
        for name in TABLES:
            self.read(name).createOrReplaceTempView(name)
        for name in self._tables or {}:
            if name not in TABLES and name not in PLACES and not name.endswith(".csv"):
                self.result(name).createOrReplaceTempView(name)

    # Results.

    def write_result(self, name: str, rows: DataFrame) -> None:
        """Write what a job says, as Parquet and as CSV in one file each; arrays are joined by commas in CSV."""
        write = new_write(time.time())
        rows.coalesce(1).write.parquet(f"{self.path}/data/{name}/{write}")
        self._schemas[name] = (write, rows.schema)
        self._replace(name, [f"{name}/{write}"])
        written = self.result(name)
        flat = written.select(
            *(
                F.concat_ws(", ", column).alias(column) if kind.startswith("array<string") else F.col(column)
                for column, kind in written.dtypes
            )
        )
        flat.coalesce(1).write.csv(f"{self.path}/data/{name}.csv/{write}", header=True)
        self._replace(f"{name}.csv", [f"{name}.csv/{write}"])

    def result(self, name: str) -> DataFrame:
        """What a job said."""
        (folder,) = self._folders(name)
        reader = self.spark.read
        write, schema = self._schemas.get(name, (None, None))
        # Otherwise Spark asks the file, with a job.
        if schema is not None and folder == f"{name}/{write}":
            reader = reader.schema(schema)
        return reader.parquet(f"{self.path}/data/{folder}")

    def folder(self, name: str) -> str:
        """Where the files of a table or a result are, of one that was written at once."""
        (folder,) = self._folders(name)
        return f"{self.path}/data/{folder}"


def _without_dictionary(rows: DataFrame) -> dict[str, str]:
    """Options by which Parquet builds no dictionary of columns nearly all of whose values are different, only to throw
    it away."""
    return {f"parquet.enable.dictionary#{name}": "false" for name, kind in rows.dtypes if kind in _DIFFERENT}


def _day(folder: str) -> str | None:
    """The day that all rows in a folder are about, if its name says one."""
    found = re.search(r"/day=(\d{4}-\d\d-\d\d)", folder)
    return None if found is None else found[1]


def _bucket(folder: str) -> int:
    """The bucket of all rows in a folder whose name ends with it."""
    return int(folder.rpartition("/bucket=")[2])


def _days(parts: Iterable[str]) -> list[str]:
    """The folders of days that these folders of buckets are in."""
    return list(dict.fromkeys(part.rpartition("/")[0] for part in parts))
