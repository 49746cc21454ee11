"""Which node coordinates the groups of which partition of `__consumer_offsets`.

Decides what becomes of a partition that gets another owner: it is loaded by the new one, and who waits for anything of
it at the old one is answered NOT_COORDINATOR (16). It does not decide who should own what where several processes share
a store: `leases.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topics
from kafka_shim.broker.topics import Node as Address
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence.partition import partition_for
from kafka_shim.server.durability import Durability
from kafka_shim.server.loading import Loader
from kafka_shim.server.node import Node
from kafka_shim.server.placement import replicas_of


class Ownership:
    """The owners of the `partitions` of `__consumer_offsets`, as this process knows them.

    `nodes` are those of this process, by id. `settle(now)` is called when answers may have been released.
    """

    def __init__(
        self,
        nodes: Mapping[int, Node],
        topics: Topics,
        durability: Durability,
        loader: Loader,
        partitions: int,
        clock: Callable[[], float],
        settle: Callable[[float], None],
    ) -> None:
        self.partitions = partitions
        self.owners: dict[int, int] = {}
        """Id of the node, of this process or another, that coordinates the groups of a partition."""
        self._nodes = nodes
        self._first = next(iter(nodes.values()))
        self._topics = topics
        self._durability = durability
        self._loader = loader
        self._clock = clock
        self._settle = settle
        self.on_elsewhere: Callable[[int], None] = lambda partition: None
        """Called for a partition that another process has now."""

    def owner(self, partition: int) -> Node | None:
        """The node of this process that coordinates the groups of a partition, if one does."""
        return self._nodes.get(self.owners.get(partition, -1))

    def owner_of(self, group_id: str) -> Node:
        """The node of this process to ask about a group: its coordinator or, if it is elsewhere, one that says so."""
        return self.owner(partition_for(group_id, self.partitions)) or self._first

    def shard(self, partition: int) -> Shard | None:
        """The groups of a partition, if a node of this process has them and they are loaded."""
        node = self.owner(partition)
        return node.groups.shards.get(partition) if node is not None else None

    def leader(self, partition: int) -> int:
        """The node that leads the partition itself, as a client sees it: its owner, or the first while it has none."""
        return self.owners.get(partition, self._first.id)

    def held(self) -> set[int]:
        """The partitions whose groups this process coordinates, or will when they are loaded."""
        return {partition for partition, node_id in self.owners.items() if node_id in self._nodes}

    def locate(self, key: str, key_type: Literal[0, 1]) -> tuple[int, int, str, int]:
        """Error, node id, host and port of the coordinator of a group (0) or a transactional id (1).

        While nobody owns the key's partition, COORDINATOR_NOT_AVAILABLE (15).
        """
        address = self._topics.nodes.get(self.owners.get(partition_for(key, self.partitions), -1))
        if address is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1
        return ErrorCode.NONE, address.id, address.host, address.port

    # Changes

    def preferred(self, partition: int) -> Node:
        """The node that should have a partition: the one whose turn it is, or the next one that is up."""
        nodes = list(self._nodes.values())
        turns = [nodes[(partition + turn) % len(nodes)] for turn in range(len(nodes))]
        return next((node for node in turns if node.up), turns[0])

    def share_out(self) -> None:
        """Give every partition to the node that should have it; nothing is loaded yet."""
        self.owners = {partition: self.preferred(partition).id for partition in range(self.partitions)}

    def take(self, partitions: Collection[int], node_id: int | None = None) -> None:
        """A node of this process, the first unless another is named, coordinates these partitions from now on."""
        node = self._first if node_id is None else self._nodes[node_id]
        for partition in partitions:
            self._own(partition, node.id)
        self._loader.begin(node.groups, partitions)

    def take_all(self) -> None:
        """Every node begins to load the partitions that it owns."""
        for node_id in self._nodes:
            self.take({partition for partition, owner in self.owners.items() if owner == node_id}, node_id)

    def give_up(self, partitions: Collection[int]) -> None:
        """No node of this process coordinates these partitions any more: what is parked or waits for the store is
        answered NOT_COORDINATOR (16), and so is what comes (semantics 5.4)."""
        now = self._clock()
        for partition in partitions:
            node = self.owner(partition)
            if node is not None:
                self._loader.forget(partition)
                node.groups.unload(partition, now)
                del self.owners[partition]
        self._durability.abandon(partitions, now)
        self._settle(now)

    def move(self, partition: int, node_id: int) -> None:
        """Let another node of this process, which is up, coordinate the groups of a partition. Raises ValueError."""
        if not 0 <= partition < self.partitions:
            raise ValueError(f"__consumer_offsets has no partition {partition}.")
        self.give_up({partition})
        self.take({partition}, node_id)

    def reload(self, partitions: Collection[int]) -> None:
        """Load partitions anew, because the store does not have what their owners know."""
        now = self._clock()
        for partition in partitions:
            node = self.owner(partition)
            if node is not None:
                node.groups.unload(partition, now)
                self._loader.begin(node.groups, {partition})

    def see(self, addresses: Mapping[int, Address], owners: Mapping[int, int]) -> None:
        """These nodes are there, of this process and others, and own these partitions; see `Leases`."""
        ours = self._first.id
        if addresses != self._topics.nodes:
            self._topics.nodes.clear()
            self._topics.nodes.update(addresses)
            for topic in self._topics.all():
                self.place_topic(topic.name)
        for partition in range(self.partitions):
            owner = owners.get(partition, ours)
            if owner != ours:
                self._own(partition, owner)
            elif self.owners.get(partition, ours) != ours:
                del self.owners[partition]

    def place_topic(self, name: str) -> None:
        """Let the partitions of a topic be led by the nodes that every process works out for them."""
        topic = self._topics.named(name)
        if topic is not None and name != OFFSETS_TOPIC and self._topics.nodes:
            for partition in topic.partitions:
                replicas = replicas_of(name, partition.index, self._topics.nodes, len(partition.replicas))
                if partition.leader != replicas[0] or partition.replicas != replicas:
                    self._topics.lead(topic, partition.index, replicas[0], replicas)

    def _own(self, partition: int, node_id: int) -> None:
        self.owners[partition] = node_id
        if node_id not in self._nodes:
            self.on_elsewhere(partition)
        topic = self._topics.named(OFFSETS_TOPIC)
        if topic is not None and topic.partitions[partition].leader != node_id:
            self._topics.lead(topic, partition, node_id)
