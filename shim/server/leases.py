"""The leases of one process on partitions of `__consumer_offsets`, where several processes share a store.

`Leases` renews the leases of its process, takes and gives up partitions, and stops answering for a partition in time.
Leases count by its own monotonic clock from before the renewal was sent. So a process that was paused knows, before its
first answer, that others may own its partitions by now. The store rejects a write under a lost lease.
`persistence/leases.py` chooses the owners.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from typing import Final, TypeAlias

import trio

from kafka_shim.broker.topics import Node as Address
from kafka_shim.persistence.leases import plan
from kafka_shim.persistence.store import SharedStore, StoreError
from kafka_shim.server.catalogue import Catalogue
from kafka_shim.server.durability import Durability
from kafka_shim.server.failures import Border, Failures
from kafka_shim.server.ownership import Ownership
from kafka_shim.server.peers import PATIENCE

log: Final = logging.getLogger("kafka_shim.server")

GRAIN: Final = 0.02
"""Seconds from the end of a lease to the check for it."""


Directory: TypeAlias = dict[str, dict[int, Address]]
"""By the name of a listener and node id, the address for clients."""


class Leases:
    """The leases of the one node of this process; `ownership` and `catalogue` change with them, and `listeners` get the
    addresses of the other processes."""

    def __init__(
        self,
        ownership: Ownership,
        durability: Durability,
        catalogue: Catalogue,
        store: SharedStore,
        address: Address,
        clock: Callable[[], float],
        failures: Failures,
        listeners: Directory,
    ) -> None:
        self._listeners = listeners
        self.lapses_at = inf
        """The end of this process's leases without a renewal, monotonic seconds; infinity without leases."""
        self._ownership = ownership
        self._durability = durability
        self._catalogue = catalogue
        self._store = store
        self._address = address
        self._clock = clock
        self._failures = failures
        self._doubtful_until = -inf
        self.on_doubt: Callable[[], None] = lambda: None
        """Called when other processes may have led partitions that this process leads."""
        self.on_renewed: Callable[[float], None] = lambda now: None

    def check(self, now: float) -> None:
        """Give up every partition if the leases have ended at `now`. Call it before an answer leaves."""
        if now >= self.lapses_at:
            log.error("the leases have run out %.3f s ago: this process coordinates nothing", now - self.lapses_at)
            self.lapses_at = inf
            self._doubtful_until = inf
            try:
                self.on_doubt()
                self._ownership.give_up(self._ownership.own_partitions())
            except Exception as error:
                # A tick, a request and an answer call this. The next one gives up the rest.
                self.lapses_at = now
                self._failures.note(Border.LEASES, "giving up every partition", error)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take part in the cluster until cancelled. It counts as started when the first partitions are loading.

        Raises StoreError when another live process has this node id.
        """
        await self._register()
        pause = await self._turn()
        task_status.started()
        while True:
            await self._rest(pause)
            pause = await self._turn()

    async def _rest(self, seconds: float) -> None:
        """Sleep until the next turn, or until another process makes a change that needs a reaction."""
        started = self._clock()
        try:
            await trio.to_thread.run_sync(self._store.wait, seconds, abandon_on_cancel=True)
        except StoreError as error:
            log.error("other processes are not heard: %s", error)
            await trio.sleep(max(started + seconds - self._clock(), 0.0))
        except Exception as error:
            self._failures.note(Border.LEASES, "listening to other processes", error)
            await trio.sleep(max(started + seconds - self._clock(), 0.0))

    async def _register(self) -> None:
        """Enter the directory. Wait until the entry of a dead process with this id has ended."""
        _, host, port, _ = self._address
        own = {name: addresses[self._address.id] for name, addresses in self._listeners.items()}
        listeners = {name: (each.host, each.port) for name, each in own.items()}
        give_up_at = self._clock() + self._store.lease_s * 1.5
        while True:
            try:
                await trio.to_thread.run_sync(self._store.register, self._address.id, host, port, listeners)
            except StoreError as error:
                if self._clock() > give_up_at:
                    raise
                log.warning("waiting to become node %d: %s", self._address.id, error)
                await trio.sleep(self._store.lease_s / 10)
            else:
                return

    async def _turn(self) -> float:
        """Renew, then take and give up partitions. Return the seconds until the next turn."""
        try:
            return await self._renew()
        except StoreError as error:
            log.error("the leases were not renewed: %s", error)
        except Exception as error:
            self._failures.note(Border.LEASES, "a turn of the leases", error)
        return self._store.lease_s / 10

    async def _renew(self) -> float:
        store, ownership = self._store, self._ownership
        started = self._clock()
        view = await trio.to_thread.run_sync(store.renew)
        lapses_at = started + store.lease_s
        if self._clock() >= lapses_at:
            return 0.0
        self.check(self._clock())
        if not view.registered:
            await self._lose_place()
            return 0.0
        self.lapses_at = lapses_at
        owned = ownership.own_partitions()
        missing = owned - view.own_epochs.keys()
        ownership.give_up(missing)
        leased = view.own_epochs.keys() & store.epochs.keys()
        for (name, node_id), address in view.listeners.items():
            if node_id != self._address.id and name in self._listeners:
                self._listeners[name][node_id] = Address(node_id, *address)
        are_new = ownership.see({node.node_id: Address(*node) for node in view.nodes}, view.owners)
        if are_new or missing or self._doubtful_until == inf:
            # Until then another process may see other nodes, and may wait for the answer to a marker.
            self._doubtful_until = started + store.lease_s + PATIENCE
        if started < self._doubtful_until:
            self.on_doubt()
        ownership.take(leased - owned)
        try:
            self.on_renewed(self._clock())
        except Exception as error:
            self._failures.note(Border.LEASES, "looking for transactions that ended at other processes", error)
        if view.documents_version != self._catalogue.version:
            await self._catalogue.refresh()
        moves = plan(self._address.id, [node.node_id for node in view.nodes], view.owners, ownership.partitions)
        await self._release({*moves.release, *(view.own_epochs.keys() - leased)})
        await self._claim(moves.claim)
        due = min(store.lease_s / 3, view.next_lapse_s + GRAIN)
        return max(started + due - self._clock(), 0.0)

    async def _release(self, partitions: set[int]) -> None:
        if partitions:
            log.info("giving up partitions %s of __consumer_offsets", sorted(partitions))
            self._ownership.give_up(partitions & self._ownership.own_partitions())
            # A write under way may have records of these partitions, and without its leases the store refuses them.
            async with self._durability.nothing_under_way():
                await trio.to_thread.run_sync(self._store.release, sorted(partitions))

    async def _claim(self, partitions: list[int]) -> None:
        if partitions:
            async with self._durability.nothing_under_way():
                claimed = await trio.to_thread.run_sync(self._store.claim, self._address.id, partitions)
            self.check(self._clock())
            if self.lapses_at < inf:
                log.info("taking over partitions %s of __consumer_offsets", sorted(claimed))
                self._ownership.take(claimed.keys())

    async def _lose_place(self) -> None:
        """Give up the place: another process took this id while this one was paused. Wait until that process ends."""
        self.lapses_at = self._doubtful_until = inf
        self.on_doubt()
        self._ownership.give_up(self._ownership.own_partitions())
        await trio.to_thread.run_sync(self._store.release, sorted(self._store.epochs))
        await self._register()
