"""The store in one SQLite file: the default of `serve`.

Decides how a batch becomes one durable transaction, and how SQLite's errors read to an operator and to clients. It
knows no groups. The file is in WAL mode with `synchronous=FULL`: `write` returns after the operating system reports
that the log is on the disk. One process has the file; a second one is refused.

A batch is written by statements of many rows. Each runs without Python's interpreter lock, so the event loop goes on
meanwhile; `executemany` would ask for the lock back after every row.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.persistence.keys import KeyDecoder
from kafka_shim.persistence.records import Key, RecordError, Value, decode_value, encode_key, encode_value
from kafka_shim.persistence.store import Entry, StoreError, records_of

SCHEMA: Final = 1
APPLICATION: Final = 0x4B475348
"""What marks a SQLite file as ours: "KGSH"."""

BUSY_TIMEOUT: Final = 2.0
"""Seconds to wait for the previous owner to let go of the file."""

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


class SqliteStore:
    """A `Store` in the SQLite file `path`, for `__consumer_offsets` of `partitions` partitions."""

    durable_at_once = False

    def __init__(self, path: Path, partitions: int) -> None:
        self.path = path
        self.partitions = partitions
        self._connection: sqlite3.Connection | None = None
        self._why_closed: StoreError | None = None

    def open(self) -> None:
        # SQLite would open it all the same, for reading, and report the lock it cannot get as an error of the disk.
        # Opening the file ourselves to find out would drop the locks that this process may have on it.
        if self.path.exists() and not os.access(self.path, os.W_OK, effective_ids=_EFFECTIVE_IDS):
            raise self._refuse(_REASONS["SQLITE_READONLY"][0])
        try:
            # Writes come from worker threads, one at a time.
            connection = sqlite3.connect(
                self.path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False, cached_statements=32
            )
        except sqlite3.Error as error:
            raise self._explain(error) from error
        try:
            self._take(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._why_closed = None

    def _take(self, connection: sqlite3.Connection) -> None:
        """Own the file from now on, and see that it is ours and of this version."""
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
            elif schema != SCHEMA:
                raise self._refuse(f"was written by a newer version (schema {schema}, this one reads {SCHEMA})")
            else:
                partitions = connection.execute("SELECT partitions FROM topic").fetchone()[0]
                if partitions != self.partitions:
                    raise self._refuse(f"was made for offsets.topic.num.partitions={partitions}, not {self.partitions}")
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
        connection = self._opened()
        try:
            connection.execute("BEGIN IMMEDIATE")
            _run(connection, _upsert, upserts)
            _run(connection, _delete, deletes)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                connection.rollback()
            raise self._fail(error) from error

    def load(self, partition: int) -> Iterator[tuple[Any, Any]]:
        # A statement never stays open between two rows: other partitions are written while this one is loaded slowly.
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
            raise self._refuse("is not open") if self._why_closed is None else self._why_closed.again()
        return self._connection

    def _refuse(self, reason: str) -> StoreError:
        return StoreError(f"The store {self.path} {reason}.", ErrorCode.NOT_COORDINATOR)

    def _explain(self, error: sqlite3.Error) -> StoreError:
        # An extended code is named after its primary one: SQLITE_IOERR_FSYNC.
        name = getattr(error, "sqlite_errorname", "")
        primary = "_".join(name.split("_")[:2])
        if primary in _REASONS:
            reason, code = _REASONS[primary]
            return StoreError(f"The store {self.path} {reason}.", code)
        return StoreError(f"The store {self.path} failed: {error}.", ErrorCode.NOT_COORDINATOR)

    def _fail(self, error: sqlite3.Error) -> StoreError:
        failure = self._explain(error)
        if failure.error is ErrorCode.NOT_COORDINATOR:
            # Nobody can know what the file holds now: after a failed sync, a later one that succeeds proves nothing.
            self.close()
            failure.is_final = True
            self._why_closed = failure
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

    Sizes are powers of two. What is left for the last statement is filled up with its last row, which is the same as
    saying it once.
    """
    at = 0
    left = len(rows)
    while left:
        size = min(1 << left.bit_length() - 1, _MOST_ROWS)
        if left - size <= size >> 2 or size == _MOST_ROWS:
            chunk = rows[at : at + size]
        else:
            size <<= 1
            chunk = rows[at:] + rows[-1:] * (size - left)
        connection.execute(statement(size), [column for row in chunk for column in row])
        at += size
        left = max(left - size, 0)
