"""Reconciliation: brings what a member has nearer to its target assignment, heartbeat by heartbeat.

Decides what a member may run, what it has to give up first, and which epoch it has meanwhile. An active task goes to a
member only when nobody has it any more, and a process never has one task twice: `Owners` says who has what. It does not
know timers, records or other members. Which step is taken is in the table `states.STEPS`. After Kafka's
`CurrentAssignmentBuilder` of 4.2 (semantics 4.12).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from kafka_shim.groups.streams.member import Member
from kafka_shim.groups.streams.states import STEPS, MemberState, Situation, Step
from kafka_shim.groups.streams.tasks import NONE_ASSIGNED, AssignedTasks, Tasks, TaskSet, own_any


class FencedError(Exception):
    """FENCED_MEMBER_EPOCH (110)."""


class Owners(Protocol):
    """Which processes have a task, or are yet to give it up."""

    def active(self, subtopology: str, partition: int) -> str | None: ...

    def has_copy(self, process_id: str, subtopology: str, partition: int) -> bool:
        """Whether the process has the task as a standby or warm-up."""


def reconcile(member: Member, target_epoch: int, target: Tasks, owned: Tasks | None, owners: Owners) -> Member:
    """The member after this heartbeat; the same object if nothing changes.

    `target` is its target assignment at `target_epoch`; `owned` is what it says it owns, None if it does not say.
    Raises `FencedError`.
    """
    step = STEPS[member.state, situation_of(member, target_epoch, owned)]
    if step is Step.STAY:
        return member
    if step is Step.FENCE:
        raise FencedError("The streams group member is in a unknown state.")
    epoch = member.epoch
    if step is Step.ADVANCE_NEXT:
        epoch += 1
    elif member.state is MemberState.UNKNOWN:
        epoch = target_epoch
    return _advance(member, epoch, target_epoch, target, owned, owners)


def situation_of(member: Member, target_epoch: int, owned: Tasks | None) -> Situation:
    """What the heartbeat finds, by the member's state."""
    if member.state is MemberState.STABLE:
        return Situation.AT_TARGET if member.epoch == target_epoch else Situation.BEHIND
    if member.state is MemberState.UNREVOKED_TASKS:
        holds_on = owned is None or own_any(owned, member.pending_revocation)
        return Situation.HOLDS_ON if holds_on else Situation.GAVE_UP
    if member.state is MemberState.UNRELEASED_TASKS:
        return Situation.WAITS
    return Situation.OWNS_NOTHING if owned is not None and not any(owned) else Situation.MAY_OWN


def _advance(
    member: Member, epoch: int, target_epoch: int, target: Tasks, owned: Tasks | None, owners: Owners
) -> Member:
    """First it gives up what is not in its target assignment, then it is given what is free of it."""
    process_id, has = member.process_id, member.assigned

    def is_free(subtopology: str, partition: int) -> bool:
        return owners.active(subtopology, partition) is None and not owners.has_copy(process_id, subtopology, partition)

    def is_not_here(subtopology: str, partition: int) -> bool:
        return owners.active(subtopology, partition) != process_id and not owners.has_copy(
            process_id, subtopology, partition
        )

    active = _Difference({each: frozenset(tasks) for each, tasks in has.active.items()}, target.active, is_free)
    standby = _Difference(has.standby, target.standby, is_not_here)
    warmup = _Difference(has.warmup, target.warmup, is_not_here)
    revoked = AssignedTasks(_epochs_of(has, active.revoked), standby.revoked, warmup.revoked)
    if not revoked.is_empty and (owned is None or own_any(owned, revoked)):
        kept = AssignedTasks(_epochs_of(has, active.kept), standby.kept, warmup.kept)
        return replace(
            member,
            state=MemberState.UNREVOKED_TASKS,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            pending_revocation=revoked,
        )
    running = {subtopology: dict(tasks) for subtopology, tasks in _epochs_of(has, active.kept).items()}
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
    """What a member has and what it is to have, in one role: `kept`, `revoked`, `added` as far as it is free, and
    whether the member `waits` for more."""

    def __init__(self, has: TaskSet, target: TaskSet, is_free: Callable[[str, int], bool]) -> None:
        self.kept: dict[str, frozenset[int]] = {}
        self.revoked: dict[str, frozenset[int]] = {}
        self.added: dict[str, frozenset[int]] = {}
        self.waits = False
        for subtopology in sorted({*has, *target}):
            held, aim = has.get(subtopology, frozenset()), target.get(subtopology, frozenset())
            missing = aim - held
            free = frozenset(partition for partition in missing if is_free(subtopology, partition))
            self.waits = self.waits or free != missing
            for result, partitions in ((self.kept, held & aim), (self.revoked, held - aim), (self.added, free)):
                if partitions:
                    result[subtopology] = partitions


def _epochs_of(has: AssignedTasks, tasks: TaskSet) -> Mapping[str, Mapping[int, int]]:
    return {
        subtopology: {partition: has.active[subtopology][partition] for partition in partitions}
        for subtopology, partitions in tasks.items()
    }


def _together(difference: _Difference) -> TaskSet:
    return {
        subtopology: difference.kept.get(subtopology, frozenset()) | difference.added.get(subtopology, frozenset())
        for subtopology in sorted({*difference.kept, *difference.added})
    }
