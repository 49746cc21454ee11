"""The kit for tests that run on an event loop: asyncio by itself, asyncio and trio under anyio."""

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest
import trio.testing
from aiokafka import AIOKafkaConsumer
from confluent_kafka.aio import AIOConsumer

from kafka_shim.testing import (
    AsyncCoordinator,
    CoordinatorServer,
    ForgottenWaits,
    NotReached,
    open_coordinator,
    polling,
)
from kafka_shim.testing.scenarios import coordinator_moves_mid_commit


def on(backend: str, test: Callable[[], Awaitable[None]]) -> None:
    anyio.run(test, backend=backend)


def test_the_clock_of_the_trio_kit_is_that_of_the_others() -> None:
    async def test() -> None:
        async with open_coordinator(topics={"orders": 4}) as kit:
            doomed = kit.puppet("billing", ["orders"], client_id="doomed", session_timeout=10)
            kit.puppet("billing", ["orders"], client_id="heir", session_timeout=10)
            await kit.group("billing").stable(members=["doomed", "heir"])
            doomed.crash()
            kit.clock.freeze()
            kit.clock.advance(10)
            kit.clock.resume()  # and the puppets go on by themselves
            await kit.group("billing").stable(owners={"heir": {"orders": range(4)}})

    trio.run(test)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_waits_are_awaited(backend: str) -> None:
    async def test() -> None:
        async with AsyncCoordinator(topics={"orders": 4}) as server:
            first = server.puppet("billing", ["orders"], client_id="one")
            group = await server.group("billing").stable(members=["one"])
            assert group.members[0].owned == {"orders": [0, 1, 2, 3]}
            async with server.barrier("join-arrived", group="billing") as barrier:
                server.puppet("billing", ["orders"], client_id="two")
                await barrier.reached()
            await server.group("billing").stable(members=2)
            async with server.fault("error", "OffsetCommit", error="NOT_COORDINATOR") as fault:
                first.commit({("orders", 0): 3})
                await fault.wait_fired()
            assert [
                line for line in server.story("billing") if "injected by a fault: error NOT_COORDINATOR (16)" in line
            ]
            assert await server.rewind("billing", {("orders", 0): 2}) == 2
            assert await server.group("billing").committed("orders", 0) == 2
            with server.barrier("join-arrived", client_id="three") as another:
                server.puppet("billing", ["orders"], client_id="three")
                await another.reached()
            assert another.held == []
            await server.group("billing").stable(members=3)

    on(backend, test)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_failed_wait_has_the_story_and_blocks_no_other_task(backend: str) -> None:
    async def test() -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await anyio.sleep(0)
                turns += 1

        async with AsyncCoordinator() as server, anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            with pytest.raises(NotReached, match="nobody is Dead"):
                await server.group("nobody").stable(members=1, timeout=0.05)
            tasks.cancel_scope.cancel()
        assert turns > 10

    on(backend, test)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_wait_without_await_fails_the_block(backend: str) -> None:
    async def test() -> None:
        async with AsyncCoordinator(topics={"orders": 1}) as server:
            server.puppet("billing", ["orders"])
            server.group("billing").stable(members=17)

    with pytest.raises(ForgottenWaits, match=r"^Never awaited: stable\(\.\.\.\) in test_event_loops\.py:\d+\."):
        on(backend, test)


def test_a_wait_without_await_fails_the_block_of_the_trio_kit() -> None:
    async def test(forgetful: bool) -> None:
        async with open_coordinator(topics={"orders": 1}) as kit:
            kit.puppet("billing", ["orders"])
            await kit.group("billing").stable(members=1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(kit.group("billing").owns, "puppet", {"orders": [0]})
            if forgetful:
                kit.group("billing").stable(members=17)
                kit.fired(kit.fault("drop", "Heartbeat"))

    trio.run(test, False)
    with pytest.raises(ForgottenWaits, match=r"^Never awaited: fired.* stable.*test_event_loops"):
        trio.run(test, True)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_task_may_be_made_of_a_wait(backend: str) -> None:
    async def test() -> None:
        async with AsyncCoordinator(topics={"orders": 1}) as server:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.group("billing").empty)
            if backend == "asyncio":
                await asyncio.create_task(server.group("billing").empty())
                await asyncio.gather(server.group("billing").empty(), server.group("billing").empty())

    on(backend, test)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_wait_that_is_cancelled_ends(backend: str) -> None:
    async def test() -> None:
        async with AsyncCoordinator() as server:
            with anyio.move_on_after(0.05) as scope:
                await server.group("nobody").stable(members=1, timeout=300)
            assert scope.cancelled_caught

            async def waiting() -> int:
                # The cancellation came first, but the task that it ends may not have had its turn.
                await trio.testing.wait_all_tasks_blocked()
                return server.kit.conditions.waiting

            # The coordinator's thread has no such wait either, or it could not stop before its timeout.
            assert await anyio.to_thread.run_sync(server.wait, waiting) == 0

    on(backend, test)


async def consuming(server: AsyncCoordinator) -> None:
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=server.bootstrap,
        group_id="billing",
        client_id="real",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    try:
        async with polling(consumer) as polled:
            await server.group("billing").stable(owners={"real": {"orders": range(2)}})
            server.produce("orders", "a", "b", "c", key="k")
            assert [record.value for record in await polled.wait_records(3)] == [b"a", b"b", b"c"]
            with pytest.raises(TimeoutError, match="3 records instead of 4"):
                await polled.wait_records(4, timeout=0.01)
            await polled.call(consumer.commit)
            assert sum(server.lag("billing").values()) == 0
            assert await polled.call(len, "abc") == 3
    finally:
        await consumer.stop()


def test_aiokafka_is_polled_in_its_own_loop() -> None:
    async def test() -> None:
        async with AsyncCoordinator(topics={"orders": 2}) as server:
            await consuming(server)

    asyncio.run(test())


def test_a_forgotten_wait_for_records_fails_the_block() -> None:
    class Silent:
        async def getmany(self, timeout_ms: int) -> dict[str, list[object]]:
            await asyncio.Event().wait()
            return {}

    async def test() -> None:
        async with polling(Silent()) as polled:
            polled.wait_records(1)

    with pytest.raises(ForgottenWaits, match=r"Never awaited: wait_records\(\.\.\.\) in test_event_loops\.py"):
        asyncio.run(test())


def test_confluents_consumer_is_polled_in_its_own_loop() -> None:
    async def test() -> None:
        async with AsyncCoordinator(topics={"orders": 2}) as server:
            config = {
                "bootstrap.servers": server.bootstrap,
                "group.id": "billing",
                "client.id": "real",
                "auto.offset.reset": "earliest",
            }
            async with AIOConsumer(config) as consumer:
                await consumer.subscribe(["orders"])
                async with polling(consumer) as polled:
                    await server.group("billing").stable(owners={"real": {"orders": [0, 1]}})
                    server.produce("orders", "a", "b", key="k")
                    assert [record.value() for record in await polled.wait_records(2)] == [b"a", b"b"]
            await server.group("billing").empty()

    asyncio.run(test())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_scenario_is_played_during_a_block(backend: str) -> None:
    async def test() -> None:
        async with AsyncCoordinator(topics={"orders": 1}, brokers=2) as server:
            puppet = server.puppet("billing", ["orders"])
            await server.group("billing").stable(members=1)
            before = server.coordinator_of("billing")
            with pytest.raises(ZeroDivisionError):
                async with server.playing(coordinator_moves_mid_commit, "billing"):
                    raise ZeroDivisionError
            async with server.playing(coordinator_moves_mid_commit, "billing"):
                puppet.commit({("orders", 0): 3})
            assert server.coordinator_of("billing") != before

    on(backend, test)


def test_a_coordinator_of_trio_says_so_on_another_loop() -> None:
    async def test() -> None:
        async with open_coordinator():
            pass

    with pytest.raises(RuntimeError, match="runs on trio: with another event loop, use AsyncCoordinator"):
        asyncio.run(test())


def test_a_blocking_wait_on_an_event_loop_is_one_sentence() -> None:
    async def test(server: CoordinatorServer) -> None:
        with pytest.raises(RuntimeError, match=r"^A wait would block the event loop .* use AsyncCoordinator"):
            server.group("billing").stable()

    with CoordinatorServer() as server:
        asyncio.run(test(server))


def test_a_consumer_of_the_wrong_kind_is_refused() -> None:
    class Async:
        async def getmany(self) -> None: ...

    class Blocking:
        def poll(self) -> None: ...

    with pytest.raises(TypeError, match=r"`async with polling\(consumer\)`"), polling(Async()):
        pass

    async def test() -> None:
        with pytest.raises(TypeError, match=r"`with polling\(consumer\)`"):
            async with polling(Blocking()):
                pass

    asyncio.run(test())
