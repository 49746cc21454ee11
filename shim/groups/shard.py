"""One partition of `__consumer_offsets`: its groups and their offsets, and what a record does to them.

Decides which object a record changes. `replay` is the only way hard state changes: rules call `write`, which makes the
record durable with the current batch and replays it at once; a store read at start is replayed by the same code. The
shard does not know requests, nor whether this node has the partition: that is `service.py`.

Source: semantics 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from kafka_shim.groups import trace
from kafka_shim.groups.classic.group import ClassicGroup, Terms
from kafka_shim.groups.classic.member import Member
from kafka_shim.groups.config import GroupConfig
from kafka_shim.groups.counters import Counters
from kafka_shim.groups.offsets import Offsets
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.timers import NEVER, Timer, TimerKind, Timers
from kafka_shim.groups.transactions import PendingOffsets, Transaction, replay_transaction
from kafka_shim.persistence.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupTermsKey,
    GroupTermsValue,
    OffsetCommitKey,
    OffsetCommitValue,
    PendingOffsetKey,
    TransactionKey,
)

NEW_MEMBER_TIMEOUT: Final = 300.0
"""Seconds a new member may be parked before it counts as gone (semantics 2.7)."""


class Shard:
    """Groups and offsets of one partition.

    `index` is shared by all shards of a node: every group it has, by id. `batch` is the number of the newest batch that
    has a record of this shard. `wall_offset` is what makes Unix time, in seconds, of monotonic `now`.
    """

    def __init__(
        self,
        partition: int,
        config: GroupConfig,
        outbox: Outbox,
        timers: Timers,
        counters: Counters,
        index: dict[str, ClassicGroup],
        new_id: Callable[[], str],
        wall_offset: float,
    ) -> None:
        self.partition = partition
        self.batch = 0
        self.config = config
        self.outbox = outbox
        self.timers = timers
        self.counters = counters
        self.new_id = new_id
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()
        self.pending = PendingOffsets()
        self.transactions: dict[str, Transaction] = {}
        self.expiry_timer = Timer(TimerKind.OFFSET_EXPIRY, partition)
        self.unknown_records = 0
        self._index = index
        self._wall_offset = wall_offset

    def wall_ms(self, now: float) -> int:
        """Milliseconds of Unix time at monotonic `now`."""
        return int((now + self._wall_offset) * 1000)

    # Records

    def write(self, key: Any, value: Any) -> None:
        """Make a record durable with the current batch and let it take effect."""
        self.outbox.write(self, key, value)
        self.replay(key, value)

    def write_offsets(self, records: Sequence[tuple[int, OffsetCommitKey, OffsetCommitValue]]) -> None:
        """Make offsets of groups that are there durable with the current batch and let them take effect.

        Each comes with this shard's partition, as the outbox takes it.
        """
        self.outbox.write_all(self, records)
        self.offsets.replay_all(records)

    def replay(self, key: Any, value: Any) -> None:
        """Let a record take effect; `value` None is a tombstone. Records of unknown types are counted and skipped."""
        kind = type(key)
        if kind is OffsetCommitKey:
            self.offsets.replay(key, value)
            if value is not None and key.group not in self.groups:
                self.obtain(key.group)
        elif kind is GroupMetadataKey:
            self._replay_group(key.group, value)
        elif kind is PendingOffsetKey:
            self.pending.replay(key, value)
            if value is not None and key.group not in self.groups:
                self.obtain(key.group)
        elif kind is TransactionKey:
            replay_transaction(self, key, value)
        elif kind is GroupTermsKey:
            self._replay_terms(key.group, value)
        else:
            self.unknown_records += 1

    def write_group(self, group: ClassicGroup, assignments: dict[str, bytes], now: float) -> None:
        """Write the record of a group whose members have these assignments."""
        self.write(GroupMetadataKey(group.group_id), group.to_record(assignments, self.wall_ms(now)))

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is None:
            self.drop(group_id)
        else:
            self.obtain(group_id).apply(value)

    def _replay_terms(self, group_id: str, value: GroupTermsValue | None) -> None:
        if value is not None:
            bound_ms = None if value.heartbeat_bound_ms == -1 else value.heartbeat_bound_ms
            self.obtain(group_id).bind(Terms(value.ephemeral, bound_ms))

    # Groups

    def create_ahead(self, group_id: str, ephemeral: bool, heartbeat_bound_ms: int | None, now: float) -> None:
        """A new group, Empty, before anybody joins it, on these terms."""
        self.create(group_id, now)
        bound_ms = -1 if heartbeat_bound_ms is None else heartbeat_bound_ms
        self.write(GroupTermsKey(group_id), GroupTermsValue(ephemeral, bound_ms))

    def erase(self, group: ClassicGroup) -> None:
        """Write that a group is no more."""
        if group.terms is not None:
            self.write(GroupTermsKey(group.group_id), None)
        self.write(GroupMetadataKey(group.group_id), None)

    def create(self, group_id: str, now: float) -> ClassicGroup:
        """A new group, Empty, with its record (semantics 5.2)."""
        value = GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=self.wall_ms(now),
            members=[],
        )
        self.write(GroupMetadataKey(group_id), value)
        group = self.groups[group_id]
        if self.outbox.listening:
            trace.group(self.outbox, group, "created")
        return group

    def obtain(self, group_id: str) -> ClassicGroup:
        """The group; one that has only offsets, a simple group, is made without a record."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = self._index[group_id] = ClassicGroup(group_id, self.partition)
        return group

    def drop(self, group_id: str) -> None:
        """Forget a group and its timers; nothing happens if it is not there."""
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        del self._index[group_id]
        for member in group.members.values():
            self.cancel(member.session)
        for timer in group.pending.values():
            self.cancel(timer)
        self.cancel(group.join_timer)
        self.cancel(group.sync_timer)

    # Timers

    def arm(self, timer: Timer, deadline: float) -> None:
        """Let a timer fire at `deadline`, in monotonic seconds."""
        self.timers.arm(timer, deadline)
        if self.outbox.listening:
            trace.timer(self.outbox, timer, "armed", deadline)

    def cancel(self, timer: Timer) -> None:
        """Let a timer not fire; nothing happens if it is not armed."""
        if timer.deadline != NEVER:
            if self.outbox.listening:
                trace.timer(self.outbox, timer, "cancelled", timer.deadline)
            self.timers.cancel(timer)

    def wake(self, member: Member, now: float) -> None:
        """Start the member's session, which was asleep or was that of a new member."""
        self.arm(member.session, now + member.session_timeout)

    def renew(self, member: Member, now: float) -> None:
        """A sign of life: the member's session runs from now."""
        deadline = now + member.session_timeout
        if member.session.queued <= deadline:
            member.session.deadline = deadline
        else:
            self.wake(member, now)
