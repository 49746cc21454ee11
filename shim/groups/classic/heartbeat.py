"""Heartbeat and LeaveGroup, the timeouts of sessions and pending ids, and removal by an administrator.

The session of a member does not expire while its JoinGroup or SyncGroup is parked. The one exception is a member that
was never in a generation: its client may have left long ago unnoticed (semantics 2.7).

A LeaveGroup checks its members in turn; one rebalance follows for all of them. Source: semantics 2.3; KIP-345 for
removal by group instance id.
"""

from __future__ import annotations

from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.classic import events, rebalance
from kafka_shim.groups.classic.events import why_left
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.records import find
from kafka_shim.groups.classic.states import ERRORS, RULES, Rule, State, Trigger
from kafka_shim.groups.group import Expelled
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer
from kafka_shim.trace.causes import Cause


def heartbeat(
    shard: Shard, group: ClassicGroup, generation: int, member_id: str, group_instance_id: str | None, now: float
) -> int:
    """Handle a Heartbeat: 0, 15, 22, 25, 27 or 82. An accepted one renews the session, also with answer 27."""
    if RULES[Trigger.HEARTBEAT][group.state] is Rule.REFUSE_NOT_AVAILABLE:
        return group.heartbeat_error
    error = group.check_member(member_id, group_instance_id)
    if error:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    member = group.members[member_id]
    deadline = now + member.session_timeout
    if member.session_timer.queued <= deadline:
        member.session_timer.deadline = deadline
    else:
        shard.arm(member.session_timer, deadline)
    return group.heartbeat_error


def session_timeout(shard: Shard, group: ClassicGroup, timer: Timer, now: float) -> None:
    """Remove a member whose session ended."""
    member = group.members[timer.member_id]
    if not member.is_new and (member.join_exchange is not None or member.sync_exchange is not None):
        return
    rule = RULES[Trigger.SESSION_TIMEOUT][group.state]
    rebalance.remove_member(shard, group, member, "expired", rule)
    if rule is Rule.EXPIRE:
        rebalance.start(shard, group, Cause.SESSION_EXPIRED, member.member_id, rule, now)
    elif group.all_joined:
        # Unlike a departure, an expiry also ends the initial round early, as in Kafka.
        rebalance.end(shard, group, rule, now)


def pending_timeout(shard: Shard, group: ClassicGroup, timer: Timer, now: float) -> None:
    """Drop an id given with MEMBER_ID_REQUIRED (79) that did not join within the session timeout of its JoinGroup."""
    rule = RULES[Trigger.PENDING_TIMEOUT][group.state]
    del group.pending[timer.member_id]
    if shard.outbox.listening:
        events.pending(shard, group, timer.member_id, None, "expired", rule)
    if rule is Rule.FORGET_PENDING_IN_ROUND and group.all_joined:
        rebalance.end(shard, group, rule, now)


def leave(shard: Shard, request: LeaveGroupRequest, now: float) -> LeaveGroupResponse:
    """Remove the members in the request. An unknown group counts as 25 for every one of them."""
    group = find(shard, request.group_id)
    if group is None:
        return LeaveGroupResponse(members=[_answer(leaver, ErrorCode.UNKNOWN_MEMBER_ID) for leaver in request.members])
    rule = RULES[Trigger.LEAVE][group.state]
    if rule is Rule.REFUSE_NOT_AVAILABLE:
        return LeaveGroupResponse(error_code=ERRORS[rule])
    answers = []
    leavers: list[MemberIdentity] = []
    for leaver in request.members:
        error = _remove(shard, group, leaver, rule)
        answers.append(_answer(leaver, error))
        if not error:
            leavers.append(leaver)
    if leavers:
        if rule is Rule.LEAVE:
            trigger = leavers[0].member_id or leavers[0].group_instance_id or ""
            rebalance.start(shard, group, why_left(leavers[0]), trigger, rule, now)
        else:
            rebalance.end_if_all_joined(shard, group, rule, now)
    return LeaveGroupResponse(members=answers)


def _remove(shard: Shard, group: ClassicGroup, leaver: MemberIdentity, rule: Rule) -> ErrorCode:
    member_id, instance_id = leaver.member_id, leaver.group_instance_id
    if not member_id:
        member_id = group.static.get(instance_id, "") if instance_id is not None else ""
    elif member_id in group.pending:
        shard.cancel(group.pending.pop(member_id))
        if shard.outbox.listening:
            events.pending(shard, group, member_id, None, "left", rule)
        return ErrorCode.NONE
    error = group.check_member(member_id, instance_id)
    if not error:
        change = "left" if leaver.member_id else "removed"
        rebalance.remove_member(shard, group, group.members[member_id], change, rule)
    return error


def _answer(leaver: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(leaver.member_id, leaver.group_instance_id, error)


def expel(shard: Shard, group: ClassicGroup, now: float) -> list[Expelled]:
    """Remove all members and pending ids, as if an administrator removed them at once.

    An ephemeral group stays: its members will come back.
    """
    for timer in group.pending.values():
        shard.cancel(timer)
    group.pending.clear()
    expelled = [
        Expelled(
            member.member_id,
            member.group_instance_id,
            member.join_exchange or member.sync_exchange,
            min(member.session_timer.deadline, now + member.session_timeout),
            member.rebalance_timeout_ms / 1000,
        )
        for member in group.members.values()
    ]
    for member in list(group.members.values()):
        rebalance.remove_member(shard, group, member, "removed", Rule.LEAVE)
    options, group.options = group.options, None
    if group.state is State.PREPARING_REBALANCE:
        rebalance.end(shard, group, Rule.LEAVE, now)
    elif group.state is not State.EMPTY:
        rebalance.start(shard, group, Cause.ADMIN_REMOVED, "", Rule.LEAVE, now)
    group.options = options
    return expelled
