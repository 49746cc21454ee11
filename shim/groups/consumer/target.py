"""The target assignment: what every member is to have, computed anew when the group epoch has grown.

Decides who takes part, with which topics, and which assignor is used (`ask`), and what is new of its answer (`answer`).
`answer` looks at nothing but the question, so that it can be given in another thread. What members have meanwhile is
not looked at: that is `reconcile.py`. After Kafka's `TargetAssignmentBuilder` (semantics 4.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from kafka_shim.groups.assignors.registry import Assignors
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, GroupSpec, MemberSpec, Partitions, owners_of
from kafka_shim.groups.consumer import records
from kafka_shim.groups.consumer.group import ConsumerGroupState
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.records import Record
from kafka_shim.groups.consumer.subscriptions import Subscriptions, metadata_hash
from kafka_shim.groups.shard import TopicCatalogue
from kafka_shim.persistence.records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
)


class Question(NamedTuple):
    """What an assignor is asked for the group at `epoch`, with `updated` as one of its members. `newcomers` are members
    that have no target assignment yet."""

    group_id: str
    epoch: int
    updated: Member
    assignor: str
    spec: GroupSpec
    newcomers: AbstractSet[str]

    @property
    def size(self) -> int:
        """How much there is to compute: about as many partitions handed out. `uniform` looks at the members, and hands
        out what is free and what a newcomer gets, where all subscribe to the same; otherwise everything is gone
        through."""
        spec = self.spec
        members, partitions = len(spec.members), sum(spec.partition_counts.values())
        if self.assignor != "uniform" or not spec.homogeneous:
            return members + partitions
        free = partitions - sum(map(len, spec.owners.values()))
        return members // 4 + max(free, 0) + partitions // members

    def kept(self) -> Question:
        """The same question, which stays as it is when the group changes."""
        owners = {topic: dict(owners) for topic, owners in self.spec.owners.items()}
        return self._replace(spec=self.spec._replace(owners=owners))


class Ahead(NamedTuple):
    """What a group has once the records of a target assignment were replayed, made where that was computed: the target
    assignments of all members, the same read the other way, the members as an assignor sees them then, and what the
    trace shows, if anybody reads it."""

    targets: dict[str, Partitions]
    owners: dict[bytes, dict[int, str]]
    members: dict[str, MemberSpec]
    shown: dict[str, dict[str, list[int]]] | None


class Target(NamedTuple):
    """A target assignment of the whole group at `epoch`; `changed` is what is new of it, which `records` say. Who is
    not in `assigned` gets nothing."""

    epoch: int
    assignor: str
    assigned: Mapping[str, Partitions]
    changed: dict[str, Partitions]
    records: list[Record]
    ahead: Ahead | None = None


class TopicIds:
    """The ids of the topics that members subscribe to, looked up once for all who subscribe alike."""

    def __init__(self, topics: TopicCatalogue, subscriptions: Subscriptions) -> None:
        self._topics = topics
        self._subscriptions = subscriptions
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
            for name in self._subscriptions.topics_of(member):
                topic_id = self._topics.topic_id(name)
                if topic_id is not None:
                    found[topic_id] = self._topics.partitions_of(name)
            self.partition_counts |= found
            ids = self._ids_of[subscription] = frozenset(found)
        self._ids = ids
        return ids

    def __len__(self) -> int:
        return len(self._ids_of)


class Specs:
    """The members of a group as an assignor sees them, in the order of the group. Only those are made anew that records
    have changed since the last time; all of them, if topics or what patterns resolved to have changed."""

    __slots__ = ("_changed", "_group", "_hashed", "_ids", "_members", "_topics")

    def __init__(self, group: ConsumerGroupState, topics: TopicCatalogue) -> None:
        self._group = group
        self._topics = topics
        self._ids: TopicIds | None = None
        self._members: dict[str, MemberSpec] = {}
        self._changed: dict[str, None] = {}
        self._hashed: tuple[set[str], int] = set(), 0

    @property
    def ids(self) -> TopicIds:
        """Those of the topics as they are now."""
        group = self._group
        if self._ids is None or len(self._ids) > 2 * len(group.members) + 2:
            self._ids = TopicIds(self._topics, group.subscriptions)
            self._members = {}
            self._changed = dict.fromkeys(group.members)
        return self._ids

    def members(self) -> dict[str, MemberSpec]:
        ids, group = self.ids, self._group
        for member_id in self._changed:
            member = group.members.get(member_id)
            if member is not None:
                target = group.targets.get(member_id, NO_PARTITIONS)
                self._members[member_id] = MemberSpec(ids.of(member), target, member.instance_id, member.rack_id)
        self._changed = {}
        return self._members.copy()

    def replayed(self, key: Any, value: Any) -> None:
        """A record of the group has just taken effect."""
        record = type(key)
        if record is ConsumerGroupRegularExpressionKey:
            self.topics_changed()
        elif self._ids is None:
            return
        elif record is ConsumerGroupMemberMetadataKey and value is None:
            self._members.pop(key.member_id, None)
            self._changed.pop(key.member_id, None)
        elif record is ConsumerGroupMemberMetadataKey or record is ConsumerGroupTargetAssignmentMemberKey:
            self._changed[key.member_id] = None

    def install(self, members: dict[str, MemberSpec]) -> None:
        """These are all members, as they are now."""
        if self._ids is not None:
            self._members = members

    def topics_changed(self) -> None:
        """Nothing that is known holds any more."""
        self._ids = None
        self._hashed = set(), 0

    def metadata_hash(self, topics: set[str]) -> int:
        """The hash of those topics that exist."""
        if self._hashed[0] != topics:
            self._hashed = topics, metadata_hash(topics, self._topics)
        return self._hashed[1]


def ask(group: ConsumerGroupState, specs: Specs, assignors: Assignors, updated: Member, epoch: int) -> Question:
    """The question of the target assignment with `updated` as one of the members, in its own place or in that of the
    static member whose instance id it has. It is good until the group changes."""
    # Looked up once: a later look may begin anew, without the topics of the members.
    ids = specs.ids
    members = specs.members()
    replaced = group.static_members.get(updated.instance_id) if updated.instance_id is not None else None
    inherits = updated.member_id
    if replaced is not None and replaced != updated.member_id:
        del members[replaced]
        inherits = replaced
    target = group.targets.get(inherits, NO_PARTITIONS)
    topics = ids.of(updated)
    members[updated.member_id] = MemberSpec(topics, target, updated.instance_id, updated.rack_id)
    subscriptions = {topics}
    if updated.regex is not None or not group.subscriptions.all_are(updated.topic_names):
        subscriptions |= {member.topics for member in members.values()}
    counts = ids.partition_counts
    counts = {topic: counts[topic] for topic in frozenset().union(*subscriptions)}
    assignor = assignors.default
    if group.choosing_members or updated.server_assignor is not None:
        taking_part = (group.members | {updated.member_id: updated}).values()
        assignor = assignors.choose(each.server_assignor for each in taking_part if each.member_id in members)
    spec = GroupSpec(members, counts, group.target_owners, len(subscriptions) == 1)
    return Question(group.group_id, epoch, updated, assignor, spec, members.keys() - group.targets.keys())


def answer(assignors: Assignors, question: Question) -> Target:
    """The target assignment. Raises `AssignorError`."""
    group_id, epoch, _, assignor, spec, newcomers = question
    assigned = assignors.assign(assignor, spec)
    changed: dict[str, Partitions] = {}
    for member_id, member in spec.members.items():
        target = assigned.get(member_id, NO_PARTITIONS)
        if (target is not member.assignment and target != member.assignment) or member_id in newcomers:
            changed[member_id] = target
    written = [records.target_assignment(group_id, member_id, target) for member_id, target in changed.items()]
    return Target(epoch, assignor, assigned, changed, [*written, records.target_epoch(group_id, epoch)])


def with_ahead(target: Target, question: Question, names: Mapping[bytes, str] | None) -> Target:
    """The same with what its records come to; `names` of topics if the trace is read."""
    changed = target.changed
    members = {
        member_id: MemberSpec(member.topics, changed[member_id], member.instance_id, member.rack_id)
        if member_id in changed
        else member
        for member_id, member in question.spec.members.items()
    }
    targets = {member_id: member.assignment for member_id, member in members.items()}
    shown = None
    if names is not None:
        shown = {
            member_id: {names[topic]: sorted(owned) for topic, owned in partitions.items()}
            for member_id, partitions in target.changed.items()
        }
    return target._replace(ahead=Ahead(targets, owners_of(targets), members, shown))
