"""Who owns a partition of `__consumer_offsets` in a cluster of processes that share a store, and who should.

Decides from one view of the cluster which partitions this node takes and which it gives up: an even share for every
live node, with as few moves as that allows. Pure: it asks no database and no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Node(NamedTuple):
    """A live process of the cluster: its broker id and where clients reach it."""

    node_id: int
    host: str
    port: int


class View(NamedTuple):
    """The cluster as the store had it at one moment."""

    nodes: list[Node]
    owners: dict[int, int]
    """partition -> node id, of the leases that have not run out."""
    held: dict[int, int]
    """partition -> epoch, of this process's own leases."""
    registered: bool
    """This process still has its place among the nodes."""
    next_lapse_s: float
    """In how many seconds the first lease of another process runs out if it is not renewed; infinity if none does."""
    documents_version: int = 0
    """See `SharedStore.documents`."""


class Moves(NamedTuple):
    """What one node does next. Every node does its own part; nobody commands another."""

    claim: list[int]
    release: list[int]


def plan(node_id: int, live: Collection[int], owners: Mapping[int, int], partitions: int) -> Moves:
    """The moves of `node_id` given the live nodes and the owner of each owned partition.

    A node never holds more than its share while another has less; free partitions go to the nodes below their share in
    a fixed order, so that two nodes that see the same view want different partitions.
    """
    nodes = sorted(live)
    if node_id not in nodes:
        return Moves([], sorted(p for p, owner in owners.items() if owner == node_id))
    held: dict[int, list[int]] = {node: [] for node in nodes}
    free = []
    for partition in range(partitions):
        owner = owners.get(partition)
        if owner in held:
            held[owner].append(partition)
        else:
            free.append(partition)
    floor, extra = divmod(partitions, len(nodes))
    # The larger shares go to those who hold most already: that moves least.
    by_load = sorted(nodes, key=lambda node: (-len(held[node]), node))
    share = {node: floor + (rank < extra) for rank, node in enumerate(by_load)}
    release = held[node_id][share[node_id] :]
    claim: list[int] = []
    for node in nodes:
        missing = max(share[node] - len(held[node]), 0)
        taken, free = free[:missing], free[missing:]
        if node == node_id:
            claim = taken
    return Moves(claim, release)
