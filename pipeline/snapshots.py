"""Snapshots: small files that say which data files make up the tables of a warehouse. The newest one counts.

    OUT/snapshots/00000007.json

A run or a micro-batch writes its files into new folders, which readers ignore, and then adds a snapshot that names
them. So readers see all of it or nothing. If two commands add the same number, at most one succeeds. Files that none of
the last snapshots names are deleted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow as pa

from kafka_shim.pipeline.sources.places import Place, Settings, Unreadable, reason_of

FORMAT: Final = 2
"""Version of the snapshot files; a reader refuses other versions."""
_LONGEST_CHANGE_S: Final = 7 * 86_400.0
"""A change that began longer ago counts as dead."""
_LONGEST_CLAIM_S: Final = 60.0
"""An older claim on a snapshot is that of a process that died."""
_TIME: Final = "%Y%m%dT%H%M%S.%f"
KEPT: Final = 2
"""Number of snapshots to keep: a reader may still read the last but one."""


class Snapshot(NamedTuple):
    """One snapshot.

    `tables` maps each table to the folders of its files, relative to the folder of all data. `stream` is the id of the
    stream that made the snapshot, and `batch` its last micro-batch. `at` is the beginning of the change, in Unix
    seconds. `only` are the places and answers that were computed, None for all.
    """

    number: int
    command: str
    tables: dict[str, list[str]]
    inputs: list[str]
    at: float
    stream: str | None = None
    batch: int | None = None
    only: list[str] | None = None


class Overtaken(RuntimeError):
    """Another command has changed the warehouse; the message is one sentence."""


class Unwritable(RuntimeError):
    """A place that cannot be written or reached; the message is one sentence."""


@contextmanager
def reaching(root: str) -> Iterator[None]:
    """Convert an error of a disk or a store within the block to `Unwritable`."""
    try:
        yield
    except (OSError, pa.ArrowException, Unreadable) as error:
        raise Unwritable(f"{root} cannot be written: {reason_of(error)}") from error


class Files:
    """The files in a folder, on this machine or in a store, by their paths in it. Raises `Unwritable`."""

    def __init__(self, root: str, settings: Settings = ()) -> None:
        self._place = Place(root.rstrip("/"), settings)
        if self._place.is_local:
            self._place = Place(str(Path(self._place.address).absolute()))
        # Without a scheme, Spark would take the path for one of its default file system.
        self.root = f"file:{self._place.address}" if self._place.is_local else self._place.address

    def _of(self, name: str) -> Place:
        return Place(f"{self._place.address}/{name}", self._place.settings)

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; none if it does not exist."""
        place = self._of(folder)
        return [each.name for each in place.children()] if place.info()[0] == "folder" else []

    def text(self, name: str) -> str:
        """Return the text of a file. Raises FileNotFoundError."""
        place = self._of(name)
        try:
            text = place.text()
        except Unreadable:
            if place.info()[0] != "nothing":
                raise
            text = None
        if text is None:
            raise FileNotFoundError(f"{self.root}/{name}")
        return text

    def write(self, name: str, text: str) -> str:
        """Create or replace a file; return its address."""
        with reaching(self.root):
            self._of(name).write(text)
        return f"{self.root}/{name}"

    def create(self, name: str, text: str) -> bool:
        """Create a file with this text; return False if it exists or another process is about to create it.

        Neither all disks nor all stores can refuse to replace a file. So each process first writes a claim beside the
        file, and goes on only if there is no other claim and no file: of two processes, at least one sees the other's
        claim or file. The claim of a process that died counts for a minute.
        """
        folder, _, file = name.rpartition("/")
        claim = f"{file}.{new_run(time.time())}"
        self.write(f"{folder}/{claim}", "")
        try:
            for other in self.names(folder):
                if other.startswith(f"{file}.") and other != claim:
                    if written_at(other[len(file) + 1 :]) > time.time() - _LONGEST_CLAIM_S:
                        return False
                    self.remove(f"{folder}/{other}")
            # The other claim may have gone while the folder was listed; its file was there before.
            if self._of(name).info()[0] == "file":
                return False
            self.write(name, text)
        finally:
            self.remove(f"{folder}/{claim}")
        return True

    def remove(self, name: str) -> None:
        """Delete a file, or a folder with its contents, if there is one."""
        with reaching(self.root):
            self._of(name).remove()


class Snapshots:
    """The snapshots of a warehouse; its data is in the folder `data` beside them."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def numbers(self) -> list[int]:
        """Return the numbers of all snapshots, in order."""
        names = self.files.names("snapshots")
        return [int(name.removesuffix(".json")) for name in names if name.endswith(".json") and name[:-5].isdigit()]

    def read(self, number: int) -> Snapshot:
        """Read one snapshot. Raises ValueError if another release wrote it."""
        content = json.loads(self.files.text(_name(number)))
        if content.pop("format") != FORMAT:
            raise ValueError(f"{self.files.root} was written by another release of the pipeline")
        return Snapshot(number=number, **content)

    def newest(self) -> Snapshot | None:
        """Return the newest snapshot; None if there is none."""
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def add(self, snapshot: Snapshot) -> bool:
        """Add a snapshot, which becomes the newest; return False if its number is taken."""
        content = {"format": FORMAT, **snapshot._asdict()}
        del content["number"]
        return self.files.create(_name(snapshot.number), json.dumps(content))

    def under_way(self) -> list[float]:
        """Return when the unfinished changes began, in Unix seconds."""
        began = [written_at(mark) for mark in self.files.names("changes")]
        return [at for at in began if at > time.time() - _LONGEST_CHANGE_S]

    def expire(self, keep: int = KEPT) -> int:
        """Delete all snapshots but the last `keep`, and the data that only they name; return the number of folders
        deleted.

        Also deletes data in no snapshot that was written before the newest snapshot and before all unfinished changes.
        """
        numbers = self.numbers()
        old = _folders_of(self._reads(numbers[:-keep]))
        remaining = list(self._reads(numbers[-keep:]))
        for number in numbers[:-keep]:
            self.files.remove(_name(number))
        used = _folders_of(remaining)
        # One write is named in pieces: by table, by day, by bucket.
        writes = {_write_of(piece) for piece in used}
        unused = {piece if (write := _write_of(piece)) in writes else write for piece in old - used if "@" not in piece}
        before = min([remaining[-1].at if remaining else 0.0, *self.under_way()])
        for table in self.files.names("data"):
            unnamed = {f"{table}/{write}" for write in self.files.names(f"data/{table}")} - writes
            unused |= {write for write in unnamed if written_at(write.rpartition("/")[2]) < before}
        for folder in unused:
            self.files.remove(f"data/{folder}")
        return len(unused)

    def _reads(self, numbers: Iterable[int]) -> Iterator[Snapshot]:
        """Yield snapshots, except those that another command deletes at the same time."""
        for number in numbers:
            try:
                yield self.read(number)
            except FileNotFoundError:
                continue


def _folders_of(snapshots: Iterable[Snapshot]) -> set[str]:
    return {folder for each in snapshots for folders in each.tables.values() for folder in folders}


def _write_of(piece: str) -> str:
    return "/".join(piece.split("/")[:2])


def _name(number: int) -> str:
    return f"snapshots/{number:08d}.json"


def new_run(at: float) -> str:
    """Return a unique name for the folders of a run that begins at `at`, in Unix seconds."""
    return f"run={datetime.fromtimestamp(at, UTC):{_TIME}}-{uuid4().hex[:8]}"


def written_at(run: str) -> float:
    """Return the time in the name of a run; infinity for a name of another form."""
    try:
        return datetime.strptime(run.removeprefix("run=").partition("-")[0] + "+0000", f"{_TIME}%z").timestamp()
    except ValueError:
        return float("inf")
