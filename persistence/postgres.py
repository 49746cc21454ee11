"""A store that several processes share: PostgreSQL, one owner per partition by a lease with a growing epoch.

Decides who may write a partition. Safety is the epoch's: every write locks the lease rows of its partitions and fails
as a whole unless this process still holds each of them at the epoch it was given, so a process that slept through the
loss of its lease overwrites nothing. Liveness is the time's: a lease not renewed for `lease_s` seconds may be claimed.
A process that is stopped in the middle of a write holds row locks: the server ends its session after a part of the
lease, claims pass over locked rows, and rows are locked in the order of partitions. All times are the database's own,
so the processes' clocks need not agree. It knows nothing of groups, and who *should* own a partition is decided in
`persistence/leases.py`.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from secrets import randbits
from typing import Any, LiteralString

import psycopg

from kafka_shim.persistence.leases import Node, View
from kafka_shim.persistence.records import decode_key, decode_value, encode_key, encode_value
from kafka_shim.persistence.store import Documents, Entry, FencedError, StoreError, records_of

SCHEMA_VERSION = 1

_SCHEMA: LiteralString = """
CREATE TABLE IF NOT EXISTS kafka_shim_meta (name text PRIMARY KEY, value bigint NOT NULL);
CREATE TABLE IF NOT EXISTS kafka_shim_records (
    partition int NOT NULL, key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (partition, key));
CREATE TABLE IF NOT EXISTS kafka_shim_nodes (
    node_id int PRIMARY KEY, incarnation text NOT NULL, host text NOT NULL, port int NOT NULL,
    expires timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS kafka_shim_leases (
    partition int PRIMARY KEY, epoch bigint NOT NULL DEFAULT 0, node_id int, incarnation text, expires timestamptz);
CREATE TABLE IF NOT EXISTS kafka_shim_documents (
    kind text NOT NULL, name text NOT NULL, value text NOT NULL, PRIMARY KEY (kind, name));
"""

_CHANNEL: LiteralString = "kafka_shim"
"""The channel on which processes notify each other of changes; the payload is the sender."""

# Two processes that create the tables at the same moment collide in the catalogue in spite of IF NOT EXISTS.
_SCHEMA_LOCK = 0x6B67_7368


class PostgresStore:
    """A `Store` on PostgreSQL, with the leases of its partitions and the directory of its nodes.

    `write` and `load` use one connection, `wait` another, and all else a third: a slow load delays no renewal. A
    connection that broke is opened again at the next call. Every method blocks and may raise StoreError.
    """

    durable_at_once = False

    def __init__(self, url: str, partitions: int, *, lease_s: float = 6.0) -> None:
        self.lease_s = lease_s
        self.cluster_seed = 0
        self.incarnation = uuid.uuid4().hex
        self.epochs: dict[int, int] = {}
        """partition -> epoch, of the leases this process was given and has not been seen to lose."""
        self._partitions = partitions
        patience_ms = max(int(abs(lease_s) * 1000 / 3), 200)
        self._data = _Connection(url, patience_ms)
        self._control = _Connection(url, patience_ms)
        self._ear = _Connection(url, patience_ms, f"LISTEN {_CHANNEL}")

    def open(self) -> None:
        """Create what is missing and check that the store was made for as many partitions. Raises StoreError."""
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
        """All of `batch` or nothing, fenced by the epochs of its partitions. Raises FencedError, StoreError."""
        newest: dict[tuple[int, bytes], bytes | None] = {}
        for partition, key, value in records_of(batch):
            newest[partition, encode_key(key)] = None if value is None else encode_value(key, value)
        kept = [(partition, key, value) for (partition, key), value in newest.items() if value is not None]
        gone = [place for place, value in newest.items() if value is None]
        touched = sorted({partition for partition, _ in newest})
        with self._data as connection, connection.transaction():
            # The lock is held until the commit, so a claim waits for this write or this write sees the claim.
            rows = connection.execute(
                "SELECT partition, epoch FROM kafka_shim_leases WHERE partition = ANY(%s) AND incarnation = %s "
                "ORDER BY partition FOR SHARE",
                (touched, self.incarnation),
            ).fetchall()
            owned = dict(rows)
            epochs = self.epochs
            lost = [p for p in touched if p not in owned or owned[p] != epochs.get(p)]
            if lost:
                raise FencedError(lost)
            if kept:
                connection.execute(
                    "INSERT INTO kafka_shim_records SELECT * FROM unnest(%b::int[], %b::bytea[], %b::bytea[]) "
                    "ON CONFLICT (partition, key) DO UPDATE SET value = EXCLUDED.value",
                    tuple(list(column) for column in zip(*kept, strict=True)),
                )
            if gone:
                connection.execute(
                    "DELETE FROM kafka_shim_records r USING unnest(%b::int[], %b::bytea[]) AS d (partition, key) "
                    "WHERE r.partition = d.partition AND r.key = d.key",
                    tuple(list(column) for column in zip(*gone, strict=True)),
                )

    def load(self, partition: int) -> Iterator[tuple[Any, Any]]:
        """The live records of a partition this process has claimed."""
        with self._data as connection:
            cursor = connection.cursor(binary=True)
            cursor.execute("SELECT key, value FROM kafka_shim_records WHERE partition = %s", (partition,))
            for raw_key, raw_value in cursor:
                key = decode_key(raw_key)
                yield key, decode_value(key, raw_value)

    # --- nodes and leases

    def register(self, node_id: int, host: str, port: int) -> None:
        """Enter this process in the directory. Raises StoreError when a live process has the id."""
        # Whatever changes from now on is heard.
        with self._ear:
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
            self._tell(connection)

    def renew(self) -> View:
        """Prolong this process's entry and leases, and say who lives and who owns what."""
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
            held = connection.execute(
                "UPDATE kafka_shim_leases SET expires = clock_timestamp() + %s * interval '1 second' "
                "WHERE incarnation = %s RETURNING partition, epoch",
                mine,
            ).fetchall()
            nodes = connection.execute(
                "SELECT node_id, host, port FROM kafka_shim_nodes WHERE expires >= clock_timestamp() ORDER BY node_id"
            ).fetchall()
            leases = connection.execute(
                "SELECT partition, node_id, incarnation, extract(epoch FROM expires - clock_timestamp())::float8 "
                "FROM kafka_shim_leases WHERE expires >= clock_timestamp()"
            ).fetchall()
            documents_version = _documents_version(connection)
        view = View(
            nodes=[Node(*row) for row in nodes],
            owners={partition: node_id for partition, node_id, _, _ in leases},
            held=dict(held),
            registered=registered > 0,
            next_lapse_s=min((left for _, _, owner, left in leases if owner != self.incarnation), default=inf),
            documents_version=documents_version,
        )
        self.epochs = {p: epoch for p, epoch in self.epochs.items() if view.held.get(p) == epoch}
        return view

    def claim(self, node_id: int, partitions: Sequence[int]) -> dict[int, int]:
        """Take those of `partitions` that nobody holds; the epoch of each grows. Returns partition -> epoch.

        A lease that has run out but is being written under at this very moment is left for the next time.
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
                self._tell(connection)
        self.epochs.update(rows)
        return dict(rows)

    def release(self, partitions: Sequence[int]) -> None:
        """Give up `partitions`; whatever was to be written to them has been, or is dropped."""
        for partition in partitions:
            self.epochs.pop(partition, None)
        with self._control as connection, connection.transaction():
            connection.execute(
                "UPDATE kafka_shim_leases SET node_id = NULL, incarnation = NULL, expires = NULL "
                "WHERE partition = ANY(%s) AND incarnation = %s",
                (list(partitions), self.incarnation),
            )
            self._tell(connection)

    # --- what all processes know

    def documents(self) -> tuple[int, Documents]:
        """The version of the documents and all of them."""
        with self._control as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            version = _documents_version(connection)
            rows = connection.execute("SELECT kind, name, value FROM kafka_shim_documents").fetchall()
        return version, {(kind, name): value for kind, name, value in rows}

    def change_documents(self, version: int, changes: Mapping[tuple[str, str], str | None]) -> bool:
        """Make these changes, None deletes; False and nothing if `version` is not the newest."""
        with self._control as connection, connection.transaction():
            # The row stays locked until the commit: of two who know the same version the second one finds another.
            raised = connection.execute(
                "UPDATE kafka_shim_meta SET value = value + 1 WHERE name = 'documents' AND value = %s", (version,)
            )
            if raised.rowcount == 0:
                return False
            for (kind, name), value in changes.items():
                if value is None:
                    connection.execute("DELETE FROM kafka_shim_documents WHERE kind = %s AND name = %s", (kind, name))
                else:
                    connection.execute(
                        "INSERT INTO kafka_shim_documents VALUES (%s, %s, %s) "
                        "ON CONFLICT (kind, name) DO UPDATE SET value = EXCLUDED.value",
                        (kind, name, value),
                    )
            self._tell(connection)
        return True

    def _tell(self, connection: psycopg.Connection[Any]) -> None:
        """Let the other processes know, once this transaction is committed, that something has changed."""
        connection.execute("SELECT pg_notify(%s, %s)", (_CHANNEL, self.incarnation))

    def wait(self, seconds: float) -> None:
        """Return when another process has notified of a change, and after `seconds` at the latest."""
        give_up_at = time.monotonic() + seconds
        with self._ear as connection:
            while (left := give_up_at - time.monotonic()) > 0:
                heard = list(connection.notifies(timeout=left, stop_after=1))
                if any(each.payload != self.incarnation for each in heard):
                    return

    def close(self) -> None:
        """Leave: give up every lease and the place in the directory, so that nobody waits for them to run out."""
        if self._control.is_open:
            with self._control as connection, connection.transaction():
                connection.execute(
                    "UPDATE kafka_shim_leases SET node_id = NULL, incarnation = NULL, expires = NULL "
                    "WHERE incarnation = %s",
                    (self.incarnation,),
                )
                connection.execute("DELETE FROM kafka_shim_nodes WHERE incarnation = %s", (self.incarnation,))
                # Said by nobody: whoever waits in this process is to hear it too.
                connection.execute("SELECT pg_notify(%s, '')", (_CHANNEL,))
            self.epochs = {}
        for each in (self._data, self._control, self._ear):
            each.close()


class _Connection:
    """One connection to the database, opened when first used and again after it broke; database errors as StoreError.

    `greeting` is what a new one says first.
    """

    def __init__(self, url: str, patience_ms: int, greeting: LiteralString = "") -> None:
        self._url = url
        self._patience_ms = patience_ms
        self._greeting = greeting
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None

    def __enter__(self) -> psycopg.Connection[Any]:
        self._lock.acquire()
        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=5)
                self._connection.execute("SET synchronous_commit = on")
                # Who stands still in a transaction would keep others from what it has locked.
                self._connection.execute(
                    "SELECT set_config('idle_in_transaction_session_timeout', %s, false)", (str(self._patience_ms),)
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


def _documents_version(connection: psycopg.Connection[Any]) -> int:
    found = connection.execute("SELECT value FROM kafka_shim_meta WHERE name = 'documents'").fetchone()
    assert found is not None
    version: int = found[0]
    return version


def _sentence(error: psycopg.Error) -> str:
    """The first line of the database's message, as a sentence."""
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return first if first.endswith(".") else first + "."
