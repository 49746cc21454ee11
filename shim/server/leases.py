"""One process's part in a cluster of several that share a store.

Decides when this process renews its leases, which partitions it takes and gives up, and when it must stop answering for
those it had: leases count by its own monotonic clock from before the renewal was sent, so a process that was paused
knows when it wakes, before it answers anybody, that others may have its partitions by now. That nothing is
written under a lease that is lost is the store's part. Who should have what is decided in `persistence/leases.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from typing import Final

import trio

from kafka_shim.broker.topics import Node as Address
from kafka_shim.persistence.leases import plan
from kafka_shim.persistence.store import SharedStore, StoreError
from kafka_shim.server.catalogue import Catalogue
from kafka_shim.server.durability import Durability
from kafka_shim.server.ownership import Ownership

log: Final = logging.getLogger("kafka_shim.server")

GRAIN: Final = 0.02
"""Seconds after a lease has run out at which it is looked for."""


class Leases:
    """The leases of the one node of this process; `ownership` and `catalogue` change with them."""

    def __init__(
        self,
        ownership: Ownership,
        durability: Durability,
        catalogue: Catalogue,
        store: SharedStore,
        address: Address,
        clock: Callable[[], float],
    ) -> None:
        self.lapses_at = inf
        """When the leases of this process run out unless they are renewed, monotonic seconds; infinity without any."""
        self._ownership = ownership
        self._durability = durability
        self._catalogue = catalogue
        self._store = store
        self._address = address
        self._clock = clock

    def check(self, now: float) -> None:
        """Before anything is answered at `now`: give up every partition if the leases have run out."""
        if now >= self.lapses_at:
            log.error("the leases have run out %.3f s ago: this process coordinates nothing", now - self.lapses_at)
            self.lapses_at = inf
            self._ownership.give_up(self._ownership.held())

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take part in the cluster until cancelled; started once the first partitions are being loaded.

        Raises StoreError when another live process has this node id.
        """
        await self._register()
        pause = await self._turn()
        task_status.started()
        while True:
            await self._rest(pause)
            pause = await self._turn()

    async def _rest(self, seconds: float) -> None:
        """Nothing is due for so long, unless another process does something that is to be answered."""
        started = self._clock()
        try:
            await trio.to_thread.run_sync(self._store.wait, seconds, abandon_on_cancel=True)
        except StoreError as error:
            log.error("other processes are not heard: %s", error)
            await trio.sleep(max(started + seconds - self._clock(), 0.0))

    async def _register(self) -> None:
        """Enter the directory; the entry of a process that died with this id is waited out."""
        _, host, port, _ = self._address
        give_up_at = self._clock() + self._store.lease_s * 1.5
        while True:
            try:
                await trio.to_thread.run_sync(self._store.register, self._address.id, host, port)
            except StoreError as error:
                if self._clock() > give_up_at:
                    raise
                log.warning("waiting to become node %d: %s", self._address.id, error)
                await trio.sleep(self._store.lease_s / 10)
            else:
                return

    async def _turn(self) -> float:
        """Renew, then take and give up what is due; for how many seconds nothing is."""
        store, ownership = self._store, self._ownership
        started = self._clock()
        try:
            view = await trio.to_thread.run_sync(store.renew)
            lapses_at = started + store.lease_s
            if self._clock() >= lapses_at:
                return 0.0
            self.check(self._clock())
            if not view.registered:
                await self._lose_place()
                return 0.0
            self.lapses_at = lapses_at
            held = ownership.held()
            ownership.give_up(held - view.held.keys())
            kept = view.held.keys() & store.epochs.keys()
            ownership.see({node.node_id: Address(*node) for node in view.nodes}, view.owners)
            ownership.take(kept - held)
            if view.documents_version != self._catalogue.version:
                await self._catalogue.refresh()
            moves = plan(self._address.id, [node.node_id for node in view.nodes], view.owners, ownership.partitions)
            await self._release({*moves.release, *(view.held.keys() - kept)})
            await self._claim(moves.claim)
        except StoreError as error:
            log.error("the leases were not renewed: %s", error)
            return store.lease_s / 10
        due = min(store.lease_s / 3, view.next_lapse_s + GRAIN)
        return max(started + due - self._clock(), 0.0)

    async def _release(self, partitions: set[int]) -> None:
        if partitions:
            log.info("giving up partitions %s of __consumer_offsets", sorted(partitions))
            self._ownership.give_up(partitions & self._ownership.held())
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
        """Another process came under this id while this one was away: it has no place until that one is gone."""
        self.lapses_at = inf
        self._ownership.give_up(self._ownership.held())
        await trio.to_thread.run_sync(self._store.release, sorted(self._store.epochs))
        await self._register()
