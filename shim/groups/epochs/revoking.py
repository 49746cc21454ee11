"""Groups of members that revoke a part of their assignment before others get it: consumer and streams groups.

Has the situation of a member at a heartbeat, for the table of reconciliation of a kind, and the rules of static
members: their checks, their departure for a while, their successors. Members of share groups neither revoke nor are
they static. After the common part of Kafka's `CurrentAssignmentBuilder` of both kinds and of its methods for static
members (semantics 4.4, 4.6, 4.12).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar, NamedTuple, TypeVar

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.epochs import events
from kafka_shim.groups.epochs.change import Change
from kafka_shim.groups.epochs.group import EpochGroup
from kafka_shim.groups.epochs.member import JOIN, LEAVE_STATIC, EpochMember
from kafka_shim.groups.epochs.records import Record
from kafka_shim.groups.epochs.requests import full, not_a_member, other_epoch
from kafka_shim.groups.interface import Refusal
from kafka_shim.trace.causes import Cause


class Situation(Enum):
    """Situation of a member at a heartbeat. It owns, revokes and waits for partitions or tasks."""

    AT_TARGET = "its epoch is that of the target assignment"
    BEHIND = "its epoch is not that of the target assignment"
    HOLDS_ON = "it still owns a part that it has to revoke, or sends no list"
    GAVE_UP = "it owns nothing that it had to revoke"
    WAITS = "it waits for a part that other members own"
    OWNS_NOTHING = "it owns nothing, by its list"
    MAY_OWN = "it owns something, or sends no list"


class States(NamedTuple):
    """States of a kind's members: reconciled, with a part to revoke, waiting for others. Any other is unknown."""

    stable: Enum
    unrevoked: Enum
    unreleased: Enum


@dataclass(frozen=True, slots=True)
class RevokingMember(EpochMember):
    """Member that has to revoke a part of its assignment before it gets the next epoch."""

    states: ClassVar[States]

    state: Any = None
    assigned: Any = None
    """The part that it may use."""
    pending_revocation: Any = None
    """The part that it has to revoke and has not yet reported without."""

    @property
    def is_revoking(self) -> bool:
        return self.state is self.states.unrevoked

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is self.states.stable and self.epoch == target_epoch

    def situation(self, target_epoch: int, owned: Any) -> Situation:
        """Return its situation, by its state, its epoch and the list in its heartbeat.

        `owned` is None without a list.
        """
        state, (stable, unrevoked, unreleased) = self.state, self.states
        if state is stable:
            return Situation.AT_TARGET if self.epoch == target_epoch else Situation.BEHIND
        if state is unrevoked:
            return Situation.HOLDS_ON if self.may_own(owned, self.pending_revocation) else Situation.GAVE_UP
        if state is unreleased:
            return Situation.WAITS
        return Situation.OWNS_NOTHING if self.is_nothing(owned) else Situation.MAY_OWN

    @staticmethod
    @abstractmethod
    def may_own(owned: Any, assignment: Any) -> bool:
        """Return True if a member that reports `owned` may own a part of an assignment; None may be all of it."""

    @staticmethod
    @abstractmethod
    def is_nothing(owned: Any) -> bool:
        """Return True if a heartbeat says that its member owns nothing."""

    @abstractmethod
    def has_all(self, owned: Any) -> bool:
        """Return True if a heartbeat has a list, and all of the list is assigned to the member."""

    @abstractmethod
    def away(self) -> RevokingMember:
        """Return the member after it left for a while, with its assignment."""


_M = TypeVar("_M", bound=RevokingMember)
_A = TypeVar("_A")


class RevokingGroup(EpochGroup[_M, _A]):
    """Group of members that revoke, some of them static: `static_members` has member ids by group instance id."""

    __slots__ = ("static_members",)

    static_members: dict[str, str]

    def static_member(self, instance_id: str | None) -> _M | None:
        """Return the member with the group instance id; None if there is none, or it took another one and left."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def holder_of(self, instance_id: str, member_id: str) -> _M:
        """Return the member with the instance id; its member id must match.

        Raises `Refusal`: UNKNOWN_MEMBER_ID (25) or FENCED_INSTANCE_ID (82).
        """
        holder = self.static_member(instance_id)
        if holder is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if holder.member_id != member_id:
            raise Refusal(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
            )
        return holder

    def check_epoch(self, member: _M, epoch: int, owned: Any) -> None:
        """Check the epoch of a heartbeat. Raises `Refusal`: FENCED_MEMBER_EPOCH (110).

        A member may join again, or repeat its previous epoch if it owns no more than its assignment: the answer with
        the new epoch may have been lost.
        """
        if epoch == JOIN or epoch == member.epoch:
            return
        if epoch == member.previous_epoch < member.epoch and member.has_all(owned):
            return
        raise other_epoch(self.type, epoch, member.epoch)

    def check_released(self, holder: _M, member_id: str) -> None:
        """Refuse the successor of a static member that is there. Raises `Refusal`: UNRELEASED_INSTANCE_ID (111)."""
        if holder.epoch != LEAVE_STATIC and not holder.is_classic:
            raise Refusal(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {holder.instance_id} cannot join the group because the"
                f" instance id is owned by {holder.member_id} member.",
            )

    def check_room(self, member_id: str, instance_id: str | None, most: int) -> None:
        """Refuse a new member of a full group. Raises `Refusal`: GROUP_MAX_SIZE_REACHED (81).

        From Kafka 4.4 on the successor of a static member is not new.
        """
        if len(self.members) < most or member_id in self.members:
            return
        if instance_id not in self.static_members or not self.shard.rules.static_members_fit_full_groups:
            raise full(self.type, most)

    def records_of_replacement(self, old: _M, new: _M) -> list[Record]:
        """Return the records by which a static member replaces another and inherits its assignments."""
        classes, group_id = self.record_classes, self.group_id
        return [
            *classes.member_tombstones(group_id, old.member_id),
            classes.member_record(group_id, new),
            self.inherited_target(old.member_id, new.member_id),
            classes.assignment_record(group_id, new),
        ]

    @abstractmethod
    def inherited_target(self, old_id: str, new_id: str) -> Record:
        """Return the record that gives a member the target assignment of another."""

    def leave(self, request: Any, now: float) -> None:
        """Remove the sender of a heartbeat with member epoch -1 or -2, or mark it as away.

        Raises `Refusal`: UNKNOWN_MEMBER_ID (25), FENCED_INSTANCE_ID (82), or those of `fence`.
        """
        if request.instance_id is None:
            member = self.members.get(request.member_id)
            if member is None:
                raise not_a_member(request.member_id, self.group_id)
        else:
            member = self.holder_of(request.instance_id, request.member_id)
            if request.member_epoch == LEAVE_STATIC:
                self._leave_for_a_while(member)
                return
        self.fence([member], Cause.MEMBER_LEFT, "left", now)

    def _leave_for_a_while(self, member: _M) -> None:
        """Mark a static member as away: it keeps its assignment until it returns or its session ends, which runs on."""
        before = self.state if self.shard.outbox.listening else None
        away: Any = member.away()
        self.shard.write(*self.record_classes.assignment_record(self.group_id, away))
        if before is not None:
            self.trace_step(away)
            events.state(self, before)

    @abstractmethod
    def waits_for(self, member: _M) -> Sequence[str]:
        """Return the owners of the missing part of its target assignment."""

    def trace_step(self, member: _M) -> None:
        events.reconciliation(
            self,
            member,
            member.state.name,
            self.by_topic(member.assigned),
            self.by_topic(member.pending_revocation),
            self.waits_for(member),
        )


_G = TypeVar("_G", bound=RevokingGroup[Any, Any])


class RevokingChange(Change[_G, _M, _A]):
    """Change of such a group by one member."""

    def take_place(self, holder: _M, member_id: str) -> _M:
        """Replace a static member: the new one inherits its assignment, at epoch 0."""
        member = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
        self.records += self.group.records_of_replacement(holder, member)
        self.replaced_member = holder
        return member
