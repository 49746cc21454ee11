"""What a store of `__consumer_offsets` must do, and how it fails.

A store is the compacted topic: for each partition the newest value of every key; a tombstone removes the key. It
decides nothing about groups. The interface blocks: whoever calls it on an event loop uses a worker thread, unless the
store is `durable_at_once`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from apis.wire.errors import ErrorCode

Entry: TypeAlias = tuple[int, Any, Any]
"""`(partition, key, value)`: a key and value of `persistence.records`; value None is a tombstone."""


class StoreError(Exception):
    """The store cannot do what was asked; the message is one sentence for the operator.

    `error` is what clients get while it lasts (semantics 2.10): COORDINATOR_NOT_AVAILABLE (15) when the next try may
    succeed, NOT_COORDINATOR (16) when this process can serve the partition no more.
    """

    def __init__(self, message: str, error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> None:
        super().__init__(message)
        self.error = error


class Store(Protocol):
    """Where records live. Every method may raise `StoreError`.

    `write` and `load` are called from one thread at a time, not always the same one.
    """

    durable_at_once: bool
    """`write` never blocks, and what it wrote is as durable as it gets: no worker thread needed."""

    def open(self) -> None:
        """Take ownership and check that the store can be served. Call once, before all else."""

    def write(self, batch: Sequence[Entry]) -> None:
        """All of `batch`, in its order, or nothing; durable when it returns."""

    def load(self, partition: int) -> Iterator[tuple[Any, Any]]:
        """The live `(key, value)` pairs of a partition, in no particular order."""

    def close(self) -> None:
        """Give the store up. Calling it again does nothing."""


def open_store(url: str, partitions: int) -> Store:
    """Open `memory:` or `sqlite:PATH` for `__consumer_offsets` of `partitions` partitions.

    Raises StoreError, also for a URL of an unknown kind.
    """
    # The kinds are imported when asked for: a store's library need not be there for the other kinds.
    scheme, colon, rest = url.partition(":")
    store: Store
    if scheme == "memory" and colon and not rest:
        from persistence.memory import MemoryStore

        store = MemoryStore()
    elif scheme == "sqlite" and rest:
        from persistence.sqlite import SqliteStore

        store = SqliteStore(Path(rest), partitions)
    else:
        raise StoreError(f"{url!r} names no store: use memory: or sqlite:PATH.")
    store.open()
    return store
