"""The brokers of this process: who they are, who coordinates which groups, and what they share.

Decides which node owns which partition of `__consumer_offsets`, when partitions are loaded, and in which order things
happen in a tick: requests, timers, records to the store, answers. It does not know sockets.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal

import trio

from apis.profiles import NEWEST
from apis.wire.errors import ErrorCode
from persistence.memory import MemoryStore
from persistence.partition import partition_for
from persistence.store import Store, StoreError
from shim.broker.broker import Broker
from shim.broker.settings import Settings
from shim.broker.topics import Node as Address
from shim.broker.topics import Topics
from shim.groups.config import NAMES, GroupConfig
from shim.groups.outbox import Outbox
from shim.groups.service import GroupService
from shim.groups.timers import Timers
from shim.server.durability import Durability
from shim.server.table import Table
from shim.server.trace import Exchanges

if TYPE_CHECKING:
    from shim.server.session import Interceptor, Session

log: Final = logging.getLogger("shim.server")

TIMER_GRAIN: Final = 0.001
"""Seconds that timers may be late, as in Kafka's own timer."""

RETRY_SECONDS: Final = (0.1, 0.5, 2.0, 5.0)
"""How long to wait before a partition that could not be loaded is tried again; the last one for ever."""


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """What an operator says about a cluster.

    `settings` are Kafka's configuration names with their values as text. `topics` are made at start, by name with their
    numbers of partitions. `release` is the Kafka release to pose as, `4.2` for example.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    release: str = NEWEST
    clock: Callable[[], float] = time.monotonic


class Node:
    """One broker: its address, its rules, its sessions."""

    def __init__(self, cluster: Cluster, address: Address, groups: GroupService, broker: Broker) -> None:
        self.id = address.id
        self.address = address
        self.groups = groups
        self.broker = broker
        self.outbox = cluster.outbox
        self.durability = cluster.durability
        self.exchanges = cluster.exchanges
        self.table = Table(cluster.config.release)
        self.sessions: set[Session] = set()
        self.refused = 0
        """Connections closed for what they sent."""
        self.interceptor: Interceptor | None = None


class Cluster:
    """The nodes of this process, their topics and their store.

    `addresses` say where clients reach each node. Raises ValueError, in one sentence, for a configuration that cannot
    be.
    """

    def __init__(self, addresses: Sequence[Address], config: ClusterConfig, store: Store | None = None) -> None:
        self.config = config
        self.clock = config.clock
        self.outbox = Outbox()
        self.wall_offset = time.time() - self.clock()
        self.group_config = GroupConfig().with_settings(
            f"{name}={value}" for name, value in config.settings.items() if name in NAMES
        )
        self.durability = Durability(
            store or MemoryStore(),
            self.outbox,
            self.group_config.offsets_commit_timeout_ms / 1000,
            self.clock,
            self._reload,
        )
        self.exchanges = Exchanges(self.outbox)
        self.on_events: list[Callable[[list[dict[str, Any]], float], None]] = []
        self.connections = count(1)
        self.loaded = trio.Event()
        """Set when every partition was loaded, or has failed, for the first time."""
        self.topics = Topics(addresses, Settings(config.settings), _new_uuid, cluster_id=_cluster_id())
        self.topics.offsets_owner = lambda partition: self.owner(partition).id
        self.topics.on_topic_deleted.append(lambda name, _: self._topic_deleted(name))
        self.nodes = {address.id: self._node(address) for address in addresses}
        self._order = list(self.nodes.values())
        self._sleep = trio.CancelScope()
        self._wake_at = -inf
        self._to_load_send, self._to_load = trio.open_memory_channel[set[int]](inf)
        for name, partitions in config.topics.items():
            self.topics.declare(name, partitions)

    def _node(self, address: Address) -> Node:
        groups = GroupService(
            address.id,
            self.group_config,
            self.outbox,
            Timers(),
            lambda: str(uuid.uuid4()),
            self.locate,
            self.wall_offset,
        )
        broker = Broker(
            address.id,
            self.topics,
            self.outbox,
            new_id=_new_uuid,
            epoch_ms=lambda now: int((now + self.wall_offset) * 1000),
            release=self.config.release,
        )
        return Node(self, address, groups, broker)

    # Who coordinates what

    @property
    def partitions(self) -> int:
        """How many partitions `__consumer_offsets` has."""
        return self.group_config.offsets_topic_num_partitions

    def owner(self, partition: int) -> Node:
        """The node that coordinates the groups of a partition of `__consumer_offsets`."""
        return self._order[partition % len(self._order)]

    def owner_of(self, group_id: str) -> Node:
        """The node that coordinates a group."""
        return self.owner(partition_for(group_id, self.partitions))

    def locate(self, key: str, key_type: Literal[0, 1]) -> tuple[int, int, str, int]:
        """See `Groups.coordinator_of`."""
        address = self.owner_of(key).address
        return ErrorCode.NONE, address.id, address.host, address.port

    def load_at_once(self) -> None:
        """Load every partition from a store that does not block."""
        now = self.clock()
        for partition in range(self.partitions):
            self.owner(partition).groups.load(partition, self.durability.store.load(partition), now)
        self.loaded.set()
        self.settle(now)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load the partitions, and serve the store until `close`."""
        async with trio.open_nursery() as nursery:
            if self.durability.store.durable_at_once:
                self.load_at_once()
            else:
                self._begin_loading(set(range(self.partitions)))
                nursery.start_soon(self.durability.run)
            nursery.start_soon(self._run_timers)
            task_status.started()
            async for partitions in self._to_load:
                await self._load_all(partitions)
            self.durability.close()

    def close(self) -> None:
        """Let `run` end when all that was written is durable."""
        self._to_load_send.close()

    async def _load_all(self, partitions: set[int]) -> None:
        for partition in sorted(partitions):
            await self._load(partition)
            self.settle(self.clock())
        if not self.loaded.is_set():
            self.loaded.set()

    async def _load(self, partition: int) -> None:
        groups = self.owner(partition).groups
        for attempt in range(10**9):
            try:
                records = await self.durability.load(partition)
                groups.load(partition, records, self.clock())
            except StoreError as error:
                log.error("partition %d of __consumer_offsets was not loaded: %s", partition, error)
                if error.error == ErrorCode.NOT_COORDINATOR:
                    groups.fail(partition)
                    return
                await trio.sleep(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)])
            except Exception:
                log.exception("partition %d of __consumer_offsets cannot be replayed", partition)
                return
            else:
                return

    def _begin_loading(self, partitions: set[int]) -> None:
        for partition in partitions:
            self.owner(partition).groups.begin_loading(partition)
        self._to_load_send.send_nowait(partitions)

    def _reload(self, partitions: set[int]) -> None:
        now = self.clock()
        for partition in partitions:
            self.owner(partition).groups.unload(partition, now)
        self._begin_loading(partitions)

    def _topic_deleted(self, name: str) -> None:
        for node in self._order:
            node.groups.topic_deleted(name)

    # Ticks

    def next_deadline(self) -> float:
        """When `fire` is due next, monotonic seconds; infinity if never."""
        deadline = self.durability.next_deadline()
        for node in self._order:
            deadline = min(deadline, node.groups.next_deadline(), node.broker.next_deadline() or inf)
        return deadline

    async def _run_timers(self) -> None:
        while True:
            self._wake_at = self.next_deadline()
            with trio.CancelScope() as self._sleep:
                self._sleep.deadline = self._trio_time(self._wake_at)
                await trio.sleep_forever()
            self.fire(self.clock())

    def _trio_time(self, deadline: float) -> float:
        """When trio should wake us: what is due within the same millisecond is done together."""
        return trio.current_time() + max(deadline - self.clock(), 0.0) + TIMER_GRAIN

    def fire(self, now: float) -> None:
        """Run what is due, and settle."""
        for node in self._order:
            node.groups.fire(now)
            node.broker.expire(now)
        self.durability.expire(now)
        self.settle(now)

    def settle(self, now: float) -> None:
        """Hand on what requests or timers have left in the outbox: records, answers, events."""
        outbox = self.outbox
        if outbox.records or outbox.replies:
            self.durability.settle(now)
        if outbox.events:
            events, outbox.events = outbox.events, []
            for tell in self.on_events:
                tell(events, now)
        deadline = self.next_deadline()
        if deadline < self._wake_at:
            self._wake_at = deadline
            self._sleep.deadline = self._trio_time(deadline)

    def listen(self, tell: Callable[[list[dict[str, Any]], float], None]) -> None:
        """From now on `tell(events, now)` gets the trace events of every tick."""
        self.on_events.append(tell)
        self.outbox.listening = True

    def unlisten(self, tell: Callable[[list[dict[str, Any]], float], None]) -> None:
        """`tell` gets no more events."""
        self.on_events.remove(tell)
        self.outbox.listening = bool(self.on_events)

    def intercept(self, interceptor: Interceptor | None) -> None:
        """Let `interceptor` see every request before its rule does and every answer before it leaves; None ends it."""
        for node in self._order:
            node.interceptor = interceptor
        for session in self.sessions():
            session.forget()

    def sessions(self) -> Iterable[Session]:
        """All connections of all nodes."""
        return [session for node in self._order for session in node.sessions]


def _new_uuid() -> bytes:
    return uuid.uuid4().bytes


def _cluster_id() -> str:
    from apis.wire import uuid_text

    return uuid_text(_new_uuid())
