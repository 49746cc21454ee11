"""Reconciliation: moves a member's assignment towards its target, heartbeat by heartbeat.

Each step returns the tasks a member may run, those it must revoke first, and its epoch. An active task goes to a member
only when no member has it, and a process never has one task twice: `Owners` has the processes of each task. The table
`states.STEPS` has the step for each state. Source: Kafka's `CurrentAssignmentBuilder` of 4.2
and 4.4 (semantics 4.12).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from kafka_shim.groups.epochs.requests import unknown_state
from kafka_shim.groups.streams.records import NONE_ASSIGNED, AssignedTasks, Member, Tasks, TaskSet
from kafka_shim.groups.streams.states import STEPS, MemberState, Step


class Owners(Protocol):
    """The processes that have a task, or must still revoke it."""

    def active(self, subtopology: str, partition: int) -> str | None: ...

    def has_copy(self, process_id: str, subtopology: str, partition: int) -> bool:
        """Return True if the process has the task as a standby or warm-up."""


def reconcile(
    member: Member, target_epoch: int, target: Tasks, owned: Tasks | None, owners: Owners, *, in_place: bool = False
) -> Member:
    """Return the member after this heartbeat; the same object if nothing changes.

    `target` is its target assignment at `target_epoch`; `owned` are the tasks it reports, None if it reports none.
    `in_place`: a task changes its role within the member without a revocation first (since Kafka 4.4). Raises
    `Refusal`: FENCED_MEMBER_EPOCH (110).
    """
    step = STEPS[member.state, member.situation(target_epoch, owned)]
    if step is Step.STAY:
        return member
    if step is Step.FENCE:
        raise unknown_state("streams", "tasks")
    epoch = member.epoch
    if step is Step.ADVANCE_NEXT:
        epoch += 1
    elif member.state is MemberState.UNKNOWN:
        epoch = target_epoch
    return _advance(member, epoch, target_epoch, target, owned, owners, in_place=in_place)


def _advance(
    member: Member,
    epoch: int,
    target_epoch: int,
    target: Tasks,
    owned: Tasks | None,
    owners: Owners,
    *,
    in_place: bool,
) -> Member:
    """Revoke tasks that are not in the target assignment first, then add those that are free."""
    process_id, has = member.process_id, member.assigned

    def has_itself(subtopology: str, partition: int, *roles: Mapping[str, Container[int]]) -> bool:
        return in_place and any(partition in tasks.get(subtopology, ()) for tasks in roles)

    def has_copy(subtopology: str, partition: int, *roles: TaskSet) -> bool:
        """Return True if the process has a copy, other than in these roles of the member."""
        return owners.has_copy(process_id, subtopology, partition) and not has_itself(subtopology, partition, *roles)

    def is_free(subtopology: str, partition: int) -> bool:
        holder = owners.active(subtopology, partition)
        return holder is None and not has_copy(subtopology, partition, has.standby, has.warmup)

    def is_free_standby(subtopology: str, partition: int) -> bool:
        runs = owners.active(subtopology, partition) == process_id
        by_another = runs and not has_itself(subtopology, partition, has.active)
        return not by_another and not has_copy(subtopology, partition, has.warmup)

    def is_free_warmup(subtopology: str, partition: int) -> bool:
        runs = owners.active(subtopology, partition) == process_id
        return not runs and not has_copy(subtopology, partition, has.standby)

    active = _Difference({each: frozenset(tasks) for each, tasks in has.active.items()}, target.active, is_free)
    standby = _Difference(has.standby, target.standby, is_free_standby)
    warmup = _Difference(has.warmup, target.warmup, is_free_warmup)
    if in_place:
        _move(has.active, standby)
        _move(has.standby, warmup, standby)
        _move(has.warmup, standby, warmup)
        standby.keep_for(target.active)
        warmup.keep_for(target.active)
    revoked = AssignedTasks(_epochs_of(has, active.revoked), standby.revoked, warmup.revoked)
    must_revoke = not revoked.is_empty and member.may_own(owned, revoked)
    if in_place:
        granted = {} if must_revoke else active.added
        standby.retain_promoted(has.standby, target.active, granted)
        warmup.retain_promoted(has.warmup, target.active, granted)
    if must_revoke:
        retained = AssignedTasks(_epochs_of(has, active.retained), standby.retained, warmup.retained)
        return replace(
            member,
            state=MemberState.UNREVOKED_TASKS,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=retained,
            pending_revocation=revoked,
        )
    running = {subtopology: dict(tasks) for subtopology, tasks in _epochs_of(has, active.retained).items()}
    for subtopology, partitions in active.added.items():
        running.setdefault(subtopology, {}).update(dict.fromkeys(partitions, target_epoch))
    waits = active.waits or standby.waits or warmup.waits
    return replace(
        member,
        state=MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned=AssignedTasks(running, _together(standby), _together(warmup)),
        pending_revocation=NONE_ASSIGNED,
    )


class _Difference:
    """Difference of a member's present and target tasks, in one role: `retained`, `revoked`, `added` if free, and
    whether the member `waits` for more.
    """

    def __init__(self, has: TaskSet, target: TaskSet, is_free: Callable[[str, int], bool]) -> None:
        self.retained: dict[str, frozenset[int]] = {}
        self.revoked: dict[str, frozenset[int]] = {}
        self.added: dict[str, frozenset[int]] = {}
        self.waits = False
        for subtopology in sorted({*has, *target}):
            present, aim = has.get(subtopology, frozenset()), target.get(subtopology, frozenset())
            missing = aim - present
            free = frozenset(partition for partition in missing if is_free(subtopology, partition))
            self.waits = self.waits or free != missing
            for result, partitions in (
                (self.retained, present & aim),
                (self.revoked, present - aim),
                (self.added, free),
            ):
                if partitions:
                    result[subtopology] = partitions

    def keep_for(self, active: TaskSet) -> None:
        """Revoke no task that becomes active."""
        for subtopology, partitions in active.items():
            _remove(self.revoked, subtopology, partitions)

    def retain_promoted(self, has: TaskSet, active: TaskSet, granted: TaskSet) -> None:
        """Retain tasks of this role that become active, except those that are granted now."""
        for subtopology, partitions in has.items():
            promoted = partitions & active.get(subtopology, frozenset()) - granted.get(subtopology, frozenset())
            if promoted:
                self.retained[subtopology] = self.retained.get(subtopology, frozenset()) | promoted


def _move(has: Mapping[str, Iterable[int]], role: _Difference, before: _Difference | None = None) -> None:
    """Give the member tasks in their new role at once that it has in the role `before`; active ones if None."""
    for subtopology, partitions in has.items():
        converted = role.added.get(subtopology, frozenset()).intersection(partitions)
        if converted:
            role.retained[subtopology] = role.retained.get(subtopology, frozenset()) | converted
            _remove(role.added, subtopology, converted)
            if before is not None:
                _remove(before.revoked, subtopology, converted)


def _remove(tasks: dict[str, frozenset[int]], subtopology: str, partitions: frozenset[int]) -> None:
    rest = tasks.pop(subtopology, frozenset()) - partitions
    if rest:
        tasks[subtopology] = rest


def _epochs_of(has: AssignedTasks, tasks: TaskSet) -> Mapping[str, Mapping[int, int]]:
    return {
        subtopology: {partition: has.active[subtopology][partition] for partition in partitions}
        for subtopology, partitions in tasks.items()
    }


def _together(difference: _Difference) -> TaskSet:
    return {
        subtopology: difference.retained.get(subtopology, frozenset()) | difference.added.get(subtopology, frozenset())
        for subtopology in sorted({*difference.retained, *difference.added})
    }
