"""Waits that end with the application under test, waits for conditions of the test's own, and waits for no commit."""

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import trio
from kafka import KafkaConsumer

from kafka_shim.testing import (
    ApplicationEnded,
    AsyncCoordinator,
    CoordinatorServer,
    NotReached,
    open_coordinator,
    polling,
    watching,
)
from tests.waiting import PATIENCE_S


@pytest.fixture
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 2}) as server:
        yield server


def fail() -> None:
    raise LookupError("no database")


def wait_in_vain(server: CoordinatorServer) -> None:
    server.group("billing").stable(members=1, timeout=PATIENCE_S)


def test_a_wait_raises_the_error_of_a_thread_that_the_block_starts(server: CoordinatorServer) -> None:
    with (
        pytest.raises(LookupError, match="no database") as caught,
        watching(threading.Thread(target=fail, name="app")),
    ):
        wait_in_vain(server)
    assert caught.value.__notes__ == ["This error ended the thread 'app', while the test waited."]


def test_the_end_of_the_block_raises_the_error_of_a_thread(server: CoordinatorServer) -> None:
    def fail_after_join() -> None:
        server.puppet("billing", ["orders"])
        fail()

    thread = threading.Thread(target=fail_after_join)
    with pytest.raises(LookupError), watching(thread):
        thread.join()


def test_a_wait_fails_for_a_thread_that_has_ended(server: CoordinatorServer) -> None:
    thread = threading.Thread(target=int, name="app")
    thread.start()
    with pytest.raises(ApplicationEnded, match="The thread 'app' has ended while the test waited"), watching(thread):
        wait_in_vain(server)


def test_what_is_reached_counts_though_the_thread_has_ended(server: CoordinatorServer) -> None:
    thread = threading.Thread(target=server.puppet, args=("billing", ["orders"]))
    with watching(thread):
        thread.join()
        server.group("billing").stable(members=1)


def test_an_error_of_another_thread_is_left_to_its_hook(
    server: CoordinatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", errors.append)
    hook, stop = threading.excepthook, threading.Event()
    with watching(threading.Thread(target=stop.wait)):
        other = threading.Thread(target=fail)
        other.start()
        other.join()
        stop.set()
    assert [type(each.exc_value) for each in errors] == [LookupError]
    assert threading.excepthook == hook


def test_a_wait_raises_the_error_of_a_future(server: CoordinatorServer) -> None:
    with ThreadPoolExecutor() as pool, pytest.raises(LookupError), watching(pool.submit(fail)):
        wait_in_vain(server)


def test_a_wait_tells_the_last_words_of_a_process(server: CoordinatorServer) -> None:
    code = "import sys; sys.exit('no broker here')"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as process:
        ended = r"The process \d+ has ended with exit code 1 while the test waited. Its last words:\nno broker here"
        with pytest.raises(ApplicationEnded, match=ended), watching(process):
            wait_in_vain(server)


def test_a_wait_fails_for_a_process_of_multiprocessing(server: CoordinatorServer) -> None:
    process = multiprocessing.get_context("spawn").Process(target=os._exit, args=(3,))
    process.start()
    with pytest.raises(ApplicationEnded, match="exit code 3"), watching(process):
        wait_in_vain(server)


def test_a_wait_on_an_event_loop_raises_the_error_of_a_task() -> None:
    async def fail_as_a_task() -> None:
        fail()

    async def main() -> None:
        async with AsyncCoordinator(topics={"orders": 2}) as server:
            task = asyncio.create_task(fail_as_a_task(), name="app")
            with pytest.raises(LookupError) as caught, watching(task):
                await server.group("billing").stable(members=1, timeout=PATIENCE_S)
            assert "the task 'app'" in caught.value.__notes__[0]
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", "raise SystemExit(4)")
            with pytest.raises(ApplicationEnded, match="exit code 4"), watching(process):
                await server.group("billing").stable(members=1, timeout=PATIENCE_S)

    asyncio.run(main())


def test_a_wait_for_records_ends_with_the_application(server: CoordinatorServer) -> None:
    consumer = KafkaConsumer("orders", bootstrap_servers=server.bootstrap)
    with polling(consumer) as polled, pytest.raises(LookupError), watching(threading.Thread(target=fail)):
        polled.wait_records(1, timeout=PATIENCE_S)
    consumer.close()


@pytest.mark.parametrize("wrong", [(), (42,), (fail,)])
def test_what_cannot_be_watched_is_refused(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"watching\(\) takes threads, futures, tasks and processes, not "):
        watching(*wrong)


def test_a_condition_of_the_test_is_waited_for(server: CoordinatorServer) -> None:
    done: list[int] = []
    server.puppet("billing", ["orders"])
    timer = threading.Timer(0.05, done.append, [1])
    timer.start()
    now = server.group("billing").wait_for(lambda now: now.is_stable and done)
    assert (done, len(now.members)) == ([1], 1)
    with pytest.raises(NotReached, match=r"in vain for two records\.\nNow billing is Stable[^$]*The story so far:\n  "):
        server.group("billing").wait_for(lambda now: len(done) == 2, "two records", timeout=0.01)


def test_an_error_of_a_condition_is_the_error_of_the_test(server: CoordinatorServer) -> None:
    with pytest.raises(LookupError):
        server.group("billing").wait_for(lambda now: fail() or True)
    future: Future[bool] = Future()
    with pytest.raises(TypeError, match="needs AsyncCoordinator"):
        server.group("billing").wait_for(lambda now: asyncio.wrap_future(future, loop=asyncio.new_event_loop()))


def test_a_condition_may_be_awaited_on_an_event_loop() -> None:
    async def has_one(now: Any) -> bool:
        return len(now.members) == 1

    async def main() -> None:
        async with AsyncCoordinator(topics={"orders": 2}) as server:
            server.puppet("billing", ["orders"])
            await server.group("billing").wait_for(has_one)
            with pytest.raises(NotReached, match="in vain for the condition of the test"):
                await server.group("billing").wait_for(lambda now: len(now.members) == 2, timeout=0.01)

    asyncio.run(main())


def test_a_condition_is_waited_for_on_trio() -> None:
    async def main() -> None:
        async with open_coordinator(topics={"orders": 2}) as kit:
            kit.puppet("billing", ["orders"])
            assert (await kit.group("billing").wait_for(lambda now: now.members)).members
            with pytest.raises(NotReached):
                await kit.group("billing").wait_for(lambda now: False, timeout=0.01)

    trio.run(main)


def test_no_commit_is_waited_for(server: CoordinatorServer) -> None:
    puppet = server.puppet("billing", ["orders"], heartbeat_interval=0.01)
    group, stop = server.group("billing"), threading.Event()
    group.stable(members=1)
    group.no_commit_for(heartbeats=2)

    def commit() -> None:
        while not stop.wait(0.01):
            puppet.commit({("orders", 0): 1})

    refused = server.fault("error", "OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", times=None)
    thread = threading.Thread(target=commit)
    with watching(thread):
        refused.wait_fired()
        group.no_commit_for(heartbeats=2)
        refused.clear()
        refusal = r"No commit of orders was expected, but puppet committed offset 1 of orders-0\.\n"
        with pytest.raises(NotReached, match=refusal):
            group.no_commit_for(PATIENCE_S, topic="orders")
        group.no_commit_for(heartbeats=2, topic="others")
        stop.set()
        thread.join()
    server.clock.freeze()
    group.no_commit_for(20)
    with pytest.raises(ValueError, match="no_commit_for needs seconds or heartbeats"):
        group.no_commit_for()


def test_no_commit_is_waited_for_on_an_event_loop() -> None:
    async def main() -> None:
        async with AsyncCoordinator(topics={"orders": 2}) as server:
            server.clock.freeze()
            server.puppet("billing", ["orders"])
            await server.group("billing").no_commit_for(3)

    asyncio.run(main())
