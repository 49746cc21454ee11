"""LeaveGroup: members go, or an admin client removes them.

Decides who of those named may be removed; each is judged in turn, and one rebalance follows for all of them.
Source: semantics 2.3; KIP-345 for removal by group instance id.
"""

from __future__ import annotations

from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic import events, rebalance
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.reasons import why_left
from kafka_shim.groups.classic.records import find
from kafka_shim.groups.classic.states import ERRORS, RULES, Rule, State, Trigger
from kafka_shim.groups.group import Expelled
from kafka_shim.groups.shard import Shard


def leave(shard: Shard, request: LeaveGroupRequest, now: float) -> LeaveGroupResponse:
    """Remove who is named in `request.members`. A missing group counts as 25 on every one of them."""
    group = find(shard, request.group_id)
    if group is None:
        return LeaveGroupResponse(members=[_answer(leaver, ErrorCode.UNKNOWN_MEMBER_ID) for leaver in request.members])
    rule = RULES[Trigger.LEAVE][group.state]
    if rule is Rule.REFUSE_NOT_AVAILABLE:
        return LeaveGroupResponse(error_code=ERRORS[rule])
    answers = []
    gone: list[MemberIdentity] = []
    for leaver in request.members:
        error = _remove(shard, group, leaver, rule)
        answers.append(_answer(leaver, error))
        if not error:
            gone.append(leaver)
    if gone:
        if rule is Rule.LEAVE:
            trigger = gone[0].member_id or gone[0].group_instance_id or ""
            rebalance.start(shard, group, why_left(gone[0]), trigger, rule, now)
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
    """Remove every member and forget every pending id, as if an administrator removed them all at once.

    An ephemeral group stays: its members are to come back.
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
