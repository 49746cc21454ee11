"""`AsyncCoordinator`: a coordinator in a thread of the test's process, for tests on an event loop.

Its waits run in the coordinator's thread and are awaited on asyncio or trio, by the caller's library; cancelling the
caller cancels them. Immediate actions, such as declaring a fault, need no `await`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from inspect import isawaitable
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar

import sniffio

from kafka_shim.lab import arguments
from kafka_shim.lab.group_waits import LOOK_SECONDS, TIMEOUT, OwnedPartitions
from kafka_shim.lab.interception import Block
from kafka_shim.lab.snapshots import GroupSnapshot
from kafka_shim.testing.calls import scenario_of
from kafka_shim.testing.coordinator import Coordinator
from kafka_shim.testing.handles import BarrierView, FaultView, GroupView
from kafka_shim.testing.thread import CoordinatorThread
from kafka_shim.testing.waits import Waits, awaited

T = TypeVar("T")


class AsyncCoordinator(Coordinator):
    """A server on free ports of the loopback address, for the duration of an `async with` block; see `Coordinator`.

        async with AsyncCoordinator(topics={"orders": 4}) as server:
            consumer = AIOKafkaConsumer("orders", bootstrap_servers=server.bootstrap, group_id="billing")
            await consumer.start()
            await server.group("billing").stable(members=1)

    Leaving the block without an exception raises UnfiredFaults if a fault that is not optional never happened, and
    ForgottenWaits if a wait was never awaited.
    """

    async def __aenter__(self) -> AsyncCoordinator:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.verify()
        finally:
            self.stop()

    def group(self, name: str) -> AsyncGroup:
        """Return the waits for a group."""
        return AsyncGroup(self, self.call(self.kit.group, name))

    @awaited
    async def rewind(self, group: str, offsets: Mapping[tuple[str, int], int]) -> int:
        """Restart a live group from these offsets; see `CoordinatorServer.rewind`."""
        rewind = self.call(self.kit.rewind, group, arguments.offsets_of(offsets))
        await done(self, rewind.durable)
        return rewind.removed

    def fault(self, action: str, api: str | None = None, **fields: Any) -> AsyncFault:
        """Declare a fault; see `CoordinatorServer.fault`."""
        return AsyncFault(self, self.call(partial(self.kit.fault, action, api, **fields)))

    @awaited
    async def play(self, scenario: Callable[..., Coroutine[Any, Any, T]], *arguments: Any, **options: Any) -> T:
        """Play a scenario to its end, and return its result; see `shim/testing/scenarios.py`."""
        return await done(self, partial(scenario_of(scenario), self.kit, *arguments, **options))

    @asynccontextmanager
    async def playing(
        self, scenario: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any, **options: Any
    ) -> AsyncIterator[None]:
        """Play a scenario during an `async with` block; the end of the block waits for the end of the scenario.

        async with server.playing(coordinator_moves_mid_commit, "billing"):
            await consumer.commit()
        """
        from trio.testing import wait_all_tasks_blocked

        played = self.submit(partial(scenario_of(scenario), self.kit, *arguments, **options))
        try:
            await done(self, wait_all_tasks_blocked)
            yield
        except BaseException:
            played.cancel()
            raise
        await _end_of(played)

    def barrier(self, point: str, **match: Any) -> AsyncBarrier:
        """Hold requests at a point; see `CoordinatorServer.barrier`.

        async with server.barrier("leader-sync-arrived", group="billing") as barrier:
            await barrier.reached()
        """
        return AsyncBarrier(self, self.call(partial(self.kit.barrier, point, **match)))


class _Awaitable:
    """A handle with waits to await."""

    _server: CoordinatorThread

    @property
    def waits(self) -> Waits:
        """The waits of the coordinator that no task has begun yet."""
        return self._server.waits


class AsyncGroup(_Awaitable, GroupView):
    """Waits for states and events of a group; see `GroupWaits`. Timeouts are real seconds; all raise NotReached."""

    @awaited
    async def stable(
        self,
        *,
        members: int | Collection[str] | None = None,
        generation: int | None = None,
        owners: Mapping[str, OwnedPartitions] | None = None,
        timeout: float = TIMEOUT,
    ) -> GroupSnapshot:
        """See `GroupWaits.stable`."""
        wait = partial(self._group.stable, members=members, generation=generation, owners=owners, timeout=timeout)
        return await done(self._server, wait)

    @awaited
    async def consuming(
        self, *, members: int | Collection[str] | None = None, timeout: float = TIMEOUT
    ) -> GroupSnapshot:
        """See `GroupWaits.consuming`."""
        return await done(self._server, partial(self._group.consuming, members=members, timeout=timeout))

    @awaited
    async def owns(self, member: str, partitions: OwnedPartitions, *, timeout: float = TIMEOUT) -> GroupSnapshot:
        """See `GroupWaits.owns`."""
        return await done(self._server, partial(self._group.owns, member, partitions, timeout=timeout))

    @awaited
    async def empty(self, *, timeout: float = TIMEOUT) -> GroupSnapshot:
        """See `GroupWaits.empty`."""
        return await done(self._server, partial(self._group.empty, timeout=timeout))

    @awaited
    async def next(
        self, event: str, *, from_now: bool = False, timeout: float = TIMEOUT, **fields: Any
    ) -> dict[str, Any]:
        """See `GroupWaits.next`."""
        arguments.event_of(event, fields)
        return await done(self._server, partial(self._group.next, event, from_now=from_now, timeout=timeout, **fields))

    @awaited
    async def committed(
        self, topic: str, partition: int, *, at_least: int | None = None, timeout: float = TIMEOUT
    ) -> int:
        """See `GroupWaits.committed`."""
        return await done(
            self._server, partial(self._group.committed, topic, partition, at_least=at_least, timeout=timeout)
        )

    @awaited
    async def caught_up(self, *topics: str, timeout: float = TIMEOUT) -> None:
        """See `GroupWaits.caught_up`."""
        await done(self._server, partial(self._group.caught_up, *topics, timeout=timeout))

    @awaited
    async def no_rebalance_for(
        self, seconds: float | None = None, *, heartbeats: int | None = None, timeout: float = TIMEOUT
    ) -> None:
        """See `GroupWaits.no_rebalance_for`. While the clock is frozen, `seconds` are those of the coordinator."""
        await done(self._server, self._never(self._group.no_rebalance_for, seconds, heartbeats, timeout=timeout))

    @awaited
    async def no_commit_for(
        self,
        seconds: float | None = None,
        *,
        topic: str | None = None,
        heartbeats: int | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        """See `GroupWaits.no_commit_for`. While the clock is frozen, `seconds` are those of the coordinator."""
        wait = self._never(self._group.no_commit_for, seconds, heartbeats, topic=topic, timeout=timeout)
        await done(self._server, wait)

    @awaited
    async def wait_for(
        self,
        condition: Callable[[GroupSnapshot], Any],
        goal: str = "the condition of the test",
        *,
        timeout: float = TIMEOUT,
    ) -> GroupSnapshot:
        """See `GroupWaits.wait_for`. The condition is called on the caller's event loop; it may be async."""
        arguments.seconds("timeout", timeout)
        end = monotonic() + timeout
        while True:
            now = self.now
            result = condition(now)
            if await result if isawaitable(result) else result:
                return now
            if monotonic() >= end:
                raise self._vain(goal, timeout)
            await done(self._server, self._group.changed, min(LOOK_SECONDS, max(end - monotonic(), 0.0)))


class AsyncBlock(Block):
    """A `Block` of `async with` too; it has nothing to wait for."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._end()


class AsyncFault(_Awaitable, AsyncBlock, FaultView):
    """A declared fault until the end of a block of `with` or `async with`; see `Fault`."""

    @awaited
    async def wait_fired(self, times: int = 1, *, timeout: float = TIMEOUT) -> None:
        """Wait until it has happened `times` times. Raises NotReached."""
        await done(self._server, self._server.kit.fired, self._fault, times, timeout)


class AsyncBarrier(_Awaitable, AsyncBlock, BarrierView):
    """A barrier in force until the end of a block of `with` or `async with`; see `Barrier`."""

    @awaited
    async def reached(self, requests: int = 1, *, timeout: float = TIMEOUT) -> None:
        """Wait until it holds `requests` requests. Raises NotReached."""
        await done(self._server, self._server.kit.reached, self._barrier, requests, timeout)


async def done(server: CoordinatorThread, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Run an async function in the server's own thread and return its result."""
    return await _end_of(server.submit(function, *arguments))


async def _end_of(future: Future[T]) -> T:
    if sniffio.current_async_library() == "asyncio":
        import asyncio

        return await asyncio.wrap_future(future)
    return await _done_on_trio(future)


async def _done_on_trio(future: Future[T]) -> T:
    import trio

    finished, token = trio.Event(), trio.lowlevel.current_trio_token()
    future.add_done_callback(lambda _: token.run_sync_soon(finished.set))
    try:
        await finished.wait()
    finally:
        future.cancel()
    return future.result()
