"""Which batch of records is durable, and which answers wait for it.

Decides when what the rules wrote goes to the store, when an answer may leave, and what happens when the store fails. A
batch is all that was written since the last one: the next accumulates while one is under way, in a worker thread unless
the store is `durable_at_once`. It does not know what is in a record.

When a batch fails, what the rules did since is not what the store has. So everything that waits is answered with the
store's error, what was written but not stored yet is dropped, and the partitions concerned are loaded anew
(semantics 2.10).

Partitions that go to another node take with them what was written to them and is not stored yet, and its
exchanges get an error (`abandon`); everybody else's part of the batch is stored as if nothing had happened.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Any, Final, Protocol

import trio

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.outbox import Outbox, WhenDurable
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.store import Entry, FencedError, Store, StoreError
from kafka_shim.server.table import Endpoint

log: Final = logging.getLogger("kafka_shim.server")


class HeldExchange(Protocol):
    """An exchange whose answer waits for a batch, `since` monotonic seconds; `exchange.py` has it."""

    since: float

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def request(self) -> Any: ...

    def run(self, now: float) -> None:
        """Ask the rule again."""

    def send(self, now: float) -> None:
        """The batch is durable."""

    def fail(self, code: int, now: float) -> None:
        """The batch has failed, or is not waited for any longer: the client gets `code`."""


class Durability:
    """The batches of a process. `reload(partitions)` is called for partitions that must be loaded anew,
    `fenced(partitions)` for those that another process has taken over. There are `partitions` of them.

    `commit_timeout` is offsets.commit.timeout.ms in seconds: an answer waits no longer, and is
    COORDINATOR_NOT_AVAILABLE (15) then, whatever becomes of the batch. `check(now)` is called before answers leave that
    have waited: the process may have slept since the batch was stored. `dispatch(effect, now)` gets what
    follows once a batch is durable.
    """

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        commit_timeout: float,
        clock: Callable[[], float],
        reload: Callable[[set[int]], None],
        fenced: Callable[[set[int]], None],
        check: Callable[[float], None],
        dispatch: Callable[[object, float], None],
        partitions: int,
    ) -> None:
        self.store = store
        self.durable = 0
        """Every batch up to this number is durable, or has failed and shows nowhere any more."""
        self.batches = 0
        self.failures = 0
        self.on_durable: Callable[[Sequence[Entry]], None] | None = None
        """Gets the records of each batch that the store has taken, before answers show them."""
        self._outbox = outbox
        self._commit_timeout = commit_timeout
        self._clock = clock
        self._reload = reload
        self._fenced = fenced
        self._check = check
        self._dispatch = dispatch
        self._partitions = partitions
        self._held: dict[int, list[HeldExchange]] = {}
        self._effects: dict[int, list[WhenDurable]] = {}
        """By batch, what follows when it is durable."""
        self._written = trio.Event()
        self._idle = trio.Event()
        self._idle.set()
        # One access at a time, whether it writes or loads.
        self._access = trio.Lock()

    def hold(self, required_batch: int, held: HeldExchange) -> None:
        """Send this answer when the batch is durable."""
        waiting = self._held.get(required_batch)
        if waiting is None:
            waiting = self._held[required_batch] = []
        waiting.append(held)

    def settle(self, now: float) -> None:
        """Hand on what the rules have left in the outbox. Call it after requests and timers."""
        outbox = self._outbox
        while outbox.replies or outbox.records or outbox.effects:
            if outbox.effects:
                self._take_effects(now)
            if outbox.records:
                if self.store.durable_at_once:
                    self._write_at_once(now)
                else:
                    self._idle = trio.Event() if self._idle.is_set() else self._idle
                    self._written.set()
                    if not (outbox.replies or outbox.effects):
                        return
            replies, outbox.replies = outbox.replies, []
            for exchange, response, required_batch in replies:
                exchange.answer(response, required_batch, now)

    def _take_effects(self, now: float) -> None:
        effects, self._outbox.effects = self._outbox.effects, []
        for each in effects:
            if each.batch <= self.durable:
                self._dispatch(each.effect, now)
            else:
                self._effects.setdefault(each.batch, []).append(each)

    def _write_at_once(self, now: float) -> None:
        number, records = self.next_batch()
        try:
            self.store.write(records)
        except StoreError as error:
            self.failed(number, records, error, now)
        else:
            if self.on_durable is not None:
                self.on_durable(records)
            self.succeeded(number, now)

    def next_batch(self) -> tuple[int, list[tuple[int, Any, Any]]]:
        """The number and the records of the batch that goes to the store now."""
        outbox = self._outbox
        number, records = outbox.batch, outbox.records
        outbox.batch += 1
        outbox.records = []
        return number, records

    def succeeded(self, number: int, now: float) -> None:
        """The store has this batch: let the answers leave that waited for it."""
        self.batches += 1
        self.durable = number
        self._check(now)
        for each in self._effects.pop(number, ()):
            self._dispatch(each.effect, now)
        for held in self._held.pop(number, ()):
            held.send(now)

    def failed(self, number: int, records: list[tuple[int, Any, Any]], error: StoreError, now: float) -> None:
        """The store has not taken this batch."""
        log.error("batch %d of %d records was not written: %s", number, len(records), error)
        self.failures += 1
        _, dropped = self.next_batch()
        self.durable = self._outbox.batch - 1
        waiting = [held for gate in sorted(self._held) for held in self._held[gate]]
        self._held.clear()
        self._effects.clear()
        self._outbox.effects = []
        # Before anybody is answered: an answer lets the next request of a connection run.
        self._reload({partition for partition, _, _ in (*records, *dropped)})
        for held in waiting:
            held.fail(error.error, now)

    def abandon(self, partitions: Collection[int], now: float) -> None:
        """These partitions are another node's: drop what is not on its way to the store yet, and answer who waits for
        anything of theirs NOT_COORDINATOR (16). ListGroups, which names no group, is asked again instead: it shows the
        groups that are still here, as Kafka's does (`GroupCoordinatorService.listGroups`). Who waits for topics or
        settings waits on.

        They are to be unloaded already: an answer lets the next request of a connection run.
        """
        outbox = self._outbox
        outbox.records = [record for record in outbox.records if record[0] not in partitions]
        outbox.effects = [each for each in outbox.effects if each.partition not in partitions]
        for number, effects in self._effects.items():
            self._effects[number] = [each for each in effects if each.partition not in partitions]
        failed: list[HeldExchange] = []
        again: list[HeldExchange] = []
        for gate, waiting in list(self._held.items()):
            kept = []
            for held in waiting:
                names = _names(held)
                if not names and _lists_groups(held):
                    again.append(held)
                elif any(partition_for(name, self._partitions) in partitions for name in names):
                    failed.append(held)
                else:
                    kept.append(held)
            self._held[gate] = kept
        for held in failed:
            held.fail(ErrorCode.NOT_COORDINATOR, now)
        for held in again:
            held.run(now)
        self._written.set()

    def next_deadline(self) -> float:
        """When `expire` is due, monotonic seconds; infinity if no answer waits."""
        if not self._held:
            return inf
        return min((held[0].since for held in self._held.values() if held), default=inf) + self._commit_timeout

    def expire(self, now: float) -> None:
        """Answer what has waited too long for the store."""
        for gate, waiting in list(self._held.items()):
            late = [held for held in waiting if held.since + self._commit_timeout <= now]
            if late:
                self._held[gate] = [held for held in waiting if held.since + self._commit_timeout > now]
                log.error("the store has not answered for %.1f s: %d requests fail", self._commit_timeout, len(late))
                for held in late:
                    held.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE, now)

    # With a store that takes its time

    async def run(self) -> None:
        """Write batch after batch, until cancelled."""
        while True:
            await self._written.wait()
            self._written = trio.Event()
            while self._outbox.records or self._held.get(self._outbox.batch):
                async with self._access:
                    await self._write()
                self.settle(self._clock())
            self._idle.set()

    async def _write(self) -> None:
        number, records = self.next_batch()
        while records:
            try:
                await trio.to_thread.run_sync(self.store.write, records)
            except FencedError as error:
                log.error("%s", error)
                records = [record for record in records if record[0] not in error.partitions]
                self._fenced(set(error.partitions))
            except StoreError as error:
                self.failed(number, records, error, self._clock())
                return
            else:
                break
        if self.on_durable is not None:
            self.on_durable(records)
        self.succeeded(number, self._clock())

    @asynccontextmanager
    async def nothing_under_way(self) -> AsyncIterator[None]:
        """While this is entered no batch is made or written, and nothing is loaded."""
        async with self._access:
            yield

    async def load(self, partition: int) -> list[tuple[Any, Any]]:
        """The records of a partition, read in a worker thread. Raises StoreError."""
        if self.store.durable_at_once:
            return list(self.store.load(partition))
        async with self._access:
            return await trio.to_thread.run_sync(lambda: list(self.store.load(partition)))

    async def flushed(self) -> None:
        """All that was written so far is durable, or has failed."""
        await self._idle.wait()


def _lists_groups(held: HeldExchange) -> bool:
    return held.endpoint.key in (ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS)


def _names(held: HeldExchange) -> list[str]:
    """The groups that a request is about; a transactional id lives where a group of its name does."""
    row = held.endpoint.row
    return row.groups_of(held.request) + row.transactional_ids_of(held.request)
