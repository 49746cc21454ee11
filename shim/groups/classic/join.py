"""JoinGroup at a classic group: checks, and the rules for each kind of join.

`trigger_of_join` determines the kind of join, `states.py` the rule. `rebalance.py` ends the round that a parked join
waits for. The checks are in Kafka's order: size, protocols, identity, state.

Static membership: a restarted process replaces the member with its group instance id. The new member inherits the place
of the old one, the old member id is fenced, and the group rebalances only if it must. `ClassicGroup.check_member`
checks the instance ids of requests.

Source: semantics 2.2, 2.3, 2.8, 2.9; KIP-394 for ids given with MEMBER_ID_REQUIRED (79); KIP-345, KIP-814.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events as group_events
from kafka_shim.groups.classic import events, rebalance, records
from kafka_shim.groups.classic.events import why_rejoined
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.member import Member, Protocols
from kafka_shim.groups.classic.rebalance import (
    Joining,
    join_answer,
    join_refused,
    new_member_id,
    park,
    sync_refused,
)
from kafka_shim.groups.classic.records import create
from kafka_shim.groups.classic.states import ERRORS, RULES, Rule, TimerKind, Trigger
from kafka_shim.groups.interface import PARKED, Client, Parked, Refusal
from kafka_shim.groups.shard import NodeParts, Shard
from kafka_shim.groups.timers import Timer
from kafka_shim.trace.causes import Cause

NEW_MEMBER_TIMEOUT: Final = 300.0
"""Seconds after which a parked new member is removed."""


def check_request(request: JoinGroupRequest, parts: NodeParts) -> None:
    """Check the session timeout, before the group is looked up; an empty group id is refused first.

    Raises `Refusal`: INVALID_SESSION_TIMEOUT (26).
    """
    least, most = parts.config.group_min_session_timeout_ms, parts.config.group_max_session_timeout_ms
    if request.group_id and not least <= request.session_timeout_ms <= most:
        raise Refusal(ErrorCode.INVALID_SESSION_TIMEOUT, None)


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
    present = shard.groups.get(request.group_id)
    if isinstance(present, ClassicGroup):
        group: ClassicGroup = present
    else:
        if present is not None:
            if present.size:
                return join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
            # An Empty group of another kind is replaced; its offsets stay.
            present.erase()
            if shard.outbox.listening:
                group_events.group(shard.outbox, present, "deleted")
        if member_id:
            return join_refused(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
        group = create(shard, request.group_id, now)
    max_size = shard.config.group_max_size
    trigger = trigger_of_join(group, request, protocols, max_size, member_id_required=member_id_required)
    rule = RULES[trigger][group.state]
    return _CARRY_OUT[rule](
        shard, group, Joining(request, protocols, client, exchange, now, skip_assignment_supported, rule)
    )


def trigger_of_join(
    group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols, max_size: int, *, member_id_required: bool
) -> Trigger:
    """Return the trigger of a JoinGroup. `max_size` is group.max.size; `member_id_required`: v4+ (KIP-394)."""
    member_id, instance_id = request.member_id, request.group_instance_id
    if not group.has_room(member_id, max_size):
        return Trigger.JOIN_NO_ROOM
    if not group.supports(request.protocol_type, [name for name, _ in protocols]):
        return Trigger.JOIN_UNSUPPORTED
    if not member_id:
        if instance_id is not None:
            return Trigger.JOIN_TAKE_OVER if instance_id in group.static else Trigger.JOIN_NEW_STATIC
        return Trigger.JOIN_NEW_ID_REQUIRED if member_id_required else Trigger.JOIN_NEW
    if member_id in group.pending:
        return Trigger.JOIN_PENDING if instance_id is None else Trigger.JOIN_PENDING_STATIC
    error = group.check_member(member_id, instance_id)
    if error:
        return Trigger.JOIN_FENCED if error is ErrorCode.FENCED_INSTANCE_ID else Trigger.JOIN_UNKNOWN
    if group.members[member_id].protocols != protocols:
        return Trigger.JOIN_CHANGED
    return Trigger.JOIN_LEADER if group.leader == member_id else Trigger.JOIN_SAME


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """Return the protocols of a JoinGroup in the form that members store."""
    return tuple([(protocol.name, protocol.metadata) for protocol in request.protocols])


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
    return join_answer(group, member_id, group.joined_members() if group.leader == member_id else ())


def take_over(shard: Shard, group: ClassicGroup, joining: Joining) -> JoinGroupResponse | Parked:
    """Give the static member a new id and update it from the JoinGroup."""
    request, now, rule = joining.request, joining.now, joining.rule
    old, old_leader = _static_member(group, joining), group.leader
    keeps_generation = rule is Rule.TAKE_OVER_STABLE and _keeps_protocol(group, old, joining)
    if keeps_generation and not _has_room(shard, group, old, joining):
        refusal = RULES[Trigger.JOIN_TAKE_OVER_OVERSIZED][group.state]
        return join_refused(ERRORS[refusal], "")
    member = _replace(shard, group, old, joining)
    # Until its first heartbeat it has the session timeout of the old member, as seen on a running Kafka 4.2.
    shard.arm(member.session_timer, now + member.session_timeout)
    group.update(member, joining.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    if keeps_generation:
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        records.write(shard, group, records.group_value(shard, group, assignments, now))
        return _keep_generation(group, member, old_leader, joining.skip_assignment_supported)
    park(shard, group, member, joining)
    if rule is Rule.TAKE_OVER_IN_ROUND:
        rebalance.end_if_all_joined(shard, group, rule, now)
    else:
        rebalance.start(shard, group, Cause.STATIC_REPLACED, member.member_id, rule, now)
    return PARKED


def _keep_generation(
    group: ClassicGroup, member: Member, old_leader: str | None, skip_assignment_supported: bool
) -> JoinGroupResponse:
    if not skip_assignment_supported:
        # A returning leader must not assign again; before v9 only the name of another leader prevents that.
        return join_answer(group, member.member_id, leader=old_leader)
    leads = group.leader == member.member_id
    members = group.joined_members() if leads else ()
    return join_answer(group, member.member_id, members, skip_assignment=leads)


def _static_member(group: ClassicGroup, joining: Joining) -> Member:
    instance_id = joining.request.group_instance_id
    assert instance_id is not None
    return group.members[group.static[instance_id]]


def _keeps_protocol(group: ClassicGroup, member: Member, joining: Joining) -> bool:
    """Return True if the group would keep its protocol with the protocols of the JoinGroup."""
    before = member.protocols
    group.offer(member, joining.protocols)
    elected = group.select_protocol()
    group.offer(member, before)
    return elected == group.protocol


def _has_room(shard: Shard, group: ClassicGroup, member: Member, joining: Joining) -> bool:
    """Return True if the group's record with the protocols of the JoinGroup can be stored. Member ids have equal
    lengths."""
    before = member.protocols
    group.offer(member, joining.protocols)
    assignments = {each.member_id: each.assignment for each in group.members.values()}
    value = records.group_value(shard, group, assignments, joining.now)
    group.offer(member, before)
    return records.has_room(shard, group, value)


def _replace(shard: Shard, group: ClassicGroup, old: Member, joining: Joining) -> Member:
    assert old.group_instance_id is not None
    member_id = new_member_id(shard, old.group_instance_id)
    shard.cancel(old.session_timer)
    if old.join_exchange is not None:
        shard.outbox.reply(old.join_exchange, join_refused(ErrorCode.FENCED_INSTANCE_ID, old.member_id), shard)
    if old.sync_exchange is not None:
        shard.outbox.reply(old.sync_exchange, sync_refused(ErrorCode.FENCED_INSTANCE_ID), shard)
        old.sync_exchange = None
    new = group.replace(old, member_id, Timer(TimerKind.SESSION, shard.partition, group.group_id, member_id))
    if shard.outbox.listening:
        events.member(shard, group, old, "fenced", joining.rule)
        events.member(shard, group, new, "replaced", joining.rule)
    return new


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
