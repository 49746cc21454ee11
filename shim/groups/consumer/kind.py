"""The consumer group as one of the kinds of groups: each method of `Group`, by the rules beside this module.

Decides which rule a timer fires, and which rule answers a request of the classic protocol. It does not decide anything
else: state is in `group.py`, rules are in the module named after their mechanism.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_shim.apis.join_group import error as join_refused
from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic.join import join as join_classic_group
from kafka_shim.groups.consumer import classic_members, leave, offload, offsets, patterns
from kafka_shim.groups.consumer.describe import describe, description
from kafka_shim.groups.consumer.heartbeat import heartbeat
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.records import ALL_KEYS, group_gone
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.consumer.sessions import arm_rebalance, renew_session
from kafka_shim.groups.consumer.states import JOIN, STEPS, GroupState, MemberState
from kafka_shim.groups.consumer.timers import TimerKind
from kafka_shim.groups.group import Expelled, Group, GroupDescription
from kafka_shim.groups.interface import Client, Parked
from kafka_shim.groups.rows import Row, steps_row
from kafka_shim.groups.shard import Kind, Shard
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.records import ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupMetadataKey


class Consumer(ConsumerGroup):
    """Implements `Group`."""

    __slots__ = ()

    @property
    def is_simple(self) -> bool:
        return False

    # Life

    def activate(self, now: float) -> None:
        """Every member has its whole session to come back in, and its whole rebalance timeout if it is to give up
        partitions. What became of topics meanwhile is seen at the next heartbeat."""
        if self.shard.outbox.listening:
            events.group(self.shard.outbox, self, "loaded")
        for member in self.members.values():
            renew_session(self, member, now)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                arm_rebalance(self, member, now)

    def resign(self) -> None:
        self.shard.drop(self.group_id)
        if self.shard.outbox.listening:
            events.group(self.shard.outbox, self, "unloaded")

    def release(self) -> None:
        self.calm = None
        for timer in (*self.sessions.values(), *self.timers.values()):
            self.shard.cancel(timer)

    def replay(self, key: Any, value: Any) -> None:
        self.calm = None
        if value is None and type(key) is ConsumerGroupMetadataKey:
            self.check_deletion()
            self.shard.drop(self.group_id)
            return
        super().replay(key, value)
        if type(key) is not ConsumerGroupCurrentMemberAssignmentKey:
            self.revision += 1
            self.specs.replayed(key, value)

    def fire(self, timer: Timer, now: float) -> None:
        if timer.kind is TimerKind.REGEX:
            patterns.resolve(self, now)
            return
        try:
            _FIRE[timer.kind](self, timer.member_id, now)
        except Refusal:
            self.shard.arm(timer, now + _TRY_AGAIN_S)

    def topic_changed(self, topic: str, now: float) -> None:
        """The next heartbeat looks at the topics of the group again, and at its patterns."""
        self.calm = None
        self.patterns_stale = True
        self.specs.topics_changed()
        if self.subscriptions.includes(topic):
            self.metadata_stale = True
            self.revision += 1

    # Members

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation: int, now: float) -> int:
        return classic_members.heartbeat(self, member_id, group_instance_id, generation, now)

    def renew(self, member_id: str, now: float) -> None:
        """A commit is no sign of life here: a heartbeat alone is."""

    def expel(self, now: float) -> list[Expelled]:
        members = list(self.members.values())
        expelled = [
            Expelled(
                member.member_id,
                member.instance_id,
                None,
                self.session(member.member_id).deadline,
                member.rebalance_timeout_ms / 1000,
            )
            for member in members
        ]
        leave.fence(self, members, Cause.ADMIN_REMOVED, "removed", now)
        return expelled

    # Who may

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, member_epochs: bool
    ) -> ErrorCode:
        return offsets.check_commit(self, member_id, generation, member_epochs=member_epochs)

    def check_commit_in_transaction(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        return offsets.check_commit_in_transaction(self, member_id, group_instance_id, generation)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return offsets.check_fetch(self, member_id, member_epoch)

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        return ErrorCode.NONE

    # Offsets

    def is_subscribed(self, topic: str) -> bool:
        return self.subscriptions.includes(topic)

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


_TRY_AGAIN_S: Final = 0.5
"""When a timer fires again whose rule could not be carried out: `CoordinatorTimer`'s, in Kafka."""
_FIRE: Final[dict[str, Callable[[ConsumerGroup, str, float], None]]] = {
    TimerKind.SESSION: leave.session_timeout,
    TimerKind.REBALANCE: leave.rebalance_timeout,
    TimerKind.JOIN: leave.join_timeout,
    TimerKind.SYNC: leave.sync_timeout,
}


def _join(
    shard: Shard,
    request: JoinGroupRequest,
    client: Client,
    exchange: object,
    now: float,
    *,
    member_id_required: bool,
    skip_assignment_supported: bool,
) -> JoinGroupResponse | Parked:
    """A JoinGroup: an Empty group becomes a classic one, another takes the member in."""
    group = shard.groups[request.group_id]
    assert isinstance(group, ConsumerGroup)
    if not group.members:
        return join_classic_group(
            shard,
            request,
            client,
            exchange,
            now,
            member_id_required=member_id_required,
            skip_assignment_supported=skip_assignment_supported,
        )
    member_id = request.member_id or shard.new_id()

    def attempt(now: float) -> JoinGroupResponse:
        group = shard.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            # It was when the request came: the member asks again.
            return refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            return classic_members.join(group, request, member_id, client, now, member_id_required=member_id_required)
        except Refusal as refusal:
            return refuse(refusal.code)

    def refuse(code: int) -> JoinGroupResponse:
        # A consumer group does not say the member id back with an error, other than a classic one.
        return join_refused(classic_members.replaced_id(request, ""), code)

    answer: JoinGroupResponse | Parked = offload.serve(
        shard, request.group_id, offload.Waiting(exchange, attempt, refuse), now
    )
    return answer


def _sync(shard: Shard, request: SyncGroupRequest, exchange: object, now: float) -> SyncGroupResponse | Parked:
    group = shard.groups[request.group_id]
    assert isinstance(group, ConsumerGroup)
    try:
        return classic_members.sync(group, request, now)
    except Refusal as refusal:
        return SyncGroupResponse(error_code=refusal.code)


def _leave(shard: Shard, request: LeaveGroupRequest, now: float) -> LeaveGroupResponse:
    group = shard.groups[request.group_id]
    assert isinstance(group, ConsumerGroup)
    try:
        return classic_members.leave(group, request, now)
    except Refusal as refusal:
        return LeaveGroupResponse(error_code=refusal.code)


def heartbeat_row(group: Group | None, request: Any) -> Row | None:
    """The row of `states.STEPS` of the member that a heartbeat comes from; one that joins begins as STABLE. None if it
    leaves, or is refused for its member or epoch."""
    if not isinstance(group, ConsumerGroup | None) or request.member_epoch < JOIN:
        return None
    member = None
    if group is not None:
        member = group.members.get(request.member_id) or group.static_member(request.instance_id)
    if member is None:
        return None if request.member_epoch != JOIN else _STEPS_ROWS[MemberState.STABLE]
    is_refused = request.member_epoch not in (JOIN, member.epoch, member.previous_epoch)
    return None if is_refused else _STEPS_ROWS[member.state]


def _row_of(group: Group | None, request: Any, *, member_id_required: bool) -> Row | None:
    return heartbeat_row(group, request) if isinstance(request, ConsumerGroupHeartbeatRequest) else None


_STEPS_ROWS: Final = {state: steps_row("a member of a consumer group", state, STEPS) for state in MemberState}

KIND: Final = Kind(
    name=ConsumerGroup.type,
    states=GroupState,
    make=Consumer,
    records=ALL_KEYS,
    rules={
        ConsumerGroupHeartbeatRequest: heartbeat,
        ConsumerGroupDescribeRequest: describe,
        JoinGroupRequest: _join,
        SyncGroupRequest: _sync,
        LeaveGroupRequest: _leave,
    },
    row_of=_row_of,
)
