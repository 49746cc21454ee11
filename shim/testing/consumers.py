"""`polling`: polls consumers while the test waits for their group.

A consumer takes part in rebalances only while it is polled, so a test that waits without polling waits for itself.
kafka-python and confluent-kafka are polled in threads, aiokafka and the asyncio client of confluent-kafka in tasks of
the event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Final, TypeAlias, TypeVar

from kafka_shim.testing import endings
from kafka_shim.testing.waits import Waits, awaited

T = TypeVar("T")
Raises: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]

POLL_SECONDS: Final = 0.05
PAUSE_SECONDS: Final = 0.003
"""confluent-kafka lets a call of another thread wait until no thread polls. It looks once per millisecond, so without a
pause between two polls a commit in the test's thread waits for ever.
"""
LONG_POLL_SECONDS: Final = 1.0
"""kafka-python 3.0 loses a join that ends between two polls: the next poll ignores the finished join and sends another
JoinGroup. (Even with Apache Kafka 4.2.2, a consumer that polls for a millisecond three times a second never gets an
assignment.) So its polls are long, and few joins end between two of them.
"""


class Polled:
    """Results of polling. `records` are those of the client library, `errors` the exceptions of polls.

    A consumer is not polled again after an exception, unless its client calls that retriable. Waits end with that
    exception, and so does the block; those that the test expects, `raises`, only end polling. `reports` are errors that
    a client of confluent-kafka reports and goes on after, such as a topic that does not exist.
    """

    def __init__(self, raises: Raises = ()) -> None:
        self.records: list[Any] = []
        self.errors: list[BaseException] = []
        self.reports: list[str] = []
        self.raises = raises
        self._changed = threading.Condition()
        self._pollers: list[_Poller] = []

    def wait_records(self, count: int, timeout: float = 10.0) -> list[Any]:
        """Wait until `count` records were polled. Raises TimeoutError."""
        with endings.watching(self._wake), self._changed:
            enough = self._changed.wait_for(
                lambda: len(self.records) >= count or _unexpected(self.errors, self.raises) or endings.first(), timeout
            )
            if len(self.records) < count and (error := _unexpected(self.errors, self.raises) or endings.first()):
                raise error
            if not enough:
                raise TimeoutError(_too_few(self.records, count, timeout))
            return list(self.records)

    def wait_error(self, timeout: float = 10.0) -> BaseException:
        """Wait until an error of the types `raises` has ended the polling of a consumer; return it.

        Raises TimeoutError, and an error of another type.
        """
        _check_expected(self.raises)
        with self._changed:
            self._changed.wait_for(lambda: bool(self.errors), timeout)
            return _expected(self.errors, self.raises, timeout)

    def call(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Run a function in the thread that polls, between two polls, and return its result.

            polled.call(consumer.commit, asynchronous=False)

        A method of a consumer runs in the thread of that consumer, another function in that of the first one. A poll of
        kafka-python takes up to a second, and the call waits for its end. Raises RuntimeError if polling has ended.
        """
        consumer = getattr(function, "__self__", None)
        poller = next((each for each in self._pollers if each.consumer is consumer), self._pollers[0])
        return poller.call(partial(function, *arguments, **options))

    def add(self, consumer: Any) -> None:
        """Poll this consumer in a thread of its own."""
        self._pollers.append(_Poller(self, consumer))

    def stop(self) -> None:
        """Stop polling, and return when every thread has ended."""
        for poller in self._pollers:
            poller.stopped.set()
        for poller in self._pollers:
            poller.thread.join()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def received(self, records: list[Any]) -> None:
        """Keep these records, and wake the waits for them."""
        with self._changed:
            self.records += records
            self._changed.notify_all()

    def failed(self, error: Exception) -> None:
        """Keep the error that ended the polling of a consumer, and end the waits with it if it is not expected."""
        with self._changed:
            self.errors.append(error)
            self._changed.notify_all()
        if not isinstance(error, self.raises):
            endings.report(self, error)


class _Poller:
    """A thread that polls a consumer, and runs calls between polls."""

    def __init__(self, polled: Polled, consumer: Any) -> None:
        self.consumer = consumer
        self.stopped = threading.Event()
        self._polled = polled
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._pause = PAUSE_SECONDS if _is_confluent(consumer) else 0.0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def call(self, function: Callable[[], T]) -> T:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        if threading.current_thread() is self.thread:
            return function()
        self._calls.put(run)
        while not future.done() and self.thread.is_alive():
            wait([future], POLL_SECONDS)
        if not future.done():
            ended = next(iter(self._polled.errors), None)
            raise RuntimeError("The call cannot run between polls: the consumer is polled no longer.") from ended
        return future.result()

    def _run(self) -> None:
        while not self.stopped.is_set():
            try:
                records = _poll_once(self.consumer, self._polled)
            except Exception as error:
                if _is_retriable(error):
                    self.stopped.wait(POLL_SECONDS)
                    continue
                self._polled.failed(error)
                return
            if records:
                self._polled.received(records)
            self._run_calls()

    def _run_calls(self) -> None:
        pause = self._pause
        with suppress(Empty):
            while True:
                self._calls.get(timeout=pause)() if pause else self._calls.get_nowait()()


class AsyncPolled:
    """Results of polling consumers of an event loop; see `Polled`."""

    def __init__(self, raises: Raises = ()) -> None:
        self.records: list[Any] = []
        self.errors: list[BaseException] = []
        self.reports: list[str] = []
        self.waits = Waits()
        self.raises = raises
        self._changed = asyncio.Condition()

    @awaited
    async def wait_records(self, count: int, timeout: float = 10.0) -> list[Any]:
        """Wait until `count` records were polled. Raises TimeoutError."""
        loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

        def wake() -> None:
            loop.call_soon_threadsafe(lambda: tasks.add(loop.create_task(self._wake())))

        try:
            with endings.watching(wake):
                async with asyncio.timeout(timeout), self._changed:
                    await self._changed.wait_for(
                        lambda: (
                            len(self.records) >= count or bool(_unexpected(self.errors, self.raises) or endings.first())
                        )
                    )
        except TimeoutError:
            raise TimeoutError(_too_few(self.records, count, timeout)) from None
        if len(self.records) < count and (error := _unexpected(self.errors, self.raises) or endings.first()):
            raise error
        return list(self.records)

    @awaited
    async def wait_error(self, timeout: float = 10.0) -> BaseException:
        """See `Polled.wait_error`."""
        _check_expected(self.raises)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(lambda: bool(self.errors))
        return _expected(self.errors, self.raises, timeout)

    @awaited
    async def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Run a function on the event loop and return its result, awaited if it must be.

        It is as good as `await consumer.commit()`, so that a test reads the same for each client.
        """
        result = function(*arguments, **options)
        return await result if isawaitable(result) else result

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def poll(self, consumer: Any) -> None:
        """Poll until cancelled."""
        while True:
            try:
                polled = await _poll_once_async(consumer, self)
            except Exception as error:
                if _is_retriable(error):
                    await asyncio.sleep(POLL_SECONDS)
                    continue
                async with self._changed:
                    self.errors.append(error)
                    self._changed.notify_all()
                if not isinstance(error, self.raises):
                    endings.report(self, error)
                return
            if polled:
                async with self._changed:
                    self.records += polled
                    self._changed.notify_all()


class polling:
    """Poll each of these consumers until the end of the block.

        with polling(first, second) as polled:
            server.group("billing").stable(members=2)

    Consumers of an event loop, those of aiokafka and of confluent-kafka's `aio`, are polled by `async with`, whose end
    raises ForgottenWaits for a wait that was never awaited. If a poll raises, the waits and the block raise that error,
    unless it is one of the types `raises`.
    """

    def __init__(self, *consumers: Any, raises: Raises = ()) -> None:
        if not consumers or not all(
            callable(getattr(each, "poll", getattr(each, "getmany", None))) for each in consumers
        ):
            raise TypeError(
                "polling() takes consumers of kafka-python, confluent-kafka or aiokafka, not"
                f" {', '.join(map(repr, consumers)) or 'nothing'}."
            )
        self._consumers = consumers
        self._raises = raises
        self._tasks: list[asyncio.Task[None]] = []
        self._polled: Polled | AsyncPolled | None = None

    def __enter__(self) -> Polled:
        if any(map(_is_async, self._consumers)):
            raise TypeError("An asyncio consumer needs `async with polling(consumer)`, not `with`.")
        polled = self._polled = Polled(self._raises)
        for consumer in self._consumers:
            polled.add(consumer)
        return polled

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(self._polled, Polled):
            self._polled.stop()
        self._explain(failure)

    async def __aenter__(self) -> AsyncPolled:
        if not all(map(_is_async, self._consumers)):
            raise TypeError("Consumers that block are polled in threads: `with polling(consumer)`.")
        polled = self._polled = AsyncPolled(self._raises)
        self._tasks = [asyncio.create_task(polled.poll(consumer)) for consumer in self._consumers]
        return polled

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._explain(failure)
        if failure is None and isinstance(self._polled, AsyncPolled):
            self._polled.waits.check()

    def _explain(self, failure: BaseException | None) -> None:
        polled = self._polled
        if polled is None:
            return
        endings.forget(polled)
        error = _unexpected(polled.errors, self._raises)
        if failure is None and error is not None:
            error.add_note("This error ended the polling of a consumer; polling(..., raises=...) expects it.")
            raise error
        for each in polled.errors:
            if failure is not None and failure is not each:
                failure.add_note(f"Polling a consumer had ended with {type(each).__name__}: {each}")
        for report in polled.reports:
            if failure is not None:
                failure.add_note(f"A consumer reported: {report}")


def _unexpected(errors: list[BaseException], raises: Raises) -> BaseException | None:
    return next((each for each in errors if not isinstance(each, raises)), None)


def _check_expected(raises: Raises) -> None:
    if not raises:
        raise RuntimeError("wait_error() waits for an error that is expected: write polling(..., raises=KafkaError).")


def _expected(errors: list[BaseException], raises: Raises, timeout: float) -> BaseException:
    if error := _unexpected(errors, raises):
        raise error
    if not errors:
        raise TimeoutError(f"No poll has raised an error after {timeout:g} s.")
    return errors[0]


def _is_async(consumer: Any) -> bool:
    return hasattr(consumer, "getmany") or iscoroutinefunction(getattr(consumer, "poll", None))


def _is_retriable(error: Exception) -> bool:
    """Return True for an error after which a client can be polled again, such as a connection that was refused."""
    return getattr(error, "retriable", False) is True


def _is_confluent(consumer: Any) -> bool:
    return hasattr(consumer, "incremental_assign") or _is_share(consumer)


def _is_share(consumer: Any) -> bool:
    return hasattr(consumer, "acknowledge_offset")


def _poll_once(consumer: Any, polled: Polled) -> list[Any]:
    if _is_share(consumer):
        return [record for message in consumer.poll(POLL_SECONDS) for record in _records_in(message, polled)]
    if _is_confluent(consumer):
        return _records_in(consumer.poll(POLL_SECONDS), polled)
    batches = consumer.poll(timeout_ms=int(LONG_POLL_SECONDS * 1000))
    return [record for records in batches.values() for record in records]


async def _poll_once_async(consumer: Any, polled: AsyncPolled) -> list[Any]:
    if hasattr(consumer, "getmany"):
        batches = await consumer.getmany(timeout_ms=int(LONG_POLL_SECONDS * 1000))
        return [record for records in batches.values() for record in records]
    return _records_in(await consumer.poll(POLL_SECONDS), polled)


def _records_in(message: Any, polled: Polled | AsyncPolled) -> list[Any]:
    """Return the record in a message of confluent-kafka.

    Raises KafkaException for an error that ends the consumer, or an error of the coordinator that the test expects.
    """
    error = None if message is None else message.error()
    if error is None:
        return [] if message is None else [message]
    from confluent_kafka import KafkaException

    # librdkafka's own errors are negative, such as a connection that was refused: it goes on by itself.
    is_expected = error.code() > 0 and issubclass(KafkaException, polled.raises)
    if error.fatal() or error.name() == "_FATAL" or is_expected:
        raise KafkaException(error)
    if error.name() != "_PARTITION_EOF" and error.str() not in polled.reports:
        polled.reports.append(error.str())
    return []


def _too_few(records: list[Any], count: int, timeout: float) -> str:
    return f"{len(records)} records instead of {count} after {timeout:g} s."
