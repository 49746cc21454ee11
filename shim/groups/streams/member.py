"""A member of a streams group (KIP-1071), as its records have it. It is never changed, but replaced by another.

Decides nothing. Timers and what else is not in records belong to the group. After Kafka's `StreamsGroupMember`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kafka_shim.groups.streams.states import LEAVE, MemberState
from kafka_shim.groups.streams.tasks import (
    NONE_ASSIGNED,
    ActiveTasks,
    AssignedTasks,
    Tasks,
    TaskSet,
    from_ids,
    in_order,
)
from kafka_shim.persistence.records import (
    RecordError,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
)
from kafka_shim.persistence.streams_records import ClientTag, CurrentTaskIds, StreamsEndpoint, TargetTaskIds


@dataclass(frozen=True, slots=True)
class Member:
    """One member: a thread of an application. Members of one instance of it share a `process_id`.

    `epoch` is 0 before its first assignment, -1 once that was deleted. `user_endpoint` is where the instance answers
    queries of its state, host and port.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    """Sorted."""
    assigned: AssignedTasks = field(default_factory=lambda: NONE_ASSIGNED)
    """What it may run."""
    pending_revocation: AssignedTasks = field(default_factory=lambda: NONE_ASSIGNED)
    """What it is to give up and was not seen without."""

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
        """Raises `RecordError` for assignment epochs that are not one for each task."""
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

    def without_assignment(self) -> Member:
        return replace(
            self, epoch=LEAVE, previous_epoch=LEAVE, assigned=NONE_ASSIGNED, pending_revocation=NONE_ASSIGNED
        )


def _active(ids: Iterable[CurrentTaskIds], member_epoch: int) -> ActiveTasks:
    """Tasks that a record has no epoch for were assigned at the member's."""
    active = {}
    for each in ids:
        epochs = each.assignment_epochs or [member_epoch] * len(each.partitions)
        if len(epochs) != len(each.partitions):
            raise RecordError(
                f"Subtopology {each.subtopology_id} has {len(each.partitions)} tasks and {len(epochs)} epochs."
            )
        active[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return active


def metadata_of(member: Member) -> StreamsGroupMemberMetadataValue:
    """What the member says of itself, as a record."""
    endpoint = member.user_endpoint
    return StreamsGroupMemberMetadataValue(
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


def current_assignment_of(member: Member) -> StreamsGroupCurrentMemberAssignmentValue:
    """What the member has, as a record."""
    assigned, pending = member.assigned, member.pending_revocation
    return StreamsGroupCurrentMemberAssignmentValue(
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


def target_assignment_of(tasks: Tasks) -> StreamsGroupTargetAssignmentMemberValue:
    """A target assignment as a record."""
    return StreamsGroupTargetAssignmentMemberValue(
        *([TargetTaskIds(*each) for each in in_order(role)] for role in tasks)
    )


def target_from(value: StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    return Tasks(from_ids(value.active_tasks), from_ids(value.standby_tasks), from_ids(value.warmup_tasks))


def _with_epochs(active: ActiveTasks) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(subtopology, partitions, [active[subtopology][partition] for partition in partitions])
        for subtopology, partitions in in_order(active)
    ]


def _current(tasks: TaskSet) -> list[CurrentTaskIds]:
    return [CurrentTaskIds(*each) for each in in_order(tasks)]
