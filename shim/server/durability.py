"""Which batch of records is durable, and which answers wait for it.

Decides when what the rules wrote goes to the store, when an answer may leave, and what happens when the store fails. A
batch is all that was written since the last one: the next accumulates while one is under way, in a worker thread unless
the store is `durable_at_once`. It does not know what is in a record.

When a batch fails, what the rules did since is not what the store has. So everything that waits is answered with the
store's error, what was written but not stored yet is dropped, and the partitions concerned are loaded anew
(semantics 2.10).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from apis.wire import Message
from apis.wire.errors import ErrorCode
from persistence.store import Store, StoreError
from shim.groups.outbox import Outbox

if TYPE_CHECKING:
    from shim.server.session import Session

log: Final = logging.getLogger("shim.server")


class Held:
    """An answer that waits for a batch. `since` is monotonic seconds."""

    __slots__ = ("data", "response", "session", "since")

    def __init__(self, session: Session, response: Message, data: bytes, since: float) -> None:
        self.session = session
        self.response = response
        self.data = data
        self.since = since


class Durability:
    """The batches of a process. `reload(partitions)` is told which partitions must be loaded anew.

    `commit_timeout` is offsets.commit.timeout.ms in seconds: an answer waits no longer, and is
    COORDINATOR_NOT_AVAILABLE (15) then, whatever becomes of the batch.
    """

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        commit_timeout: float,
        clock: Callable[[], float],
        reload: Callable[[set[int]], None],
    ) -> None:
        self.store = store
        self.durable = 0
        """Every batch up to this number is durable, or has failed and shows nowhere any more."""
        self.batches = 0
        self.failures = 0
        self._outbox = outbox
        self._commit_timeout = commit_timeout
        self._clock = clock
        self._reload = reload
        self._held: dict[int, list[Held]] = {}
        self._written = trio.Event()
        self._idle = trio.Event()
        self._idle.set()
        self._writing: list[tuple[int, Any, Any]] = []
        self._closing = False
        # One access at a time, whether it writes or loads.
        self._access = trio.Lock()

    def hold(self, gate: int, session: Session, response: Message, data: bytes, now: float) -> None:
        """Send this answer when batch `gate` is durable."""
        self._held.setdefault(gate, []).append(Held(session, response, data, now))

    def settle(self, now: float) -> None:
        """Hand on what the rules have left in the outbox. Call it after requests and timers."""
        outbox = self._outbox
        while outbox.replies or outbox.records:
            if outbox.records:
                if self.store.durable_at_once:
                    self._write_at_once(now)
                else:
                    self._idle = trio.Event() if self._idle.is_set() else self._idle
                    self._written.set()
                    if not outbox.replies:
                        return
            replies, outbox.replies = outbox.replies, []
            for session, response, gate in replies:
                session.reply(response, gate, now)  # type: ignore[attr-defined]

    def _write_at_once(self, now: float) -> None:
        number, records = self._next_batch()
        try:
            self.store.write(records)
        except StoreError as error:
            self._failed(number, records, error, now)
        else:
            self._succeeded(number, now)

    def _next_batch(self) -> tuple[int, list[tuple[int, Any, Any]]]:
        outbox = self._outbox
        number, records = outbox.batch, outbox.records
        outbox.batch += 1
        outbox.records = []
        return number, records

    def _succeeded(self, number: int, now: float) -> None:
        self.batches += 1
        self.durable = number
        for held in self._held.pop(number, ()):
            held.session.release(held.response, held.data, now)

    def _failed(self, number: int, records: list[tuple[int, Any, Any]], error: StoreError, now: float) -> None:
        log.error("batch %d of %d records was not written: %s", number, len(records), error)
        self.failures += 1
        _, dropped = self._next_batch()
        self.durable = self._outbox.batch - 1
        waiting = [held for gate in sorted(self._held) for held in self._held[gate]]
        self._held.clear()
        # Before anybody is answered: an answer lets the next request of a connection run.
        self._reload({partition for partition, _, _ in (*records, *dropped)})
        for held in waiting:
            held.session.fail(error.error, now)

    def next_deadline(self) -> float:
        """When `expire` is due, monotonic seconds."""
        return min((held[0].since for held in self._held.values() if held), default=float("inf")) + self._commit_timeout

    def expire(self, now: float) -> None:
        """Answer what has waited too long for the store."""
        for gate, waiting in list(self._held.items()):
            late = [held for held in waiting if held.since + self._commit_timeout <= now]
            if late:
                self._held[gate] = [held for held in waiting if held.since + self._commit_timeout > now]
                log.error("the store has not answered for %.1f s: %d requests fail", self._commit_timeout, len(late))
                for held in late:
                    held.session.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE, now)

    # With a store that takes its time

    async def run(self) -> None:
        """Write batch after batch; ends when `close` was called and all is written."""
        while True:
            await self._written.wait()
            self._written = trio.Event()
            while self._outbox.records:
                async with self._access:
                    number, records = self._next_batch()
                    try:
                        await trio.to_thread.run_sync(self.store.write, records)
                    except StoreError as error:
                        self._failed(number, records, error, self._clock())
                    else:
                        self._succeeded(number, self._clock())
                self.settle(self._clock())
            self._idle.set()
            if self._closing:
                return

    async def load(self, partition: int) -> list[tuple[Any, Any]]:
        """The records of a partition, read in a worker thread. Raises StoreError."""
        async with self._access:
            return await trio.to_thread.run_sync(lambda: list(self.store.load(partition)))

    async def flushed(self) -> None:
        """All that was written so far is durable, or has failed."""
        await self._idle.wait()

    def close(self) -> None:
        """Let `run` end after what is written by now."""
        self._closing = True
        self._written.set()
