"""A consumer group (KIP-848): its members, epochs and assignments, as records make them.

Decides what each record does, and what follows from it: the state of the group, who has a partition, which assignor
most members ask for. Hard state changes in `replay` alone. Rules are in the modules beside this one; timers and flags
that no record keeps are rebuilt when the group is loaded. After Kafka's `ModernGroup` and `ConsumerGroup`
(semantics 4.1, 5.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.consumer.member import Member, from_records
from kafka_shim.groups.consumer.regex import ResolvedRegex
from kafka_shim.groups.consumer.states import LEAVE, GroupState, MemberState
from kafka_shim.groups.consumer.subscriptions import Subscriptions
from kafka_shim.persistence.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

NO_NUMBERS: Final[frozenset[int]] = frozenset()
NO_TARGET: Final = -1
"""The target epoch once it was deleted."""


class ReplayError(ValueError):
    """A record that contradicts those before it: Kafka refuses to load the partition (semantics 5.3)."""


class AssignedMetadata(NamedTuple):
    """What the assignor of a client said to a member with its target assignment: an `error` of its own, 0 for none, and
    metadata in one of the assignor's versions."""

    error: int = 0
    version: int = 0
    metadata: bytes = b""


NO_METADATA: Final = AssignedMetadata()


class ConsumerGroupState:
    """The hard state of a group.

    `group_epoch` grows when a new assignment is due, `target_epoch` when it was computed. `targets` are the target
    assignments of members, `target_owners` the same read the other way, `owners` the member that has a partition or is
    yet to give it up.
    """

    __slots__ = (
        "choosing_members",
        "classic_members",
        "group_epoch",
        "group_id",
        "has_partition_metadata",
        "members",
        "metadata_hash",
        "owners",
        "partition",
        "static_members",
        "subscriptions",
        "target_epoch",
        "target_metadata",
        "target_owners",
        "targets",
    )

    type: Final = "consumer"

    def __init__(self, group_id: str, partition: int) -> None:
        self.group_id = group_id
        self.partition = partition
        self.group_epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by group instance id."""
        self.targets: dict[str, Partitions] = {}
        self.target_metadata: dict[str, AssignedMetadata] = {}
        """By member id, where the assignor of a client said something."""
        self.target_owners: dict[bytes, dict[int, str]] = {}
        self.owners: dict[bytes, dict[int, str]] = {}
        self.subscriptions = Subscriptions()
        self.choosing_members = 0
        """How many members ask for an assignor."""
        self.classic_members = 0
        """How many members speak the classic protocol."""
        self.has_partition_metadata = False
        """Whether a record of type 4 is there, which Kafka before 4.1 wrote and 4.2 deletes."""

    # What follows

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.group_epoch > self.target_epoch:
            return GroupState.ASSIGNING
        target_epoch = self.target_epoch
        if all(member.is_reconciled_to(target_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> Member | None:
        """The member with the group instance id, or None."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str, instance_id: str | None) -> Partitions:
        """The target assignment of a member, or of the static member whose place it takes."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, "")
        return self.targets.get(member_id, NO_PARTITIONS)

    def supports_classic_protocol(self, names: set[str]) -> bool:
        """Whether a member of the classic protocol that offers these assignors shares one with all others like it."""
        shared = [
            {protocol.name for protocol in member.classic.supported_protocols}
            for member in self.members.values()
            if member.classic is not None
        ]
        return bool(names.intersection(*shared)) if shared else bool(names)

    # Records

    def replay(self, key: Any, value: Any) -> None:
        """Let a record of this group take effect, except the tombstone of the group itself."""
        record = type(key)
        if record is ConsumerGroupCurrentMemberAssignmentKey:
            self._replay_current(key.member_id, value)
        elif record is ConsumerGroupMemberMetadataKey:
            self._replay_member(key.member_id, value)
        elif record is ConsumerGroupTargetAssignmentMemberKey:
            self._replay_target(key.member_id, value)
        elif record is ConsumerGroupTargetAssignmentMetadataKey:
            self._replay_target_epoch(value)
        elif record is ConsumerGroupMetadataKey:
            assert isinstance(value, ConsumerGroupMetadataValue)
            self.group_epoch, self.metadata_hash = value.epoch, value.metadata_hash
        elif record is ConsumerGroupRegularExpressionKey:
            self._replay_regex(key.regular_expression, value)
        else:
            assert record is ConsumerGroupPartitionMetadataKey
            self.has_partition_metadata = value is not None

    def check_deletion(self) -> None:
        """Raise `ReplayError` if records are still there that are deleted before the group's own."""
        if self.members or self.targets or self.target_epoch != NO_TARGET:
            raise ReplayError(
                f"Group {self.group_id!r} was deleted while it had {len(self.members)} members and"
                f" {len(self.targets)} target assignments at epoch {self.target_epoch}."
            )

    def _replay_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        member = self.members.get(member_id)
        if value is not None:
            self._put(
                replace(
                    member or Member(member_id),
                    instance_id=value.instance_id,
                    rack_id=value.rack_id,
                    rebalance_timeout_ms=value.rebalance_timeout_ms,
                    client_id=value.client_id,
                    client_host=value.client_host,
                    topic_names=self.subscriptions.share(frozenset(value.subscribed_topic_names)),
                    topic_regex=value.subscribed_topic_regex,
                    server_assignor=value.server_assignor,
                    classic=value.classic_member_metadata,
                    client_assignors=tuple(value.client_assignors),
                )
            )
        elif member is not None:
            if member.epoch != LEAVE:
                raise ReplayError(f"Member {member_id!r} was deleted before its current assignment.")
            if member_id in self.targets:
                raise ReplayError(f"Member {member_id!r} was deleted before its target assignment.")
            self._remove(member)

    def _replay_current(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        member = self.members.get(member_id)
        if value is not None:
            assigned = from_records(value.assigned_partitions)
            target = self.targets.get(member_id)
            self._put(
                replace(
                    member or Member(member_id),
                    epoch=value.member_epoch,
                    previous_epoch=value.previous_member_epoch,
                    state=MemberState(value.state),
                    # In the end it has its target: one object is enough for both.
                    assigned=target if target is not None and assigned == target else assigned,
                    pending_revocation=from_records(value.partitions_pending_revocation),
                )
            )
        elif member is not None:
            self._put(
                replace(
                    member,
                    epoch=LEAVE,
                    previous_epoch=LEAVE,
                    assigned=NO_PARTITIONS,
                    pending_revocation=NO_PARTITIONS,
                )
            )

    def _replay_target(self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None) -> None:
        old = self.targets.get(member_id, NO_PARTITIONS)
        new = NO_PARTITIONS if value is None else from_records(value.topic_partitions)
        for topic, had in old.items():
            has = new.get(topic, NO_NUMBERS)
            if has == had:
                continue
            owners = self.target_owners.get(topic, {})
            for partition in had:
                # Another member's record may have come first.
                if partition not in has and owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                self.target_owners.pop(topic, None)
        for topic, has in new.items():
            if has != old.get(topic, NO_NUMBERS):
                owners = self.target_owners.setdefault(topic, {})
                for partition in has:
                    owners[partition] = member_id
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = new
        if value is not None and (value.error or value.metadata_version or value.metadata):
            self.target_metadata[member_id] = AssignedMetadata(value.error, value.metadata_version, value.metadata)
        elif self.target_metadata:
            self.target_metadata.pop(member_id, None)

    def _replay_target_epoch(self, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        if value is not None:
            self.target_epoch = value.assignment_epoch
        elif self.targets:
            raise ReplayError(f"The target epoch of {self.group_id!r} was deleted before its target assignments.")
        else:
            self.target_epoch = NO_TARGET

    def _replay_regex(self, pattern: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        if value is None:
            self.subscriptions.resolved.pop(pattern, None)
        else:
            self.subscriptions.resolved[pattern] = ResolvedRegex(
                frozenset(value.topics), value.version, value.timestamp
            )

    # Members

    def _put(self, member: Member) -> None:
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._count(old, member)
        if old is not None:
            self._disown(old)
        self._own(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _remove(self, member: Member) -> None:
        del self.members[member.member_id]
        self._count(member, None)
        self._disown(member)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)

    def _count(self, old: Member | None, new: Member | None) -> None:
        if old is None or new is None or old.topic_names is not new.topic_names or old.topic_regex != new.topic_regex:
            self.subscriptions.replace(old, new)
        if old is not None:
            self.classic_members -= old.classic is not None
            self.choosing_members -= old.server_assignor is not None
        if new is not None:
            self.classic_members += new.classic is not None
            self.choosing_members += new.server_assignor is not None

    def _own(self, member: Member) -> None:
        """Raises `ReplayError` if another member has one of its partitions at no lower epoch."""
        member_id = member.member_id
        for partitions in (member.assigned, member.pending_revocation):
            for topic, numbers in partitions.items():
                owners = self.owners.setdefault(topic, {})
                for number in numbers:
                    other = owners.get(number)
                    if other is not None and self.members[other].epoch >= member.epoch:
                        raise ReplayError(
                            f"Partition {number} of a topic of {self.group_id!r} is given to {member_id!r} at epoch"
                            f" {member.epoch}, while {other!r} has it at epoch {self.members[other].epoch}."
                        )
                    owners[number] = member_id

    def _disown(self, member: Member) -> None:
        for partitions in (member.assigned, member.pending_revocation):
            for topic, numbers in partitions.items():
                owners = self.owners.get(topic)
                if owners is None:
                    continue
                for number in numbers:
                    # A record of another member, of a higher epoch, may have come first.
                    if owners.get(number) == member.member_id:
                        del owners[number]
                if not owners:
                    del self.owners[topic]
