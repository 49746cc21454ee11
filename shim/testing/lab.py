"""What `kafka-shim serve --lab` has beyond a server: puppets, and a store that fails when it is told to.

Decides nothing: `kafka_shim.cli` hands it to whoever runs the server, which must not know this folder.
"""

from __future__ import annotations

import trio

from kafka_shim.control.bench import Bench
from kafka_shim.lab.clock import TestClock
from kafka_shim.lab.failing_store import BreakableStore
from kafka_shim.persistence.store import SharedStore, Store
from kafka_shim.server.server import Server
from kafka_shim.testing.kit import Kit


class Laboratory:
    """See `kafka_shim.control.run.Laboratory`."""

    def store(self, store: Store) -> Store:
        """The store to serve from; one that processes share is none that a test may break."""
        return store if isinstance(store, SharedStore) else BreakableStore(store)

    def bench(self, server: Server, nursery: trio.Nursery, clock: TestClock, store: Store) -> Bench:
        """The bench of a server that has begun, and its puppets begin to play."""
        kit = Kit(server, clock, store if isinstance(store, BreakableStore) else None, nursery)
        nursery.start_soon(kit.play)
        return kit
