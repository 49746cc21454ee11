"""The owner of each partition of `__consumer_offsets`: the node that coordinates its groups.

A new owner loads the partition. At the old owner, waiting requests get NOT_COORDINATOR (16). Where several processes
share a store, `leases.py` chooses the owners.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Final, Literal

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topics
from kafka_shim.broker.topics import Node as Address
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence.partition import partition_for
from kafka_shim.server.durability import Durability
from kafka_shim.server.failures import Border, Failures
from kafka_shim.server.loading import Loader
from kafka_shim.server.node import Node
from kafka_shim.server.placement import replicas_of

AGAIN_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 1.0
"""Seconds before the next load of a partition whose rules raised twice within `AGAIN_SECONDS`."""


class Ownership:
    """The owners of the `partitions` of `__consumer_offsets`, from the view of this process.

    `nodes` are those of this process, by id; they may be added later. `settle(now)` is called when
    answers may have been released.
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
        failures: Failures,
    ) -> None:
        self.partitions = partitions
        self.owners: dict[int, int] = {}
        """The id of the owner of each partition, a node of this process or of another."""
        self.nodes = nodes
        self._topics = topics
        self._durability = durability
        self.loader = loader
        self._clock = clock
        self._settle = settle
        self._failures = failures
        self._failed_at: dict[int, float] = {}
        """The last time a rule raised halfway in a partition."""
        self.on_elsewhere: Callable[[int], None] = lambda partition: None
        """Called for each partition that moved to another process."""

    @property
    def _first(self) -> Node:
        return next(iter(self.nodes.values()))

    def owner(self, partition: int) -> Node | None:
        """Return the node of this process that coordinates the groups of a partition, or None."""
        return self.nodes.get(self.owners.get(partition, -1))

    def owner_of(self, group_id: str) -> Node:
        """Return the node of this process that answers for a group: its coordinator, or a node that refuses with
        NOT_COORDINATOR (16)."""
        return self.owner(partition_for(group_id, self.partitions)) or self._first

    def shard(self, partition: int) -> Shard | None:
        """Return the loaded groups of a partition, or None if no node of this process has them."""
        node = self.owner(partition)
        return node.groups.shards.get(partition) if node is not None else None

    def leader(self, partition: int) -> int:
        """Return the leader of the partition for clients: its owner, or the first node while it has no owner."""
        return self.owners.get(partition, self._first.id)

    def own_partitions(self) -> set[int]:
        """Return the partitions that this process owns, loaded or not."""
        return {partition for partition, node_id in self.owners.items() if node_id in self.nodes}

    def locate(self, key: str, key_type: Literal[0, 1]) -> tuple[int, int, str, int]:
        """Return error, node id, host and port of the coordinator of a group (0) or a transactional id (1).

        Without an owner the error is COORDINATOR_NOT_AVAILABLE (15).
        """
        address = self._topics.nodes.get(self.owners.get(partition_for(key, self.partitions), -1))
        if address is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1
        return ErrorCode.NONE, address.id, address.host, address.port

    # Changes

    def preferred(self, partition: int) -> Node:
        """Return the node that should own a partition: its turn in order of ids, or the next one that is up."""
        nodes = list(self.nodes.values())
        turns = [nodes[(partition + turn) % len(nodes)] for turn in range(len(nodes))]
        return next((node for node in turns if node.up), turns[0])

    def share_out(self) -> None:
        """Assign every partition to its preferred node, without a load."""
        self.owners.update((partition, self.preferred(partition).id) for partition in range(self.partitions))

    def take(self, partitions: Collection[int], node_id: int | None = None) -> None:
        """Let a node of this process, by default the first, coordinate these partitions from now on."""
        node = self._first if node_id is None else self.nodes[node_id]
        for partition in partitions:
            try:
                self._own(partition, node.id)
            except Exception as error:
                self._failures.note(Border.PARTITION, f"showing the owner of {_name(partition)}", error)
        self.loader.begin(node.groups, partitions)

    def take_all(self) -> None:
        """Begin to load the partitions of every node."""
        for node_id in self.nodes:
            self.take({partition for partition, owner in self.owners.items() if owner == node_id}, node_id)

    def give_up(self, partitions: Collection[int]) -> None:
        """Stop coordinating these partitions in this process. Parked and waiting requests, and later ones, get
        NOT_COORDINATOR (16) (semantics 5.4)."""
        now = self._clock()
        for partition in partitions:
            node = self.owner(partition)
            if node is not None:
                self.loader.forget(partition)
                self._unload(node, partition, now)
                del self.owners[partition]
        self._durability.abandon(partitions, now)
        self._settle(now)

    def move(self, partition: int, node_id: int) -> None:
        """Move a partition to another node of this process, which is up. Raises ValueError."""
        if not 0 <= partition < self.partitions:
            raise ValueError(f"__consumer_offsets has no partition {partition}.")
        self.give_up({partition})
        self.take({partition}, node_id)

    def reload(self, partitions: Collection[int], after_failure: bool = False) -> None:
        """Load partitions again after the store failed or a rule raised, since memory and store may differ."""
        now = self._clock()
        for partition in partitions:
            node = self.owner(partition)
            if node is not None:
                if after_failure:
                    if now - self._failed_at.get(partition, -inf) < AGAIN_SECONDS:
                        self.loader.pauses[partition] = PAUSE_SECONDS
                    self._failed_at[partition] = now
                self._unload(node, partition, now)
                self.loader.begin(node.groups, {partition})

    def _unload(self, node: Node, partition: int, now: float) -> None:
        try:
            node.groups.unload(partition, now)
        except Exception as error:
            self._failures.note(Border.PARTITION, f"giving up {_name(partition)}", error)

    def see(self, addresses: Mapping[int, Address], owners: Mapping[int, int]) -> bool:
        """Apply the nodes of all processes and the owners of partitions, from `Leases`. Return True if the nodes have
        changed."""
        ours = self._first.id
        are_new = addresses != self._topics.nodes
        if are_new:
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
        return are_new

    def place_topic(self, name: str) -> None:
        """Choose the leaders of a topic's partitions by the rule that all processes share."""
        topic = self._topics.named(name)
        if topic is not None and name != OFFSETS_TOPIC and self._topics.nodes:
            for partition in topic.partitions:
                replicas = replicas_of(name, partition.index, self._topics.nodes, len(partition.replicas))
                if partition.leader != replicas[0] or partition.replicas != replicas:
                    self._topics.lead(topic, partition.index, replicas[0], replicas)

    def _own(self, partition: int, node_id: int) -> None:
        self.owners[partition] = node_id
        if node_id not in self.nodes:
            self.on_elsewhere(partition)
        topic = self._topics.named(OFFSETS_TOPIC)
        if topic is not None and topic.partitions[partition].leader != node_id:
            self._topics.lead(topic, partition, node_id)


def _name(partition: int) -> str:
    return f"partition {partition} of __consumer_offsets"
