"""LeaveGroup: members go, or an admin client removes them.

Decides who of those named may be removed; each is judged in turn, and one rebalance follows for all of them.
Source: semantics 2.3; KIP-345 for removal by group instance id.
"""

from __future__ import annotations

from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import trace
from kafka_shim.groups.classic import rebalance
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.reasons import why_left
from kafka_shim.groups.classic.states import RULES, Request, Rule
from kafka_shim.groups.shard import Shard


def leave(shard: Shard, request: LeaveGroupRequest, now: float) -> LeaveGroupResponse:
    """Remove who is named in `request.members`. A missing group counts as 25 on every one of them."""
    group = shard.groups.get(request.group_id)
    if group is None:
        return LeaveGroupResponse(members=[_answer(leaver, ErrorCode.UNKNOWN_MEMBER_ID) for leaver in request.members])
    rule = RULES[Request.LEAVE][group.state]
    if rule is Rule.REFUSE_NOT_AVAILABLE:
        return LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
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
    elif member_id in group.pending and instance_id is None:
        shard.cancel(group.pending.pop(member_id))
        if shard.outbox.listening:
            trace.pending(shard, group, member_id, None, "left", rule)
        return ErrorCode.NONE
    error = group.check_member(member_id, instance_id)
    if not error:
        change = "left" if leaver.member_id else "removed"
        rebalance.remove_member(shard, group, group.members[member_id], change, rule)
    return error


def _answer(leaver: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(leaver.member_id, leaver.group_instance_id, error)
