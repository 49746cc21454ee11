"""Consumers kept polling while the test waits for what becomes of their group.

Decides how a consumer is polled: kafka-python and confluent-kafka in threads of their own, aiokafka and the asyncio
client of confluent-kafka in tasks of the event loop. A consumer takes part in rebalances only while it is polled, so a
test that waits without polling would wait for itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Final

POLL_SECONDS: Final = 0.05
LONG_POLL_SECONDS: Final = 1.0
"""kafka-python 3.0 loses a join that ends while nobody polls: its next poll takes the finished join for none at all,
and sends another JoinGroup. (Against Apache Kafka 4.2.2 one that polls for a millisecond three times a second is never
assigned anything.) So its polls are long, and few joins end between two of them."""


class Polled:
    """What was polled so far. `records` are those of the client library; `errors` what polling has raised.

    A consumer whose poll raises is polled no more. A test that fails then shows that error.
    """

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.errors: list[BaseException] = []
        self._changed = threading.Condition()

    def wait_records(self, count: int, timeout: float = 10.0) -> list[Any]:
        """Wait until so many records were polled. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.records) >= count, timeout):
                raise TimeoutError(_too_few(self.records, count, timeout))
            return list(self.records)

    def poll(self, consumer: Any, stopped: Callable[[], bool]) -> None:
        """Poll until stopped, in the caller's thread."""
        while not stopped():
            try:
                polled = _poll_once(consumer)
            except Exception as error:
                self.errors.append(error)
                return
            if polled:
                with self._changed:
                    self.records += polled
                    self._changed.notify_all()


class AsyncPolled:
    """The same for consumers of an event loop."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.errors: list[BaseException] = []
        self._changed = asyncio.Condition()

    async def wait_records(self, count: int, timeout: float = 10.0) -> list[Any]:
        """Wait until so many records were polled. Raises TimeoutError."""
        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(lambda: len(self.records) >= count)
        except TimeoutError:
            raise TimeoutError(_too_few(self.records, count, timeout)) from None
        return list(self.records)

    async def poll(self, consumer: Any) -> None:
        """Poll until cancelled."""
        while True:
            try:
                polled = await _poll_once_async(consumer)
            except Exception as error:
                self.errors.append(error)
                return
            if polled:
                async with self._changed:
                    self.records += polled
                    self._changed.notify_all()


class polling:
    """Poll each of these consumers until the end of the block.

        with polling(first, second) as polled:
            server.group("billing").stable(members=2)

    Consumers of an event loop, those of aiokafka and of confluent-kafka's `aio`, are polled by `async with`.
    """

    def __init__(self, *consumers: Any) -> None:
        self._consumers = consumers
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._polled: Polled | AsyncPolled | None = None

    def __enter__(self) -> Polled:
        if any(map(_is_async, self._consumers)):
            raise TypeError("Consumers of an event loop are polled there: `async with polling(consumer)`.")
        polled = self._polled = Polled()
        self._threads = [
            threading.Thread(target=polled.poll, args=(consumer, self._stop.is_set), daemon=True)
            for consumer in self._consumers
        ]
        for thread in self._threads:
            thread.start()
        return polled

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._explain(failure)

    async def __aenter__(self) -> AsyncPolled:
        if not all(map(_is_async, self._consumers)):
            raise TypeError("Consumers that block are polled in threads: `with polling(consumer)`.")
        polled = self._polled = AsyncPolled()
        self._tasks = [asyncio.create_task(polled.poll(consumer)) for consumer in self._consumers]
        return polled

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._explain(failure)

    def _explain(self, failure: BaseException | None) -> None:
        if failure is not None and self._polled is not None:
            for error in self._polled.errors:
                failure.add_note(f"Polling a consumer had ended with {type(error).__name__}: {error}")


def _is_async(consumer: Any) -> bool:
    return hasattr(consumer, "getmany") or iscoroutinefunction(getattr(consumer, "poll", None))


def _poll_once(consumer: Any) -> list[Any]:
    if hasattr(consumer, "incremental_assign"):
        message = consumer.poll(POLL_SECONDS)
        return [] if message is None or message.error() else [message]
    polled = consumer.poll(timeout_ms=int(LONG_POLL_SECONDS * 1000))
    return [record for records in polled.values() for record in records]


async def _poll_once_async(consumer: Any) -> list[Any]:
    if hasattr(consumer, "getmany"):
        polled = await consumer.getmany(timeout_ms=int(LONG_POLL_SECONDS * 1000))
        return [record for records in polled.values() for record in records]
    message = await consumer.poll(POLL_SECONDS)
    return [] if message is None or message.error() else [message]


def _too_few(records: list[Any], count: int, timeout: float) -> str:
    return f"{len(records)} records instead of {count} after {timeout:g} s."
