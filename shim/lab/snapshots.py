"""Snapshots of a group: its members, their partitions, and committed offsets, as the coordinator sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.server.cluster import Cluster

Owned = dict[str, list[int]]
"""Partitions by topic, in order."""


@dataclass(frozen=True)
class MemberSnapshot:
    """A member as the coordinator sees it. `has_synced`: it has got its assignment of this generation.

    A share group first assigns nothing, and the partitions as soon as they have their states: until then no member has
    it.
    """

    member_id: str
    client_id: str
    instance_id: str | None
    owned: Owned
    has_synced: bool


@dataclass(frozen=True)
class GroupSnapshot:
    """A group at one moment, as the coordinator sees it. A missing group is Dead, in generation -1."""

    group: str
    state: str
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[MemberSnapshot, ...]

    @property
    def is_stable(self) -> bool:
        """True if the group is Stable and every member has got its assignment."""
        return self.state == "Stable" and all(member.has_synced for member in self.members)

    def owner(self, topic: str, partition: int) -> MemberSnapshot | None:
        """Return the owner of a partition."""
        return next((member for member in self.members if partition in member.owned.get(topic, ())), None)

    def called(self, name: str) -> list[MemberSnapshot]:
        """Return the members with this member id, client id or group instance id."""
        return self._by_name.get(name, [])

    @cached_property
    def _by_name(self) -> dict[str | None, list[MemberSnapshot]]:
        by_name: dict[str | None, list[MemberSnapshot]] = {}
        for member in self.members:
            for name in {member.member_id, member.client_id, member.instance_id}:
                by_name.setdefault(name, []).append(member)
        return by_name

    def __str__(self) -> str:
        lines = [f"{self.group} is {self.state}, generation {self.generation}, {len(self.members)} members"]
        for member in self.members:
            owned = "; ".join(f"{topic} {partitions}" for topic, partitions in member.owned.items()) or "nothing"
            waits = "" if member.has_synced else ", has no assignment of this generation"
            lines.append(f"    {member.instance_id or member.client_id or member.member_id}: {owned}{waits}")
        return "\n".join(lines)


def snapshot(cluster: Cluster, group_id: str) -> GroupSnapshot:
    """Return the present state of a group on its coordinator."""
    group = cluster.ownership.owner_of(group_id).groups.groups.get(group_id)
    if group is None:
        return GroupSnapshot(group_id, "Dead", -1, None, None, ())
    now = group.describe()
    is_settled = now.state == "Stable"
    lacks_partitions = isinstance(group, ShareGroup) and group.is_assignment_pending
    members = tuple(
        MemberSnapshot(
            member.member_id,
            member.client_id,
            member.group_instance_id,
            dict(sorted(member.assignment.items())) if is_settled and member.assignment is not None else {},
            member.has_assignment and not lacks_partitions,
        )
        for member in group.describe_members(subscriptions=False)
    )
    return GroupSnapshot(group_id, now.state, now.generation, now.protocol, now.leader, members)


def partitions(owned: Mapping[str, Iterable[int]] | Iterable[Any]) -> Owned:
    """Return partitions by topic, from a mapping or from pairs of topic and partition as clients have them."""
    by_topic: dict[str, set[int]] = {}
    if isinstance(owned, Mapping):
        for topic, numbers in owned.items():
            by_topic.setdefault(topic, set()).update(numbers)
    else:
        each: Any
        for each in owned:
            topic, number = each if isinstance(each, tuple) else (each.topic, each.partition)
            by_topic.setdefault(topic, set()).add(number)
    return {topic: sorted(by_topic[topic]) for topic in sorted(by_topic) if by_topic[topic]}


def committed_topics(cluster: Cluster, group: str) -> list[str]:
    """Return the topics of which a group has committed offsets."""
    groups = cluster.ownership.owner_of(group).groups
    shard = groups.shards.get(groups.partition_of(group))
    return [] if shard is None else list(shard.offsets.of(group))


def committed(cluster: Cluster, group: str, topic: str, partition: int) -> int | None:
    """Return the committed offset of a partition, or None."""
    groups = cluster.ownership.owner_of(group).groups
    shard = groups.shards.get(groups.partition_of(group))
    value = None if shard is None else shard.offsets.of(group).get(topic, {}).get(partition)
    return None if value is None else value.offset
