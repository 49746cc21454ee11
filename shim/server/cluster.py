"""The brokers of this process and what they share, put together.

Decides which parts a cluster has and how they know each other (`make_cluster`), in which order they start, and what
becomes of a broker's work when it stops. It does not know sockets. `ownership.py` has which node owns what, `leases.py`
decides that where several processes share a store, and `ticks.py` has the order of a tick.
"""

from __future__ import annotations

import ssl
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from itertools import count
from typing import Any, Final, TypeVar, cast

import trio

from kafka_shim.apis.profiles import NEWEST
from kafka_shim.apis.wire import uuid_text
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.broker import Broker
from kafka_shim.broker.settings import Settings
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topics
from kafka_shim.broker.topics import Node as Address
from kafka_shim.broker.transactions import Transactions
from kafka_shim.groups.config import NAMES, GroupConfig
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.service import GroupService
from kafka_shim.groups.share.persister import SharePersister
from kafka_shim.groups.timers import Timers
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.store import SharedStore, Store
from kafka_shim.server import experiments
from kafka_shim.server.assignors import load_assignors
from kafka_shim.server.catalogue import Catalogue
from kafka_shim.server.computations import Computations
from kafka_shim.server.durability import Durability
from kafka_shim.server.events import EventFeed
from kafka_shim.server.journal import Inputs, Journal, Unjournaled
from kafka_shim.server.journaled import (
    JournaledComputations,
    JournaledDurability,
    JournaledLoader,
    JournaledSession,
    JournaledTicks,
    encoded,
)
from kafka_shim.server.leases import Leases
from kafka_shim.server.loading import Loader
from kafka_shim.server.node import Interceptor, Node, Transport
from kafka_shim.server.offsets_log import OffsetsLogs
from kafka_shim.server.ownership import Ownership
from kafka_shim.server.peers import Peers
from kafka_shim.server.placement import id_of, leader_of, shared_cluster_id
from kafka_shim.server.session import Session
from kafka_shim.server.ticks import Ticks
from kafka_shim.server.topic_records import DocumentsStored, TopicRecords
from kafka_shim.server.trace import Exchanges


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
    """The coordinator's clock: monotonic seconds."""
    clock_ahead: Callable[[], float] | None = None
    """By how many seconds `clock` is ahead of real time, where a laboratory moves it: fetches wait in real time."""
    wall_offset: float | None = None
    """What makes Unix time of seconds of `clock`; None for that of this machine."""
    new_uuid: Callable[[], uuid.UUID] = uuid.uuid4
    """Makes every random id: of members, topics, fetch sessions."""
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Which run of the coordinator it is, for the trace."""
    load_seconds: float = 0.0
    experimental: Sequence[str] = ()
    """Names of experiments that are served beside; see `experiments.py`."""
    lasting: bool | None = None
    """Whether groups outlive the process; None: unless the store is one in memory. Then topics do too, with their ids:
    members of KIP-848 know topics by them."""
    journal: Journal | None = None
    """Gets every input; see `journal.py`."""


@dataclass(frozen=True, kw_only=True)
class SharedParts:
    """What a cluster has beyond others where several processes share its store."""

    peers: Peers
    catalogue: Catalogue
    leases: Leases


_Method = TypeVar("_Method", bound=Callable[..., Any])

OPERATIONS: Final[set[str]] = set()
"""The methods of `Cluster` that an operator calls, and a journal has."""


def _operation(method: _Method) -> _Method:
    OPERATIONS.add(method.__name__)

    @wraps(method)
    def noted(self: Cluster, *arguments: Any) -> Any:
        with self.inputs.input("operation", name=method.__name__, arguments=arguments):
            return method(self, *arguments)

    return cast(_Method, noted)


class Cluster:
    """The nodes of this process, their topics and their store; `make_cluster` makes one."""

    def __init__(
        self,
        config: ClusterConfig,
        nodes: Mapping[int, Node],
        topics: Topics,
        outbox: Outbox,
        durability: Durability,
        computations: Computations,
        loader: Loader,
        ownership: Ownership,
        events: EventFeed,
        ticks: Ticks,
        shared: SharedParts | None,
        wall_offset: float,
        topic_records: TopicRecords | None,
        offsets_logs: OffsetsLogs | None,
    ) -> None:
        self.config = config
        self.clock = config.clock
        self.wall_offset = wall_offset
        """What makes Unix time of seconds of `clock`."""
        self.nodes = nodes
        self.topics = topics
        self.outbox = outbox
        self.durability = durability
        self.computations = computations
        self.loader = loader
        self.ownership = ownership
        self.events = events
        self.ticks = ticks
        self.settle = ticks.settle
        """See `Ticks.settle`."""
        self.inputs: Inputs = config.journal or Unjournaled()
        self.shared = shared
        self.topic_records = topic_records
        """What keeps topics in the store; None where they end with the process, or are shared with others."""
        self.offsets_logs = offsets_logs
        """What lets clients read `__consumer_offsets`; None where a journal would have to say when it was read."""
        self.connections = count(1)
        """Numbers for connections, each used once."""
        self.loaded = trio.Event()
        """Set when every partition was loaded, or has failed, for the first time."""
        self.started = False
        """Whether `start` was called."""
        self.on_broker_down: list[Callable[[Node], None]] = []
        """Called when clients cannot reach a node any more."""
        self.on_broker_up: list[Callable[[Node], None]] = []
        """Called when clients can reach a node again."""

    # What an operator does

    @_operation
    def create_group(self, name: str, ephemeral: bool, heartbeat_bound_ms: int | None) -> ErrorCode:
        """See `GroupService.precreate`."""
        return self.ownership.owner_of(name).groups.precreate(name, ephemeral, heartbeat_bound_ms, self.clock())

    @_operation
    def delete_group(self, name: str) -> int:
        """Delete an Empty group with its offsets; the error, as in DeleteGroups."""
        (deleted,) = self.ownership.owner_of(name).groups.delete([name], self.clock())
        return deleted.error_code

    @_operation
    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic. Raises TopicError."""
        self.topics.check_new(name)
        self.topics.declare(name, partitions)

    @_operation
    def delete_topic(self, name: str) -> None:
        """Delete a topic that is there."""
        topic = self.topics.named(name)
        assert topic is not None
        self.topics.delete(topic)

    @_operation
    def move_partition(self, partition: int, node_id: int) -> None:
        """Let another broker coordinate the groups of a partition of `__consumer_offsets`. Raises ValueError."""
        self.ownership.move(partition, self._with_id(node_id, up=True).id)

    @_operation
    def stop_broker(self, node_id: int) -> None:
        """Shut a broker down in good order: what it had is others' before its connections end. Raises ValueError."""
        node = self._with_id(node_id, up=True)
        self._withdraw(node)
        self._disconnect(node)

    @_operation
    def kill_broker(self, node_id: int) -> None:
        """Let a broker be gone from one moment to the next: its clients get no answers. Raises ValueError."""
        node = self._with_id(node_id, up=True)
        self._disconnect(node)
        self._withdraw(node)

    @_operation
    def restart_broker(self, node_id: int) -> None:
        """Start a broker that was stopped or killed. It gets back what it had when the cluster started, and whatever
        nobody has. Raises ValueError."""
        node = self._with_id(node_id, up=False)
        node.up = True
        self._show_nodes()
        for call in self.on_broker_up:
            call(node)
        ownership = self.ownership
        back = {
            partition
            for partition in range(ownership.partitions)
            if ownership.owner(partition) is None or ownership.preferred(partition) is node
        }
        ownership.give_up(back)
        ownership.take(back, node_id)

    def _with_id(self, node_id: int, *, up: bool) -> Node:
        node = self.nodes.get(node_id)
        if node is None:
            raise ValueError(f"There is no broker {node_id}.")
        if node.up is not up:
            raise ValueError(f"Broker {node_id} is {'running' if node.up else 'not running'}.")
        return node

    def _disconnect(self, node: Node) -> None:
        for call in self.on_broker_down:
            call(node)
        for session in list(node.sessions):
            session.transport.close()

    def _withdraw(self, node: Node) -> None:
        """Give what a node has to those that stay; without any, nobody has it."""
        node.up = False
        self._show_nodes()
        ownership = self.ownership
        leaving = {partition for partition, owner in ownership.owners.items() if owner == node.id}
        ownership.give_up(leaving)
        if not self.topics.nodes:
            return
        for other in self.nodes.values():
            ownership.take({partition for partition in leaving if ownership.preferred(partition) is other}, other.id)
        for topic in self.topics.all():
            for led in topic.partitions:
                if led.leader == node.id and topic.name != OFFSETS_TOPIC:
                    self.topics.lead(topic, led.index, leader_of(topic.name, led.index, self.topics.nodes))

    def readdress(self, addresses: Iterable[Address]) -> None:
        """Clients reach the nodes of these ids elsewhere from now on."""
        for address in addresses:
            self.nodes[address.id].address = address
        self._show_nodes()

    def _show_nodes(self) -> None:
        """Let clients see the nodes that are up."""
        self.topics.nodes.clear()
        self.topics.nodes.update({node.id: node.address for node in self.nodes.values() if node.up})
        self.topics.revision += 1

    # Running

    def start(self) -> None:
        """Load what the nodes own, or begin to."""
        self.started = True
        with self.inputs.input("start", offloads=self.outbox.offloads):
            if self.durability.store.durable_at_once and not self.loader.seconds:
                self.load_at_once()
            else:
                self.ownership.take_all()

    def begin_topics(self, records: list[tuple[Any, Any]]) -> None:
        """The store has these records of topics and settings. Call it before `start`."""
        assert self.topic_records is not None
        with self.inputs.input("topics", records=encoded(records)):
            self.topic_records.begin(records)

    def load_at_once(self) -> None:
        """Load every partition from a store that does not block."""
        now = self.clock()
        for partition, node_id in self.ownership.owners.items():
            self.nodes[node_id].groups.load(partition, self.durability.store.load(partition), now)
        self.loaded.set()
        self.settle(now)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load the partitions, and serve the store until cancelled.

        Raises StoreError if the store turns out to be unusable while it is loaded for the first time.
        """
        async with trio.open_nursery() as nursery:
            self.outbox.offloads = True
            nursery.start_soon(self.computations.run)
            nursery.start_soon(self.loader.run)
            if not self.durability.store.durable_at_once:
                nursery.start_soon(self.durability.run)
                if self.offsets_logs is not None:
                    nursery.start_soon(self.offsets_logs.run)
            if self.shared is not None:
                nursery.start_soon(self.shared.peers.run)
                await nursery.start(self.shared.leases.run)
                await nursery.start(self.shared.catalogue.run, self.config.topics)
            elif not self.started:
                if self.topic_records is not None:
                    self.begin_topics(await self.topic_records.load(self.durability))
                self.start()
            nursery.start_soon(self.ticks.run)
            task_status.started()
            await self.loader.idle.wait()
            if self.loader.final is not None:
                raise self.loader.final
            self.loader.started = True
            self.loaded.set()

    # Connections

    def open(self, node: Node, transport: Transport, client_host: str) -> Session:
        """A client, on `client_host` as Java writes it, has connected to `node`."""
        number, journal = next(self.connections), self.config.journal
        if journal is None:
            session = Session(node, transport, client_host, number)
        else:
            session = JournaledSession(journal, node, transport, client_host, number)
        node.sessions.add(session)
        return session

    def sessions(self) -> Iterable[Session]:
        """All connections of all nodes."""
        return [session for node in self.nodes.values() for session in node.sessions]

    def intercept(self, interceptor: Interceptor | None) -> None:
        """Let `interceptor` see every request before its rule does and every answer before it leaves; None ends it."""
        for node in self.nodes.values():
            node.interceptor = interceptor
        for session in self.sessions():
            session.forget()

    def receiver(self, session: Session) -> Callable[[bytes, float], None]:
        """The function that takes the bytes of a session. Where leases can run out, it checks them first: by the clock
        as it is once the bytes are here, since the process may have been paused at any moment before."""
        if self.shared is None:
            return session.receive
        leases = self.shared.leases

        def receive(data: bytes, now: float) -> None:
            now = self.clock()
            leases.check(now)
            session.receive(data, now)

        return receive


def make_cluster(
    addresses: Sequence[Address],
    config: ClusterConfig,
    store: Store | None = None,
    *,
    peer_tls: ssl.SSLContext | None = None,
    make_loader: Callable[[Durability, Callable[[], float], Callable[[float], None], float], Loader] = Loader,
) -> Cluster:
    """A cluster whose nodes clients reach at these addresses.

    The process of a cluster that shares a `store` with others is one node, and reaches the others by `peer_tls` where
    all connections are TLS ones. `make_loader` is for who has no trio to load partitions in. Raises ValueError, in one
    sentence, for a configuration that cannot be.
    """
    if isinstance(store, SharedStore) and len(addresses) != 1:
        raise ValueError("A process that shares a store with others is one broker.")
    journal = config.journal
    if journal is not None:
        if isinstance(store, SharedStore):
            raise ValueError("A journal is of one process: it cannot share its store with others.")
        config = replace(config, clock=journal.clock, new_uuid=journal.new_uuid)
        if config.clock_ahead is not None:
            config = replace(config, clock_ahead=journal.ahead)
        if make_loader is Loader:
            make_loader = partial(JournaledLoader, journal)
    if config.lasting is None:
        config = replace(config, lasting=store is not None and not isinstance(store, MemoryStore))
    clock, new_uuid = config.clock, config.new_uuid
    wall_offset = time.time() - clock() if config.wall_offset is None else config.wall_offset
    group_config = GroupConfig().with_settings(
        f"{name}={value}" for name, value in config.settings.items() if name in NAMES
    )
    assignors = load_assignors(group_config.group_consumer_assignors)
    experiment = experiments.load(config.experimental)
    partitions = group_config.offsets_topic_num_partitions
    outbox = Outbox()
    events = EventFeed(outbox)
    exchanges = Exchanges(outbox)
    nodes: dict[int, Node] = {}
    peers: Peers | None = None
    catalogue: Catalogue | None = None
    leases: Leases | None = None
    topic_records: TopicRecords | None = None
    ownership: Ownership
    ticks: Ticks
    transactions: Transactions

    # Parts that need each other: what is made first calls what is made later by these.
    def settle(now: float) -> None:
        ticks.settle(now)

    def check_leases(now: float) -> None:
        """Called before an answer leaves at `now`."""
        if leases is not None:
            leases.check(now)

    def make_topic_later(name: str) -> None:
        assert catalogue is not None
        catalogue.want(name)

    def group_changed(group_id: str) -> None:
        for node in nodes.values():
            for call in node.broker.configs.on_group_changed:
                call(group_id)

    def topic_changed(name: str) -> None:
        for node in nodes.values():
            node.groups.topic_changed(name, clock())

    def topic_deleted(name: str, topic_id: bytes) -> None:
        for node in nodes.values():
            node.groups.topic_deleted(name, clock())

    def reload(lost: set[int]) -> None:
        if topic_records is not None and topic_records.partition in lost:
            topic_records.lost()
        ownership.reload(lost)

    def dispatch(effect: object, now: float) -> None:
        if topic_records is not None and isinstance(effect, DocumentsStored):
            topic_records.stored(effect)
        else:
            transactions.apply(effect, now)

    def new_id() -> bytes:
        return new_uuid().bytes

    def epoch_ms(now: float) -> int:
        return int((now + wall_offset) * 1000)

    make_durability: Callable[..., Durability] = Durability
    make_ticks: Callable[..., Ticks] = Ticks
    make_computations: Callable[..., Computations] = Computations
    if journal is not None:
        make_durability, make_ticks = partial(JournaledDurability, journal), partial(JournaledTicks, journal)
        make_computations = partial(JournaledComputations, journal)
    durability = make_durability(
        store or MemoryStore(),
        outbox,
        group_config.offsets_commit_timeout_ms / 1000,
        clock,
        reload,
        lambda fenced: ownership.give_up(fenced),
        check_leases,
        dispatch,
        partitions,
    )
    loader = make_loader(durability, clock, settle, config.load_seconds)
    settings = Settings(config.settings)
    offsets_topic_id = id_of(0, OFFSETS_TOPIC) if config.lasting else None
    if isinstance(store, SharedStore):
        offsets_topic_id = id_of(store.cluster_seed, OFFSETS_TOPIC)
    topics = Topics(
        addresses,
        settings,
        new_id,
        cluster_id=shared_cluster_id(store.cluster_seed) if isinstance(store, SharedStore) else uuid_text(new_id()),
        offsets_owner=lambda partition: ownership.leader(partition),
        offsets_topic_id=offsets_topic_id,
        make_later=make_topic_later if isinstance(store, SharedStore) else None,
    )
    offsets_logs: OffsetsLogs | None = None
    # Of a journal only what is read at once is an input.
    if durability.store.durable_at_once or (journal is None and make_loader is Loader):
        offsets_logs = OffsetsLogs(topics, durability, clock, epoch_ms)
        topics.on_topic_changed.append(offsets_logs.topic_changed)
    topics.on_topic_changed.append(topic_changed)
    topics.on_topic_deleted.append(topic_deleted)
    if isinstance(store, SharedStore):
        peers = Peers(
            addresses[0].id,
            store,
            topics,
            lambda partition: ownership.owners.get(partition),
            clock,
            check_leases,
            settle,
            lambda purpose, answer, now: transactions.answered(purpose, answer, now),
            peer_tls,
        )
        catalogue = Catalogue(store, topics, clock, check_leases, settle, group_changed)
    transactions = Transactions(topics, lambda partition: ownership.shard(partition), partitions, epoch_ms, peers)
    share_states = SharePersister(on_demand=isinstance(store, SharedStore))
    for address in addresses:
        groups = GroupService(
            address.id,
            group_config,
            outbox,
            Timers(),
            lambda: str(new_uuid()),
            lambda key, key_type: ownership.locate(key, key_type),
            wall_offset,
            topics,
            transactions,
            assignors,
            lambda group_id: settings.groups.get(group_id, {}),
            kinds=experiment.all_kinds(),
            share_states=share_states,
        )
        broker = Broker(
            address.id,
            topics,
            outbox,
            new_id=new_id,
            epoch_ms=epoch_ms,
            release=config.release,
            shared=catalogue,
            clock_ahead=config.clock_ahead,
            share_states=share_states,
            experimental_apis=experiment.versions(),
        )
        broker.coordinate_transactions(transactions, groups)
        nodes[address.id] = Node(address, groups, broker, outbox, durability, exchanges, config.release, experiment)
    ownership = Ownership(nodes, topics, durability, loader, partitions, clock, settle)
    if offsets_logs is not None:
        ownership.on_elsewhere = offsets_logs.close
    shared: SharedParts | None = None
    if isinstance(store, SharedStore) and peers is not None and catalogue is not None:
        leases = Leases(ownership, durability, catalogue, store, addresses[0], clock)
        shared = SharedParts(peers=peers, catalogue=catalogue, leases=leases)
        topics.on_topic_changed.append(ownership.place_topic)
        # The catalogue makes the topics, unless they are there; what cannot be is said at once.
        declared = Topics(addresses, settings, new_id)
    else:
        ownership.share_out()
        declared = topics
    for name, count_ in config.topics.items():
        declared.declare(name, count_, id=id_of(0, name) if config.lasting else None)
    computations = make_computations(outbox, clock, check_leases, settle)
    ticks = make_ticks(nodes.values(), outbox, durability, computations, events, leases, clock)
    if config.lasting and shared is None:
        topic_records = TopicRecords(topics, outbox, group_changed)
        topics.on_topic_changed.append(topic_records.changed)
        topics.on_topic_configured.append(topic_records.changed)
        topics.on_topic_deleted.append(lambda name, topic_id: topic_records.changed(name))
        settings.on_changed.append(topic_records.settings_changed)
    cluster = Cluster(
        config,
        nodes,
        topics,
        outbox,
        durability,
        computations,
        loader,
        ownership,
        events,
        ticks,
        shared,
        wall_offset,
        topic_records,
        offsets_logs,
    )
    if journal is not None:
        journal.begin(_run_of(cluster, addresses))
    return cluster


def _run_of(cluster: Cluster, addresses: Sequence[Address]) -> dict[str, Any]:
    """What the first line of a journal says of a cluster."""
    config = cluster.config
    return {
        "run": config.run_id,
        "release": config.release,
        "wall_offset": cluster.wall_offset,
        "settings": dict(config.settings),
        "topics": dict(config.topics),
        "load_seconds": config.load_seconds,
        "experimental": list(config.experimental),
        "lasting": config.lasting,
        "durable_at_once": cluster.durability.store.durable_at_once,
        "nodes": [{"node": node.id, "host": node.host, "port": node.port} for node in addresses],
    }
