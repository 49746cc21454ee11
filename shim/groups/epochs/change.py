"""Change of a group with epochs by one member: collects records, and writes them at the end.

So a refused request changes nothing. `assign` computes a target assignment if the group epoch is ahead. `write` writes
the records, adjusts timers and counters and reports to the trace, in the same order for every kind. A kind adds how it
computes a target assignment, the reasons of a new epoch, and the steps of its members. After the common part of Kafka's
`consumerGroupHeartbeat`, `streamsGroupHeartbeat` and `shareGroupHeartbeat` (semantics 4.5).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from kafka_shim.groups import events as group_events
from kafka_shim.groups.epochs import events
from kafka_shim.groups.epochs.group import EpochGroup, TimerKind
from kafka_shim.groups.epochs.member import EpochMember
from kafka_shim.groups.epochs.records import Record, Target
from kafka_shim.groups.group import Group
from kafka_shim.trace.causes import Cause

_G = TypeVar("_G", bound=EpochGroup[Any, Any])
_M = TypeVar("_M", bound=EpochMember)
_A = TypeVar("_A")


@dataclass(slots=True)
class Change(ABC, Generic[_G, _M, _A]):
    """Change of a group by one member. `records` grows until `write`.

    `group` may be new; `write` puts it into the shard, in place of `replaced_group` if that is not None.
    """

    group: _G
    now: float
    replaced_group: Group | None = None
    replaced_member: _M | None = None
    """Static member that this member replaces."""
    records: list[Record] = field(default_factory=list)
    cause: Cause | None = None
    """Cause of a new group epoch."""
    new_target: Target[_A] | None = None
    targets_at: int = 0
    """Index in `records` of the first record of the new target."""

    @abstractmethod
    def last_target(self, updated: _M) -> _A:
        """Return the present target assignment of a member."""

    @abstractmethod
    def compute(self, updated: _M, group_epoch: int) -> Target[_A]:
        """Compute the target assignment at an epoch, with `updated` as one of the members. May raise `Refusal` or
        `Offloaded`."""

    def assign(self, updated: _M, group_epoch: int) -> tuple[int, _A]:
        """Return the target epoch and the member's target assignment; compute them if they are due."""
        group = self.group
        if not group.is_target_due(group_epoch, self.now):
            return group.target_epoch, self.last_target(updated)
        self.new_target = target = self.compute(updated, group_epoch)
        self.targets_at = len(self.records)
        self.records += group.records_of_target(target, self.now)
        return group_epoch, target.assigned[updated.member_id]

    def write_records(self) -> _G:
        """Write the records. Return the group that is now in the shard."""
        group, shard = self.group, self.group.shard
        for key, value in self.records:
            shard.write(key, value)
        written: Any = shard.groups[group.group_id]
        assert isinstance(written, type(group))
        return written

    def write(self, updated: _M, reconciled: _M) -> _G:
        """Write the changes. `reconciled` is the member after its step from `updated`. Return the group that is now in
        the shard."""
        group, shard, now = self.group, self.group.shard, self.now
        before = group.state if shard.outbox.listening else None
        is_new_member = reconciled.member_id not in group.members
        present: object = shard.groups.get(group.group_id)
        arrivals = None if present is group else list(group.members.values())
        if self.replaced_group is not None:
            self.replaced_group.erase()
            if before is not None:
                group_events.group(shard.outbox, self.replaced_group, "deleted")
        written = self.write_records()
        if not self.records:
            shard.outbox.touch(shard)
        written.metadata_stale = False
        if self.replaced_member is not None:
            written.forget_timers(self.replaced_member.member_id)
        if self.cause is not None:
            written.note_new_epoch(self.cause, reconciled.member_id)
            shard.counters.new_epochs[group.type] += 1
        # A new member has nothing to revoke.
        if reconciled is not updated and not (is_new_member and self.replaced_member is None):
            self._restart_rebalance(written, reconciled)
        if before is not None:
            self._report(written, updated, reconciled, before, arrivals, is_new_member=is_new_member)
        written.renew_session(reconciled, now)
        return written

    def _restart_rebalance(self, written: _G, reconciled: _M) -> None:
        if reconciled.is_classic:
            return
        if reconciled.is_revoking:
            written.arm_rebalance(reconciled, self.now)
        else:
            written.cancel(TimerKind.REBALANCE, reconciled.member_id)

    def _report(
        self,
        written: _G,
        updated: _M,
        reconciled: _M,
        before: StrEnum,
        arrivals: list[_M] | None,
        *,
        is_new_member: bool,
    ) -> None:
        """Report the changes to the trace. `arrivals` are the members of a group that is new in the shard."""
        if arrivals is not None:
            group_events.group(written.shard.outbox, written, "created")
            for member in arrivals:
                events.member(written, member, "added")
        # A member that is already in the group may replace another one, too.
        replaced = self.replaced_member
        if replaced is not None and replaced.member_id != reconciled.member_id:
            events.member(written, replaced, "fenced")
            events.member(written, reconciled, "replaced")
        elif is_new_member:
            events.member(written, reconciled, "added")
        if self.cause is not None:
            events.epoch(written, self.now)
        if self.new_target is not None:
            events.target(written, self.new_target)
        if reconciled is not updated:
            written.trace_step(reconciled)
        events.state(written, before)
