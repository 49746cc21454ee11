"""Ids and leaders that the processes of one cluster compute alike, without messages.

The ids of the cluster and of `__consumer_offsets`, and the leader and replicas of a partition of an ordinary topic,
follow from a number in the store, names, and the present nodes. Logs are not shared: the records of a partition are
where its leader is, so a node that comes or goes should move few leaders.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from kafka_shim.apis.wire import uuid_text


def shared_cluster_id(seed: int) -> str:
    """Return the cluster id of a cluster with this seed."""
    return uuid_text(_digest(f"cluster {seed}"))


def id_of(seed: int, topic: str) -> bytes:
    """Return the id of the topic of this name in a cluster of this seed: 16 bytes."""
    return _digest(f"topic {seed} {topic}")


def leader_of(topic: str, partition: int, nodes: Iterable[int]) -> int:
    """Return the leader of a partition: each node has a weight for it, and the heaviest leads (rendezvous hashing)."""
    return replicas_of(topic, partition, nodes, 1)[0]


def replicas_of(topic: str, partition: int, nodes: Iterable[int], count: int) -> list[int]:
    """Return the replicas of a partition, by weight; the first is its leader."""
    return sorted(nodes, key=lambda node: _digest(f"leader {topic} {partition} {node}"), reverse=True)[:count]


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()
