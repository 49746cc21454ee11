"""What the tables of a warehouse are: the newest snapshot says it, and a snapshot is one small file.

    OUT/snapshots/00000007.json

A run or a micro-batch writes its files under names of their own, where nobody looks for them, and then adds a snapshot
that names them: readers see all of it or nothing. Two that add the same number cannot both succeed, as a file system's
rename that replaces nothing decides, or a store that refuses to replace a file that is to be new. What no snapshot of
the last ones names is taken away. It does not know what is in the files.

Files are reached through Hadoop's file systems, as Spark itself does, so a warehouse may be in any store that Spark
can write to.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from uuid import uuid4

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

FORMAT: Final = 1
"""Of the snapshot files; a reader refuses one it does not know."""
_LONGEST_CHANGE_S: Final = 7 * 86_400.0
"""A change that began longer ago died without a word."""
_CREATES_IF_NEW: Final = "fs.option.create.conditional.overwrite"
"""What Hadoop calls it where a store itself refuses to replace a file that is to be new (S3)."""
KEPT: Final = 2
"""How many snapshots stay: a reader may be at work on the last but one."""


class Snapshot(NamedTuple):
    """`tables` has for each table the folders of its files, below the folder of all data; `stream` is the id of the
    stream that made it, and `batch` its last micro-batch."""

    number: int
    command: str
    tables: dict[str, list[str]]
    inputs: list[str]
    at: float
    stream: str | None = None
    batch: int | None = None


class Overtaken(RuntimeError):
    """Somebody else has changed the warehouse meanwhile; the message is one sentence."""


class Unwritable(RuntimeError):
    """A place that cannot be written, or not be reached at all; the message is one sentence."""


@contextmanager
def reaching(root: str) -> Iterator[None]:
    """Raises `Unwritable` for what Hadoop says within."""
    try:
        yield
    except Py4JJavaError as error:
        reason = error.java_exception.getMessage() or error.java_exception.getClass().getSimpleName()
        raise Unwritable(f"{root} cannot be written: {reason.strip().splitlines()[0]}") from error


class Files:
    """A folder in any of Hadoop's file systems. Raises `Unwritable` where there is none for it."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
        # Java looks for each part of a name in every jar: once is enough.
        self._path_of: Any = self._jvm.org.apache.hadoop.fs.Path
        with reaching(root):
            self._fs: Any = self._path_of(root).getFileSystem(self._conf)
        self.root: str = self._fs.makeQualified(self._path_of(root)).toString().rstrip("/")

    def _path(self, name: str) -> Any:
        return self._path_of(f"{self.root}/{name}" if name else self.root)

    def exists(self, name: str) -> bool:
        """Whether a file or folder is there."""
        return bool(self._fs.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none if it is not there."""
        if not self.exists(folder):
            return []
        return sorted(each.getPath().getName() for each in self._fs.listStatus(self._path(folder)))

    def text(self, name: str) -> str:
        """What a file says."""
        stream = self._fs.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> str:
        """Make or replace a file; returns its address."""
        path = self._path(name)
        self._put(self._fs.create(path, True), text)
        return str(path.toString())

    def create(self, name: str, text: str) -> bool:
        """Make a file with this text in one step; False if there is one."""
        path = self._path(name)
        if self._fs.hasPathCapability(path, _CREATES_IF_NEW):
            return self._create_in_store(name, path, text)
        # Readers must not see a part of it: it is written elsewhere, and a rename that replaces nothing decides.
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._path("").toUri(), self._conf)
        temporary = self._path(f"{name}.{uuid4().hex}")
        self._fs.mkdirs(temporary.getParent())
        self._put(self._fs.create(temporary, True), text)
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        only_if_new = self._gateway.new_array(rename, 1)
        only_if_new[0] = rename.NONE
        try:
            context.rename(temporary, path, only_if_new)
        except Py4JJavaError as error:
            self._fs.delete(temporary, False)
            if _is_taken(error):
                return False
            raise
        return True

    def _create_in_store(self, name: str, path: Any, text: str) -> bool:
        """As a store does it whose files are there once they are whole: it takes the first one."""
        try:
            builder = self._fs.createFile(path).recursive().overwrite(False).opt(_CREATES_IF_NEW, "true")
            self._put(builder.build(), text)
        except Py4JJavaError as error:
            if not _is_taken(error):
                raise
            # A request that was sent twice finds what it made itself.
            return self.text(name) == text
        return True

    def _put(self, stream: Any, text: str) -> None:
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def remove(self, name: str) -> None:
        """Take away a file, or a folder with all that is in it."""
        self._fs.delete(self._path(name), True)


def _is_taken(error: Py4JJavaError) -> bool:
    return _is(error, "FileAlreadyExistsException", "RemoteFileChangedException")


def _is(error: Py4JJavaError, *names: str) -> bool:
    found = error.java_exception.getClass().getName()
    return any(name in found for name in names)


class Snapshots:
    """The snapshots of a warehouse, whose data lies in folder `data` beside them."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def numbers(self) -> list[int]:
        """Of all snapshots there are, in order."""
        names = self.files.names("snapshots")
        return [int(name.removesuffix(".json")) for name in names if name.endswith(".json") and name[:-5].isdigit()]

    def read(self, number: int) -> Snapshot:
        """One snapshot. Raises ValueError for one of another release."""
        found = json.loads(self.files.text(_name(number)))
        if found.pop("format") != FORMAT:
            raise ValueError(f"{self.files.root} was written by another release of the pipeline")
        return Snapshot(number=number, **found)

    def newest(self) -> Snapshot | None:
        """What the tables are now; None if nothing was ever finished."""
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def add(self, snapshot: Snapshot) -> bool:
        """Make it what the tables are; False if there is a snapshot of this number already."""
        content = {"format": FORMAT, **snapshot._asdict()}
        del content["number"]
        return self.files.create(_name(snapshot.number), json.dumps(content))

    def under_way(self) -> list[float]:
        """When the changes began that nothing has come of yet, in seconds of Unix time."""
        began = [written_at(mark) for mark in self.files.names("changes")]
        return [at for at in began if at > time.time() - _LONGEST_CHANGE_S]

    def expire(self, keep: int = KEPT) -> int:
        """Take away all snapshots but the last `keep`, what they named and these do not, and all data that no snapshot
        ever named and that was written before the newest and before all changes that are under way; returns how many
        folders went."""
        numbers = self.numbers()
        old = _named(self._reads(numbers[:-keep]))
        kept = list(self._reads(numbers[-keep:]))
        for number in numbers[:-keep]:
            self.files.remove(_name(number))
        named = _named(kept)
        # What was written at once is named in pieces: by table, by day, by bucket.
        writes = {_write_of(piece) for piece in named}
        gone = {piece if (write := _write_of(piece)) in writes else write for piece in old - named if "@" not in piece}
        before = min([kept[-1].at if kept else 0.0, *self.under_way()])
        for table in self.files.names("data"):
            found = {f"{table}/{write}" for write in self.files.names(f"data/{table}")} - writes
            gone |= {write for write in found if written_at(write.rpartition("/")[2]) < before}
        for folder in gone:
            self.files.remove(f"data/{folder}")
        return len(gone)

    def _reads(self, numbers: Iterable[int]) -> Iterator[Snapshot]:
        """Snapshots, but for those that somebody else takes away meanwhile."""
        for number in numbers:
            try:
                yield self.read(number)
            except Py4JJavaError as error:
                if not _is(error, "FileNotFoundException", "NoSuchFileException"):
                    raise


def _named(snapshots: Iterable[Snapshot]) -> set[str]:
    return {folder for each in snapshots for folders in each.tables.values() for folder in folders}


def _write_of(piece: str) -> str:
    return "/".join(piece.split("/")[:2])


def _name(number: int) -> str:
    return f"snapshots/{number:08d}.json"


def new_write(at: float) -> str:
    """A name nobody else gives to what is written from now on, `at` in seconds of Unix time."""
    return f"write={int(at * 1000):013d}-{uuid4().hex[:8]}"


def written_at(write: str) -> float:
    """When such a name was given; now and later for a name of another form."""
    number = write.removeprefix("write=").partition("-")[0]
    return int(number) / 1000 if number.isdigit() else float("inf")
