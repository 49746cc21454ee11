"""What `kafka-shim serve --lab` has beyond a server: puppets, and a store that fails on command.

Decides nothing: `kafka_shim.cli` hands it to whoever runs the server, which must not know this folder.
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
        """The store to serve from; one that processes share is none that a test may break."""
        if isinstance(store, SharedStore):
            return store
        self._store = BreakableStore(store)
        return self._store

    def config(self, config: ClusterConfig) -> ClusterConfig:
        """The same configuration with a clock that can be moved."""
        return replace(config, clock=self._clock, clock_ahead=self._clock.ahead)

    def workbench(self, server: Server, nursery: trio.Nursery) -> LabWorkbench:
        """The workbench of a server that has started; its puppets begin to act."""
        kit = Kit(server, self._clock, self._store, nursery)
        nursery.start_soon(kit.play)
        return kit
