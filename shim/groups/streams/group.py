"""A streams group (KIP-1071): its topology, members, epochs and assignments, as records make them.

Decides what each record does, and what follows from it: the state of the group, and which process has a task. Hard
state changes in `replay` alone. Rules are in the modules beside this one. After Kafka's `StreamsGroup` (semantics 4.12,
5.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafka_shim.groups.streams.member import Member, target_from
from kafka_shim.groups.streams.states import LEAVE, GroupState
from kafka_shim.groups.streams.tasks import NO_TASKS, AssignedTasks, Tasks, each_task
from kafka_shim.groups.streams.topology import Topology
from kafka_shim.persistence.records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
)

NO_TARGET: Final = -1
"""The target epoch once it was deleted."""


class ReplayError(ValueError):
    """A record that contradicts those before it: Kafka refuses to load the partition (semantics 5.3)."""


class StreamsGroupState:
    """The hard state of a group, and what follows from it.

    `group_epoch` grows when a new assignment is due, `target_epoch` when it was computed. `validated_epoch` is the
    epoch of a topology whose topics are all there as they must be, -1 for none. `configs` are the settings that the
    assignor was given last.
    """

    __slots__ = (
        "configs",
        "copies",
        "group_epoch",
        "group_id",
        "members",
        "metadata_hash",
        "partition",
        "running",
        "target_epoch",
        "targets",
        "topology",
        "validated_epoch",
    )

    type: Final = "streams"

    def __init__(self, group_id: str, partition: int) -> None:
        self.group_id = group_id
        self.partition = partition
        self.group_epoch = 0
        self.metadata_hash = 0
        self.validated_epoch = 0
        self.configs: Mapping[str, str] = {}
        self.target_epoch = 0
        self.topology: Topology | None = None
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Tasks] = {}
        self.running: dict[tuple[str, int], str] = {}
        """The process that has an active task, or is yet to give it up."""
        self.copies: dict[tuple[str, int], list[str]] = {}
        """The processes that have a task as a standby or warm-up, or are yet to give it up; once for each."""

    # What follows

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return GroupState.NOT_READY
        if self.group_epoch > self.target_epoch:
            return GroupState.ASSIGNING
        target_epoch = self.target_epoch
        if all(member.is_reconciled_to(target_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def active(self, subtopology: str, partition: int) -> str | None:
        """See `reconcile.Owners`."""
        return self.running.get((subtopology, partition))

    def has_copy(self, process_id: str, subtopology: str, partition: int) -> bool:
        """See `reconcile.Owners`."""
        return process_id in self.copies.get((subtopology, partition), ())

    # Records

    def replay(self, key: Any, value: Any) -> None:
        """Let a record of this group take effect, except the tombstone of the group itself."""
        record = type(key)
        if record is StreamsGroupCurrentMemberAssignmentKey:
            member = self.members.get(key.member_id)
            if value is not None:
                self._put((member or Member(key.member_id)).with_assignment(value))
            elif member is not None:
                self._put(member.without_assignment())
        elif record is StreamsGroupMemberMetadataKey:
            self._replay_member(key.member_id, value)
        elif record is StreamsGroupTargetAssignmentMemberKey:
            if value is not None:
                self.targets[key.member_id] = target_from(value)
            else:
                self.targets.pop(key.member_id, None)
        elif record is StreamsGroupTargetAssignmentMetadataKey:
            self._replay_target_epoch(value)
        elif record is StreamsGroupTopologyKey:
            self.topology = None if value is None else Topology(value)
        else:
            assert record is StreamsGroupMetadataKey
            assert isinstance(value, StreamsGroupMetadataValue)
            self.group_epoch, self.metadata_hash = value.epoch, value.metadata_hash
            self.validated_epoch = value.validated_topology_epoch
            self.configs = {each.key: each.value for each in value.last_assignment_configs or ()}

    def check_deletion(self) -> None:
        """Raise `ReplayError` if records are still there that are deleted before the group's own."""
        if self.members or self.target_epoch != NO_TARGET:
            raise ReplayError(
                f"Group {self.group_id!r} was deleted while it had {len(self.members)} members and a target assignment"
                f" at epoch {self.target_epoch}."
            )

    def _replay_member(self, member_id: str, value: StreamsGroupMemberMetadataValue | None) -> None:
        member = self.members.get(member_id)
        if value is not None:
            self._put((member or Member(member_id)).with_metadata(value))
        elif member is not None:
            if member.epoch != LEAVE:
                raise ReplayError(f"Member {member_id!r} was deleted before its current assignment.")
            if member_id in self.targets:
                raise ReplayError(f"Member {member_id!r} was deleted before its target assignment.")
            self._disown(self.members.pop(member_id))

    def _replay_target_epoch(self, value: StreamsGroupTargetAssignmentMetadataValue | None) -> None:
        if value is not None:
            self.target_epoch = value.assignment_epoch
        elif self.targets:
            raise ReplayError(f"The target epoch of {self.group_id!r} was deleted before its target assignments.")
        else:
            self.target_epoch = NO_TARGET

    # Members

    def _put(self, member: Member) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._disown(old)
        self.members[member.member_id] = member
        for tasks in (member.assigned, member.pending_revocation):
            self.running |= dict.fromkeys(each_task(tasks.active), member.process_id)
            for task in _copies_of(tasks):
                self.copies.setdefault(task, []).append(member.process_id)

    def _disown(self, member: Member) -> None:
        process_id = member.process_id
        for tasks in (member.assigned, member.pending_revocation):
            for task in each_task(tasks.active):
                # A record of another member, which got the task since, may have come first.
                if self.running.get(task) == process_id:
                    del self.running[task]
            for task in _copies_of(tasks):
                self.copies[task].remove(process_id)
                if not self.copies[task]:
                    del self.copies[task]

    def target_of(self, member_id: str) -> Tasks:
        return self.targets.get(member_id, NO_TASKS)


def _copies_of(tasks: AssignedTasks) -> Iterable[tuple[str, int]]:
    return (*each_task(tasks.standby), *each_task(tasks.warmup))
