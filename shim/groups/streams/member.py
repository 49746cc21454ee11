"""Member of a streams group (KIP-1071), and the tasks of its application as plain data, by role.

A task is a subtopology and a partition. An active task processes records; a standby keeps a copy of its state; a
warm-up is a standby that will become active. After Kafka's `StreamsGroupMember`, `TasksTuple` and
`TasksTupleWithEpochs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeAlias

from kafka_shim.groups.epochs.member import LEAVE, LEAVE_STATIC, EpochMember
from kafka_shim.groups.streams.states import MemberState
from kafka_shim.persistence.records import (
    RecordError,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
)
from kafka_shim.persistence.streams_records import CurrentTaskIds

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


def own_any(owned: Tasks, tasks: AssignedTasks) -> bool:
    """True if one of `tasks` is among those owned, in the same role."""
    return (
        any(not partitions.isdisjoint(tasks.active.get(each, ())) for each, partitions in owned.active.items())
        or _meet(owned.standby, tasks.standby)
        or _meet(owned.warmup, tasks.warmup)
    )


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
class Member(EpochMember):
    """One member: a thread of an application. Members of one instance of it share a `process_id`.

    `user_endpoint` is the host and port of the instance for interactive queries.
    """

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

    @property
    def is_revoking(self) -> bool:
        return self.state is MemberState.UNREVOKED_TASKS

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

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
