"""Batches of records to the store, and the answers that wait for them.

A batch holds all records since the last one. The next batch fills while the store takes one, in a worker thread unless
the store is `durable_at_once`. An answer leaves when its batch is durable.

When a batch fails, memory and store differ. So the answers that wait for it become the store's error, the partitions
concerned are loaded again, and their records that came since are dropped (semantics 2.10). A record that cannot be
encoded, a defect of a rule, does not fail the batch: only its partition leaves the batch and is loaded again
(`distrust`).

When a partition moves to another node, its unstored records are dropped and its waiting exchanges get an error
(`abandon`). The other partitions' part of the batch is stored as usual.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Any, Final

import trio

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.outbox import Failure, Outbox, WhenDurable
from kafka_shim.persistence.own_records import DOCUMENTS
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.store import Entry, FencedError, Store, StoreError, records_of, unwritable
from kafka_shim.server.connection import Call
from kafka_shim.server.failures import Border, Failures
from kafka_shim.server.journal import Inputs

log: Final = logging.getLogger("kafka_shim.server")

PROBE_SECONDS: Final = 1.0
"""Seconds between two probes of a store that has refused a batch."""
SETTLE_AGAIN: Final = 0.05
"""Seconds until a tick after a batch is tried again, once it has raised."""
LOOK_SECONDS: Final = 5.0
"""Seconds between two looks at a store that blocks."""


class Durability:
    """The batches of a process.

    `reload(partitions, after_failure)` is called for partitions to load again, because the store failed or because a
    rule raised; `fenced(partitions)` for partitions that another process has taken over. `partitions` is the total
    number of partitions. `failures` notes exceptions of stores, effects and answers, `inputs` what a store that blocks
    does.

    `commit_timeout` is offsets.commit.timeout.ms in seconds: an answer that waits longer becomes
    COORDINATOR_NOT_AVAILABLE (15), even if the batch succeeds later. `dispatch(effect, now)` is called with each effect
    of a durable batch.
    """

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        commit_timeout: float,
        clock: Callable[[], float],
        reload: Callable[[set[int], bool], None],
        fenced: Callable[[set[int]], None],
        dispatch: Callable[[object, float], None],
        partitions: int,
        failures: Failures,
        inputs: Inputs,
    ) -> None:
        self.store = store
        self.durable = 0
        """The number of the newest batch that is durable, or that failed and was undone."""
        self.batches = 0
        self.failures = 0
        self.failing = False
        """True if the store refused the last batch or is lost, and no probe has succeeded since."""
        self.on_durable: Callable[[Sequence[Entry]], None] | None = None
        """Called with the records of each stored batch, before answers show them."""
        self.check: Callable[[float], None] | None = None
        """Called before waiting answers leave, because the process may have slept since the batch was stored; None
        without leases."""
        self._outbox = outbox
        self._commit_timeout = commit_timeout
        self._clock = clock
        self._reload = reload
        self._fenced = fenced
        self._dispatch = dispatch
        self._partitions = partitions
        self._failures = failures
        self._inputs = inputs
        self.held: defaultdict[int, list[Call]] = defaultdict(list)
        """The answers that wait for each batch."""
        self._effects: dict[int, list[WhenDurable]] = {}
        """The effects of each batch, to run when it is durable."""
        self._troubled = trio.Event()
        self._written = trio.Event()
        self._idle = trio.Event()
        self._idle.set()
        # One access to the store at a time, writes and loads alike.
        self._access = trio.Lock()

    def settle(self, now: float) -> None:
        """Write the records, run the effects and send the replies of the outbox. Call it after requests and timers."""
        outbox = self._outbox
        while outbox.replies or outbox.records or outbox.effects:
            if outbox.effects:
                self._take_effects(now)
            if outbox.records and not self.store.durable_at_once:
                self._idle = trio.Event() if self._idle.is_set() else self._idle
                self._written.set()
                if not (outbox.replies or outbox.effects):
                    return
            elif outbox.records:
                number, records = self.next_batch()
                try:
                    self.store.write(records)
                except StoreError as error:
                    self.failed(number, records, error, now)
                except Exception as error:
                    self._failures.note(Border.STORE, "the store", error)
                    self.failed(number, records, StoreError(f"The store has raised {error!r}."), now)
                else:
                    if self.on_durable is not None:
                        self._show(records)
                    self.succeeded(number, now)
            replies, outbox.replies = outbox.replies, []
            for exchange, response, required_batch in replies:
                try:
                    exchange.answer(response, required_batch, now)
                except Exception as error:
                    exchange.broken(error)

    def _take_effects(self, now: float) -> None:
        effects, self._outbox.effects = self._outbox.effects, []
        for each in effects:
            if each.batch <= self.durable:
                self._follow(each, now)
            else:
                self._effects.setdefault(each.batch, []).append(each)

    def _follow(self, each: WhenDurable, now: float) -> None:
        effect = each.effect
        if isinstance(effect, Failure):
            self._failures.note(Border.TIMER, effect.place, effect.error)
            if effect.exchange is not None:
                _fail(effect.exchange, ErrorCode.UNKNOWN_SERVER_ERROR, now)
            return
        try:
            self._dispatch(effect, now)
        except Exception as error:
            self._failures.note(Border.EFFECT, f"what follows a batch of partition {each.partition}", error)
            if each.partition >= 0:
                self.distrust({each.partition}, now)

    def _show(self, records: Sequence[Entry]) -> None:
        assert self.on_durable is not None
        try:
            self.on_durable(records)
        except Exception as error:
            self._failures.note(Border.EFFECT, "the log of __consumer_offsets", error)

    def next_batch(self) -> tuple[int, list[tuple[int, Any, Any]]]:
        """Begin a new batch; return the number and the records of the one before."""
        outbox = self._outbox
        number, records = outbox.batch, outbox.records
        outbox.batch += 1
        outbox.records = []
        return number, records

    def succeeded(self, number: int, now: float) -> None:
        """Note that the batch is stored; run its effects and send its answers."""
        self.batches += 1
        self.failing = False
        self.durable = number
        if self.check is not None:
            self.check(now)
        for each in self._effects.pop(number, ()):
            self._follow(each, now)
        for exchange in self.held.pop(number, ()):
            try:
                exchange.send(now)
            except Exception as error:
                exchange.broken(error)

    def failed(self, number: int, records: list[tuple[int, Any, Any]], error: StoreError, now: float) -> None:
        """Undo a batch that the store refused: load its partitions again and fail the answers that wait for it.

        Records that came since are dropped too if they belong to these partitions. The others do not depend on the
        batch, and wait for the next one.
        """
        log.error("batch %d of %d records was not written: %s", number, len(records), error)
        self.failures += 1
        self.failing = True
        self._troubled.set()
        self.durable = number
        partitions = {partition for partition, _, _ in records}
        waiting = self.held.pop(number, [])
        self._effects.pop(number, None)
        concerned, again = self._drop(partitions)
        # Load first: an answer lets the next request of its connection run.
        self._load_again(partitions, after_failure=False)
        for exchange in (*waiting, *concerned):
            _fail(exchange, error.error, now)
        self._run_again(again, now)

    def _load_again(self, partitions: set[int], *, after_failure: bool) -> None:
        try:
            self._reload(partitions, after_failure)
        except Exception as error:
            self._failures.note(Border.EFFECT, f"giving up partitions {sorted(partitions)}", error)

    def distrust(self, partitions: Collection[int], now: float, groups: Collection[str] = ()) -> None:
        """Load partitions again after a rule raised halfway, since their state in memory may be wrong.

        Unstored records are dropped. Waiting requests about one of `groups` get UNKNOWN_SERVER_ERROR (-1), the others
        about these partitions COORDINATOR_NOT_AVAILABLE (15).
        """
        with self._inputs.input("distrusted", now, partitions=sorted(partitions), groups=sorted(groups)):
            failed, again = self._drop(partitions)
            self._load_again(set(partitions), after_failure=True)
            for exchange in failed:
                is_culprit = any(name in groups for name in _names(exchange))
                code = ErrorCode.UNKNOWN_SERVER_ERROR if is_culprit else ErrorCode.COORDINATOR_NOT_AVAILABLE
                _fail(exchange, code, now)
            self._run_again(again, now)

    def abandon(self, partitions: Collection[int], now: float) -> None:
        """Drop the unstored records of partitions that moved away; answer their waiting requests NOT_COORDINATOR (16).

        ListGroups names no group, so its rule runs again and shows the groups that are still here, as in Kafka
        (`GroupCoordinatorService.listGroups`). Requests about topics or settings wait on.

        Unload the partitions before: an answer lets the next request of its connection run.
        """
        failed, again = self._drop(partitions)
        for exchange in failed:
            _fail(exchange, ErrorCode.NOT_COORDINATOR, now)
        self._run_again(again, now)

    def _drop(self, partitions: Collection[int]) -> tuple[list[Call], list[Call]]:
        """Drop the unstored records of partitions. Return the exchanges about them, and those that list groups.

        A request that names no group is one about topics or settings.
        """
        outbox = self._outbox
        outbox.records = [record for record in outbox.records if record[0] not in partitions]
        outbox.effects = [
            each for each in outbox.effects if each.partition not in partitions or isinstance(each.effect, Failure)
        ]
        for number, effects in self._effects.items():
            self._effects[number] = [each for each in effects if each.partition not in partitions]
        failed: list[Call] = []
        again: list[Call] = []
        for gate, waiting in list(self.held.items()):
            remaining = []
            for exchange in waiting:
                names = _names(exchange)
                concerned = {partition_for(name, self._partitions) for name in names} or {DOCUMENTS}
                if not names and _lists_groups(exchange):
                    again.append(exchange)
                elif not concerned.isdisjoint(partitions):
                    failed.append(exchange)
                else:
                    remaining.append(exchange)
            self.held[gate] = remaining
        return failed, again

    def _run_again(self, waiting: list[Call], now: float) -> None:
        for exchange in waiting:
            try:
                exchange.run(now)
            except Exception as error:
                exchange.broken(error)
        self._written.set()

    def next_deadline(self) -> float:
        """Return the time of the next `expire`, monotonic seconds; infinity if no answer waits."""
        oldest = min((waiting[0].since for waiting in self.held.values() if waiting), default=inf)
        return oldest + self._commit_timeout

    def expire(self, now: float) -> None:
        """Fail the answers that waited longer than `commit_timeout`."""
        for gate, waiting in list(self.held.items()):
            late = [exchange for exchange in waiting if exchange.since + self._commit_timeout <= now]
            if late:
                self.held[gate] = [exchange for exchange in waiting if exchange.since + self._commit_timeout > now]
                log.error("the store has not answered for %.1f s: %d requests fail", self._commit_timeout, len(late))
                for exchange in late:
                    _fail(exchange, ErrorCode.COORDINATOR_NOT_AVAILABLE, now)

    async def watch(self) -> None:
        """Look at the store now and then, and probe it while it is failing, until cancelled: a server without clients
        notices by itself that its store is lost, and that it is healthy again."""
        while True:
            with trio.move_on_after(inf if self.store.durable_at_once else LOOK_SECONDS):
                await self._troubled.wait()
            self._troubled = trio.Event()
            async with self._access:
                if not self.failing:
                    self._look()
            while self.failing:
                await trio.sleep(PROBE_SECONDS)
                async with self._access:
                    # A batch may have been written since.
                    if self.failing:
                        await self._probe()

    def _look(self) -> None:
        try:
            self.store.look()
        except StoreError as error:
            log.error("%s", error)
            self.failing = True
        except Exception as error:
            self._failures.note(Border.STORE, "a look at the store", error)

    async def _probe(self) -> None:
        try:
            if self.store.durable_at_once:
                self.store.probe()
            else:
                await trio.to_thread.run_sync(self.store.probe)
        except StoreError as error:
            log.debug("the store still fails: %s", error)
        except Exception as error:
            self._failures.note(Border.STORE, "a probe of the store", error)
        else:
            self.failing = False
            log.info("the store takes batches again")

    # For a store that blocks

    async def run(self) -> None:
        """Write batch after batch, until cancelled."""
        while True:
            await self._written.wait()
            self._written = trio.Event()
            while self._outbox.records or self.held.get(self._outbox.batch):
                async with self._access:
                    await self._write()
                # Inline and not a method: every durable answer passes here.
                for _ in range(2):
                    now = self._clock()
                    with self._inputs.input("answers", now):
                        try:
                            self.settle(now)
                            break
                        except Exception as error:
                            self._failures.note(Border.EFFECT, "the answers after a batch", error)
                    # There may be no other request that runs the effects and hands the answers on.
                    await trio.sleep(SETTLE_AGAIN)
            self._idle.set()

    async def _write(self) -> None:
        with self._inputs.input("batch"):
            number, records = self.next_batch()
        while records:
            try:
                await trio.to_thread.run_sync(self.store.write, records)
            except FencedError as error:
                log.error("%s", error)
                records = [record for record in records if record[0] not in error.partitions]
                self._fenced(set(error.partitions))
            except StoreError as error:
                self._unwritten(number, records, error)
                return
            except Exception as error:
                self._failures.note(Border.STORE, "the store", error)
                culprits = unwritable(records)
                if not culprits:
                    self._unwritten(number, records, StoreError(f"The store has raised {error!r}."))
                    return
                partitions = {partition for partition, _, _ in culprits}
                records = [record for record in records if record[0] not in partitions]
                self.distrust(partitions, self._clock(), {_name_of(key) for _, key, _ in records_of(culprits)})
            else:
                break
        if self.on_durable is not None:
            self._show(records)
        now = self._clock()
        with self._inputs.input("written", now, batch=number):
            self.succeeded(number, now)

    def _unwritten(self, number: int, records: list[tuple[int, Any, Any]], error: StoreError) -> None:
        now = self._clock()
        with self._inputs.input("unwritten", now, batch=number, error=error.error, reason=str(error)):
            self.failed(number, records, error, now)

    @asynccontextmanager
    async def nothing_under_way(self) -> AsyncIterator[None]:
        """Keep batches and loads out while the block runs."""
        async with self._access:
            yield

    async def load(self, partition: int) -> list[tuple[Any, Any]]:
        """Return the records of a partition, read in a worker thread. Raises StoreError."""
        if self.store.durable_at_once:
            return list(self.store.load(partition))
        async with self._access:
            return await trio.to_thread.run_sync(lambda: list(self.store.load(partition)))

    async def flushed(self) -> None:
        """Wait until all records so far are durable or have failed."""
        await self._idle.wait()


def _fail(exchange: Call, code: int, now: float) -> None:
    try:
        exchange.fail(code, now)
    except Exception as error:
        exchange.broken(error)


def _name_of(key: Any) -> str:
    """Return the group or transactional id of a record."""
    return str(getattr(key, "group", "") or getattr(key, "transactional_id", ""))


def _lists_groups(exchange: Call) -> bool:
    return exchange.endpoint.key in (ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS)


def _names(exchange: Call) -> list[str]:
    """Return the groups of a request. A transactional id counts as a group of that name: both share a partition."""
    row = exchange.endpoint.row
    return row.groups_of(exchange.request) + row.transactional_ids_of(exchange.request)
