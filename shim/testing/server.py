"""A coordinator in a thread of the test's process, for tests that may block while they wait.

Decides nothing: every wait is that of the kit, in the coordinator's own thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any

from kafka_shim.lab import arguments
from kafka_shim.testing.coordinator import Coordinator
from kafka_shim.testing.handles import BarrierHandle, FaultHandle, Group


class CoordinatorServer(Coordinator):
    """A server on free ports of the loopback address, for as long as a `with` block lasts; see `Coordinator`.

        with CoordinatorServer(topics={"orders": 4}) as server:
            consumer = KafkaConsumer("orders", bootstrap_servers=server.bootstrap, group_id="billing")

    Leaving the block without an exception raises UnfiredFaults if a fault never happened that is not optional.
    """

    def __enter__(self) -> CoordinatorServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.verify()
        finally:
            self.stop()

    def group(self, name: str) -> Group:
        """Waits for what becomes of a group."""
        return Group(self, self.call(self.kit.group, name))

    def rewind(self, group: str, offsets: Mapping[tuple[str, int], int]) -> int:
        """Let a group that is alive begin anew from these offsets, by topic and partition; see `shim/lab/rewind.py`.

        Returns how many members had to begin anew, as soon as the offsets count. Raises CannotRewind.
        """
        rewind = self.call(self.kit.rewind, group, arguments.offsets_of(offsets))
        self.wait(rewind.durable)
        return rewind.removed

    def fault(self, action: str, api: str | None = None, **fields: Any) -> FaultHandle:
        """Put a fault in force: an action, an API's name, and fields of `Match` and `Plan` (`shim/lab/faults.py`).

        server.fault("error", "OffsetCommit", error="REBALANCE_IN_PROGRESS", group="billing", times=2)
        """
        return FaultHandle(self, self.call(partial(self.kit.fault, action, api, **fields)))

    def barrier(self, point: str, **match: Any) -> BarrierHandle:
        """Hold requests at a named point, or those of an API; `match` are fields of `Match`, and `at`="answer".

        with server.barrier("leader-sync-arrived", group="billing") as barrier:
            barrier.reached()
        """
        return BarrierHandle(self, self.call(partial(self.kit.barrier, point, **match)))
