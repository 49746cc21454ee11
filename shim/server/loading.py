"""Loads partitions of `__consumer_offsets` from the store into memory, and tries again after a failure.

While a store fails, its partitions are loading. A partition that raises is failed until the next try, as in Kafka, and
the others do not wait for it. A load that finishes after the partition moved to another node is dropped.
`ownership.py` says the owners.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from math import inf
from typing import Any, Final, TypeAlias

import trio

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.service import GroupService
from kafka_shim.persistence.store import StoreError
from kafka_shim.server.durability import Durability
from kafka_shim.server.failures import Border, Failures
from kafka_shim.server.journal import Inputs, encoded

log: Final = logging.getLogger("kafka_shim.server")

RETRY_SECONDS: Final = (0.1, 0.5, 2.0, 5.0)
"""Seconds to wait before each new try to load a partition; the last value repeats."""

RAISED_SECONDS: Final = (1.0, 5.0, 20.0, 60.0)
"""Seconds from each exception of a partition to its next load. Long ones: a replay stops all clients while it runs."""

_Ticket: TypeAlias = object


class Loader:
    """Loads partitions for the nodes of a process; `settle(now)` is called after each.

    Every load takes `seconds` longer than necessary, to test clients against a slow one.
    """

    def __init__(
        self,
        durability: Durability,
        clock: Callable[[], float],
        settle: Callable[[float], None],
        seconds: float,
        failures: Failures,
        inputs: Inputs,
    ) -> None:
        self.seconds = seconds
        self.idle = trio.Event()
        """Set while no partition is loading."""
        self.idle.set()
        self.final: StoreError | None = None
        """The error that makes any further load impossible, or None. Starting the server raises it; later it is
        logged."""
        self.started = False
        self._durability = durability
        self._clock = clock
        self._settle = settle
        self._failures = failures
        self._inputs = inputs
        self.pauses: dict[int, float] = {}
        """Additional seconds before the next load of a partition: its rule may fail again and again."""
        self._tickets: dict[int, _Ticket] = {}
        self._retries: dict[int, _Ticket] = {}
        """The last load of each failed partition that will be loaded again."""
        self._raised: Counter[int] = Counter()
        """The loads of each partition that raised since its last success."""
        self._send, self._receive = trio.open_memory_channel[tuple[GroupService, dict[int, _Ticket]]](inf)

    def begin(self, groups: GroupService, partitions: Iterable[int]) -> None:
        """Load these partitions for `groups`, which coordinates their groups after the load."""
        tickets = {partition: object() for partition in sorted(partitions)}
        if tickets:
            for partition in tickets:
                self._retries.pop(partition, None)
                groups.begin_loading(partition)
            self._tickets |= tickets
            # Tasks that wait already must see the new event too.
            if self.idle.is_set():
                self.idle = trio.Event()
            self._send.send_nowait((groups, tickets))

    def forget(self, partition: int) -> None:
        """Stop loading a partition, if it is loading, and do not try again."""
        self._retries.pop(partition, None)
        self._raised.pop(partition, None)
        self._drop(partition, self._tickets.get(partition))

    async def run(self) -> None:
        """Load the partitions from `begin`, one after another for each call, until cancelled."""
        async with trio.open_nursery() as nursery:
            async for groups, tickets in self._receive:
                nursery.start_soon(self._load_all, nursery, groups, tickets)

    async def _load_all(self, nursery: trio.Nursery, groups: GroupService, tickets: dict[int, _Ticket]) -> None:
        await trio.sleep(self.seconds + max(self.pauses.pop(partition, 0.0) for partition in tickets))
        for partition, ticket in tickets.items():
            try:
                await self._load(groups, partition, ticket)
            except Exception as error:
                self._failures.note(Border.PARTITION, f"loading partition {partition} of __consumer_offsets", error)
                if self._tickets.get(partition) is ticket:
                    self._retries[partition] = ticket
                    nursery.start_soon(self._retry, groups, partition, ticket)
            self._drop(partition, ticket)
            self._settle(self._clock())

    async def _retry(self, groups: GroupService, partition: int, ticket: _Ticket) -> None:
        await trio.sleep(RAISED_SECONDS[min(self._raised[partition], len(RAISED_SECONDS) - 1)])
        if self._retries.get(partition) is ticket:
            self._raised[partition] += 1
            with self._inputs.input("again", partition=partition):
                self.begin(groups, [partition])

    def loaded(self, groups: GroupService, partition: int, records: list[tuple[Any, Any]]) -> None:
        """Hand the records of a partition to its groups."""
        is_noted = self._inputs.listening
        with self._inputs.input("loaded", partition=partition, records=encoded(records) if is_noted else ()):
            groups.load(partition, records, self._clock())

    def _unloadable(self, groups: GroupService, partition: int) -> None:
        """Note that the partition has no records for this process."""
        with self._inputs.input("unloadable", partition=partition):
            groups.fail(partition)

    def _note(self, partition: int, error: StoreError) -> None:
        if self.started or not error.is_final:
            log.error("partition %d of __consumer_offsets was not loaded: %s", partition, error)
        if error.is_final:
            self.final = error

    def _drop(self, partition: int, ticket: _Ticket | None) -> None:
        if ticket is not None and self._tickets.get(partition) is ticket:
            del self._tickets[partition]
            if not self._tickets:
                self.idle.set()

    async def _load(self, groups: GroupService, partition: int, ticket: _Ticket) -> None:
        for attempt in count():
            if self._tickets.get(partition) is not ticket:
                return
            try:
                records = await self._durability.load(partition)
            except StoreError as error:
                self._note(partition, error)
                if error.error != ErrorCode.NOT_COORDINATOR:
                    await trio.sleep(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)])
                    continue
                if self._tickets.get(partition) is ticket:
                    self._unloadable(groups, partition)
                return
            except Exception:
                if self._tickets.get(partition) is ticket:
                    self._unloadable(groups, partition)
                raise
            if self._tickets.get(partition) is ticket:
                self.loaded(groups, partition, records)
                self._raised.pop(partition, None)
            return
