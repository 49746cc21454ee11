"""Store in one SQLite file: the default of `serve`.

A batch is one durable transaction. The file is in WAL mode with `synchronous=FULL`: `write` returns after the operating
system reports that the log is on the disk. One process owns the file; a second one is refused.

A batch is written by statements of many rows. Each runs without Python's interpreter lock, so the event loop continues
to run; `executemany` would take the lock again after every row.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.persistence.files import make_private, private
from kafka_shim.persistence.keys import KeyDecoder
from kafka_shim.persistence.records import Key, RecordError, Value, decode_value, encode_key, encode_value
from kafka_shim.persistence.store import NO_PARTITION, PROBE_BYTES, Entry, StoreError, records_of

log: Final = logging.getLogger("kafka_shim.persistence")

SCHEMA: Final = 1
APPLICATION: Final = 0x4B475348
"""Marks a SQLite file as ours: "KGSH"."""

BUSY_TIMEOUT: Final = 2.0
"""Seconds to wait until the previous owner closes the file."""

LOOK_SECONDS: Final = 1.0
"""At most so often a write looks whether the file is still in its place."""

_MOST_ROWS: Final = 8192
"""Rows of the largest statement; their parameters must stay under SQLite's default limit of 32766."""

_PAGE: Final = "SELECT key, value FROM records WHERE partition=? AND key>? ORDER BY key LIMIT 10000"

_REASONS: Final[dict[str, tuple[str, ErrorCode]]] = {
    "SQLITE_BUSY": ("is in use by another process", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    "SQLITE_LOCKED": ("is in use by another process", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    "SQLITE_FULL": ("cannot grow: the disk is full", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    "SQLITE_NOMEM": ("cannot be used: no memory is left", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    "SQLITE_READONLY": ("cannot be written: the file or its folder is read-only", ErrorCode.NOT_COORDINATOR),
    "SQLITE_CANTOPEN": ("cannot be opened: check that the folder exists and may be written", ErrorCode.NOT_COORDINATOR),
    "SQLITE_PERM": ("cannot be opened: permission denied", ErrorCode.NOT_COORDINATOR),
    "SQLITE_NOTADB": ("is not a SQLite database", ErrorCode.NOT_COORDINATOR),
    "SQLITE_CORRUPT": ("is corrupted: restore it from a copy", ErrorCode.NOT_COORDINATOR),
    "SQLITE_IOERR": ("cannot be read or written: the disk reports an error", ErrorCode.NOT_COORDINATOR),
}


_EFFECTIVE_IDS: Final = os.access in os.supports_effective_ids

_Place = tuple[int, int] | None


def _place_of(path: Path) -> _Place:
    """Device and inode of the file that has this name now."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class SqliteStore:
    """A `Store` in the SQLite file `path`, for `__consumer_offsets` of `partitions` partitions."""

    durable_at_once = False

    def __init__(self, path: Path, partitions: int) -> None:
        self.path = path
        self._log_file = path
        """SQLite's log of the open file."""
        self.partitions = partitions
        self._connection: sqlite3.Connection | None = None
        self._failure: StoreError | None = None
        self._place: _Place = None
        self._log_place: _Place = None
        """Place of SQLite's log; None until the first transaction makes it."""
        self._looked = 0.0

    def open(self) -> None:
        # SQLite would open the file for reading and then report the lock it cannot get as an error of the disk. We
        # cannot open the file ourselves to test it: closing it would drop the locks that this process may have on it.
        if self.path.exists() and not os.access(self.path, os.W_OK, effective_ids=_EFFECTIVE_IDS):
            raise self._refuse(_REASONS["SQLITE_READONLY"][0])
        self._make()
        try:
            # Writes come from worker threads, one at a time.
            connection = sqlite3.connect(
                self.path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False, cached_statements=32
            )
        except sqlite3.Error as error:
            raise self._explain(error) from error
        try:
            self._lock(connection)
        except BaseException:
            connection.close()
            raise
        # SQLite puts its log beside the file that a link leads to, with the mode of that file.
        self._log_file = Path(f"{self.path.resolve()}-wal")
        # An older store may be readable by others.
        make_private(self.path)
        make_private(self._log_file)
        self._connection = connection
        self._failure = None
        self._place, self._log_place = _place_of(self.path), _place_of(self._log_file)
        self._looked = time.monotonic()

    def _make(self) -> None:
        """Make the file, its owner's alone; SQLite gives its other files the same mode."""
        try:
            os.close(private(str(self.path), os.O_CREAT | os.O_EXCL | os.O_RDWR))
        except FileExistsError:
            if self.path.is_file() and not self.path.stat().st_size:
                log.warning(
                    "The store %s is an empty file, and a new store begins in it. If it had groups and offsets, stop"
                    " the server and restore the file from a copy.",
                    self.path,
                )
        except OSError:
            # SQLite says it in its words.
            return

    def look(self) -> None:
        """Raise StoreError if the file or its log was removed or replaced: the next start would lose new records."""
        self._looked = time.monotonic()
        self._opened()
        if _place_of(self.path) != self._place:
            reason, remedy = "was removed or replaced", "put the file back or restore it from a copy, and start again"
        elif self._log_place is not None and _place_of(self._log_file) != self._log_place:
            # SQLite still has the log open, and moves its records to the store when it closes it.
            reason, remedy = f"has a log, {self._log_file}, that was removed or replaced", "and start it again"
        else:
            return
        self.close()
        self._failure = self._refuse(f"{reason} while it was open, and is written no more: stop the server, {remedy}")
        self._failure.is_final = True
        raise self._failure.again()

    def _lock(self, connection: sqlite3.Connection) -> None:
        """Lock the file for this process, and check that it is ours and of this version."""
        try:
            # In exclusive mode the lock of the first transaction is kept, and the log needs no shared memory.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            schema = connection.execute("PRAGMA user_version").fetchone()[0]
            if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0:
                connection.execute(f"PRAGMA application_id={APPLICATION}")
                connection.execute(f"PRAGMA user_version={SCHEMA}")
                connection.execute("CREATE TABLE topic (partitions INTEGER NOT NULL)")
                connection.execute("INSERT INTO topic VALUES (?)", (self.partitions,))
                connection.execute(
                    "CREATE TABLE records (partition INTEGER, key BLOB, value BLOB NOT NULL,"
                    " PRIMARY KEY (partition, key)) WITHOUT ROWID"
                )
            elif application != APPLICATION:
                raise self._refuse("is a SQLite database of another program")
            elif schema == 0:
                raise self._refuse("has lost its version: another program has changed it; restore it from a copy")
            elif schema != SCHEMA:
                age = "a newer" if schema > SCHEMA else "an older"
                raise self._refuse(f"was written by {age} version (schema {schema}, this one reads {SCHEMA})")
            else:
                partitions = connection.execute("SELECT partitions FROM topic").fetchone()[0]
                if partitions != self.partitions:
                    raise self._refuse(f"has offsets.topic.num.partitions={partitions}, not {self.partitions}")
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA wal_autocheckpoint=4000")
            connection.execute("PRAGMA cache_size=-65536")
        except sqlite3.Error as error:
            raise self._explain(error) from error

    def write(self, batch: Sequence[Entry]) -> None:
        # Of several records of one key only the newest one counts; keys in order touch each page once.
        newest: dict[tuple[int, Key], Value | None] = {}
        for partition, key, value in records_of(batch):
            newest[partition, key] = value
        upserts: list[tuple[int, bytes, bytes]] = []
        deletes: list[tuple[int, bytes]] = []
        for (partition, key), value in newest.items():
            if value is None:
                deletes.append((partition, encode_key(key)))
            else:
                upserts.append((partition, encode_key(key), encode_value(key, value)))
        upserts.sort()
        with self._transaction() as connection:
            _run(connection, _upsert, upserts)
            _run(connection, _delete, deletes)

    def probe(self) -> None:
        # In two transactions: pages that one transaction takes and frees are not written.
        with self._transaction() as connection:
            _run(connection, _upsert, [(NO_PARTITION, b"", bytes(PROBE_BYTES))])
        with self._transaction() as connection:
            _run(connection, _delete, [(NO_PARTITION, b"")])

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._opened()
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self.look()
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
            if self._log_place is None:
                self._log_place = _place_of(self._log_file)
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                connection.rollback()
            raise self._fail(error) from error
        except BaseException:
            # Whatever it was: the next batch begins a transaction of its own.
            connection.rollback()
            raise

    def load(self, partition: int) -> Iterator[tuple[Any, Any]]:
        # No statement stays open between two rows: other partitions are written while this one is loaded slowly.
        decode_key = KeyDecoder().decode
        last_key = b""
        try:
            while rows := self._page(partition, last_key):
                for raw_key, raw_value in rows:
                    key = decode_key(raw_key)
                    yield key, decode_value(key, raw_value)
                last_key = rows[-1][0]
        except RecordError as error:
            raise self._refuse(f"holds a record of partition {partition} that cannot be read: {error}") from error

    def _page(self, partition: int, after: bytes) -> list[tuple[bytes, bytes]]:
        try:
            return self._opened().execute(_PAGE, (partition, after)).fetchall()
        except sqlite3.Error as error:
            raise self._fail(error) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise self._refuse("is not open") if self._failure is None else self._failure.again()
        return self._connection

    def _refuse(self, reason: str) -> StoreError:
        return StoreError(f"The store {self.path} {reason}.", ErrorCode.NOT_COORDINATOR)

    def _explain(self, error: sqlite3.Error) -> StoreError:
        # An extended code is named after its primary one: SQLITE_IOERR_FSYNC.
        name = getattr(error, "sqlite_errorname", "")
        primary = "_".join(name.split("_")[:2])
        if primary in _REASONS:
            reason, code = _REASONS[primary]
            if primary == "SQLITE_CANTOPEN" and self.path.is_dir():
                reason = "is a folder: name a file in it"
            return StoreError(f"The store {self.path} {reason}.", code)
        return StoreError(f"The store {self.path} failed: {error}.", ErrorCode.NOT_COORDINATOR)

    def _fail(self, error: sqlite3.Error) -> StoreError:
        failure = self._explain(error)
        if failure.error is ErrorCode.NOT_COORDINATOR:
            # The content of the file is unknown now: after a failed sync, a later sync that succeeds proves nothing.
            self.close()
            failure.is_final = True
            self._failure = failure
        return failure


@cache
def _upsert(rows: int) -> str:
    values = ",".join(["(?,?,?)"] * rows)
    return f"INSERT INTO records VALUES {values} ON CONFLICT DO UPDATE SET value=excluded.value"


@cache
def _delete(rows: int) -> str:
    values = ",".join(["(?,?)"] * rows)
    return f"DELETE FROM records WHERE (partition, key) IN (VALUES {values})"


def _run(connection: sqlite3.Connection, statement: Callable[[int], str], rows: list[Any]) -> None:
    """Run statements over all rows, in as few calls as a small number of prepared sizes allows.

    Sizes are powers of two. The last statement is padded with copies of its last row; they change nothing.
    """
    at = 0
    remaining = len(rows)
    while remaining:
        size = min(1 << remaining.bit_length() - 1, _MOST_ROWS)
        if remaining - size <= size >> 2 or size == _MOST_ROWS:
            chunk = rows[at : at + size]
        else:
            size <<= 1
            chunk = rows[at:] + rows[-1:] * (size - remaining)
        connection.execute(statement(size), [column for row in chunk for column in row])
        at += size
        remaining = max(remaining - size, 0)
