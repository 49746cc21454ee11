"""`Simulation`: a coordinator and its members without sockets and in simulated time: an hour takes seconds.

The cluster is that of a server, its sessions read and write real bytes, the members are puppets. Time jumps from one
action to the next, so the same seed gives the same events.

    simulation = Simulation(topics={"orders": 64}, network=Network(least=0.001, most=0.05), seed=7)
    members = [simulation.puppet("billing", ["orders"]) for _ in range(8)]
    simulation.run(3600)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from kafka_shim.broker.topics import Node as Address
from kafka_shim.groups.service import GroupService
from kafka_shim.lab import arguments
from kafka_shim.lab.consumer_puppets import ConsumerPuppet, ConsumerScript
from kafka_shim.lab.faults import Faults
from kafka_shim.lab.interception import Interception
from kafka_shim.lab.puppet_kinds import start_puppet
from kafka_shim.lab.puppets import Puppet, Script
from kafka_shim.lab.scheduler import Network, Scheduler
from kafka_shim.lab.share_puppets import SharePuppet
from kafka_shim.lab.snapshots import GroupSnapshot, snapshot
from kafka_shim.lab.streams_puppets import StreamsPuppet, StreamsScript
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.store import Store
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.compose import make_cluster
from kafka_shim.server.durability import Durability
from kafka_shim.server.failures import Failures
from kafka_shim.server.history import EventHistory
from kafka_shim.server.journal import Ids, Inputs, Journal
from kafka_shim.server.loading import Loader

START: Final = 1000.0
"""Clock at the beginning of a simulation, in seconds."""
WALL_OFFSET: Final = 1_700_000_000.0
"""Seconds from this clock to Unix time: the same in each run, because groups keep times in Unix milliseconds."""


class Simulation:
    """A cluster of `brokers` nodes in simulated time; `now` is in seconds.

    `config` are text values by Kafka's configuration names; `topics` are partitions by name; `load_seconds` is the time
    that a node takes to load new partitions. With `watched` the events are kept, which takes time. A `journal` records
    the inputs. `experimental` are names of experiments (`shim/server/extensions.py`).
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        brokers: int = 1,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        network: Network | None = None,
        store: Store | None = None,
        load_seconds: float = 0.0,
        watched: bool = False,
        journal: Path | None = None,
        experimental: Sequence[str] = (),
    ) -> None:
        arguments.whole("brokers", brokers, 1)
        self.now = START
        self.store = store or MemoryStore()
        self.journal = None if journal is None else Journal(journal, real=lambda: self.now)
        settings = ClusterConfig(
            settings=arguments.settings_of(config),
            topics=arguments.topics_of(topics),
            clock=lambda: self.now,
            wall_offset=WALL_OFFSET,
            new_uuid=Ids(seed),
            load_seconds=load_seconds,
            experimental=arguments.experiments_of(experimental),
            journal=self.journal,
        )
        addresses = [Address(number, "simulated", 9091 + number) for number in range(1, brokers + 1)]
        self.cluster = make_cluster(addresses, settings, self.store, make_loader=partial(_Loader, self))
        self.scheduler = Scheduler(self.cluster, network, seed)
        self.interception = Interception(self.cluster, self.scheduler.later)
        self.faults = Faults(self.interception)
        # Simulated time is all the time there is: the same run has the same events.
        self.history = EventHistory(self.cluster.events)
        if watched:
            self.history.start()
        with self.cluster.inputs.input("start"):
            self.cluster.load_at_once()

    def puppet(self, group: str, topics: Sequence[str], **script: Any) -> Puppet:
        """Start a member that joins now; `script` are the other fields of `Script`."""
        puppet = Puppet(self.scheduler, Script(group=group, topics=topics, **script))
        puppet.join()
        return puppet

    def consumer_puppet(self, group: str, topics: Sequence[str], **script: Any) -> ConsumerPuppet:
        """Start a member of the consumer protocol (KIP-848) that joins now; `script` are other fields of
        `ConsumerScript`.
        """
        puppet = ConsumerPuppet(self.scheduler, ConsumerScript(group=group, topics=topics, **script))
        puppet.join()
        return puppet

    def share_puppet(self, group: str, topics: Sequence[str], **script: Any) -> SharePuppet:
        """Start a member of a share group (KIP-932) that joins now; `script` are other fields of `ConsumerScript`."""
        puppet = SharePuppet(self.scheduler, ConsumerScript(group=group, topics=topics, **script))
        puppet.join()
        return puppet

    def streams_puppet(self, group: str, topics: Sequence[str], **script: Any) -> StreamsPuppet:
        """Start a thread of a streams group (KIP-1071) that joins now; `script` are other fields of `StreamsScript`."""
        puppet = StreamsPuppet(self.scheduler, StreamsScript(group=group, topics=topics, **script))
        puppet.join()
        return puppet

    def client_assignor_puppet(self, group: str, topics: Sequence[str], **script: Any) -> Any:
        """Start a member that computes assignments itself; `script` are the other fields of `ClientAssignorScript`. The
        simulation must be `experimental=["client-assignors"]`.
        """
        return self.start_puppet("client-assignors", group, topics, **script)

    def registered_puppet(self, group: str, topics: Sequence[str], **script: Any) -> Any:
        """Start a member that registers with the controller of its group; `script` are the other fields of
        `RegisteredScript`. The simulation must be `experimental=["designs"]`.
        """
        return self.start_puppet("registered", group, topics, **script)

    def start_puppet(self, kind: str, group: str, topics: Sequence[str], **script: Any) -> Any:
        """Start a member of a kind that joins now, also of one that only an experiment has; `script` are the other
        fields of its script. Raises ValueError, in one sentence, for a kind that the simulation does not serve.
        """
        return start_puppet(self.scheduler, kind, {"group": group, "topics": topics, **script})

    def group(self, name: str) -> GroupSnapshot:
        """Return the present state of a group."""
        return snapshot(self.cluster, name)

    def run(self, seconds: float) -> None:
        """Let `seconds` pass."""
        arguments.seconds("The time to pass", seconds)
        end = self.now + seconds
        cluster, scheduler = self.cluster, self.scheduler
        outbox = cluster.outbox
        services = [node.groups for node in cluster.nodes.values()]
        # A simulated cluster waits only for groups' timers: no client fetches, and the store never blocks.
        deadlines = [service.timers.next_deadline for service in services]
        first_timer = deadlines[0] if len(deadlines) == 1 else lambda: min([deadline() for deadline in deadlines])
        first_act, act = scheduler.next_deadline, scheduler.run
        while True:
            acts, timers = first_act(), first_timer()
            sooner = acts if acts < timers else timers
            if sooner > end:
                break
            if sooner > self.now:
                self.now = sooner
            if acts <= timers:
                act(self.now)
            elif self.journal is not None:
                cluster.ticks.fire(self.now)
            else:
                for service in services:
                    service.fire(self.now)
            if outbox.replies or outbox.records or outbox.events:
                cluster.settle(self.now)
        self.now = end


class _Loader(Loader):
    """Loads partitions in simulated time."""

    def __init__(
        self,
        simulation: Simulation,
        durability: Durability,
        clock: Callable[[], float],
        settle: Callable[[float], None],
        seconds: float,
        failures: Failures,
        inputs: Inputs,
    ) -> None:
        super().__init__(durability, clock, settle, seconds, failures, inputs)
        self._simulation = simulation
        self._takeovers: dict[int, object] = {}

    def begin(self, groups: GroupService, partitions: Iterable[int]) -> None:
        for partition in sorted(partitions):
            ticket = self._takeovers[partition] = object()
            groups.begin_loading(partition)
            self._simulation.scheduler.later(self.seconds, self._load_act(groups, partition, ticket))

    def forget(self, partition: int) -> None:
        self._takeovers.pop(partition, None)

    def _load_act(self, groups: GroupService, partition: int, ticket: object) -> Any:
        def load(now: float) -> None:
            if self._takeovers.get(partition) is ticket:
                self.loaded(groups, partition, list(self._simulation.store.load(partition)))

        return load
