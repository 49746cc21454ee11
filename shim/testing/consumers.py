"""Consumers kept polling in threads of their own while the test waits for what becomes of their group.

Decides how a consumer is polled: kafka-python and confluent-kafka say their timeouts differently. A consumer takes part
in rebalances only while it is polled, so a test that waits in the same thread would wait for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

POLL_SECONDS: Final = 0.05
LONG_POLL_SECONDS: Final = 1.0
"""kafka-python 3.0 loses a join that ends while nobody polls: its next poll takes the finished join for none at all,
and sends another JoinGroup. (Against Apache Kafka 4.2.2 one that polls for a millisecond three times a second is never
assigned anything.) So its polls are long, and few joins end between two of them."""


class Polled:
    """What was polled so far. `records` are those of the client library; `errors` what polling has raised.

    A consumer whose poll raises is polled no more. A test that fails then is told so.
    """

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.errors: list[BaseException] = []
        self._stop = threading.Event()
        self._changed = threading.Condition()

    def wait_records(self, count: int, timeout: float = 10.0) -> list[Any]:
        """Wait until so many records were polled. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.records) >= count, timeout):
                raise TimeoutError(f"{len(self.records)} records instead of {count} after {timeout:g} s.")
            return list(self.records)

    def _poll(self, consumer: Any) -> None:
        while not self._stop.is_set():
            try:
                polled = _poll_once(consumer)
            except Exception as error:
                self.errors.append(error)
                return
            if polled:
                with self._changed:
                    self.records += polled
                    self._changed.notify_all()


@contextmanager
def polling(*consumers: Any) -> Iterator[Polled]:
    """Poll each of these consumers in a thread of its own until the end of the block.

    with polling(first, second) as polled:
        server.group("billing").stable(members=2)
    """
    polled = Polled()
    threads = [threading.Thread(target=polled._poll, args=(consumer,), daemon=True) for consumer in consumers]
    for thread in threads:
        thread.start()
    try:
        yield polled
    except BaseException as failure:
        for error in polled.errors:
            failure.add_note(f"Polling a consumer had ended with {type(error).__name__}: {error}")
        raise
    finally:
        polled._stop.set()
        for thread in threads:
            thread.join()


def _poll_once(consumer: Any) -> list[Any]:
    if hasattr(consumer, "incremental_assign"):
        message = consumer.poll(POLL_SECONDS)
        return [] if message is None or message.error() else [message]
    polled = consumer.poll(timeout_ms=int(LONG_POLL_SECONDS * 1000))
    return [record for records in polled.values() for record in records]
