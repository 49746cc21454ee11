"""The classic group as one of the kinds of groups: each method of `Group`, by the rules beside this module.

Decides which rule a timer fires. It does not decide anything else: state is in `group.py`, rules are in the module
named after their mechanism.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.join_group import JoinGroupRequest
from kafka_shim.apis.leave_group import LeaveGroupRequest
from kafka_shim.apis.sync_group import SyncGroupRequest
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.classic import heartbeat, lifecycle, rebalance, records
from kafka_shim.groups.classic.describe import describe, description
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.join import join
from kafka_shim.groups.classic.leave import expel, leave
from kafka_shim.groups.classic.sessions import wake
from kafka_shim.groups.classic.states import ERRORS, MEANING, RULES, State
from kafka_shim.groups.classic.sync import sync, sync_timeout
from kafka_shim.groups.classic.timers import TimerKind
from kafka_shim.groups.classic.triggers import trigger_of
from kafka_shim.groups.group import Expelled, Group, GroupDescription
from kafka_shim.groups.rows import Row, row
from kafka_shim.groups.shard import Kind, Shard
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.records import GroupMetadataKey, GroupOptionsKey


class Classic(ClassicGroup):
    """Implements `Group`."""

    __slots__ = ("shard",)

    def __init__(self, group_id: str, shard: Shard) -> None:
        super().__init__(group_id, shard.partition)
        self.shard = shard

    # Life

    def activate(self, now: float) -> None:
        lifecycle.activate(self.shard, self, now)

    def resign(self) -> None:
        lifecycle.resign(self.shard, self)

    def release(self) -> None:
        lifecycle.release(self.shard, self)

    def replay(self, key: Any, value: Any) -> None:
        if type(key) is GroupOptionsKey:
            if value is not None:
                self.apply_options(value)
        elif value is None:
            self.shard.drop(self.group_id)
        else:
            self.apply(value)

    def fire(self, timer: Timer, now: float) -> None:
        _FIRE[timer.kind](self.shard, self, timer.member_id, now)

    def topic_changed(self, topic: str, now: float) -> None:
        """Members of a classic group watch topics themselves."""

    # Members

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation: int, now: float) -> int:
        # The most frequent request by far: the case that nothing is amiss takes no call.
        member = self.members.get(member_id)
        if (
            member is not None
            and generation == self.generation
            and (group_instance_id is None or group_instance_id == member.group_instance_id)
        ):
            timer = member.session_timer
            deadline = now + member.session_timeout
            if timer.queued <= deadline:
                timer.deadline = deadline
                return self.heartbeat_error
        return heartbeat.heartbeat(self.shard, self, generation, member_id, group_instance_id, now)

    def renew(self, member_id: str, now: float) -> None:
        # An Empty group takes commits from outside the group, which renew nobody.
        member = self.members.get(member_id)
        if member is not None:
            timer = member.session_timer
            deadline = now + member.session_timeout
            if timer.queued <= deadline:
                timer.deadline = deadline
            else:
                wake(self.shard, member, now)

    def expel(self, now: float) -> list[Expelled]:
        return expel(self.shard, self, now)

    # Who may

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, member_epochs: bool = True
    ) -> ErrorCode:
        # As for a heartbeat: the case that nothing is amiss takes no call.
        is_its_generation = generation == self.generation and self.state is State.STABLE
        if is_its_generation and group_instance_id is None and member_id in self.members:
            return ErrorCode.NONE
        return super().check_commit(member_id, group_instance_id, generation, member_epochs=member_epochs)

    def check_delete(self) -> ErrorCode:
        return lifecycle.check_delete(self)

    def check_delete_offsets(self) -> ErrorCode:
        return lifecycle.check_delete_offsets(self)

    def erase(self) -> None:
        records.erase(self.shard, self)

    # What is shown

    def describe(self) -> GroupDescription:
        return description(self)


_FIRE: Final[dict[str, Callable[[Shard, ClassicGroup, str, float], None]]] = {
    TimerKind.SESSION: heartbeat.session_timeout,
    TimerKind.PENDING_MEMBER: heartbeat.pending_timeout,
    TimerKind.JOIN: lambda shard, group, _, now: rebalance.join_timeout(shard, group, now),
    TimerKind.SYNC: lambda shard, group, _, now: sync_timeout(shard, group, now),
}


def _row_of(group: Group | None, request: Any, *, member_id_required: bool) -> Row | None:
    """A row of `states.RULES`."""
    if group is None and isinstance(request, JoinGroupRequest) and not request.member_id:
        # It is made for this request, and has room.
        met, max_size = ClassicGroup(request.group_id, 0), 1
    elif isinstance(group, Classic):
        met, max_size = group, group.shard.config.group_max_size
    else:
        return None
    trigger = trigger_of(met, request, max_size, member_id_required=member_id_required)
    if trigger is None:
        return None
    cells = RULES[trigger]
    rule = cells[met.state]
    return row("a classic group", trigger, cells, met.state, MEANING[rule], int(ERRORS[rule]))


KIND: Final = Kind(
    name=ClassicGroup.type,
    states=State,
    make=Classic,
    records=(GroupMetadataKey, GroupOptionsKey),
    rules={
        JoinGroupRequest: join,
        SyncGroupRequest: sync,
        LeaveGroupRequest: leave,
        DescribeGroupsRequest: describe,
    },
    row_of=_row_of,
)
