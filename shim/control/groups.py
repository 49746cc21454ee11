"""Groups as JSON, for people and programs that look from outside: members, subscriptions, assignments, offsets.

Decides which fields a group has in the control API and how the consumer protocol's bytes are shown. It reads the state
of the rules and changes nothing. It does not know HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import trio

from kafka_shim.apis.consumer_protocol import assignment_from_bytes, subscription_from_bytes
from kafka_shim.groups.classic.group import CONSUMER, ClassicGroup
from kafka_shim.groups.classic.member import Member
from kafka_shim.groups.shard import Shard
from kafka_shim.server.cluster import Cluster, Node

TURN: Final = 200
"""Groups looked at before other tasks get a turn."""


async def each_group(cluster: Cluster) -> AsyncIterator[tuple[Node, ClassicGroup]]:
    """All groups of all nodes, with a turn for other tasks now and then; those deleted meanwhile may be among them."""
    for node in list(cluster.nodes.values()):
        for number, group in enumerate(list(node.groups.groups.values())):
            if number % TURN == TURN - 1:
                await trio.lowlevel.checkpoint()
            yield node, group


def summary(node: Node, group: ClassicGroup) -> dict[str, Any]:
    """A group in the list of groups."""
    return {
        "group": group.group_id,
        "type": "classic",
        "state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol": group.protocol,
        "generation": group.generation,
        "members": len(group.members),
        "coordinator": node.id,
    }


async def described(cluster: Cluster, group_id: str) -> dict[str, Any] | None:
    """Everything about one group as far as it is durable; None if there is no such group."""
    node = cluster.owner_of(group_id)
    shard = node.groups.shards.get(node.groups.partition_of(group_id))
    if shard is None or group_id not in shard.groups:
        return None
    if shard.batch > cluster.durability.durable:
        await cluster.durability.flushed()
        shard = node.groups.shards.get(shard.partition)
        if shard is None or group_id not in shard.groups:
            return None
    return _described(node, shard, shard.groups[group_id])


def _described(node: Node, shard: Shard, group: ClassicGroup) -> dict[str, Any]:
    offsets = shard.offsets.of(group.group_id)
    return {
        **summary(node, group),
        "partition": shard.partition,
        "leader": group.leader,
        "rebalance": None
        if group.round is None
        else {"cause": group.round.cause.value, "trigger": group.round.trigger, "dropped": group.round.dropped},
        "members": [_member(group, member) for member in group.members.values()],
        "pending_members": sorted(group.pending),
        "offsets": [
            {
                "topic": topic,
                "partition": partition,
                "offset": value.offset,
                "leader_epoch": value.leader_epoch,
                "metadata": value.metadata,
                "commit_timestamp": value.commit_timestamp,
            }
            for topic, by_partition in sorted(offsets.items())
            for partition, value in sorted(by_partition.items())
        ],
        "ephemeral": group.is_ephemeral,
        "heartbeat_bound_ms": None if group.terms is None else group.terms.heartbeat_bound_ms,
    }


def _member(group: ClassicGroup, member: Member) -> dict[str, Any]:
    is_consumer = group.protocol_type == CONSUMER
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "protocols": [name for name, _ in member.protocols],
        "waits_for": "join" if member.join_token is not None else "sync" if member.sync_token is not None else None,
        "subscription": _subscription(member.metadata_for(group.protocol)) if is_consumer else None,
        "assignment": _assignment(member.assignment) if is_consumer else None,
    }


def _subscription(data: bytes) -> dict[str, Any] | None:
    subscription = subscription_from_bytes(data)
    if subscription is None:
        return None
    return {
        "topics": sorted(subscription.topics),
        "owned_partitions": _by_topic(subscription.owned_partitions),
        "generation": subscription.generation_id,
        "rack": subscription.rack_id,
        "user_data_bytes": len(subscription.user_data or b""),
    }


def _assignment(data: bytes) -> dict[str, list[int]] | None:
    assignment = assignment_from_bytes(data)
    return None if assignment is None else _by_topic(assignment.assigned_partitions)


def _by_topic(partitions: list[Any]) -> dict[str, list[int]]:
    return {each.topic: sorted(each.partitions) for each in sorted(partitions, key=_topic)}


_topic: Final[Callable[[Any], str]] = lambda each: each.topic  # noqa: E731
