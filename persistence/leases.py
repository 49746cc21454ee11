"""Even distribution of the partitions of `__consumer_offsets` over the processes that share a store.

From one view of the cluster, `plan` computes the partitions that a node claims and releases: an even share for every
live node, with as few moves as possible. Pure: without database or clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Node(NamedTuple):
    """A live process of the cluster: its broker id and its address for clients."""

    node_id: int
    host: str
    port: int


class View(NamedTuple):
    """The cluster as the store saw it at one moment."""

    nodes: list[Node]
    owners: dict[int, int]
    """partition -> node id, of the leases that have not expired."""
    own_epochs: dict[int, int]
    """partition -> epoch, of this process's own leases."""
    registered: bool
    """This process is still in the directory of nodes."""
    next_lapse_s: float
    """Seconds until the first lease of another process expires if it is not renewed; infinity if there is none."""
    documents_version: int = 0
    """See `SharedStore.documents`."""
    listeners: Mapping[tuple[str, int], tuple[str, int]] = {}
    """(listener, node id) -> the address of the node for clients of the listener; also of nodes that have ended."""


class Moves(NamedTuple):
    """Next moves of one node. Every node plans its own moves."""

    claim: list[int]
    release: list[int]


def plan(node_id: int, live: Collection[int], owners: Mapping[int, int], partitions: int) -> Moves:
    """Compute the moves of `node_id` from the live nodes and the owner of each owned partition.

    A node never keeps more than its share while another node has less. Free partitions go to the nodes below their
    share in a fixed order, so that two nodes with the same view claim different partitions.
    """
    nodes = sorted(live)
    if node_id not in nodes:
        return Moves([], sorted(p for p, owner in owners.items() if owner == node_id))
    by_node: dict[int, list[int]] = {node: [] for node in nodes}
    free = []
    for partition in range(partitions):
        owner = owners.get(partition)
        if owner in by_node:
            by_node[owner].append(partition)
        else:
            free.append(partition)
    floor, extra = divmod(partitions, len(nodes))
    # The larger shares go to the nodes with the most partitions: that moves least.
    by_load = sorted(nodes, key=lambda node: (-len(by_node[node]), node))
    share = {node: floor + (rank < extra) for rank, node in enumerate(by_load)}
    release = by_node[node_id][share[node_id] :]
    claim: list[int] = []
    for node in nodes:
        missing = max(share[node] - len(by_node[node]), 0)
        portion, free = free[:missing], free[missing:]
        if node == node_id:
            claim = portion
    return Moves(claim, release)
