"""SyncGroup: the leader hands in the assignments, everybody gets theirs.

Decides who waits for the leader, what the leader's assignments do, and who is expelled for not syncing. It does not
look into an assignment.

Source: semantics 2.3, 2.6; KIP-559 for protocol type and name in the request.
"""

from __future__ import annotations

from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic import events, rebalance, records
from kafka_shim.groups.classic.answers import sync_refused, synced
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.member import Member
from kafka_shim.groups.classic.records import find
from kafka_shim.groups.classic.sessions import wake
from kafka_shim.groups.classic.states import RULES, Request, Rule
from kafka_shim.groups.interface import PARKED, Parked
from kafka_shim.groups.shard import Shard


def sync(shard: Shard, request: SyncGroupRequest, token: object, now: float) -> SyncGroupResponse | Parked:
    """Answer or park a SyncGroup. A missing or Empty group counts as an unknown member (25)."""
    group = find(shard, request.group_id)
    if group is None:
        return sync_refused(ErrorCode.UNKNOWN_MEMBER_ID)
    leads = group.leader == request.member_id
    rule = RULES[Request.SYNC_LEADER if leads else Request.SYNC_FOLLOWER][group.state]
    if rule is Rule.REFUSE_NOT_AVAILABLE:
        return sync_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    error = _check(group, request)
    if error:
        return sync_refused(error)
    if rule is Rule.REFUSE_REBALANCING:
        return sync_refused(ErrorCode.REBALANCE_IN_PROGRESS)
    member = group.members[request.member_id]
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        shard.cancel(group.sync_timer)
    if rule is Rule.PARK_SYNC:
        return _park(shard, member, token)
    if rule is Rule.ASSIGN:
        _assign(shard, group, request, rule, now)
    shard.outbox.touch(shard)
    return synced(group, member.assignment)


def sync_timeout(shard: Shard, group: ClassicGroup, now: float) -> None:
    """The time to sync is up: whoever has not synced is expelled, static members too."""
    rule = RULES[Request.SYNC_TIMEOUT][group.state]
    if rule is Rule.EXPEL_UNSYNCED and group.pending_sync:
        expelled = [member_id for member_id in group.members if member_id in group.pending_sync]
        for member_id in expelled:
            rebalance.remove_member(shard, group, group.members[member_id], "expired", rule)
        rebalance.start(shard, group, Cause.PENDING_SYNC_EXPIRED, expelled[0], rule, now)


def _check(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _differ(said: str | None, known: str | None) -> bool:
    return said is not None and known is not None and said != known


def _park(shard: Shard, member: Member, token: object) -> Parked:
    if member.sync_token is not None:
        shard.outbox.reply(member.sync_token, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), shard)
    member.sync_token = token
    shard.cancel(member.session)
    return PARKED


def _assign(shard: Shard, group: ClassicGroup, request: SyncGroupRequest, rule: Rule, now: float) -> None:
    before = group.state
    records.write(shard, group, {a.member_id: a.assignment for a in request.assignments}, now)
    shard.counters.completed_rebalances += 1
    if shard.outbox.listening:
        events.state(shard, group, before, rule)
        events.assignment(shard, group, now)
    for member in group.members.values():
        if member.sync_token is not None:
            rebalance.release_sync(shard, member, synced(group, member.assignment), now)
    assert group.leader is not None
    wake(shard, group.members[group.leader], now)
