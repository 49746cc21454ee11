"""The target assignment: what every member is to have, computed anew when the group epoch has grown.

Decides who takes part, with which topics, and which assignor is used. What members have meanwhile is not looked at:
that is `reconcile.py`. After Kafka's `TargetAssignmentBuilder` (semantics 4.5).
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_shim.groups.assignors.spec import NO_PARTITIONS, GroupSpec, MemberSpec, Partitions
from kafka_shim.groups.consumer import records
from kafka_shim.groups.consumer.group import ConsumerGroupState
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.records import Record
from kafka_shim.groups.shard import Shard


class Target(NamedTuple):
    """A target assignment of the whole group; `changed` is what is new of it, which `records` say."""

    assignor: str
    assignments: dict[str, Partitions]
    changed: dict[str, Partitions]
    records: list[Record]


class TopicIds:
    """The ids of the topics that members subscribe to, looked up once for all who subscribe alike."""

    def __init__(self, shard: Shard, group: ConsumerGroupState) -> None:
        self._topics = shard.topics
        self._group = group
        self._ids_of: dict[tuple[frozenset[str], str | None], frozenset[bytes]] = {}
        self._names: frozenset[str] | None = None
        self._regex: str | None = None
        self._ids: frozenset[bytes] = frozenset()
        self.partition_counts: dict[bytes, int] = {}

    def of(self, member: Member) -> frozenset[bytes]:
        """Topics that do not exist are left out."""
        # Members that follow each other mostly subscribe alike, and share the names then.
        if member.topic_names is self._names and member.topic_regex == self._regex:
            return self._ids
        self._names, self._regex = member.topic_names, member.topic_regex
        subscription = member.topic_names, member.regex
        ids = self._ids_of.get(subscription)
        if ids is None:
            found = {}
            for name in self._group.subscriptions.topics_of(member):
                topic_id = self._topics.topic_id(name)
                if topic_id is not None:
                    found[topic_id] = self._topics.partitions_of(name)
            self.partition_counts |= found
            ids = self._ids_of[subscription] = frozenset(found)
        self._ids = ids
        return ids


def compute(shard: Shard, group: ConsumerGroupState, updated: Member, group_epoch: int) -> Target:
    """The target assignment with `updated` as one of the members, in its own place or in that of the static member
    whose instance id it has. Raises `AssignorError`."""
    replaced = group.static_members.get(updated.instance_id) if updated.instance_id is not None else None
    members = dict(group.members)
    if replaced is not None and replaced != updated.member_id:
        del members[replaced]
    members[updated.member_id] = updated
    ids = TopicIds(shard, group)
    targets = group.targets
    specs = {
        member_id: MemberSpec(ids.of(member), targets.get(member_id, NO_PARTITIONS), member.instance_id, member.rack_id)
        for member_id, member in members.items()
    }
    if replaced is not None:
        inherited = specs[updated.member_id]._replace(assignment=targets.get(replaced, NO_PARTITIONS))
        specs[updated.member_id] = inherited
    homogeneous = len({spec.topics for spec in specs.values()}) <= 1
    assignor = shard.assignors.choose(member.server_assignor for member in members.values())
    spec = GroupSpec(specs, ids.partition_counts, group.target_owners, homogeneous)
    assigned = shard.assignors.assign(assignor, spec)
    assignments = {member_id: assigned.get(member_id, NO_PARTITIONS) for member_id in specs}
    changed = {
        member_id: target
        for member_id, target in assignments.items()
        if target is not (old := targets.get(member_id)) and target != old
    }
    written = [records.target_assignment(group.group_id, member_id, target) for member_id, target in changed.items()]
    return Target(assignor, assignments, changed, [*written, records.target_epoch(group.group_id, group_epoch)])
