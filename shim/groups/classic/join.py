"""JoinGroup: who may join a classic group, and what that does to it.

Decides whether there is a group to join, and carries out the rule that `states.py` names for this kind of join
(`triggers.py`). It does not know when the round that a parked join waits in ends (`rebalance.py`), nor how static
members are replaced (`static.py`).

The order of the checks is Kafka's: size, protocols, who it is, and only then the state.
Source: semantics 2.2, 2.3, 2.9; KIP-394 for ids handed out with error 79.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events as group_events
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic import events, rebalance
from kafka_shim.groups.classic.answers import join_refused, joined
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.joining import Joining, new_member_id, park
from kafka_shim.groups.classic.member import Member
from kafka_shim.groups.classic.reasons import why_rejoined
from kafka_shim.groups.classic.records import create, find
from kafka_shim.groups.classic.sessions import NEW_MEMBER_TIMEOUT
from kafka_shim.groups.classic.states import ERRORS, RULES, Rule
from kafka_shim.groups.classic.static import take_over
from kafka_shim.groups.classic.timers import TimerKind
from kafka_shim.groups.classic.triggers import protocols_of, trigger_of_join
from kafka_shim.groups.interface import PARKED, Client, Parked
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer


def join(
    shard: Shard,
    request: JoinGroupRequest,
    client: Client,
    exchange: object,
    now: float,
    *,
    member_id_required: bool,
    skip_assignment_supported: bool,
) -> JoinGroupResponse | Parked:
    """Answer or park a JoinGroup. `member_id_required`: v4+ (KIP-394); `skip_assignment_supported`: v9+ (KIP-814)."""
    member_id = request.member_id
    protocols = protocols_of(request)
    group = find(shard, request.group_id)
    other = shard.groups.get(request.group_id)
    if group is None and other is not None:
        if other.size:
            return join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        # An Empty group of another kind makes place, and leaves its offsets.
        other.erase()
        if shard.outbox.listening:
            group_events.group(shard.outbox, other, "deleted")
    if group is None:
        if member_id:
            return join_refused(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
        group = create(shard, request.group_id, now)
    max_size = shard.config.group_max_size
    trigger = trigger_of_join(group, request, protocols, max_size, member_id_required=member_id_required)
    rule = RULES[trigger][group.state]
    return _CARRY_OUT[rule](
        shard, group, Joining(request, protocols, client, exchange, now, skip_assignment_supported, rule)
    )


def _turn_away(shard: Shard, group: ClassicGroup, joining: Joining) -> JoinGroupResponse:
    member = group.members.get(joining.request.member_id)
    if member is not None:
        rebalance.remove_member(shard, group, member, "removed", joining.rule)
    return join_refused(ERRORS[joining.rule], "")


def _add(shard: Shard, group: ClassicGroup, joining: Joining) -> Parked:
    request, now = joining.request, joining.now
    instance_id = request.group_instance_id
    member_id = request.member_id or new_member_id(shard, instance_id or joining.client.client_id)
    pending = group.pending.pop(member_id, None)
    if pending is not None:
        shard.cancel(pending)
    member = Member(
        member_id,
        instance_id,
        joining.client.client_id,
        joining.client.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        joining.protocols,
        Timer(TimerKind.SESSION, shard.partition, group.group_id, member_id),
    )
    member.is_new = True
    if group.in_initial_round:
        group.new_member_added = True
    group.add(member, request.protocol_type)
    group.park_join(member, joining.exchange, now)
    shard.arm(member.session_timer, now + NEW_MEMBER_TIMEOUT)
    if shard.outbox.listening:
        events.member(shard, group, member, "added", joining.rule)
    if joining.rule is Rule.ADD:
        rebalance.start(shard, group, Cause.NEW_MEMBER, member_id, joining.rule, now)
    else:
        rebalance.end_if_all_joined(shard, group, joining.rule, now)
    return PARKED


def _hand_out_id(shard: Shard, group: ClassicGroup, joining: Joining) -> JoinGroupResponse:
    member_id = new_member_id(shard, joining.client.client_id)
    timer = Timer(TimerKind.PENDING_MEMBER, shard.partition, group.group_id, member_id)
    group.pending[member_id] = timer
    shard.arm(timer, joining.now + joining.request.session_timeout_ms / 1000)
    if shard.outbox.listening:
        events.pending(shard, group, member_id, joining.client, "pending", joining.rule)
    return join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id)


def _rejoin(shard: Shard, group: ClassicGroup, joining: Joining) -> Parked:
    request, now = joining.request, joining.now
    member = group.members[request.member_id]
    before = member.protocols
    group.update(member, joining.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    park(shard, group, member, joining)
    if joining.rule is Rule.REJOIN:
        cause = why_rejoined(group, member, before)
        rebalance.start(shard, group, cause, member.member_id, joining.rule, now)
    else:
        rebalance.end_if_all_joined(shard, group, joining.rule, now)
    return PARKED


def _current_generation(shard: Shard, group: ClassicGroup, joining: Joining) -> JoinGroupResponse:
    member_id = joining.request.member_id
    shard.outbox.touch(shard)
    return joined(group, member_id, group.joined_members() if group.leader == member_id else ())


_Action: TypeAlias = Callable[[Shard, ClassicGroup, Joining], JoinGroupResponse | Parked]


def _refuse(shard: Shard, group: ClassicGroup, joining: Joining) -> JoinGroupResponse:
    member_id = "" if joining.rule is Rule.REFUSE_IMPOSSIBLE else joining.request.member_id
    return join_refused(ERRORS[joining.rule], member_id)


_CARRY_OUT: Final[dict[Rule, _Action]] = {
    Rule.ADD: _add,
    Rule.ADD_IN_ROUND: _add,
    Rule.HAND_OUT_ID: _hand_out_id,
    Rule.TAKE_OVER: take_over,
    Rule.TAKE_OVER_IN_ROUND: take_over,
    Rule.TAKE_OVER_STABLE: take_over,
    Rule.REJOIN: _rejoin,
    Rule.REJOIN_IN_ROUND: _rejoin,
    Rule.CURRENT_GENERATION: _current_generation,
    Rule.TURN_AWAY: _turn_away,
    Rule.REFUSE_UNKNOWN: _refuse,
    Rule.REFUSE_FENCED: _refuse,
    Rule.REFUSE_UNSUPPORTED: _refuse,
    Rule.REFUSE_NOT_AVAILABLE: _refuse,
    Rule.REFUSE_IMPOSSIBLE: _refuse,
}
