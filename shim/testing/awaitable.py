"""A coordinator in a thread of the test's process, for tests that run on an event loop.

Decides how a wait in the coordinator's own thread is awaited: on asyncio or on trio, whichever runs the caller, and
cancelled with it. What is done at once, as putting a fault in force, needs no `await`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

import sniffio

from kafka_shim.lab import arguments
from kafka_shim.lab.barriers import Barrier
from kafka_shim.lab.faults import Fault, Firing
from kafka_shim.lab.group_waits import TIMEOUT, GroupWaits, OwnedPartitions
from kafka_shim.lab.snapshots import GroupSnapshot
from kafka_shim.testing.coordinator import Coordinator
from kafka_shim.testing.thread import CoordinatorThread

T = TypeVar("T")


class AsyncCoordinator(Coordinator):
    """A server on free ports of the loopback address, for as long as an `async with` block lasts; see `Coordinator`.

        async with AsyncCoordinator(topics={"orders": 4}) as server:
            consumer = AIOKafkaConsumer("orders", bootstrap_servers=server.bootstrap, group_id="billing")
            await consumer.start()
            await server.group("billing").stable(members=1)

    Leaving the block without an exception raises UnfiredFaults if a fault never happened that is not optional.
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
        """Waits for what becomes of a group."""
        return AsyncGroup(self, self.call(self.kit.group, name))

    async def rewind(self, group: str, offsets: Mapping[tuple[str, int], int]) -> int:
        """Let a group that is alive begin anew from these offsets; see `CoordinatorServer.rewind`."""
        rewind = self.call(self.kit.rewind, group, arguments.offsets_of(offsets))
        await done(self, rewind.durable)
        return rewind.removed

    def fault(self, action: str, api: str | None = None, **fields: Any) -> AsyncFault:
        """Put a fault in force; see `CoordinatorServer.fault`."""
        return AsyncFault(self, self.call(partial(self.kit.fault, action, api, **fields)))

    def barrier(self, point: str, **match: Any) -> AsyncBarrier:
        """Hold requests at a point; see `CoordinatorServer.barrier`.

        async with server.barrier("leader-sync-arrived", group="billing") as barrier:
            await barrier.reached()
        """
        return AsyncBarrier(self, self.call(partial(self.kit.barrier, point, **match)))


class AsyncGroup:
    """Waits for what becomes of a group; see `GroupWaits`. Timeouts are real seconds; all raise NotReached."""

    def __init__(self, server: CoordinatorThread, group: GroupWaits) -> None:
        self.name = group.group
        self._server = server
        self._group = group

    @property
    def now(self) -> GroupSnapshot:
        """The group as it is."""
        return self._server.call(lambda: self._group.now)

    def story(self) -> list[str]:
        """What happened to the group, in lines a person reads."""
        return self._server.call(self._group.story)

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

    async def owns(self, member: str, partitions: OwnedPartitions, *, timeout: float = TIMEOUT) -> GroupSnapshot:
        """See `GroupWaits.owns`."""
        return await done(self._server, partial(self._group.owns, member, partitions, timeout=timeout))

    async def empty(self, *, timeout: float = TIMEOUT) -> GroupSnapshot:
        """See `GroupWaits.empty`."""
        return await done(self._server, partial(self._group.empty, timeout=timeout))

    async def next(
        self, event: str, *, from_now: bool = False, timeout: float = TIMEOUT, **fields: Any
    ) -> dict[str, Any]:
        """See `GroupWaits.next`."""
        arguments.event_of(event, fields)
        return await done(self._server, partial(self._group.next, event, from_now=from_now, timeout=timeout, **fields))

    async def committed(
        self, topic: str, partition: int, *, at_least: int | None = None, timeout: float = TIMEOUT
    ) -> int:
        """See `GroupWaits.committed`."""
        return await done(
            self._server, partial(self._group.committed, topic, partition, at_least=at_least, timeout=timeout)
        )

    async def no_rebalance_for(
        self, seconds: float | None = None, *, heartbeats: int | None = None, timeout: float = TIMEOUT
    ) -> None:
        """See `GroupWaits.no_rebalance_for`. While the clock is frozen, `seconds` are those of the coordinator."""
        if seconds is None and heartbeats is None:
            raise ValueError("Say for how many seconds there is to be no rebalance, or for how many heartbeats.")
        kit = self._server.kit
        advance = kit.advance if seconds is not None and kit.clock.is_frozen else None
        wait = partial(self._group.no_rebalance_for, seconds, heartbeats=heartbeats, advance=advance, timeout=timeout)
        await done(self._server, wait)


class AsyncFault:
    """A fault in force; see `Fault`."""

    def __init__(self, server: CoordinatorThread, fault: Fault) -> None:
        self._server = server
        self._fault = fault

    def __str__(self) -> str:
        return str(self._fault)

    @property
    def fired(self) -> int:
        """How many times it has happened."""
        return self._server.call(lambda: self._fault.fired)

    @property
    def firings(self) -> list[Firing]:
        """When it happened, and to whom."""
        return self._server.call(lambda: list(self._fault.firings))

    async def wait_fired(self, times: int = 1, *, timeout: float = TIMEOUT) -> None:
        """Wait until it has happened so often. Raises NotReached."""
        await done(self._server, self._server.kit.fired, self._fault, times, timeout)

    def clear(self) -> None:
        """Let it happen no more."""
        self._server.call(self._fault.clear)


class AsyncBarrier:
    """A barrier in force, as an asynchronous context manager until the end of the block; see `Barrier`."""

    def __init__(self, server: CoordinatorThread, barrier: Barrier) -> None:
        self._server = server
        self._barrier = barrier

    async def __aenter__(self) -> AsyncBarrier:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()

    @property
    def held(self) -> list[str]:
        """Who is held, by member id where there is one, else by client id."""
        return self._server.call(lambda: [held.facts.member or held.facts.client_id for held in self._barrier.held])

    async def reached(self, requests: int = 1, *, timeout: float = TIMEOUT) -> None:
        """Wait until it holds so many. Raises NotReached."""
        await done(self._server, self._server.kit.reached, self._barrier, requests, timeout)

    def release(self, requests: int | None = None) -> int:
        """Let go what it holds, or the first few; how many that were. It stays in force."""
        return self._server.call(self._barrier.release, requests)

    def remove(self) -> None:
        """Let go everything, and hold nothing more."""
        self._server.call(self._barrier.remove)


async def done(server: CoordinatorThread, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """What an async function returns that runs in the server's own thread."""
    future = server.submit(function, *arguments)
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
