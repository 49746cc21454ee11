"""`BreakableStore`: a store that fails on command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.store import Entry, Store, StoreError


class BreakableStore:
    """A `Store` in front of another one, by default one in memory."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or MemoryStore()
        self.durable_at_once = self._store.durable_at_once
        self.writes = 0
        """Number of batches written."""
        self.failed = 0
        """Number of writes that failed on command."""
        self._failing: int | None = 0
        self._error = ErrorCode.COORDINATOR_NOT_AVAILABLE

    def fail(self, times: int | None = 1, error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> None:
        """Let the next writes fail, all of them if `times` is None; clients get `error`, 15 or 16."""
        self._failing, self._error = times, error

    def repair(self) -> None:
        """Let all writes succeed again."""
        self._failing = 0

    def open(self) -> None:
        """See `Store.open`."""
        self._store.open()

    def write(self, batch: Sequence[Entry]) -> None:
        """See `Store.write`."""
        if self._failing is None or self._failing > 0:
            if self._failing is not None:
                self._failing -= 1
            self.failed += 1
            raise StoreError("The test lets the store fail.", self._error)
        self._store.write(batch)
        self.writes += 1

    def probe(self) -> None:
        """See `Store.probe`. It fails while writes fail, and is not one of them."""
        if self._failing != 0:
            raise StoreError("The test lets the store fail.", self._error)
        self._store.probe()

    def look(self) -> None:
        """See `Store.look`."""
        self._store.look()

    def load(self, partition: int) -> Iterator[tuple[Any, Any]]:
        """See `Store.load`."""
        return self._store.load(partition)

    def close(self) -> None:
        """See `Store.close`."""
        self._store.close()
