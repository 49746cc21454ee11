"""Static membership: a restarted process takes over the place of the member with its group instance id.

Decides what the newcomer inherits, that the old member id is fenced, and whether the group must rebalance. Whether a
request speaks for a static member at all is decided in `ClassicGroup.check_member`.

Source: semantics 2.8; KIP-345, KIP-814.
"""

from __future__ import annotations

from kafka_shim.apis.join_group import JoinGroupResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic import events, rebalance, records
from kafka_shim.groups.classic.answers import join_refused, joined, sync_refused
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.joining import Joining, new_member_id, park
from kafka_shim.groups.classic.member import Member
from kafka_shim.groups.classic.sessions import wake
from kafka_shim.groups.classic.states import ERRORS, RULES, Rule, Trigger
from kafka_shim.groups.classic.timers import TimerKind
from kafka_shim.groups.interface import PARKED, Parked
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer


def take_over(shard: Shard, group: ClassicGroup, joining: Joining) -> JoinGroupResponse | Parked:
    """Give the static member a new id and apply what its JoinGroup says."""
    request, now, rule = joining.request, joining.now, joining.rule
    old, old_leader = _static_member(group, joining), group.leader
    keeps_generation = rule is Rule.TAKE_OVER_STABLE and _keeps_protocol(group, old, joining)
    if keeps_generation and not _has_room(shard, group, old, joining):
        refusal = RULES[Trigger.JOIN_TAKE_OVER_OVERSIZED][group.state]
        return join_refused(ERRORS[refusal], "")
    member = _replace(shard, group, old, joining)
    # Until its first heartbeat it lives by the session timeout of the one it replaced, as a running Kafka 4.2 shows.
    wake(shard, member, now)
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
        # A leader that came back must not assign anew, and before v9 only another leader's name keeps it from that.
        return joined(group, member.member_id, leader=old_leader)
    leads = group.leader == member.member_id
    members = group.joined_members() if leads else ()
    return joined(group, member.member_id, members, skip_assignment=leads)


def _static_member(group: ClassicGroup, joining: Joining) -> Member:
    instance_id = joining.request.group_instance_id
    assert instance_id is not None
    return group.members[group.static[instance_id]]


def _keeps_protocol(group: ClassicGroup, member: Member, joining: Joining) -> bool:
    """Whether the group would elect the protocol it has, with what the JoinGroup offers."""
    before = member.protocols
    group.offer(member, joining.protocols)
    elected = group.select_protocol()
    group.offer(member, before)
    return elected == group.protocol


def _has_room(shard: Shard, group: ClassicGroup, member: Member, joining: Joining) -> bool:
    """Whether the group's record can be stored with what the JoinGroup says. Member ids are of one length."""
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
