"""Members of a streams group (KIP-1071), the tasks of its application as plain data, by role, and its records.

A task is a subtopology and a partition. An active task processes records; a standby keeps a copy of its state; a
warm-up is a standby that will become active. The topology is deleted after the group; `epochs/records.py` has the order
of all other tombstones (semantics 5.3). After Kafka's `StreamsGroupMember`, `TasksTuple` and `TasksTupleWithEpochs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, NamedTuple, Protocol, TypeAlias

from kafka_shim.groups.epochs.member import LEAVE, LEAVE_STATIC
from kafka_shim.groups.epochs.records import Record, RecordClasses
from kafka_shim.groups.epochs.revoking import RevokingMember, States
from kafka_shim.groups.streams.states import MemberState
from kafka_shim.persistence.records import (
    RecordError,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from kafka_shim.persistence.streams_records import (
    AssignmentConfig,
    ClientTag,
    CurrentTaskIds,
    StreamsEndpoint,
    TargetTaskIds,
)

TaskSet: TypeAlias = Mapping[str, frozenset[int]]
"""Subtopology id -> partitions. A subtopology without tasks is left out."""

ActiveTasks: TypeAlias = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> the member epoch at which the task was assigned."""

NO_TASK_SET: TaskSet = {}
NO_ACTIVE_TASKS: ActiveTasks = {}


class Tasks(NamedTuple):
    """The tasks of a member in a target assignment or in its report."""

    active: TaskSet = NO_TASK_SET
    standby: TaskSet = NO_TASK_SET
    warmup: TaskSet = NO_TASK_SET


class AssignedTasks(NamedTuple):
    """The tasks that a member has, or must revoke."""

    active: ActiveTasks = NO_ACTIVE_TASKS
    standby: TaskSet = NO_TASK_SET
    warmup: TaskSet = NO_TASK_SET

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


class TaskOffsets(NamedTuple):
    """The last report of a member: the offset of the state of each task, and the end of its changelog, by subtopology
    and partition."""

    offsets: Mapping[tuple[str, int], int] = {}
    end_offsets: Mapping[tuple[str, int], int] = {}


NO_OFFSETS = TaskOffsets()
NO_TASKS = Tasks()
NONE_ASSIGNED = AssignedTasks()


def _meet(one: TaskSet, other: TaskSet) -> bool:
    return any(not partitions.isdisjoint(other.get(each, frozenset())) for each, partitions in one.items())


def each_task(tasks: Mapping[str, Iterable[int]]) -> Iterator[tuple[str, int]]:
    """Yield every task as `(subtopology id, partition)`."""
    return ((subtopology, partition) for subtopology, partitions in tasks.items() for partition in partitions)


class _TaskIds(Protocol):
    subtopology_id: str
    partitions: list[int]


def from_ids(ids: Iterable[_TaskIds]) -> TaskSet:
    """Convert tasks from the form of records and requests."""
    return {each.subtopology_id: frozenset(each.partitions) for each in ids}


def in_order(tasks: Mapping[str, Iterable[int]]) -> list[tuple[str, list[int]]]:
    """Return the tasks in Kafka's order: by subtopology id, then by partition."""
    return [(subtopology, sorted(tasks[subtopology])) for subtopology in sorted(tasks)]


@dataclass(frozen=True, slots=True)
class Member(RevokingMember):
    """One member: a thread of an application. Members of one instance of it share a `process_id`.

    `user_endpoint` is the host and port of the instance for interactive queries.
    """

    states: ClassVar[States] = States(MemberState.STABLE, MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS)

    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    """Sorted."""
    assigned: AssignedTasks = field(default_factory=lambda: NONE_ASSIGNED)
    """Tasks that it may run."""
    pending_revocation: AssignedTasks = field(default_factory=lambda: NONE_ASSIGNED)
    """Tasks that it must revoke and has not yet reported as revoked."""

    @staticmethod
    def may_own(owned: Tasks | None, assignment: AssignedTasks) -> bool:
        """Return True if a member that reports `owned` may own one of these tasks, in the same role."""
        if owned is None:
            return True
        return (
            any(not tasks.isdisjoint(assignment.active.get(each, ())) for each, tasks in owned.active.items())
            or _meet(owned.standby, assignment.standby)
            or _meet(owned.warmup, assignment.warmup)
        )

    @staticmethod
    def is_nothing(owned: Tasks | None) -> bool:
        return owned is not None and not any(owned)

    def has_all(self, owned: Tasks | None) -> bool:
        return owned is not None and all(
            subtopology in has and partitions <= set(has[subtopology])
            for tasks, has in zip(owned, self.assigned, strict=True)
            for subtopology, partitions in tasks.items()
        )

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> Member:
        endpoint = value.user_endpoint
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            client_tags=tuple(sorted((tag.key, tag.value) for tag in value.client_tags)),
        )

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> Member:
        """Return the member with this assignment. Raises `RecordError` unless there is one assignment epoch for each
        task.
        """
        epoch = value.member_epoch
        return replace(
            self,
            epoch=epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=AssignedTasks(
                _active(value.active_tasks, epoch), from_ids(value.standby_tasks), from_ids(value.warmup_tasks)
            ),
            pending_revocation=AssignedTasks(
                _active(value.active_tasks_pending_revocation, epoch),
                from_ids(value.standby_tasks_pending_revocation),
                from_ids(value.warmup_tasks_pending_revocation),
            ),
        )

    def away(self) -> Member:
        """Return the member after it left for a while: it has its tasks since epoch 0."""
        active = {subtopology: dict.fromkeys(tasks, 0) for subtopology, tasks in self.assigned.active.items()}
        return replace(
            self,
            epoch=LEAVE_STATIC,
            assigned=self.assigned._replace(active=active),
            pending_revocation=NONE_ASSIGNED,
        )

    def needs_other_tasks(self, before: Member) -> bool:
        """Return True if it differs from `before` in a field that counts for an assignment."""
        return (self.topology_epoch, self.rack_id, self.client_tags, self.process_id) != (
            before.topology_epoch,
            before.rack_id,
            before.client_tags,
            before.process_id,
        )

    def without_assignment(self) -> Member:
        return replace(
            self, epoch=LEAVE, previous_epoch=LEAVE, assigned=NONE_ASSIGNED, pending_revocation=NONE_ASSIGNED
        )


def _active(ids: Iterable[CurrentTaskIds], member_epoch: int) -> ActiveTasks:
    """Return active tasks with their epochs; a task without one was assigned at the member's epoch."""
    active = {}
    for each in ids:
        epochs = each.assignment_epochs or [member_epoch] * len(each.partitions)
        if len(epochs) != len(each.partitions):
            raise RecordError(
                f"Subtopology {each.subtopology_id} has {len(each.partitions)} tasks and {len(epochs)} epochs."
            )
        active[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return active


# Records


def _target_value(target: Tasks) -> StreamsGroupTargetAssignmentMemberValue:
    return StreamsGroupTargetAssignmentMemberValue(
        *([TargetTaskIds(*each) for each in in_order(role)] for role in target)
    )


def _target_from(value: StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    return Tasks(from_ids(value.active_tasks), from_ids(value.standby_tasks), from_ids(value.warmup_tasks))


def epoch(
    group_id: str,
    group_epoch: int,
    metadata_hash: int,
    validated_epoch: int,
    configs: Mapping[str, str],
    description_epochs: tuple[int, int],
) -> Record:
    """Return the record of an epoch; `description_epochs` are those of the topology description that is kept, and of
    one that was refused for good."""
    value = StreamsGroupMetadataValue(
        group_epoch,
        metadata_hash,
        validated_epoch,
        [AssignmentConfig(*each) for each in configs.items()],
        *description_epochs,
    )
    return StreamsGroupMetadataKey(group_id), value


def topology(group_id: str, value: StreamsGroupTopologyValue) -> Record:
    return StreamsGroupTopologyKey(group_id), value


def member_metadata(group_id: str, member: Member) -> Record:
    endpoint = member.user_endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else StreamsEndpoint(*endpoint),
        client_tags=[ClientTag(key, value) for key, value in member.client_tags],
    )
    return StreamsGroupMemberMetadataKey(group_id, member.member_id), value


def current_assignment(group_id: str, member: Member) -> Record:
    assigned, pending = member.assigned, member.pending_revocation
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_with_epochs(assigned.active),
        standby_tasks=_current(assigned.standby),
        warmup_tasks=_current(assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(pending.active),
        standby_tasks_pending_revocation=_current(pending.standby),
        warmup_tasks_pending_revocation=_current(pending.warmup),
    )
    return StreamsGroupCurrentMemberAssignmentKey(group_id, member.member_id), value


def _with_epochs(active: ActiveTasks) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(subtopology, partitions, [active[subtopology][partition] for partition in partitions])
        for subtopology, partitions in in_order(active)
    ]


def _current(tasks: TaskSet) -> list[CurrentTaskIds]:
    return [CurrentTaskIds(*each) for each in in_order(tasks)]


CLASSES: Final = RecordClasses(
    group=StreamsGroupMetadataKey,
    member=StreamsGroupMemberMetadataKey,
    current_assignment=StreamsGroupCurrentMemberAssignmentKey,
    target_assignment=StreamsGroupTargetAssignmentMemberKey,
    target_value=_target_value,
    target_from=_target_from,
    target_epoch=StreamsGroupTargetAssignmentMetadataKey,
    target_epoch_value=StreamsGroupTargetAssignmentMetadataValue,
    member_record=member_metadata,
    assignment_record=current_assignment,
    others=(StreamsGroupTopologyKey,),
)
