"""Target assignment of a consumer group, computed when the group epoch has grown.

`assignment_request` collects members, topics and the assignor. `compute_target` depends on the request alone, so that
another thread can run it for a large group (`epochs/offload.py`). That thread also builds the new state of the group,
so that `install` can apply it at once. `reconcile.py` moves members towards their targets. After Kafka's
`TargetAssignmentBuilder` (semantics 4.5).

A `Draft` is a group that is not in the shard yet: the group of a first member, or a converted classic group. While
another thread computes its first target assignment, another request may create the group or change the classic group;
`Draft.stands` checks that neither happened.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from kafka_shim.groups.assignors.registry import Assignors
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, AssignorError, GroupSpec, MemberSpec, Partitions, owners_of
from kafka_shim.groups.consumer import records
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.epochs.offload import BlockingComputation
from kafka_shim.groups.epochs.records import Record, Target, target
from kafka_shim.groups.group import Group

LARGE: Final = 10_000
"""Size of a request from which on another thread computes it. Below, the built-in assignors take 1 to 15 ms."""


class AssignmentRequest(NamedTuple):
    """Input of an assignor for the group at `epoch`, with `updated` as one of its members.

    `previous` is the target assignment of the group until now.
    """

    group_id: str
    epoch: int
    updated: Member
    assignor: str
    spec: GroupSpec
    previous: Mapping[str, Partitions]

    @property
    def size(self) -> int:
        """Rough cost of the computation, in assigned partitions.

        `uniform` with equal subscriptions costs the members, the free partitions and the partitions of one new member;
        any other case costs all members and all partitions.
        """
        spec = self.spec
        members, partitions = len(spec.members), sum(spec.partition_counts.values())
        if self.assignor != "uniform" or not spec.homogeneous:
            return members + partitions
        free = partitions - sum(map(len, spec.owners.values()))
        return members // 4 + max(free, 0) + partitions // members

    def snapshot(self) -> AssignmentRequest:
        """Return a copy that does not change with the group."""
        owners = {topic: dict(owners) for topic, owners in self.spec.owners.items()}
        return self._replace(spec=self.spec._replace(owners=owners), previous=dict(self.previous))


class Precomputed(NamedTuple):
    """State of a group after the replay of a target assignment, built by the computing thread.

    `targets` are the target assignments of all members, `owners` the same by partition, `members` the members in the
    form that assignors take.
    """

    targets: dict[str, Partitions]
    owners: dict[bytes, dict[int, str]]
    members: dict[str, MemberSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecomputedTarget(Target[Partitions]):
    """Target assignment with the state of the group after its replay."""

    precomputed: Precomputed


def assignment_request(group: ConsumerGroup, updated: Member, epoch: int) -> AssignmentRequest:
    """Return the input of the assignor with `updated` as one of the members; valid until the group changes.

    `updated` replaces the member of its id, or the static member of its instance id.
    """
    assignors = group.shard.assignors
    members = group.specs.members()
    ids = group.specs.ids
    replaced = group.static_members.get(updated.instance_id) if updated.instance_id is not None else None
    inherits = updated.member_id
    if replaced is not None and replaced != updated.member_id:
        del members[replaced]
        inherits = replaced
    target = group.targets.get(inherits, NO_PARTITIONS)
    topics = ids.of(updated)
    members[updated.member_id] = MemberSpec(topics, target, updated.instance_id, updated.rack_id)
    subscriptions, of_group = {topics}, group.subscriptions
    # Equal subscriptions without patterns come to the same topics.
    if updated.topic_regex or of_group.patterns or of_group.subscribers.keys() != {updated.topic_names}:
        subscriptions |= {member.topics for member in members.values()}
    counts = ids.partition_counts
    counts = {topic: counts[topic] for topic in frozenset().union(*subscriptions)}
    assignor = assignors.default
    if group.choosing_members or updated.server_assignor is not None:
        participants = (group.members | {updated.member_id: updated}).values()
        assignor = assignors.choose(each.server_assignor for each in participants if each.member_id in members)
    spec = GroupSpec(members, counts, group.target_owners, len(subscriptions) == 1)
    return AssignmentRequest(group.group_id, epoch, updated, assignor, spec, group.targets)


def compute_target(assignors: Assignors, request: AssignmentRequest) -> Target[Partitions]:
    """Compute the target assignment. A member that the assignor leaves out gets nothing. Raises `AssignorError`."""
    group_id, epoch, _, assignor, spec, previous = request
    chosen = assignors.assign(assignor, spec)
    assigned = {member_id: chosen.get(member_id, NO_PARTITIONS) for member_id in spec.members}
    return target(records.CLASSES, group_id, epoch, assignor, assigned, previous)


def with_precomputed(
    target: Target[Partitions], request: AssignmentRequest, names: Mapping[bytes, str] | None
) -> PrecomputedTarget:
    """Add the precomputed state of the group to a target; `names` of topics is None if the trace has no listener."""
    changed = target.changed
    members = {
        member_id: MemberSpec(member.topics, changed[member_id], member.instance_id, member.rack_id)
        if member_id in changed
        else member
        for member_id, member in request.spec.members.items()
    }
    targets = {member_id: member.assignment for member_id, member in members.items()}
    by_topic = None
    if names is not None:
        by_topic = {
            member_id: {names[topic]: sorted(owned) for topic, owned in partitions.items()}
            for member_id, partitions in changed.items()
        }
    return PrecomputedTarget(
        target.epoch,
        target.assignor,
        target.assigned,
        changed,
        target.records,
        by_topic,
        precomputed=Precomputed(targets, owners_of(targets), members),
    )


def install(group: ConsumerGroup, target: PrecomputedTarget) -> None:
    """Install a target assignment with its precomputed state; equivalent to replaying its records."""
    precomputed = target.precomputed
    group.steady_period = None
    group.targets, group.target_owners, group.target_epoch = precomputed.targets, precomputed.owners, target.epoch
    if group.target_extensions:
        for member_id in target.changed:
            group.target_extensions.pop(member_id, None)
    group.specs.install(precomputed.members, precomputed.targets)
    group.revision += 1


class Snapshot(Protocol):
    """State of a group at the time of its draft."""

    def holds(self) -> bool:
        """True while the group is still in that state."""


@dataclass(slots=True, eq=False)
class Draft:
    """Consumer group that `Change.write` puts into the shard, in place of the group `replaces` if that is not None.

    `records` add its members; they are already replayed to `group`. `group.draft` is this draft.
    """

    group: ConsumerGroup
    replaces: Group | None = None
    snapshot: Snapshot | None = None
    records: Sequence[Record] = ()

    def stands(self) -> bool:
        """Return True if neither the shard nor the replaced group has changed since."""
        present: object = self.group.shard.groups.get(self.group.group_id)
        return present is self.replaces and (self.snapshot is None or self.snapshot.holds())

    def topic_changed(self, topic: str, now: float) -> None:
        """Make a computation under way stale, and have the topics checked again."""
        self.group.topic_changed(topic, now)
        self.group.revision += 1


class DraftComputation(BlockingComputation):
    """Computation for a group that may still be a draft."""

    @property
    @abstractmethod
    def draft(self) -> Draft | None:
        """Draft that this computes, if it exists already and is not in the shard yet."""

    def topic_changed(self, topic: str, now: float) -> None:
        """Tell the draft, if there is one."""
        if self.draft is not None:
            self.draft.topic_changed(topic, now)


class TargetComputation(DraftComputation):
    """Target assignment of a group at its current `revision`."""

    def __init__(self, group: ConsumerGroup, request: AssignmentRequest) -> None:
        super().__init__(group.shard, group.group_id)
        self.group = group
        self.request = request.snapshot()
        self._assignors = group.shard.assignors
        self._revision = group.revision
        self._names: dict[bytes, str] | None = None
        if group.shard.outbox.listening:
            topics = group.shard.topics
            self._names = {topic: topics.topic_name(topic) or "" for topic in request.spec.partition_counts}

    @property
    def draft(self) -> Draft | None:
        draft: Draft | None = self.group.draft
        return draft

    def compute(self) -> PrecomputedTarget:
        return with_precomputed(compute_target(self._assignors, self.request), self.request, self._names)

    def is_of(self, group: ConsumerGroup, updated: Member, epoch: int) -> bool:
        """Return True if the result is for this group in its current state."""
        request = self.request
        return (
            self.group is group
            and self._revision == group.revision
            and request.epoch == epoch
            and request.updated == updated
        )

    def target(self) -> PrecomputedTarget:
        """Return the result. Raises `AssignorError`."""
        if isinstance(self.result, Exception):
            raise AssignorError(str(self.result)) from self.result
        target: PrecomputedTarget = self.result
        return target
