"""The composition root: `make_cluster` creates the parts of a cluster and connects them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, Final, TypeAlias

from kafka_shim.apis.releases import rules_of
from kafka_shim.apis.wire import Message, uuid_text
from kafka_shim.broker.broker import Broker
from kafka_shim.broker.hanging import HangingTransactions
from kafka_shim.broker.settings import BROKER_SETTINGS, Settings, values_in_force
from kafka_shim.broker.share_states import RemoteShareStates, ShareQuestion
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topics
from kafka_shim.broker.topics import Node as Address
from kafka_shim.broker.transaction_ends import Retry
from kafka_shim.broker.transactions import Transactions
from kafka_shim.groups.config import NAMES, GroupConfig
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.service import GroupService
from kafka_shim.groups.shard import NodeParts
from kafka_shim.groups.share.persister import SharePersister
from kafka_shim.groups.timers import Timers
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.store import SharedStore, Store
from kafka_shim.security.config import public_settings
from kafka_shim.security.tls import Tls
from kafka_shim.server.alarms import Alarms
from kafka_shim.server.assignors import load_assignors
from kafka_shim.server.catalogue import Catalogue
from kafka_shim.server.cluster import Cluster, ClusterConfig, SharedParts
from kafka_shim.server.computations import Computations
from kafka_shim.server.durability import Durability
from kafka_shim.server.events import EventFeed
from kafka_shim.server.extensions import load as load_experiments
from kafka_shim.server.failures import Failures
from kafka_shim.server.journal import Inputs, Unjournaled
from kafka_shim.server.leases import Directory, Leases
from kafka_shim.server.loading import Loader
from kafka_shim.server.node import Node
from kafka_shim.server.offsets_log import OffsetsLogs
from kafka_shim.server.ownership import Ownership
from kafka_shim.server.peers import Peers
from kafka_shim.server.placement import id_of, shared_cluster_id
from kafka_shim.server.requests import REQUESTS
from kafka_shim.server.rows import Row
from kafka_shim.server.table import Table
from kafka_shim.server.ticks import Ticks
from kafka_shim.server.topic_records import DocumentsStored, TopicRecords
from kafka_shim.server.trace import Exchanges

log: Final = logging.getLogger("kafka_shim.server")

_DYNAMIC: Final = [name for name in NAMES if BROKER_SETTINGS[name].dynamic]
"""Settings of groups that a running broker takes."""

MakeLoader: TypeAlias = Callable[
    [Durability, Callable[[], float], Callable[[float], None], float, Failures, Inputs], Loader
]


def make_cluster(
    addresses: Sequence[Address],
    config: ClusterConfig,
    store: Store | None = None,
    *,
    peer_tls: Tls | None = None,
    listeners: Directory | None = None,
    make_loader: MakeLoader = Loader,
) -> Cluster:
    """Create a cluster with nodes that clients reach at these addresses.

    A process that shares `store` with others is one node, and reaches the others by `peer_tls` where all connections
    use TLS; `listeners` get their addresses. `make_loader` is for callers without trio. Raises ValueError, in one
    sentence, for an invalid configuration.
    """
    if isinstance(store, SharedStore) and len(addresses) != 1:
        raise ValueError("A process that shares a store with others is one broker.")
    if config.journal is not None and isinstance(store, SharedStore):
        raise ValueError("A journal is of one process: it cannot share its store with others.")
    composition = Composition(addresses, _completed(config, store), store or MemoryStore(), make_loader)
    if isinstance(store, SharedStore):
        composition.share(store, peer_tls, listeners or {})
    composition.make_nodes()
    return composition.connect()


def _completed(config: ClusterConfig, store: Store | None) -> ClusterConfig:
    """Replace the values that depend on the journal, the store and this machine."""
    if (journal := config.journal) is not None:
        config = replace(config, clock=journal.clock, new_uuid=journal.new_uuid)
        if config.clock_ahead is not None:
            config = replace(config, clock_ahead=journal.ahead)
    if config.lasting is None:
        config = replace(config, lasting=store is not None and not isinstance(store, MemoryStore))
    if config.wall_offset is None:
        config = replace(config, wall_offset=time.time() - config.clock())
    return config


class Composition:
    """The parts of a cluster, made in three steps: those of the process, its nodes, and the connections between them.

    A part that needs a later one calls a method here.
    """

    ticks: Ticks
    transactions: Transactions

    def __init__(
        self, addresses: Sequence[Address], config: ClusterConfig, store: Store, make_loader: MakeLoader
    ) -> None:
        self.addresses = addresses
        self.config = config
        self._rules = rules_of(config.release)
        self.clock = clock = config.clock
        self.wall_offset = config.wall_offset or 0.0
        self.group_config = GroupConfig().with_settings(
            f"{name}={value}" for name, value in config.settings.items() if name in NAMES
        )
        self.partitions = self.group_config.offsets_topic_num_partitions
        self.extension = load_experiments(config.experimental).beside(config.extension)
        self.nodes: dict[int, Node] = {}
        self.outbox = outbox = Outbox()
        self.failures = failures = Failures()
        self.events = EventFeed(outbox, failures)
        self.settings = Settings(config.settings)
        self.topics = topics = Topics(
            addresses,
            self.settings,
            self.new_id,
            cluster_id=uuid_text(self.new_id()),
            offsets_topic_id=id_of(0, OFFSETS_TOPIC) if config.lasting else None,
        )
        self.inputs = inputs = config.journal or Unjournaled()
        self.durability = durability = Durability(
            store,
            outbox,
            self.group_config.offsets_commit_timeout_ms / 1000,
            clock,
            self.reload,
            self.give_up,
            self.dispatch,
            self.partitions,
            failures,
            inputs,
        )
        self.loader = make_loader(durability, clock, self.settle, config.load_seconds, failures, inputs)
        self.computations = Computations(outbox, clock, self.check_leases, self.settle, failures, inputs)
        self.ownership = Ownership(
            self.nodes, topics, durability, self.loader, self.partitions, clock, self.settle, failures
        )
        topics.offsets_owner = self.ownership.leader
        self.topic_records: TopicRecords | None = None
        self.offsets_logs: OffsetsLogs | None = None
        # A journal has no input for a log that is read later.
        if store.durable_at_once or (make_loader is Loader and config.journal is None):
            self.offsets_logs = OffsetsLogs(topics, durability, clock, self.epoch_ms, failures)
            topics.on_topic_changed.append(self.offsets_logs.topic_changed)
            topics.on_topic_deleted.append(self.offsets_logs.topic_deleted)
            self.ownership.on_elsewhere = self.offsets_logs.close
        topics.on_topic_changed.append(self.topic_changed)
        topics.on_topic_deleted.append(self.topic_deleted)
        self.share_states = SharePersister()
        self.remote_share_states: RemoteShareStates | None = None
        self.shared: SharedParts | None = None

    def share(self, store: SharedStore, peer_tls: Tls | None, listeners: Directory) -> None:
        """Add the parts of a process that shares its store with others."""
        (address,), clock, topics, failures = self.addresses, self.clock, self.topics, self.failures
        topics.cluster_id = shared_cluster_id(store.cluster_seed)
        topics.offsets_topic_id = id_of(store.cluster_seed, OFFSETS_TOPIC)
        peers = Peers(
            address.id,
            store,
            topics,
            self.ownership.owners.get,
            clock,
            self.check_leases,
            self.settle,
            self.answered,
            peer_tls,
            failures,
        )
        catalogue = Catalogue(store, topics, clock, self.check_leases, self.settle, failures, self.config.release)
        topics.make_later = catalogue.want
        self.share_states = SharePersister(on_demand=True)
        self.remote_share_states = RemoteShareStates(topics, self.share_states, self.outbox, peers)
        leases = Leases(self.ownership, self.durability, catalogue, store, address, clock, failures, listeners)
        self.durability.check = leases.check
        self.shared = SharedParts(peers=peers, catalogue=catalogue, leases=leases)

    def make_nodes(self) -> None:
        """Create the brokers of this process."""
        config, extension, shared = self.config, self.extension, self.shared
        peers = None if shared is None else shared.peers
        self.transactions = transactions = Transactions(
            self.topics, self.ownership.shard, self.partitions, self.epoch_ms, peers
        )
        transactions.completion.on_retry = _markers_again
        kinds = extension.all_kinds(self.share_states)
        rows: dict[int, Row] = {**dict(REQUESTS.items()), **extension.rows}
        assignors = load_assignors(self.group_config.group_consumer_assignors)
        for address in self.addresses:
            parts = NodeParts(
                config=self.group_config,
                outbox=self.outbox,
                timers=Timers(self.outbox),
                new_id=self.new_member_id,
                wall_offset=self.wall_offset,
                rules=self._rules,
                topics=self.topics,
                assignors=assignors,
                group_settings=self.group_settings,
            )
            groups = GroupService(address.id, parts, kinds, self.ownership.locate, transactions)
            broker = Broker(
                address.id,
                self.topics,
                self.outbox,
                transactions,
                groups,
                new_id=self.new_id,
                epoch_ms=self.epoch_ms,
                release=config.release,
                shared=None if shared is None else shared.catalogue,
                clock_ahead=config.clock_ahead,
                share_states=self.share_states,
                more_apis=extension.versions(),
            )
            broker.remote_share_states = self.remote_share_states
            self.nodes[address.id] = Node(
                address,
                groups,
                broker,
                self.outbox,
                self.durability,
                Exchanges(self.outbox, address.id),
                Table(config.release, rows, extension.apis),
                self.failures,
                self.inputs,
            )

    def connect(self) -> Cluster:
        """Declare the topics, divide the partitions among the nodes, and return the cluster."""
        config, topics, shared = self.config, self.topics, self.shared
        topics.on_settings_applied.append(self.settings_applied)
        if shared is None:
            self.ownership.share_out()
            declared = topics
        else:
            topics.on_topic_changed.append(self.ownership.place_topic)
            (node,) = self.nodes.values()
            hanging = HangingTransactions(
                node.id,
                topics,
                node.groups.shard_of,
                self.transactions.remote_coordinator,
                shared.peers,
                self.epoch_ms,
            )
            self.transactions.hanging = hanging
            hanging.is_cut_off = lambda: shared.leases.lapses_at == inf
            shared.leases.on_doubt = hanging.doubt
            shared.leases.on_renewed = partial(self.leases_renewed, hanging)
            # The catalogue creates missing topics; here only the declarations are checked, at once.
            declared = Topics(self.addresses, self.settings, self.new_id)
        for name, count_ in config.topics.items():
            declared.declare(name, count_, id=id_of(0, name) if config.lasting else None)
        if config.lasting and shared is None:
            self.topic_records = records = TopicRecords(topics, self.outbox, config.release)
            topics.on_topic_changed.append(records.changed)
            topics.on_topic_configured.append(records.changed)
            topics.on_topic_deleted.append(lambda name, topic_id: records.changed(name))
            self.settings.on_changed.append(records.settings_changed)
            self.settings.on_group_changed.append(records.group_changed)
        self.ticks = Ticks(
            self.nodes.values(),
            self.outbox,
            self.durability,
            self.computations,
            self.events,
            None if shared is None else shared.leases,
            self.clock,
            self.failures,
            Alarms(),
            self.inputs,
        )
        cluster = Cluster(
            config,
            self.inputs,
            self.topics,
            self.outbox,
            self.durability,
            self.ownership,
            self.events,
            self.ticks,
            self.failures,
            shared=shared,
            topic_records=self.topic_records,
            offsets_logs=self.offsets_logs,
            extension=self.extension,
        )
        for node in self.nodes.values():
            node.alarms = self.ticks.alarms
        self.settings.on_quotas.append(cluster.quotas_changed)
        if config.journal is not None:
            config.journal.begin(_run_of(cluster, self.addresses))
        return cluster

    # Calls of a part to a later one

    def settle(self, now: float) -> None:
        self.ticks.settle(now)

    def settings_applied(self) -> None:
        """Let groups obey the values that clients have set for brokers."""
        config = self.group_config.with_settings(f"{name}={self.settings.text(name)}" for name in _DYNAMIC)
        for node in self.nodes.values():
            if node.groups.config != config:
                node.groups.configure(config)

    def check_leases(self, now: float) -> None:
        """Check them before an answer leaves at `now`."""
        if self.shared is not None:
            self.shared.leases.check(now)

    def leases_renewed(self, hanging: HangingTransactions, now: float) -> None:
        hanging.ask(now)
        self.settle(now)

    def topic_changed(self, name: str) -> None:
        for node in self.nodes.values():
            node.groups.topic_changed(name, self.clock())

    def topic_deleted(self, name: str, topic_id: bytes) -> None:
        for node in self.nodes.values():
            node.groups.topic_deleted(name, topic_id, self.clock())

    def reload(self, indexes: set[int], after_failure: bool) -> None:
        try:
            if self.topic_records is not None and self.topic_records.partition in indexes:
                self.topic_records.lost()
        finally:
            self.ownership.reload(indexes, after_failure)

    def give_up(self, fenced: set[int]) -> None:
        self.ownership.give_up(fenced)

    def dispatch(self, effect: object, now: float) -> None:
        if self.topic_records is not None and isinstance(effect, DocumentsStored):
            self.topic_records.stored(effect)
        else:
            self.transactions.apply(effect, now)

    def answered(self, purpose: object, answer: Message | None, now: float) -> None:
        if isinstance(purpose, ShareQuestion) and self.remote_share_states is not None:
            self.remote_share_states.answered(purpose, answer)
        else:
            self.transactions.answered(purpose, answer, now)

    # Values for the parts

    def new_id(self) -> bytes:
        return self.config.new_uuid().bytes

    def new_member_id(self) -> str:
        return str(self.config.new_uuid())

    def epoch_ms(self, now: float) -> int:
        return int((now + self.wall_offset) * 1000)

    def group_settings(self, group_id: str) -> Mapping[str, str]:
        own = self.settings.groups.get(group_id)
        # Most groups have none, and each heartbeat asks.
        return values_in_force(own, self.settings, self._rules) if own else {}


def _run_of(cluster: Cluster, addresses: Sequence[Address]) -> dict[str, Any]:
    """Return the fields of the first line of a journal."""
    config = cluster.config
    return {
        "run": config.run_id,
        "release": config.release,
        "wall_offset": cluster.wall_offset,
        "settings": public_settings(config.settings),
        "topics": dict(config.topics),
        "load_seconds": config.load_seconds,
        "experimental": list(config.experimental),
        "lasting": config.lasting,
        "durable_at_once": cluster.durability.store.durable_at_once,
        "nodes": [{"node": node.id, "host": node.host, "port": node.port} for node in addresses],
    }


def _markers_again(retry: Retry) -> None:
    """Log a transaction with markers that do not arrive, at the first, second, fourth, eighth retry, and so on."""
    if retry.attempts & (retry.attempts - 1) == 0:
        log.warning(
            "transaction %r: markers of its %s are sent again, attempt %d: %s",
            retry.transactional_id,
            "commit" if retry.is_committed else "abort",
            retry.attempts + 1,
            ", ".join(f"{topic}-{index} ({why})" for (topic, index), why in retry.unmarked.items()),
        )
