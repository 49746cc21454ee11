"""Groups as JSON for people and programs: members, subscriptions, assignments, offsets.

It reads the state of the groups, decodes the consumer protocol's bytes, and changes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import trio

from kafka_shim.groups.group import OFFSET_KINDS, Group, MemberDescription, Subscription
from kafka_shim.groups.shard import Shard
from kafka_shim.server.cluster import Cluster
from kafka_shim.server.node import Node

TURN: Final = 200
"""Groups or offsets to read before other tasks get a turn."""
MEMBERS: Final = 20
"""Members to read: each may subscribe to thousands of topics, or own thousands of partitions."""


async def each_group(cluster: Cluster) -> AsyncIterator[tuple[Node, Group]]:
    """Yield all groups of all nodes, with a turn for other tasks now and then; groups deleted in between may be among
    them."""
    for node in list(cluster.nodes.values()):
        for number, group in enumerate(list(node.groups.groups.values())):
            if number % TURN == TURN - 1:
                await trio.lowlevel.checkpoint()
            yield node, group


def summary(node: Node, group: Group) -> dict[str, Any]:
    """Return a group for the list of groups."""
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol": group.protocol,
        "generation": group.generation,
        "members": group.size,
        "coordinator": node.id,
    }


async def described(cluster: Cluster, group_id: str) -> dict[str, Any] | None:
    """Return all durable facts about one group; None if it does not exist."""
    node = cluster.ownership.owner_of(group_id)
    shard = node.groups.shards.get(node.groups.partition_of(group_id))
    if shard is None or group_id not in shard.groups:
        return None
    if shard.batch > cluster.durability.durable:
        await cluster.durability.flushed()
        shard = node.groups.shards.get(shard.partition)
        if shard is None or group_id not in shard.groups:
            return None
    return await _described(cluster, node, shard, shard.groups[group_id])


async def _described(cluster: Cluster, node: Node, shard: Shard, group: Group) -> dict[str, Any]:
    # A copy, because members and offsets may change while the long lists are made.
    offsets = {topic: dict(by_partition) for topic, by_partition in shard.offsets.of(group.group_id).items()}
    description = group.describe()
    due_ms = description.assignment_due_ms
    left_ms = 0 if due_ms is None else due_ms - shard.wall_ms(cluster.clock())
    facts = {
        **summary(node, group),
        "partition": shard.partition,
        "assignment_epoch": description.assignment_epoch,
        "assignment_wait_ms": left_ms if left_ms > 0 else None,
        "leader": description.leader,
        "rebalance": None
        if description.cause is None
        else {"cause": description.cause, "trigger": description.trigger, "dropped": description.dropped},
        "pending_members": description.pending_members,
        "ephemeral": description.ephemeral,
        "heartbeat_bound_ms": description.heartbeat_bound_ms,
        "topology": [asdict(node) for node in description.topology],
    }
    members = await _in_turns((_member(member) for member in group.describe_members()), MEMBERS)
    owned: dict[str, set[int]] = {}
    for member in members if group.type in OFFSET_KINDS else ():
        for topic, numbers in (member["assignment"] or {}).items():
            owned.setdefault(topic, set()).update(numbers)
    return facts | {
        "members": members,
        "offsets": await _in_turns(
            {
                "topic": topic,
                "partition": partition,
                "offset": value.offset,
                "leader_epoch": value.leader_epoch,
                "metadata": value.metadata,
                "commit_timestamp": value.commit_timestamp,
                "lag": _lag(cluster, topic, partition, value.offset),
            }
            for topic, by_partition in sorted(offsets.items())
            for partition, value in sorted(by_partition.items())
        ),
        "uncommitted": await _in_turns(
            {"topic": topic, "partition": partition, "lag": _lag(cluster, topic, partition)}
            for topic, partitions in sorted(owned.items(), key=itemgetter(0))
            for partition in sorted(partitions - offsets.get(topic, {}).keys())
        ),
    }


async def _in_turns(each: Iterator[dict[str, Any]], at_once: int = TURN) -> list[dict[str, Any]]:
    """Return all of them, with a turn for other tasks after so many."""
    whole: list[dict[str, Any]] = []
    while part := list(islice(each, at_once)):
        whole += part
        await trio.lowlevel.checkpoint()
    return whole


def _lag(cluster: Cluster, topic: str, partition: int, offset: int | None = None) -> int | None:
    of_topic = cluster.topics.named(topic)
    there = None if of_topic is None else of_topic.partition(partition)
    if there is None:
        return None
    return there.log.readable_end(committed=True) - (there.log.start_offset if offset is None else offset)


def _member(member: MemberDescription) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "protocols": member.protocols,
        "waits_for": member.parked,
        "subscription": None if member.subscription is None else _subscription(member.subscription),
        "assignment": None if member.assignment is None else dict(sorted(member.assignment.items())),
    }


def _subscription(subscription: Subscription) -> dict[str, Any]:
    return {
        "topics": subscription.topics,
        "owned_partitions": dict(sorted(subscription.owned_partitions.items())),
        "generation": subscription.generation,
        "rack": subscription.rack,
        "user_data_bytes": subscription.user_data_bytes,
    }
