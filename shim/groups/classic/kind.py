"""Classic groups as a kind: implements `Group` with the rules in this folder, maps timers to rules, describes groups.

The display of the row that answered a request uses the same functions as the rules. Source: semantics 2.7, 2.11, 5.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kafka_shim.apis.consumer_protocol import assignment_from_bytes, subscription_from_bytes
from kafka_shim.apis.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest
from kafka_shim.apis.leave_group import LeaveGroupRequest
from kafka_shim.apis.offset_commit import OffsetCommitRequest
from kafka_shim.apis.sync_group import SyncGroupRequest
from kafka_shim.apis.txn_offset_commit import TxnOffsetCommitRequest
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events
from kafka_shim.groups.classic import heartbeat, rebalance, records
from kafka_shim.groups.classic.group import ClassicGroup, trigger_of_commit, trigger_of_commit_in_transaction
from kafka_shim.groups.classic.heartbeat import expel, leave
from kafka_shim.groups.classic.join import check_request, join, protocols_of, trigger_of_join
from kafka_shim.groups.classic.member import Member
from kafka_shim.groups.classic.rebalance import join_refused, sync_refused
from kafka_shim.groups.classic.records import find
from kafka_shim.groups.classic.states import ERRORS, MEANING, RULES, Rule, State, TimerKind, Trigger
from kafka_shim.groups.classic.subscriptions import CONSUMER
from kafka_shim.groups.classic.sync import sync, sync_timeout, trigger_of_sync
from kafka_shim.groups.group import Expelled, Group, GroupDescription, MemberDescription, Subscription
from kafka_shim.groups.interface import Row, row
from kafka_shim.groups.shard import Kind, Shard
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.records import GroupMetadataKey, GroupOptionsKey
from kafka_shim.trace.causes import Cause


class Classic(ClassicGroup):
    """Classic group; implements `Group`."""

    __slots__ = ("shard",)

    def __init__(self, group_id: str, shard: Shard) -> None:
        super().__init__(group_id, shard.partition)
        self.shard = shard

    # Load and unload

    def activate(self, now: float) -> None:
        """Begin to coordinate a loaded group: every member gets a full session to come back."""
        if self.shard.outbox.listening:
            events.group(self.shard.outbox, self, "loaded")
        for member in self.members.values():
            self.shard.arm(member.session_timer, now + member.session_timeout)
        if len(self.members) > self.shard.config.group_max_size:
            rebalance.start(self.shard, self, Cause.COORDINATOR_RELOADED, "", RULES[Trigger.OVERSIZE][self.state], now)

    def resign(self) -> None:
        """Stop coordinating a group: answer parked requests with NOT_COORDINATOR (16), and drop it."""
        for member in self.members.values():
            exchange = self.unpark_join(member)
            if exchange is not None:
                self.shard.outbox.reply(exchange, join_refused(ErrorCode.NOT_COORDINATOR, member.member_id), self.shard)
            if member.sync_exchange is not None:
                self.shard.outbox.reply(member.sync_exchange, sync_refused(ErrorCode.NOT_COORDINATOR), self.shard)
                member.sync_exchange = None
        self.enter(State.DEAD)
        self.shard.drop(self.group_id)
        if self.shard.outbox.listening:
            events.group(self.shard.outbox, self, "unloaded")

    def release(self) -> None:
        """Cancel every timer of a group that has just been dropped."""
        for member in self.members.values():
            self.shard.cancel(member.session_timer)
        for timer in self.pending.values():
            self.shard.cancel(timer)
        self.shard.cancel(self.join_timer)
        self.shard.cancel(self.sync_timer)

    def replay(self, key: Any, value: Any) -> None:
        if type(key) is GroupOptionsKey:
            if value is not None:
                self.apply_options(value)
        elif value is None:
            self.shard.drop(self.group_id)
        else:
            self.apply(value)

    def fire(self, timer: Timer, now: float) -> None:
        _FIRE[timer.kind](self.shard, self, timer, now)

    def topic_changed(self, topic: str, now: float) -> None:
        """Ignored: members of a classic group watch topics themselves."""

    # Members

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation: int, now: float) -> int:
        # The most frequent request by far: the usual case needs no call.
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
        # An Empty group accepts commits of clients that are not members and have no session.
        member = self.members.get(member_id)
        if member is not None:
            timer = member.session_timer
            deadline = now + member.session_timeout
            if timer.queued <= deadline:
                timer.deadline = deadline
            else:
                self.shard.arm(member.session_timer, now + member.session_timeout)

    def expel(self, now: float) -> list[Expelled]:
        return expel(self.shard, self, now)

    # Checks

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, member_epochs: bool = True
    ) -> ErrorCode:
        # As for a heartbeat, the usual case needs no call.
        is_its_generation = generation == self.generation and self.state is State.STABLE
        if is_its_generation and group_instance_id is None and member_id in self.members:
            return ErrorCode.NONE
        return super().check_commit(member_id, group_instance_id, generation, member_epochs=member_epochs)

    def check_delete(self) -> ErrorCode:
        """Check a DeleteGroups: 0, 68 or 69. Pending ids do not prevent it."""
        return ERRORS[RULES[Trigger.DELETE][self.state]]

    def check_delete_offsets(self) -> ErrorCode:
        """Check an OffsetDelete: 0, 68 or 69. A group of consumers may lose offsets of topics without subscribers
        (semantics 3.5)."""
        of_consumers = self.protocol_type == CONSUMER
        return ERRORS[RULES[Trigger.DELETE_OFFSETS if of_consumers else Trigger.DELETE_OFFSETS_OTHER][self.state]]

    def erase(self) -> None:
        records.erase(self.shard, self)

    # Description

    def describe(self) -> GroupDescription:
        return description(self)

    def describe_members(self, *, subscriptions: bool = True) -> Iterator[MemberDescription]:
        return (_member(self, member, subscriptions) for member in list(self.members.values()))


def describe(shard: Shard, group_id: str) -> DescribedGroup:
    """Describe the group and its members. An unknown group is Dead, with GROUP_ID_NOT_FOUND (69) as in v6."""
    shard.outbox.touch(shard)
    group = find(shard, group_id)
    rule = Rule.SHOW_DEAD if group is None else RULES[Trigger.DESCRIBE][group.state]
    if group is None or rule is Rule.SHOW_DEAD:
        is_other = group is None and group_id in shard.groups
        return DescribedGroup(
            error_code=ERRORS[Rule.SHOW_DEAD],
            error_message=f"Group {group_id} is not a classic group." if is_other else f"Group {group_id} not found.",
            group_id=group_id,
            group_state=State.DEAD,
        )
    # The protocol may change until the group is Stable, so it is left out before.
    protocol = group.protocol if rule is Rule.SHOW_STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"" if protocol is None else member.metadata_for(protocol),
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def description(group: ClassicGroup) -> GroupDescription:
    """Describe the group for the console, HTTP and tests."""
    round_, options = group.round, group.options
    return GroupDescription(
        type=group.type,
        group_id=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol=group.protocol,
        generation=group.generation,
        leader=group.leader,
        cause=None if round_ is None else round_.cause.value,
        trigger="" if round_ is None else round_.trigger,
        dropped=[] if round_ is None else list(round_.dropped),
        pending_members=sorted(group.pending),
        ephemeral=group.is_ephemeral,
        heartbeat_bound_ms=None if options is None else options.heartbeat_bound_ms,
    )


def _member(group: ClassicGroup, member: Member, subscriptions: bool) -> MemberDescription:
    is_consumer = group.protocol_type == CONSUMER
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=[name for name, _ in member.protocols],
        parked="join" if member.join_exchange is not None else "sync" if member.sync_exchange is not None else None,
        subscription=_subscription(member.metadata_for(group.protocol)) if is_consumer and subscriptions else None,
        assignment=_assignment(member.assignment) if is_consumer else None,
        has_assignment=group.state is State.STABLE and member.member_id not in group.pending_sync,
    )


def _subscription(data: bytes) -> Subscription | None:
    decoded = subscription_from_bytes(data)
    if decoded is None:
        return None
    return Subscription(
        topics=sorted(decoded.topics),
        owned_partitions={each.topic: sorted(each.partitions) for each in decoded.owned_partitions},
        generation=decoded.generation_id,
        rack=decoded.rack_id,
        user_data_bytes=len(decoded.user_data or b""),
    )


def _assignment(data: bytes) -> dict[str, list[int]] | None:
    decoded = assignment_from_bytes(data)
    if decoded is None:
        return None
    return {each.topic: sorted(each.partitions) for each in decoded.assigned_partitions}


_FIRE: Final[dict[str, Callable[[Shard, ClassicGroup, Timer, float], None]]] = {
    TimerKind.SESSION: heartbeat.session_timeout,
    TimerKind.PENDING_MEMBER: heartbeat.pending_timeout,
    TimerKind.JOIN: rebalance.join_timeout,
    TimerKind.SYNC: sync_timeout,
}


def _trigger_of(group: ClassicGroup, request: Any, max_size: int, *, member_id_required: bool) -> Trigger | None:
    """Return the trigger of a request at this group; None if the table has no row for it."""
    if isinstance(request, JoinGroupRequest):
        protocols = protocols_of(request)
        return trigger_of_join(group, request, protocols, max_size, member_id_required=member_id_required)
    if isinstance(request, SyncGroupRequest):
        return trigger_of_sync(group, request)
    if isinstance(request, HeartbeatRequest):
        return Trigger.HEARTBEAT
    if isinstance(request, LeaveGroupRequest):
        return Trigger.LEAVE
    if isinstance(request, OffsetCommitRequest):
        return trigger_of_commit(request.generation_id_or_member_epoch)
    if isinstance(request, TxnOffsetCommitRequest):
        return trigger_of_commit_in_transaction(request.member_id, request.group_instance_id, request.generation_id)
    return None


def _row_of(group: Group | None, request: Any, *, member_id_required: bool) -> Row | None:
    """Return the row of `states.RULES` for a request."""
    if group is None and isinstance(request, JoinGroupRequest) and not request.member_id:
        # The request would create a group, with room for one member.
        group_or_new, max_size = ClassicGroup(request.group_id, 0), 1
    elif isinstance(group, Classic):
        group_or_new, max_size = group, group.shard.config.group_max_size
    else:
        return None
    trigger = _trigger_of(group_or_new, request, max_size, member_id_required=member_id_required)
    if trigger is None:
        return None
    cells = RULES[trigger]
    rule = cells[group_or_new.state]
    return row("a classic group", trigger, cells, group_or_new.state, MEANING[rule], int(ERRORS[rule]))


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
    checks={JoinGroupRequest: check_request},
    row_of=_row_of,
    precreate=records.precreate,
)
