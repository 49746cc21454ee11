"""SyncGroup: the leader sends the assignments, every member receives its own.

Followers wait for the leader; members that do not sync in time are removed. Assignments are opaque bytes.

Source: semantics 2.3, 2.6; KIP-559 for protocol type and name in the request.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.classic import events, rebalance, records
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.member import Member
from kafka_shim.groups.classic.rebalance import sync_answer, sync_refused
from kafka_shim.groups.classic.records import find
from kafka_shim.groups.classic.states import ERRORS, RULES, Rule, Trigger
from kafka_shim.groups.interface import PARKED, Parked
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.records import GroupMetadataValue
from kafka_shim.trace.causes import Cause


def sync(shard: Shard, request: SyncGroupRequest, exchange: object, now: float) -> SyncGroupResponse | Parked:
    """Answer or park a SyncGroup. A missing or Empty group counts as an unknown member (25)."""
    group = find(shard, request.group_id)
    if group is None:
        return sync_refused(ErrorCode.UNKNOWN_MEMBER_ID)
    rule = RULES[trigger_of_sync(group, request)][group.state]
    if rule is Rule.REFUSE_NOT_AVAILABLE:
        return sync_refused(ERRORS[rule])
    error = group.check_member(request.member_id, request.group_instance_id) or check_protocol(group, request)
    if error or ERRORS[rule]:
        return sync_refused(error or ERRORS[rule])
    member = group.members[request.member_id]
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        shard.cancel(group.sync_timer)
    if rule is Rule.PARK_SYNC:
        return _park(shard, member, exchange)
    if rule is Rule.ASSIGN:
        assigned = records.group_value(shard, group, {a.member_id: a.assignment for a in request.assignments}, now)
        if not records.has_room(shard, group, assigned):
            return _reject(shard, group, member, RULES[Trigger.SYNC_OVERSIZED][group.state], now)
        _assign(shard, group, member, assigned, rule, now)
    shard.outbox.touch(shard)
    return sync_answer(group, member.assignment)


def trigger_of_sync(group: ClassicGroup, request: SyncGroupRequest) -> Trigger:
    """Return the trigger of a SyncGroup: by the leader, or by a follower."""
    return Trigger.SYNC_LEADER if group.leader == request.member_id else Trigger.SYNC_FOLLOWER


def sync_timeout(shard: Shard, group: ClassicGroup, timer: Timer, now: float) -> None:
    """Remove all members that did not sync in time, static members too."""
    rule = RULES[Trigger.SYNC_TIMEOUT][group.state]
    if rule is Rule.EXPEL_UNSYNCED and group.pending_sync:
        expelled = [member_id for member_id in group.members if member_id in group.pending_sync]
        for member_id in expelled:
            rebalance.remove_member(shard, group, group.members[member_id], "expired", rule)
        rebalance.start(shard, group, Cause.PENDING_SYNC_EXPIRED, expelled[0], rule, now)


def check_protocol(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    """Check generation, protocol type and protocol of a SyncGroup: NONE, 22 or 23 (KIP-559)."""
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _differ(of_request: str | None, of_group: str | None) -> bool:
    return of_request is not None and of_group is not None and of_request != of_group


def _park(shard: Shard, member: Member, exchange: object) -> Parked:
    if member.sync_exchange is not None:
        shard.outbox.reply(member.sync_exchange, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), shard)
    member.sync_exchange = exchange
    shard.cancel(member.session_timer)
    return PARKED


def _assign(
    shard: Shard, group: ClassicGroup, leader: Member, assigned: GroupMetadataValue, rule: Rule, now: float
) -> None:
    before = group.state
    records.write(shard, group, assigned)
    shard.counters.completed_rebalances += 1
    if shard.outbox.listening:
        events.state(shard, group, before, rule)
        events.assignment(shard, group, now)
    _answer_syncs(shard, group, lambda member: sync_answer(group, member.assignment), now)
    shard.arm(leader.session_timer, now + leader.session_timeout)


def _reject(shard: Shard, group: ClassicGroup, leader: Member, rule: Rule, now: float) -> SyncGroupResponse:
    _answer_syncs(shard, group, lambda member: sync_refused(ERRORS[rule]), now)
    shard.arm(leader.session_timer, now + leader.session_timeout)
    rebalance.start(shard, group, Cause.ASSIGNMENT_WRITE_FAILED, leader.member_id, rule, now)
    return sync_refused(ERRORS[rule])


def _answer_syncs(shard: Shard, group: ClassicGroup, answer: Callable[[Member], SyncGroupResponse], now: float) -> None:
    for member in group.members.values():
        if member.sync_exchange is not None:
            rebalance.release_sync(shard, member, answer(member), now)
