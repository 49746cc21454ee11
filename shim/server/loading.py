"""Bringing partitions of `__consumer_offsets` into memory.

Decides when a partition is read from the store, how often that is tried again, and whether what was read still counts:
meanwhile the partition may have gone to another node. It does not know who should have which partition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import count
from math import inf
from typing import Any, Final, TypeAlias

import trio

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.service import GroupService
from kafka_shim.persistence.store import StoreError
from kafka_shim.server.durability import Durability

log: Final = logging.getLogger("kafka_shim.server")

RETRY_SECONDS: Final = (0.1, 0.5, 2.0, 5.0)
"""How long to wait before a partition that could not be loaded is tried again; the last one for ever."""

_Ticket: TypeAlias = object


class Loader:
    """Loads partitions for the nodes of a process; `settle(now)` is called after each.

    Every load takes `seconds` longer than it must, so that clients can be tried against a slow one.
    """

    def __init__(
        self, durability: Durability, clock: Callable[[], float], settle: Callable[[float], None], seconds: float
    ) -> None:
        self.seconds = seconds
        self.idle = trio.Event()
        """Set while nothing is being loaded."""
        self.idle.set()
        self.final: StoreError | None = None
        """Why nothing more can be loaded, if that is so. Whoever starts the server looks; later it is logged."""
        self.started = False
        self._durability = durability
        self._clock = clock
        self._settle = settle
        self._tickets: dict[int, _Ticket] = {}
        self._send, self._receive = trio.open_memory_channel[tuple[GroupService, dict[int, _Ticket]]](inf)

    def begin(self, groups: GroupService, partitions: Iterable[int]) -> None:
        """`groups` has these partitions from now on, and coordinates their groups as soon as they are loaded."""
        tickets = {partition: object() for partition in sorted(partitions)}
        if tickets:
            for partition in tickets:
                groups.begin_loading(partition)
            self._tickets |= tickets
            # Tasks that wait already must see the new event too.
            if self.idle.is_set():
                self.idle = trio.Event()
            self._send.send_nowait((groups, tickets))

    def forget(self, partition: int) -> None:
        """Stop loading a partition, if it is loading."""
        self._drop(partition, self._tickets.get(partition))

    async def run(self) -> None:
        """Load what `begin` was called for, until cancelled. What began together is loaded one after another."""
        async with trio.open_nursery() as nursery:
            async for groups, tickets in self._receive:
                nursery.start_soon(self._load_all, groups, tickets)

    async def _load_all(self, groups: GroupService, tickets: dict[int, _Ticket]) -> None:
        await trio.sleep(self.seconds)
        for partition, ticket in tickets.items():
            await self._load(groups, partition, ticket)
            self._drop(partition, ticket)
            self._settle(self._clock())

    def loaded(self, groups: GroupService, partition: int, records: list[tuple[Any, Any]]) -> None:
        """The store has these records of a partition."""
        groups.load(partition, records, self._clock())

    def unloadable(self, groups: GroupService, partition: int) -> None:
        """The store says that a partition is not this process's."""
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
                    self.unloadable(groups, partition)
                return
            if self._tickets.get(partition) is ticket:
                try:
                    self.loaded(groups, partition, records)
                except Exception:
                    log.exception("partition %d of __consumer_offsets cannot be replayed", partition)
            return
