"""Shared store of several processes: PostgreSQL, with one owner per partition by a lease with a growing epoch.

Epochs give safety: every write locks the lease rows of its partitions, and fails as a whole unless this process still
has each lease at the same epoch. A process that was suspended and lost its lease overwrites nothing. Time gives
liveness: another process may claim a lease that was not renewed for `lease_s` seconds. A process that is suspended in
the middle of a write holds row locks: the server ends its session after a part of the lease, claims skip locked rows,
and rows are locked in the order of partitions. All times are the database's, so the processes' clocks need not agree.
`persistence/leases.py` computes the distribution of the partitions.

An index of PostgreSQL takes at most 2,704 bytes a row, and a group id may have 32,767. A longer key is stored by its
hash, and stands in front of its value; so is the name of a document.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from math import inf
from secrets import randbits, token_bytes
from typing import Any, Final, LiteralString

import psycopg

from kafka_shim.persistence.leases import Node, View
from kafka_shim.persistence.records import decode_key, decode_value, encode_key, encode_value
from kafka_shim.persistence.store import (
    NO_PARTITION,
    PROBE_BYTES,
    Documents,
    Entry,
    FencedError,
    StoreError,
    records_of,
)

SCHEMA_VERSION = 1

NO_LISTENERS: Mapping[str, tuple[str, int]] = {}

_SCHEMA: LiteralString = """
CREATE TABLE IF NOT EXISTS kafka_shim_meta (name text PRIMARY KEY, value bigint NOT NULL);
CREATE TABLE IF NOT EXISTS kafka_shim_records (
    partition int NOT NULL, key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (partition, key));
CREATE TABLE IF NOT EXISTS kafka_shim_nodes (
    node_id int PRIMARY KEY, incarnation text NOT NULL, host text NOT NULL, port int NOT NULL,
    expires timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS kafka_shim_listeners (
    node_id int NOT NULL, name text NOT NULL, host text NOT NULL, port int NOT NULL, PRIMARY KEY (node_id, name));
CREATE TABLE IF NOT EXISTS kafka_shim_leases (
    partition int PRIMARY KEY, epoch bigint NOT NULL DEFAULT 0, node_id int, incarnation text, expires timestamptz);
CREATE TABLE IF NOT EXISTS kafka_shim_documents (
    kind text NOT NULL, name text NOT NULL, value text NOT NULL, PRIMARY KEY (kind, name));
"""

LONGEST_KEY: Final = 2000
"""Bytes of the longest key that is stored as it is."""
_HASHED: Final = b"\x7f\xff"
"""Begin of a key that is a hash: a type that no record of Kafka has."""
_HASHED_NAME: Final = "\x7f#"
"""Begin of a document's name that is a hash."""

_CHANNEL: LiteralString = "kafka_shim"
"""The channel on which processes notify each other of changes; the payload is the sender."""

# Two processes that create the tables at the same moment collide in the catalogue in spite of IF NOT EXISTS.
_SCHEMA_LOCK = 0x6B67_7368


class PostgresStore:
    """A `Store` on PostgreSQL, with the leases of its partitions and the directory of its nodes.

    `write`, `probe` and `load` use one connection, `wait` another, and all other methods a third, so that a slow load
    delays no renewal. A broken connection is opened again at the next call. Every method blocks and may raise
    StoreError.
    """

    durable_at_once = False

    def __init__(self, url: str, partitions: int, *, lease_s: float = 6.0) -> None:
        self.lease_s = lease_s
        self.cluster_seed = 0
        self.incarnation = uuid.uuid4().hex
        self.epochs: dict[int, int] = {}
        """partition -> epoch, of the leases that this process got and, as far as it knows, still has."""
        self._partitions = partitions
        stall_ms = max(int(abs(lease_s) * 1000 / 3), 200)
        self._data = _Connection(url, stall_ms)
        self._control = _Connection(url, stall_ms)
        self._listener = _Connection(url, stall_ms, f"LISTEN {_CHANNEL}")

    def open(self) -> None:
        """Create the missing tables and check the store's number of partitions. Raises StoreError."""
        with self._data as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            connection.execute(_SCHEMA)
            connection.execute(
                "INSERT INTO kafka_shim_meta VALUES ('schema', %s), ('partitions', %s), ('cluster', %s), "
                "('documents', 0) "
                "ON CONFLICT DO NOTHING",
                (SCHEMA_VERSION, self._partitions, randbits(63)),
            )
            connection.execute(
                "INSERT INTO kafka_shim_leases (partition) SELECT generate_series(0, %s - 1) ON CONFLICT DO NOTHING",
                (self._partitions,),
            )
            meta = dict(connection.execute("SELECT name, value FROM kafka_shim_meta").fetchall())
        if meta["schema"] != SCHEMA_VERSION:
            raise StoreError(
                f"The database was written by another version of kafka-shim (schema {meta['schema']}, ours is "
                f"{SCHEMA_VERSION}): use that version, or another database."
            )
        if meta["partitions"] != self._partitions:
            raise StoreError(
                f"The database holds {meta['partitions']} partitions of __consumer_offsets: start with "
                f"--config offsets.topic.num.partitions={meta['partitions']}."
            )
        self.cluster_seed = meta["cluster"]

    # --- records

    def write(self, batch: Sequence[Entry]) -> None:
        """Write all of `batch` or nothing, fenced by the epochs of its partitions. Raises FencedError, StoreError."""
        newest: dict[tuple[int, bytes], bytes | None] = {}
        for partition, key, value in records_of(batch):
            newest[partition, encode_key(key)] = None if value is None else encode_value(key, value)
        upserts = [(place[0], *_row(place[1], value)) for place, value in newest.items() if value is not None]
        deletes = [(partition, _indexed(key)) for (partition, key), value in newest.items() if value is None]
        partitions = sorted({partition for partition, _ in newest})
        with self._data as connection, connection.transaction():
            # The lock lasts until the commit: a claim waits for this write, or this write sees the claim.
            rows = connection.execute(
                "SELECT partition, epoch FROM kafka_shim_leases WHERE partition = ANY(%s) AND incarnation = %s "
                "ORDER BY partition FOR SHARE",
                (partitions, self.incarnation),
            ).fetchall()
            owned = dict(rows)
            epochs = self.epochs
            fenced = [p for p in partitions if p not in owned or owned[p] != epochs.get(p)]
            if fenced:
                raise FencedError(fenced)
            if upserts:
                connection.execute(
                    "INSERT INTO kafka_shim_records SELECT * FROM unnest(%b::int[], %b::bytea[], %b::bytea[]) "
                    "ON CONFLICT (partition, key) DO UPDATE SET value = EXCLUDED.value",
                    tuple(list(column) for column in zip(*upserts, strict=True)),
                )
            if deletes:
                connection.execute(
                    "DELETE FROM kafka_shim_records r USING unnest(%b::int[], %b::bytea[]) AS d (partition, key) "
                    "WHERE r.partition = d.partition AND r.key = d.key",
                    tuple(list(column) for column in zip(*deletes, strict=True)),
                )

    def probe(self) -> None:
        """Write `PROBE_BYTES` and remove them. Raises StoreError."""
        place = (NO_PARTITION, self.incarnation.encode())
        with self._data as connection, connection.transaction():
            connection.execute("INSERT INTO kafka_shim_records VALUES (%s, %s, %s)", (*place, token_bytes(PROBE_BYTES)))
            connection.execute("DELETE FROM kafka_shim_records WHERE partition = %s AND key = %s", place)

    def look(self) -> None:
        """Do nothing: the renewal of leases notices a lost server."""

    def load(self, partition: int) -> Iterator[tuple[Any, Any]]:
        """Yield the live records of a partition that this process has claimed."""
        with self._data as connection:
            cursor = connection.cursor(binary=True)
            cursor.execute("SELECT key, value FROM kafka_shim_records WHERE partition = %s", (partition,))
            rows = cursor.fetchall()
        # The connection is free: a reader may pause between two records.
        for row in rows:
            raw_key, raw_value = _record(*row)
            key = decode_key(raw_key)
            yield key, decode_value(key, raw_value)

    # --- nodes and leases

    def register(
        self, node_id: int, host: str, port: int, listeners: Mapping[str, tuple[str, int]] = NO_LISTENERS
    ) -> None:
        """Enter this process in the directory. Raises StoreError if a live process has the same id."""
        # Listen first, so that no later change is missed.
        with self._listener:
            pass
        with self._control as connection, connection.transaction():
            entered = connection.execute(
                "INSERT INTO kafka_shim_nodes VALUES (%s, %s, %s, %s, clock_timestamp() + %s * interval '1 second') "
                "ON CONFLICT (node_id) DO UPDATE SET incarnation = EXCLUDED.incarnation, host = EXCLUDED.host, "
                "port = EXCLUDED.port, expires = EXCLUDED.expires "
                "WHERE kafka_shim_nodes.expires < clock_timestamp() "
                "OR kafka_shim_nodes.incarnation = EXCLUDED.incarnation",
                (node_id, self.incarnation, host, port, self.lease_s),
            )
            if entered.rowcount == 0:
                raise StoreError(f"Another live process of this database has node id {node_id}: use another --node-id.")
            connection.execute("DELETE FROM kafka_shim_listeners WHERE node_id = %s", (node_id,))
            for name, (host_of_listener, port_of_listener) in listeners.items():
                connection.execute(
                    "INSERT INTO kafka_shim_listeners VALUES (%s, %s, %s, %s)",
                    (node_id, name, host_of_listener, port_of_listener),
                )
            self._notify(connection)

    def renew(self) -> View:
        """Extend this process's entry and leases; return the live nodes and the owners of partitions."""
        with self._control as connection, connection.transaction():
            mine = (self.lease_s, self.incarnation)
            registered = connection.execute(
                "UPDATE kafka_shim_nodes SET expires = clock_timestamp() + %s * interval '1 second' "
                "WHERE incarnation = %s",
                mine,
            ).rowcount
            # Locked in order: a write of this process may be about to lock the same rows.
            connection.execute(
                "SELECT FROM kafka_shim_leases WHERE incarnation = %s ORDER BY partition FOR UPDATE",
                (self.incarnation,),
            )
            own_epochs = connection.execute(
                "UPDATE kafka_shim_leases SET expires = clock_timestamp() + %s * interval '1 second' "
                "WHERE incarnation = %s RETURNING partition, epoch",
                mine,
            ).fetchall()
            nodes = connection.execute(
                "SELECT node_id, host, port FROM kafka_shim_nodes WHERE expires >= clock_timestamp() ORDER BY node_id"
            ).fetchall()
            listeners = connection.execute("SELECT name, node_id, host, port FROM kafka_shim_listeners").fetchall()
            leases = connection.execute(
                "SELECT partition, node_id, incarnation, extract(epoch FROM expires - clock_timestamp())::float8 "
                "FROM kafka_shim_leases WHERE expires >= clock_timestamp()"
            ).fetchall()
            documents_version = _documents_version(connection)
        view = View(
            nodes=[Node(*row) for row in nodes],
            owners={partition: node_id for partition, node_id, _, _ in leases},
            own_epochs=dict(own_epochs),
            registered=registered > 0,
            next_lapse_s=min(
                (remaining_s for _, _, owner, remaining_s in leases if owner != self.incarnation), default=inf
            ),
            documents_version=documents_version,
            listeners={(name, node_id): (host, port) for name, node_id, host, port in listeners},
        )
        self.epochs = {p: epoch for p, epoch in self.epochs.items() if view.own_epochs.get(p) == epoch}
        return view

    def claim(self, node_id: int, partitions: Sequence[int]) -> dict[int, int]:
        """Claim those of `partitions` that are free; the epoch of each grows. Returns partition -> epoch.

        An expired lease with a write in progress is skipped until the next call.
        """
        with self._control as connection:
            rows = connection.execute(
                "WITH free AS (SELECT partition FROM kafka_shim_leases WHERE partition = ANY(%s) "
                "AND (expires IS NULL OR expires < clock_timestamp()) ORDER BY partition FOR UPDATE SKIP LOCKED) "
                "UPDATE kafka_shim_leases l SET epoch = l.epoch + 1, node_id = %s, incarnation = %s, "
                "expires = clock_timestamp() + %s * interval '1 second' FROM free WHERE l.partition = free.partition "
                "RETURNING l.partition, l.epoch",
                (list(partitions), node_id, self.incarnation, self.lease_s),
            ).fetchall()
            if rows:
                self._notify(connection)
        self.epochs.update(rows)
        return dict(rows)

    def release(self, partitions: Sequence[int]) -> None:
        """Give up `partitions`. The caller has finished or dropped its writes to them."""
        for partition in partitions:
            self.epochs.pop(partition, None)
        with self._control as connection, connection.transaction():
            connection.execute(
                "UPDATE kafka_shim_leases SET node_id = NULL, incarnation = NULL, expires = NULL "
                "WHERE partition = ANY(%s) AND incarnation = %s",
                (list(partitions), self.incarnation),
            )
            self._notify(connection)

    # --- documents

    def documents(self) -> tuple[int, Documents]:
        """Return the version of the documents and all of them."""
        with self._control as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            version = _documents_version(connection)
            rows = connection.execute("SELECT kind, name, value FROM kafka_shim_documents").fetchall()
        return version, dict(_document(*row) for row in rows)

    def documents_version(self) -> int:
        """Return the version of the documents."""
        with self._control as connection:
            return _documents_version(connection)

    def change_documents(self, version: int, changes: Mapping[tuple[str, str], str | None]) -> bool:
        """Apply these changes (None deletes) and return True; return False, without a change, if `version` is
        outdated.
        """
        with self._control as connection, connection.transaction():
            # The row stays locked until the commit: of two processes with the same version, the second sees the new
            # one.
            raised = connection.execute(
                "UPDATE kafka_shim_meta SET value = value + 1 WHERE name = 'documents' AND value = %s", (version,)
            )
            if raised.rowcount == 0:
                return False
            for (kind, whole_name), whole_value in changes.items():
                name, value = _document_row(whole_name, whole_value)
                if value is None:
                    connection.execute("DELETE FROM kafka_shim_documents WHERE kind = %s AND name = %s", (kind, name))
                else:
                    connection.execute(
                        "INSERT INTO kafka_shim_documents VALUES (%s, %s, %s) "
                        "ON CONFLICT (kind, name) DO UPDATE SET value = EXCLUDED.value",
                        (kind, name, value),
                    )
            self._notify(connection)
        return True

    def _notify(self, connection: psycopg.Connection[Any]) -> None:
        """Notify the other processes of a change, once this transaction is committed."""
        connection.execute("SELECT pg_notify(%s, %s)", (_CHANNEL, self.incarnation))

    def wait(self, seconds: float) -> None:
        """Return when another process has notified of a change, or after `seconds`."""
        give_up_at = time.monotonic() + seconds
        with self._listener as connection:
            while (timeout := give_up_at - time.monotonic()) > 0:
                notifications = list(connection.notifies(timeout=timeout, stop_after=1))
                if any(each.payload != self.incarnation for each in notifications):
                    return

    def close(self) -> None:
        """Give up every lease and the place in the directory, so that no process has to wait until they expire."""
        if self._control.is_open:
            with self._control as connection, connection.transaction():
                connection.execute(
                    "UPDATE kafka_shim_leases SET node_id = NULL, incarnation = NULL, expires = NULL "
                    "WHERE incarnation = %s",
                    (self.incarnation,),
                )
                connection.execute("DELETE FROM kafka_shim_nodes WHERE incarnation = %s", (self.incarnation,))
                # An empty payload, so that a `wait` of this process receives it too.
                connection.execute("SELECT pg_notify(%s, '')", (_CHANNEL,))
            self.epochs = {}
        for each in (self._data, self._control, self._listener):
            each.close()


class _Connection:
    """One connection to the database, opened on first use and again after it broke; database errors become StoreError.

    `greeting` is the first statement on a new connection.
    """

    def __init__(self, url: str, stall_ms: int, greeting: LiteralString = "") -> None:
        self._url = url
        self._stall_ms = stall_ms
        self._greeting = greeting
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None

    def __enter__(self) -> psycopg.Connection[Any]:
        self._lock.acquire()
        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=5)
                self._connection.execute("SET synchronous_commit = on")
                # A process that stalls in a transaction would block others on the rows it has locked.
                self._connection.execute(
                    "SELECT set_config('idle_in_transaction_session_timeout', %s, false)", (str(self._stall_ms),)
                )
                if self._greeting:
                    self._connection.execute(self._greeting)
        except psycopg.Error as error:
            self._lock.release()
            raise StoreError(f"The database cannot be reached: {_sentence(error)}") from error
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._lock.release()
        if isinstance(error, psycopg.Error):
            if isinstance(error, psycopg.OperationalError):
                self.close()
            raise StoreError(f"The database refused: {_sentence(error)}") from error

    @property
    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.closed

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _indexed(key: bytes) -> bytes:
    """Return a key as it stands in the index."""
    return _HASHED + sha256(key).digest() if len(key) > LONGEST_KEY or key.startswith(_HASHED) else key


def _row(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Return key and value of a record as they are stored."""
    indexed = _indexed(key)
    return (key, value) if indexed is key else (indexed, len(key).to_bytes(4, "big") + key + value)


def _record(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Return key and value of a record from its row."""
    if not key.startswith(_HASHED):
        return key, value
    end = 4 + int.from_bytes(value[:4], "big")
    return value[4:end], value[end:]


def _document_row(name: str, value: str | None) -> tuple[str, str | None]:
    """Return name and value of a document as they are stored."""
    # A text of PostgreSQL has no NUL.
    if len(name.encode()) <= LONGEST_KEY and not name.startswith(_HASHED_NAME) and "\0" not in name:
        return name, value
    hashed = _HASHED_NAME + sha256(name.encode()).hexdigest()
    return hashed, None if value is None else f"{json.dumps(name)}\n{value}"


def _document(kind: str, name: str, value: str) -> tuple[tuple[str, str], str]:
    """Return a document from its row."""
    if not name.startswith(_HASHED_NAME):
        return (kind, name), value
    whole_name, _, rest = value.partition("\n")
    return (kind, json.loads(whole_name)), rest


def _documents_version(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT value FROM kafka_shim_meta WHERE name = 'documents'").fetchone()
    assert row is not None
    version: int = row[0]
    return version


def _sentence(error: psycopg.Error) -> str:
    """Return the first line of the database's message, as a sentence."""
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return first if first.endswith(".") else first + "."
