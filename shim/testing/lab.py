"""`Laboratory`: the parts of `kafka-shim serve --lab` beyond a server: puppets, and a store that fails on command.

`kafka_shim.cli` passes it to the server, which must not import this folder.
"""

from __future__ import annotations

from dataclasses import replace

import trio

from kafka_shim.control.lab_workbench import LabWorkbench
from kafka_shim.lab.clock import TestClock
from kafka_shim.lab.failing_store import BreakableStore
from kafka_shim.persistence.store import SharedStore, Store
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.server import Server
from kafka_shim.testing.kit import Kit


class Laboratory:
    """See `kafka_shim.control.run.Laboratory`."""

    def __init__(self) -> None:
        self._clock = TestClock()
        self._store: BreakableStore | None = None

    def store(self, store: Store) -> Store:
        """Return the store to serve from: one that can be made to fail, unless processes share it."""
        if isinstance(store, SharedStore):
            return store
        self._store = BreakableStore(store)
        return self._store

    def config(self, config: ClusterConfig) -> ClusterConfig:
        """Return the same configuration with a clock that can be moved."""
        return replace(config, clock=self._clock, clock_ahead=self._clock.ahead)

    def workbench(self, server: Server, nursery: trio.Nursery) -> LabWorkbench:
        """Return the workbench of a running server, and start its puppets."""
        kit = Kit(server, self._clock, self._store, nursery)
        nursery.start_soon(kit.play)
        return kit
