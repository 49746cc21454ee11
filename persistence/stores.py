"""`open_store`: the store for a URL."""

from __future__ import annotations

from pathlib import Path

from kafka_shim.persistence.store import Store, StoreError


def open_store(url: str, partitions: int, *, lease_s: float = 6.0) -> Store:
    """Open `memory:`, `sqlite:PATH` or `postgresql://...` for `__consumer_offsets` of `partitions` partitions.

    `lease_s` is the duration of a shared store's leases in seconds. Raises StoreError, also for an unknown kind of URL.
    """
    # Import only the requested kind: its library may be missing for the others.
    scheme, colon, rest = url.partition(":")
    store: Store
    if scheme == "memory" and colon and not rest:
        from kafka_shim.persistence.memory import MemoryStore

        store = MemoryStore()
    elif scheme == "sqlite" and rest:
        from kafka_shim.persistence.sqlite import SqliteStore

        store = SqliteStore(Path(rest), partitions)
    elif scheme in ("postgresql", "postgres") and rest:
        try:
            from kafka_shim.persistence.postgres import PostgresStore
        except ImportError as error:
            raise StoreError("A PostgreSQL store needs psycopg: pip install 'kafka-group-shim[postgres]'") from error

        store = PostgresStore(url, partitions, lease_s=lease_s)
    else:
        raise StoreError(f"{url!r} names no store: use memory:, sqlite:PATH or postgresql://...")
    store.open()
    return store
