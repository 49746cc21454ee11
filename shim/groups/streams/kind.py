"""The streams group as one of the kinds of groups: each method of `Group`, by the rules beside this module.

Decides which rule a timer fires. It does not decide anything else: state is in `group.py`, rules are in the module
named after their mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kafka_shim.apis.streams_group_describe import StreamsGroupDescribeRequest
from kafka_shim.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.group import Expelled, Group, GroupDescription
from kafka_shim.groups.rows import Row, steps_row
from kafka_shim.groups.shard import Kind
from kafka_shim.groups.streams import leave, offsets
from kafka_shim.groups.streams.describe import describe, description
from kafka_shim.groups.streams.heartbeat import heartbeat
from kafka_shim.groups.streams.live import StreamsGroup
from kafka_shim.groups.streams.records import ALL_KEYS, group_gone
from kafka_shim.groups.streams.sessions import arm_rebalance, renew_session
from kafka_shim.groups.streams.states import JOIN, STEPS, GroupState, MemberState
from kafka_shim.groups.streams.timers import TimerKind
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.records import StreamsGroupMetadataKey


class Streams(StreamsGroup):
    """Implements `Group`."""

    __slots__ = ()

    @property
    def is_simple(self) -> bool:
        return False

    # Life

    def activate(self, now: float) -> None:
        """Every member has its whole session to come back in, and its whole rebalance timeout if it is to give up
        tasks. What became of topics meanwhile is seen at the next heartbeat."""
        if self.shard.outbox.listening:
            events.group(self.shard.outbox, self, "loaded")
        for member in self.members.values():
            renew_session(self, member.member_id, now)
            if member.state is MemberState.UNREVOKED_TASKS:
                arm_rebalance(self, member, now)

    def resign(self) -> None:
        self.shard.drop(self.group_id)
        if self.shard.outbox.listening:
            events.group(self.shard.outbox, self, "unloaded")

    def release(self) -> None:
        for timer in self.timers.values():
            self.shard.cancel(timer)

    def replay(self, key: Any, value: Any) -> None:
        if value is None and type(key) is StreamsGroupMetadataKey:
            self.check_deletion()
            self.shard.drop(self.group_id)
        else:
            super().replay(key, value)

    def fire(self, timer: Timer, now: float) -> None:
        _FIRE[timer.kind](self, timer.member_id, now)

    def topic_changed(self, topic: str, now: float) -> None:
        """The next heartbeat looks at the topics of the topology again."""
        if self.topology is None or topic in self.topology.required:
            self.metadata_stale = True

    # Members

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation: int, now: float) -> int:
        """No member speaks the classic protocol here."""
        return ErrorCode.UNKNOWN_MEMBER_ID

    def renew(self, member_id: str, now: float) -> None:
        """A commit is no sign of life here: a heartbeat alone is."""

    def expel(self, now: float) -> list[Expelled]:
        members = list(self.members.values())
        expelled = [
            Expelled(
                member.member_id,
                member.instance_id,
                None,
                self.timer(TimerKind.SESSION, member.member_id).deadline,
                member.rebalance_timeout_ms / 1000,
            )
            for member in members
        ]
        leave.fence(self, members, Cause.ADMIN_REMOVED, "removed")
        return expelled

    # Who may

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, member_epochs: bool
    ) -> ErrorCode:
        return offsets.check_commit(self, member_id, generation, member_epochs=member_epochs)

    def check_commit_in_transaction(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        return offsets.check_commit_in_transaction(self, member_id, group_instance_id, generation)

    def allows_late_commit(self, member_id: str, member_epoch: int, partitions: Iterable[tuple[str, int]]) -> bool:
        return offsets.allows_late_commit(self, member_id, member_epoch, partitions)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return offsets.check_fetch(self, member_id, member_epoch)

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        return ErrorCode.NONE

    # Offsets

    def is_subscribed(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.by_source

    def offsets_expire_since(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    @property
    def is_disposable(self) -> bool:
        return not self.members

    def erase(self) -> None:
        for key, value in group_gone(self):
            self.shard.write(key, value)

    # What is shown

    def describe(self) -> GroupDescription:
        return description(self)


_FIRE: Final[dict[str, Callable[[StreamsGroup, str, float], None]]] = {
    TimerKind.SESSION: leave.session_timeout,
    TimerKind.REBALANCE: leave.rebalance_timeout,
    TimerKind.INITIAL: leave.end_of_delay,
}


def _row_of(group: Group | None, request: Any, *, member_id_required: bool) -> Row | None:
    """The row of `states.STEPS` of the member that a heartbeat comes from; one that joins begins as STABLE. None if it
    leaves, or is refused for its member or epoch."""
    if not isinstance(group, StreamsGroup | None) or not isinstance(request, StreamsGroupHeartbeatRequest):
        return None
    member = None if group is None else group.members.get(request.member_id)
    if member is None:
        return None if request.member_epoch != JOIN else _STEPS_ROWS[MemberState.STABLE]
    epochs = (JOIN, member.epoch, member.previous_epoch)
    return _STEPS_ROWS[member.state] if request.member_epoch in epochs and request.member_epoch >= JOIN else None


_STEPS_ROWS: Final = {state: steps_row("a member of a streams group", state, STEPS) for state in MemberState}

KIND: Final = Kind(
    name=StreamsGroup.type,
    states=GroupState,
    make=Streams,
    records=ALL_KEYS,
    rules={StreamsGroupHeartbeatRequest: heartbeat, StreamsGroupDescribeRequest: describe},
    row_of=_row_of,
)
