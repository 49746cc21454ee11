"""The brokers of this process: who they are, who coordinates which groups, and what they share.

Decides which node owns which partition of `__consumer_offsets` and what becomes of it when that node stops, and in
which order things happen in a tick: requests, timers, records to the store, answers. It does not know sockets. Where
several processes share a store, who owns what is told to it by `leases.py`.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal

import trio

from kafka_shim.apis.profiles import NEWEST
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.broker import Broker
from kafka_shim.broker.settings import Settings
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topics
from kafka_shim.broker.topics import Node as Address
from kafka_shim.broker.transactions import Transactions
from kafka_shim.groups.config import NAMES, GroupConfig
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.repeated import as_dict
from kafka_shim.groups.service import GroupService
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timers
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.store import SharedStore, Store
from kafka_shim.server.catalogue import Catalogue
from kafka_shim.server.durability import Durability
from kafka_shim.server.leases import Leases
from kafka_shim.server.loading import Loader
from kafka_shim.server.peers import Peers
from kafka_shim.server.spread import id_of, leader_of, replicas_of, shared_cluster_id
from kafka_shim.server.table import Table
from kafka_shim.server.trace import Exchanges

if TYPE_CHECKING:
    from kafka_shim.server.session import Interceptor, Session

log: Final = logging.getLogger("kafka_shim.server")

TIMER_GRAIN: Final = 0.001
"""Seconds that timers may be late, as in Kafka's own timer."""


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """What an operator says about a cluster.

    `settings` are Kafka's configuration names with their values as text. `topics` are made at start, by name with their
    numbers of partitions. `release` is the Kafka release to pose as, `4.2` for example. Every load of partitions takes
    `load_seconds` longer than it must.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    release: str = NEWEST
    clock: Callable[[], float] = time.monotonic
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    """Makes the part of a member id that is nobody else's."""
    load_seconds: float = 0.0


class Node:
    """One broker: its address, its rules, its sessions. It is `up` unless it was stopped or killed."""

    def __init__(self, cluster: Cluster, address: Address, groups: GroupService, broker: Broker) -> None:
        self.id = address.id
        self.address = address
        self.up = True
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
            self.give_up,
            self._check_leases,
            self.partitions,
        )
        self.leases: Leases | None = None
        self.loader = Loader(self.durability, self.clock, self.settle, config.load_seconds)
        self.exchanges = Exchanges(self.outbox)
        self._on_events: list[Callable[[list[dict[str, Any]], float], None]] = []
        self._on_raw_events: list[Callable[[list[Any], float], None]] = []
        self.connections = count(1)
        self.loaded = trio.Event()
        """Set when every partition was loaded, or has failed, for the first time."""
        self.on_broker_down: list[Callable[[Node], None]] = []
        """Called when clients cannot reach a node any more."""
        self.on_broker_up: list[Callable[[Node], None]] = []
        """Called when clients can reach a node again."""
        self.topics = Topics(addresses, Settings(config.settings), _new_uuid, cluster_id=_cluster_id())
        self.topics.on_topic_changed.append(self._topic_changed)
        self.topics.on_topic_deleted.append(lambda name, _: self._topic_deleted(name))
        self.nodes = {address.id: self._node(address) for address in addresses}
        self.peers: Peers | None = None
        if isinstance(store, SharedStore):
            self.peers = Peers(self, store, addresses[0].id, self._check_leases)
        transactions = Transactions(self.topics, self._shard, self.partitions, self._epoch_ms, self.peers)
        for node in self.nodes.values():
            node.groups.coordinator = transactions
            node.broker.coordinate_transactions(transactions, node.groups)
        self._order = list(self.nodes.values())
        self.owners: dict[int, int] = {}
        """Id of the node, of this process or another, that coordinates the groups of a partition."""
        self.catalogue: Catalogue | None = None
        if isinstance(store, SharedStore):
            if len(addresses) != 1:
                raise ValueError("A process that shares a store with others is one broker.")
            self.leases = Leases(self, store, addresses[0], self.clock)
            self.topics.cluster_id = shared_cluster_id(store.cluster_seed)
            self.topics.offsets_topic_id = id_of(store.cluster_seed, OFFSETS_TOPIC)
            self.topics.on_topic_changed.append(self._spread_topic)
            self._share_topics(store)
        else:
            self.owners = {partition: self._preferred(partition).id for partition in range(self.partitions)}
        self.topics.offsets_owner = lambda partition: self.owners.get(partition, self._order[0].id)
        self._sleep = trio.CancelScope()
        self._wake_at = -inf
        declaring = self.topics if self.catalogue is None else Topics(addresses, self.topics.settings, _new_uuid)
        for name, partitions in config.topics.items():
            declaring.declare(name, partitions)

    def _node(self, address: Address) -> Node:
        groups = GroupService(
            address.id,
            self.group_config,
            self.outbox,
            Timers(),
            self.config.new_id,
            self.locate,
            self.wall_offset,
            self.topics,
        )
        broker = Broker(
            address.id,
            self.topics,
            self.outbox,
            new_id=_new_uuid,
            epoch_ms=self._epoch_ms,
            release=self.config.release,
        )
        return Node(self, address, groups, broker)

    def _check_leases(self, now: float) -> None:
        """Before anything is answered at `now` that was asked before."""
        if self.leases is not None:
            self.leases.check(now)

    def _share_topics(self, store: SharedStore) -> None:
        def group_changed(group_id: str) -> None:
            for node in self._order:
                for tell in node.broker.configs.on_group_changed:
                    tell(group_id)

        self.catalogue = Catalogue(store, self.topics, self.clock, self._check_leases, self.settle, group_changed)
        self.topics.make_later = self.catalogue.want
        for node in self._order:
            node.broker.shared = self.catalogue

    def _epoch_ms(self, now: float) -> int:
        return int((now + self.wall_offset) * 1000)

    def _shard(self, partition: int) -> Shard | None:
        node = self.owner(partition)
        return node.groups.shards.get(partition) if node is not None else None

    # Who coordinates what

    @property
    def partitions(self) -> int:
        """How many partitions `__consumer_offsets` has."""
        return self.group_config.offsets_topic_num_partitions

    def owner(self, partition: int) -> Node | None:
        """The node of this process that coordinates the groups of a partition of `__consumer_offsets`, if one does."""
        return self.nodes.get(self.owners.get(partition, -1))

    def owner_of(self, group_id: str) -> Node:
        """The node of this process to ask about a group: its coordinator or, if it is elsewhere, one that says so."""
        return self.owner(partition_for(group_id, self.partitions)) or self._order[0]

    def held(self) -> set[int]:
        """The partitions whose groups this process coordinates, or will when they are loaded."""
        return {partition for partition, node_id in self.owners.items() if node_id in self.nodes}

    def locate(self, key: str, key_type: Literal[0, 1]) -> tuple[int, int, str, int]:
        """See `GroupService.coordinator_of`. While nobody owns the key's partition, COORDINATOR_NOT_AVAILABLE (15)."""
        address = self.topics.nodes.get(self.owners.get(partition_for(key, self.partitions), -1))
        if address is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1
        return ErrorCode.NONE, address.id, address.host, address.port

    def take(self, partitions: Collection[int], node_id: int | None = None) -> None:
        """A node of this process, the first unless another is named, coordinates these partitions from now on."""
        node = self._order[0] if node_id is None else self.nodes[node_id]
        for partition in partitions:
            self._own(partition, node.id)
        self.loader.begin(node.groups, partitions)

    def give_up(self, partitions: Collection[int]) -> None:
        """No node of this process coordinates these partitions any more: what is parked or waits for the store is
        answered NOT_COORDINATOR (16), and so is what comes (semantics 5.4)."""
        now = self.clock()
        for partition in partitions:
            node = self.owner(partition)
            if node is not None:
                self.loader.forget(partition)
                node.groups.unload(partition, now)
                del self.owners[partition]
        self.durability.abandon(partitions, now)
        self.settle(now)

    def _own(self, partition: int, node_id: int) -> None:
        self.owners[partition] = node_id
        topic = self.topics.named(OFFSETS_TOPIC)
        if topic is not None and topic.partitions[partition].leader != node_id:
            self.topics.lead(topic, partition, node_id)

    def see(self, addresses: Mapping[int, Address], owners: Mapping[int, int]) -> None:
        """These nodes are there, of this process and others, and own these partitions; see `Leases`."""
        ours = self._order[0].id
        if addresses != self.topics.nodes:
            self.topics.nodes.clear()
            self.topics.nodes.update(addresses)
            for topic in self.topics.all():
                self._spread_topic(topic.name)
        for partition in range(self.partitions):
            owner = owners.get(partition, ours)
            if owner != ours:
                self._own(partition, owner)
            elif self.owners.get(partition, ours) != ours:
                del self.owners[partition]

    def _spread_topic(self, name: str) -> None:
        """Let the partitions of a topic be led by the nodes that every process works out for them."""
        topic = self.topics.named(name)
        if topic is not None and name != OFFSETS_TOPIC and self.topics.nodes:
            for partition in topic.partitions:
                replicas = replicas_of(name, partition.index, self.topics.nodes, len(partition.replicas))
                if partition.leader != replicas[0] or partition.replicas != replicas:
                    self.topics.lead(topic, partition.index, replicas[0], replicas)

    # Brokers that come and go

    def move_partition(self, partition: int, node_id: int) -> None:
        """Let another broker coordinate the groups of a partition of `__consumer_offsets`. Raises ValueError."""
        if not 0 <= partition < self.partitions:
            raise ValueError(f"__consumer_offsets has no partition {partition}.")
        self._with_id(node_id, up=True)
        self.give_up({partition})
        self.take({partition}, node_id)

    def stop_broker(self, node_id: int) -> None:
        """Shut a broker down in good order: what it had is others' before its connections end. Raises ValueError."""
        node = self._with_id(node_id, up=True)
        self._withdraw(node)
        self._disconnect(node)

    def kill_broker(self, node_id: int) -> None:
        """Let a broker be gone from one moment to the next: its clients get no answers. Raises ValueError."""
        node = self._with_id(node_id, up=True)
        self._disconnect(node)
        self._withdraw(node)

    def restart_broker(self, node_id: int) -> None:
        """Start a broker that was stopped or killed. It gets back what it had when the cluster started, and whatever
        nobody has. Raises ValueError."""
        node = self._with_id(node_id, up=False)
        node.up = True
        self._tell_nodes()
        for tell in self.on_broker_up:
            tell(node)
        back = {p for p in range(self.partitions) if self.owner(p) is None or self._preferred(p) is node}
        self.give_up(back)
        self.take(back, node_id)

    def _with_id(self, node_id: int, *, up: bool) -> Node:
        node = self.nodes.get(node_id)
        if node is None:
            raise ValueError(f"There is no broker {node_id}.")
        if node.up is not up:
            raise ValueError(f"Broker {node_id} is {'running' if node.up else 'not running'}.")
        return node

    def _preferred(self, partition: int) -> Node:
        """The node that should have a partition: the one whose turn it is, or the next one that is up."""
        count = len(self._order)
        turns = [self._order[(partition + turn) % count] for turn in range(count)]
        return next((node for node in turns if node.up), turns[0])

    def _disconnect(self, node: Node) -> None:
        for tell in self.on_broker_down:
            tell(node)
        for session in list(node.sessions):
            session.transport.close()

    def _withdraw(self, node: Node) -> None:
        """Give what a node has to those that stay; without any, nobody has it."""
        node.up = False
        self._tell_nodes()
        leaving = {partition for partition, owner in self.owners.items() if owner == node.id}
        self.give_up(leaving)
        if not self.topics.nodes:
            return
        for other in self._order:
            self.take({partition for partition in leaving if self._preferred(partition) is other}, other.id)
        for topic in self.topics.all():
            for led in topic.partitions:
                if led.leader == node.id and topic.name != OFFSETS_TOPIC:
                    self.topics.lead(topic, led.index, leader_of(topic.name, led.index, self.topics.nodes))

    def _tell_nodes(self) -> None:
        self.topics.nodes.clear()
        self.topics.nodes.update({node.id: node.address for node in self._order if node.up})
        self.topics.generation += 1

    # Running

    def load_at_once(self) -> None:
        """Load every partition from a store that does not block."""
        now = self.clock()
        for partition, node_id in self.owners.items():
            self.nodes[node_id].groups.load(partition, self.durability.store.load(partition), now)
        self.loaded.set()
        self.settle(now)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load the partitions, and serve the store until cancelled.

        Raises StoreError if the store turns out to be unusable while it is loaded for the first time.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.loader.run)
            if self.peers is not None:
                nursery.start_soon(self.peers.run)
            if not self.durability.store.durable_at_once:
                nursery.start_soon(self.durability.run)
            if self.leases is not None and self.catalogue is not None:
                await nursery.start(self.leases.run)
                await nursery.start(self.catalogue.run, self.config.topics)
            elif self.durability.store.durable_at_once and not self.loader.seconds:
                self.load_at_once()
            else:
                for node in self._order:
                    self.take({partition for partition, owner in self.owners.items() if owner == node.id}, node.id)
            nursery.start_soon(self._run_timers)
            task_status.started()
            await self.loader.idle.wait()
            if self.loader.final is not None:
                raise self.loader.final
            self.loader.started = True
            self.loaded.set()

    def _reload(self, partitions: set[int]) -> None:
        now = self.clock()
        for partition in partitions:
            node = self.owner(partition)
            if node is not None:
                node.groups.unload(partition, now)
                self.loader.begin(node.groups, {partition})

    def _topic_deleted(self, name: str) -> None:
        for node in self._order:
            node.groups.topic_deleted(name, self.clock())

    def _topic_changed(self, name: str) -> None:
        for node in self._order:
            node.groups.topic_changed(name, self.clock())

    # Ticks

    def next_deadline(self) -> float:
        """When `fire` is due next, monotonic seconds; infinity if never."""
        deadline = self.durability.next_deadline()
        if self.leases is not None:
            deadline = min(deadline, self.leases.lapses_at)
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

    def rearm(self) -> None:
        """The clock was stopped, put forward or let go: what is due comes at another time than trio was told."""
        self._wake_at = self.next_deadline()
        self._sleep.deadline = self._trio_time(self._wake_at)

    def _trio_time(self, deadline: float) -> float:
        """When trio should wake us: what is due within the same millisecond is done together."""
        return trio.current_time() + max(deadline - self.clock(), 0.0) + TIMER_GRAIN

    def fire(self, now: float) -> None:
        """Run what is due, and settle."""
        if self.leases is not None:
            self.leases.check(now)
        for node in self._order:
            node.groups.fire(now)
            node.broker.expire(now)
        self.durability.expire(now)
        self.settle(now)

    def settle(self, now: float) -> None:
        """Hand on what requests or timers have left in the outbox: records, answers, events."""
        outbox = self.outbox
        if outbox.records or outbox.replies or outbox.thens:
            self.durability.settle(now)
        if outbox.events:
            events, outbox.events = outbox.events, []
            if self._on_events:
                told = [as_dict(event) if type(event) is tuple else event for event in events]
                for tell in self._on_events:
                    tell(told, now)
            for tell in self._on_raw_events:
                tell(events, now)
        deadline = self.next_deadline()
        if deadline < self._wake_at:
            self._wake_at = deadline
            self._sleep.deadline = self._trio_time(deadline)

    def listen(self, tell: Callable[[list[dict[str, Any]], float], None]) -> None:
        """From now on `tell(events, now)` gets the trace events of every tick."""
        self._on_events.append(tell)
        self.outbox.listening = True

    def listen_raw(self, tell: Callable[[list[Any], float], None]) -> None:
        """As `listen`, but `Repeated` events come as they are."""
        self._on_raw_events.append(tell)
        self.outbox.listening = True

    def unlisten(self, tell: Callable[[list[dict[str, Any]], float], None]) -> None:
        """`tell` gets no more events; it may be listening to some just now."""
        self._on_events = [each for each in self._on_events if each != tell]
        self._on_raw_events = [each for each in self._on_raw_events if each != tell]
        self.outbox.listening = bool(self._on_events or self._on_raw_events)

    def intercept(self, interceptor: Interceptor | None) -> None:
        """Let `interceptor` see every request before its rule does and every answer before it leaves; None ends it."""
        for node in self._order:
            node.interceptor = interceptor
        for session in self.sessions():
            session.forget()

    def receiver(self, session: Session) -> Callable[[bytes, float], None]:
        """How bytes are handed to a session. Where leases can run out, it is asked first whether they have: by the
        clock as it is once the bytes are here, since the process may have been paused at any moment before."""
        leases = self.leases
        if leases is None:
            return session.receive

        def receive(data: bytes, now: float) -> None:
            now = self.clock()
            leases.check(now)
            session.receive(data, now)

        return receive

    def sessions(self) -> Iterable[Session]:
        """All connections of all nodes."""
        return [session for node in self._order for session in node.sessions]


def _new_uuid() -> bytes:
    return uuid.uuid4().bytes


def _cluster_id() -> str:
    from kafka_shim.apis.wire import uuid_text

    return uuid_text(_new_uuid())
