"""`CoordinatorServer`: a coordinator in a thread of the test's process, for tests that may block."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, TypeVar, cast

from kafka_shim.lab import arguments
from kafka_shim.testing.calls import explains_calls, scenario_of
from kafka_shim.testing.coordinator import Coordinator
from kafka_shim.testing.handles import BarrierHandle, FaultHandle, Group

T = TypeVar("T")


@explains_calls
class CoordinatorServer(Coordinator):
    """A server on free ports of the loopback address, for the duration of a `with` block; see `Coordinator`.

        with CoordinatorServer(topics={"orders": 4}) as server:
            consumer = KafkaConsumer("orders", bootstrap_servers=server.bootstrap, group_id="billing")

    Leaving the block without an exception raises UnfiredFaults if a fault that is not optional never happened.
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
        """Return the waits for a group."""
        return Group(self, self.call(self.kit.group, name))

    def rewind(self, group: str, offsets: Mapping[tuple[str, int], int]) -> int:
        """Restart a live group from these offsets, by topic and partition; see `shim/lab/rewind.py`.

        Returns, once the offsets are stored, the number of members that had to rejoin. Raises CannotRewind.
        """
        rewind = self.call(self.kit.rewind, group, arguments.offsets_of(offsets))
        self.wait(rewind.durable)
        return rewind.removed

    def fault(self, action: str, api: str | None = None, **fields: Any) -> FaultHandle:
        """Declare a fault: an action, an API's name, and fields of `Match` and `Plan` (`shim/lab/faults.py`).

        server.fault("error", "OffsetCommit", error="REBALANCE_IN_PROGRESS", group="billing", times=2)
        """
        return FaultHandle(self, self.call(partial(self.kit.fault, action, api, **fields)))

    def play(self, scenario: Callable[..., Coroutine[Any, Any, T]], *arguments: Any, **options: Any) -> T:
        """Play a scenario to its end, and return its result; see `shim/testing/scenarios.py`.

        server.play(rolling_restart, "billing", ["orders"], members=3)
        """
        return cast("T", self.wait(partial(scenario_of(scenario), self.kit, *arguments, **options)))

    @contextmanager
    def playing(
        self, scenario: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any, **options: Any
    ) -> Iterator[None]:
        """Play a scenario during a `with` block; the end of the block waits for the end of the scenario.

        with server.playing(coordinator_moves_mid_commit, "billing"):
            consumer.commit()
        """
        from trio.testing import wait_all_tasks_blocked

        played = self.submit(partial(scenario_of(scenario), self.kit, *arguments, **options))
        try:
            self.wait(wait_all_tasks_blocked)
            yield
        except BaseException:
            played.cancel()
            raise
        played.result()

    def barrier(self, point: str, **match: Any) -> BarrierHandle:
        """Hold requests at a named point, or those of an API; `match` are fields of `Match`, and `at`="answer".

        with server.barrier("leader-sync-arrived", group="billing") as barrier:
            barrier.reached()
        """
        return BarrierHandle(self, self.call(partial(self.kit.barrier, point, **match)))
