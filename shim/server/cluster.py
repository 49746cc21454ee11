"""The brokers of this process with their shared parts: start and run them, stop and restart brokers, open connections.

`compose.py` creates the parts. `ownership.py` holds the owner of each partition; `leases.py` chooses the owner where
several processes share a store. `ticks.py` holds the order of a tick.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from itertools import count
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import trio

from kafka_shim.apis.releases import DEFAULT_RELEASE
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topics
from kafka_shim.broker.topics import Node as Address
from kafka_shim.groups.outbox import Outbox
from kafka_shim.server.catalogue import Catalogue
from kafka_shim.server.connection import Transport
from kafka_shim.server.delays import Delays
from kafka_shim.server.durability import Durability
from kafka_shim.server.events import EventFeed
from kafka_shim.server.extensions import NONE, Extension
from kafka_shim.server.failures import Failures
from kafka_shim.server.journal import Inputs, Journal, encoded
from kafka_shim.server.leases import Leases
from kafka_shim.server.node import Interceptor, Node
from kafka_shim.server.offsets_log import OffsetsLogs
from kafka_shim.server.ownership import Ownership
from kafka_shim.server.parts import Parts
from kafka_shim.server.passwords import records_without_passwords
from kafka_shim.server.peers import Peers
from kafka_shim.server.placement import leader_of
from kafka_shim.server.session import Session
from kafka_shim.server.throttling import Throttling, limits_clients
from kafka_shim.server.ticks import Ticks
from kafka_shim.server.topic_records import TopicRecords

if TYPE_CHECKING:
    from kafka_shim.server.secured import Door


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """The configuration of a cluster.

    `settings` are Kafka's configuration names with their values as text. `topics` are created at start, by name with
    their numbers of partitions. `release` is the Kafka release to pose as, `4.4` for example. `load_seconds` delays
    every load of partitions.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    release: str = DEFAULT_RELEASE
    clock: Callable[[], float] = time.monotonic
    """The coordinator's clock: monotonic seconds."""
    clock_ahead: Callable[[], float] | None = None
    """Returns the seconds by which `clock` is ahead of real time, where a laboratory moves it: fetches wait in real
    time."""
    wall_offset: float | None = None
    """Seconds to add to `clock` for Unix time; None for the time of this machine."""
    new_uuid: Callable[[], uuid.UUID] = uuid.uuid4
    """Creates every random id: of members, topics, fetch sessions."""
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Identifies this run of the coordinator in the trace."""
    load_seconds: float = 0.0
    experimental: Sequence[str] = ()
    """Names of experiments to serve as well; see `extensions.py`."""
    extension: Extension = NONE
    """APIs of Kafka that only some servers have."""
    lasting: bool | None = None
    """True if groups and topics outlive the process, and topics keep their ids, which members of KIP-848 rely on. None:
    true unless the store is in memory."""
    journal: Journal | None = None
    """Notes every input; see `journal.py`."""


@dataclass(frozen=True, kw_only=True)
class SharedParts:
    """The additional parts of a cluster whose processes share a store."""

    peers: Peers
    catalogue: Catalogue
    leases: Leases


_P = ParamSpec("_P")
_T = TypeVar("_T")

OPERATIONS: Final[set[str]] = set()
"""Names of the methods of `Cluster` that an operator calls. A journal notes each call."""


def _operation(method: Callable[Concatenate[Cluster, _P], _T]) -> Callable[Concatenate[Cluster, _P], _T]:
    OPERATIONS.add(method.__name__)
    bind = signature(method).bind

    @wraps(method)
    def noted(self: Cluster, /, *arguments: _P.args, **options: _P.kwargs) -> _T:
        in_order = bind(self, *arguments, **options).args[1:]
        with self.inputs.input("operation", name=method.__name__, arguments=in_order):
            return method(self, *arguments, **options)

    return noted


class Cluster:
    """The nodes of this process, their topics and their store. `make_cluster` creates it."""

    def __init__(
        self,
        config: ClusterConfig,
        inputs: Inputs,
        topics: Topics,
        outbox: Outbox,
        durability: Durability,
        ownership: Ownership,
        events: EventFeed,
        ticks: Ticks,
        failures: Failures,
        *,
        shared: SharedParts | None,
        topic_records: TopicRecords | None,
        offsets_logs: OffsetsLogs | None,
        extension: Extension,
    ) -> None:
        self.config = config
        self.extension = extension
        """Its additions to the protocol of a release."""
        self.clock = config.clock
        self.wall_offset = config.wall_offset or 0.0
        """Seconds to add to `clock` for Unix time."""
        self.nodes = ownership.nodes
        self.topics = topics
        self.outbox = outbox
        self.durability = durability
        self.ownership = ownership
        self.loader = ownership.loader
        self.events = events
        self.ticks = ticks
        self.computations = ticks.computations
        self.settle = ticks.settle
        """See `Ticks.settle`."""
        self.inputs = inputs
        self.shared = shared
        self.topic_records = topic_records
        """Stores topics; None where topics end with the process, or several processes share them."""
        self.failures = failures
        """The exceptions that the guards of this process have caught."""
        self.offsets_logs = offsets_logs
        """The logs of `__consumer_offsets` for clients; None with a journal, which does not note the time of a read."""
        self.delays = Delays(failures)
        self.connections = count(1)
        """Numbers for connections, each used once."""
        self.loaded = trio.Event()
        """Set when every partition was loaded, or failed, for the first time."""
        self.started = False
        """True after `start`."""
        self.on_broker_down: list[Callable[[Node], None]] = []
        """Called when a node becomes unreachable for clients."""
        self.on_broker_up: list[Callable[[Node], None]] = []
        """Called when a node is reachable for clients again."""

    # Operations

    @_operation
    def create_group(self, name: str, ephemeral: bool, heartbeat_bound_ms: int | None) -> ErrorCode:
        """See `GroupService.precreate`."""
        return self.ownership.owner_of(name).groups.precreate(name, ephemeral, heartbeat_bound_ms, self.clock())

    @_operation
    def delete_group(self, name: str) -> int:
        """Delete an Empty group with its offsets. Return the error code, as in DeleteGroups."""
        (deleted,) = self.ownership.owner_of(name).groups.delete([name], self.clock())
        return deleted.error_code

    @_operation
    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic. Raises TopicError."""
        self.topics.check_new(name)
        self.topics.declare(name, partitions)

    @_operation
    def delete_topic(self, name: str) -> None:
        """Delete an existing topic."""
        topic = self.topics.named(name)
        assert topic is not None
        self.topics.delete(topic)

    @_operation
    def move_partition(self, partition: int, node_id: int) -> None:
        """Let another broker coordinate the groups of a partition of `__consumer_offsets`. Raises ValueError."""
        self.ownership.move(partition, self._with_id(node_id, up=True).id)

    @_operation
    def stop_broker(self, node_id: int) -> None:
        """Shut a broker down cleanly: its partitions move before its connections end. Raises ValueError."""
        node = self._with_id(node_id, up=True)
        self._tell(node, "stopped")
        self._withdraw(node)
        self._disconnect(node)

    @_operation
    def kill_broker(self, node_id: int) -> None:
        """Stop a broker without warning: its connections end before its partitions move. Raises ValueError."""
        node = self._with_id(node_id, up=True)
        self._tell(node, "killed")
        self._disconnect(node)
        self._withdraw(node)

    @_operation
    def restart_broker(self, node_id: int) -> None:
        """Start a broker that was stopped or killed. It gets its preferred partitions and those without an owner.
        Raises ValueError."""
        node = self._with_id(node_id, up=False)
        node.up = True
        self._tell(node, "started")
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

    def _tell(self, node: Node, change: str) -> None:
        if self.outbox.listening:
            self.outbox.event("broker", node=node.id, change=change)

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
        """Move the partitions of a node to the other nodes that are up; without any, they have no owner."""
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
        """Change the addresses of nodes, by id."""
        for address in addresses:
            self.nodes[address.id].address = address
        self._show_nodes()

    def _show_nodes(self) -> None:
        """Show clients the nodes that are up."""
        self.topics.nodes.clear()
        self.topics.nodes.update({node.id: node.address for node in self.nodes.values() if node.up})
        self.topics.revision += 1

    # Running

    def start(self) -> None:
        """Load the partitions of the nodes, or begin to."""
        self.started = True
        with self.inputs.input("start", offloads=self.outbox.offloads):
            if self.durability.store.durable_at_once and not self.loader.seconds:
                self.load_at_once()
            else:
                self.ownership.take_all()

    def begin_topics(self, records: list[tuple[Any, Any]]) -> None:
        """Begin with the topics and settings in the store. Call it before `start`."""
        assert self.topic_records is not None
        is_noted = self.inputs.listening
        with self.inputs.input("topics", records=encoded(records_without_passwords(records)) if is_noted else ()):
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

        Raises StoreError if the store turns out to be unusable during the first load.
        """
        async with trio.open_nursery() as nursery:
            self.outbox.offloads = True
            if self.config.journal is None:
                parts = Parts(self.clock, self.settle)
                for node in self.nodes.values():
                    node.parts = parts
                    node.broker.fetches.room = node.broker.share.room = parts.room
                    node.broker.fetches.hold = lambda exchange, size: parts.hold(exchange.session, size)
                    node.broker.fetches.take_turns = parts.add
                if self.offsets_logs is not None:
                    self.offsets_logs.take_turns = parts.add
                nursery.start_soon(parts.run)
            nursery.start_soon(self.computations.run)
            nursery.start_soon(self.loader.run)
            nursery.start_soon(self.durability.watch)
            nursery.start_soon(self.delays.run)
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

    def open(
        self,
        node: Node,
        transport: Transport,
        client_host: str,
        door: Door | None = None,
        principal: str | None = None,
    ) -> Session:
        """Open a session for a client on `client_host`, as Java writes it, that has connected to `node`, through the
        door of a listener if it has one; `principal` is that of its certificate."""
        number = next(self.connections)
        with self.inputs.input("open", connection=number, node=node.id, host=client_host, peer=transport.peer):
            if door is None:
                session = Session(node, transport, client_host, number)
            else:
                session = door.open(node, transport, client_host, number, principal)
        self.inputs.follow(session)
        node.sessions.add(session)
        return session

    def sessions(self) -> Iterable[Session]:
        """Return all connections of all nodes."""
        return [session for node in self.nodes.values() for session in node.sessions]

    def intercept(self, interceptor: Interceptor | None) -> None:
        """Show `interceptor` every request before its rule runs and every answer before it leaves; None removes it."""
        for node in self.nodes.values():
            node.interceptor = interceptor
        for session in self.sessions():
            session.forget()

    def quotas_changed(self) -> None:
        """Throttle clients by the quotas that are there now. A repeated request passes by them, so none is
        remembered."""
        settings = self.topics.settings
        for node in self.nodes.values():
            if not limits_clients(settings):
                node.throttling = None
            elif node.throttling is None:
                # A journal does not note the time of the thread.
                node.throttling = Throttling(settings, *([lambda: 0.0] if self.config.journal is not None else []))
        for session in self.sessions():
            session.forget()

    def receiver(self, session: Session) -> Callable[[bytes, float], None]:
        """Return the function for the bytes of a session. With leases it checks them first, by a fresh clock, since the
        process may have been paused before the bytes came."""
        if self.shared is None:
            return session.receive
        leases = self.shared.leases

        def receive(data: bytes, now: float) -> None:
            now = self.clock()
            leases.check(now)
            session.receive(data, now)

        return receive
