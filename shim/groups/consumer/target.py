"""Target assignment of a consumer group, computed when the group epoch has grown.

`assignment_request` collects members, topics and the assignor. `compute_target` depends on the request alone, so that
another thread can run it; `offload.py` does that for large groups. `reconcile.py` moves members towards their targets.
After Kafka's `TargetAssignmentBuilder` (semantics 4.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka_shim.groups.assignors.registry import Assignors
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, GroupSpec, MemberSpec, Partitions, owners_of
from kafka_shim.groups.consumer import records
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.epochs.target import Target, target


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
    form that assignors take. `trace` is the content of the trace event, None if the trace has no listener.
    """

    targets: dict[str, Partitions]
    owners: dict[bytes, dict[int, str]]
    members: dict[str, MemberSpec]
    trace: dict[str, dict[str, list[int]]] | None


@dataclass(frozen=True, slots=True)
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
    trace = None
    if names is not None:
        trace = {
            member_id: {names[topic]: sorted(owned) for topic, owned in partitions.items()}
            for member_id, partitions in target.changed.items()
        }
    return PrecomputedTarget(
        target.epoch,
        target.assignor,
        target.assigned,
        changed,
        target.records,
        Precomputed(targets, owners_of(targets), members, trace),
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
