"""Join round of a rebalance: its start, its end, and the members of the next generation.

Every entry into PreparingRebalance takes a `Cause`. A round starts from Empty (the initial one), CompletingRebalance or
Stable. Only its timer ends the initial round, so that members started together get into one generation. Any other round
ends when all members have joined, or after the longest rebalance timeout. Ids given with MEMBER_ID_REQUIRED (79) delay
the end too, but not beyond the timer.

The answers to JoinGroup and SyncGroup that several rules share stand below.

Source: semantics 2.2, 2.4, 2.5, 2.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kafka_shim.apis.sync_group import SyncGroupResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.classic import events, records
from kafka_shim.groups.classic.group import ClassicGroup, Round
from kafka_shim.groups.classic.member import Member, Protocols
from kafka_shim.groups.classic.states import RULES, Rule, State, Trigger
from kafka_shim.groups.events import group as group_event
from kafka_shim.groups.interface import Client
from kafka_shim.groups.offsets import delete_all
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer
from kafka_shim.trace.causes import Cause


def start(shard: Shard, group: ClassicGroup, cause: Cause, trigger: str, rule: Rule, now: float) -> None:
    """Start a rebalance because of `cause` and of the member `trigger` ("" if there is none)."""
    before = group.state
    if before is State.COMPLETING_REBALANCE:
        _call_back_syncing_members(shard, group, now)
    shard.cancel(group.sync_timer)
    group.pending_sync.clear()
    shard.counters.rebalances[cause] += 1
    group.round = Round(cause, trigger, rule, now)
    group.enter(State.PREPARING_REBALANCE)
    if shard.outbox.listening:
        events.state(shard, group, before, rule)
    if before is State.EMPTY:
        delay = shard.config.group_initial_rebalance_delay_ms / 1000
        group.new_member_added = False
        group.round.initial_remaining = max(group.rebalance_timeout - delay, 0.0)
        shard.arm(group.join_timer, now + delay)
    elif group.all_joined:
        end(shard, group, rule, now)
    else:
        shard.arm(group.join_timer, now + group.rebalance_timeout)


def end_if_all_joined(shard: Shard, group: ClassicGroup, rule: Rule, now: float) -> None:
    """End the round under way if all have joined, unless it is the initial one."""
    if group.state is State.PREPARING_REBALANCE and group.all_joined and not group.in_initial_round:
        end(shard, group, rule, now)


def join_timeout(shard: Shard, group: ClassicGroup, timer: Timer, now: float) -> None:
    """End the round after its time; if new members joined, prolong the initial round."""
    rule = RULES[Trigger.JOIN_TIMEOUT][group.state]
    if rule is Rule.IGNORE:
        return
    round_ = group.round
    assert round_ is not None
    if group.in_initial_round and group.new_member_added and round_.initial_remaining > 0:
        group.new_member_added = False
        delay = min(shard.config.group_initial_rebalance_delay_ms / 1000, round_.initial_remaining)
        round_.initial_remaining -= delay
        shard.arm(group.join_timer, now + delay)
    else:
        end(shard, group, rule, now)


def end(shard: Shard, group: ClassicGroup, rule: Rule, now: float) -> None:
    """End the round: remove absent dynamic members and begin the next generation."""
    shard.cancel(group.join_timer)
    if group.parked_joins < len(group.members):
        absent = [m for m in group.members.values() if m.join_exchange is None and m.group_instance_id is None]
        for member in absent:
            remove_member(shard, group, member, "removed", rule)
    if not group.elect_leader() and group.members:
        # Only absent static members remain, until their sessions end. A timeout of zero must not fire in a loop.
        shard.arm(group.join_timer, now + max(group.rebalance_timeout, 0.001))
        return
    group.next_generation()
    if group.members:
        _begin_sync(shard, group, rule, now)
    else:
        records.write(shard, group, records.group_value(shard, group, {}, now))
        if shard.outbox.listening:
            events.state(shard, group, State.PREPARING_REBALANCE, rule)
        if group.is_ephemeral:
            _delete_ephemeral(shard, group)


def _delete_ephemeral(shard: Shard, group: ClassicGroup) -> None:
    """Delete an ephemeral group after its last member."""
    delete_all(shard, group.group_id)
    records.erase(shard, group)
    if shard.outbox.listening:
        group_event(shard.outbox, group, "deleted")


def remove_member(shard: Shard, group: ClassicGroup, member: Member, change: str, rule: Rule) -> None:
    """Remove a member and answer its parked requests with 25, so that it joins as a new one."""
    shard.cancel(member.session_timer)
    if member.join_exchange is not None:
        shard.outbox.reply(member.join_exchange, join_refused(ErrorCode.UNKNOWN_MEMBER_ID, ""), shard)
    if member.sync_exchange is not None:
        shard.outbox.reply(member.sync_exchange, sync_refused(ErrorCode.UNKNOWN_MEMBER_ID), shard)
        member.sync_exchange = None
    group.remove(member.member_id)
    if group.round is not None and group.state is State.PREPARING_REBALANCE:
        group.round.dropped.append(member.member_id)
    if shard.outbox.listening:
        events.member(shard, group, member, change, rule)


def release_sync(shard: Shard, member: Member, response: object, now: float) -> None:
    """Answer a member's parked SyncGroup and restart its session, which stopped while it was parked."""
    shard.outbox.reply(member.sync_exchange, response, shard)
    member.sync_exchange = None
    shard.arm(member.session_timer, now + member.session_timeout)


def _call_back_syncing_members(shard: Shard, group: ClassicGroup, now: float) -> None:
    for member in group.members.values():
        member.assignment = b""
        if member.sync_exchange is not None:
            release_sync(shard, member, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), now)


def _begin_sync(shard: Shard, group: ClassicGroup, rule: Rule, now: float) -> None:
    assert group.round is not None
    group.round.joined = now
    if shard.outbox.listening:
        events.state(shard, group, State.PREPARING_REBALANCE, rule)
        events.round_ended(shard, group, now)
    reply = shard.outbox.reply
    leader = group.leader
    for member_id, member in group.members.items():
        exchange = group.unpark_join(member)
        if exchange is not None:
            members = group.joined_members() if member_id == leader else ()
            reply(exchange, join_answer(group, member_id, members), shard)
        member.is_new = False
        shard.arm(member.session_timer, now + member.session_timeout)
    group.pending_sync.update(group.members)
    shard.arm(group.sync_timer, now + group.rebalance_timeout)


def join_refused(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """Answer a JoinGroup with an error (semantics 2.2)."""
    return JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id)


def join_answer(
    group: ClassicGroup,
    member_id: str,
    members: Sequence[JoinGroupResponseMember] = (),
    *,
    leader: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """Answer a JoinGroup with the current generation; `leader` overrides the group's leader."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=list(members),
    )


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    """Answer a SyncGroup with an error."""
    return SyncGroupResponse(error_code=error)


def sync_answer(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """Answer a SyncGroup with a member's assignment."""
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)


class Joining(NamedTuple):
    """JoinGroup with its sender and the rule of the state table."""

    request: JoinGroupRequest
    protocols: Protocols
    client: Client
    exchange: object
    now: float
    skip_assignment_supported: bool
    rule: Rule


def park(shard: Shard, group: ClassicGroup, member: Member, joining: Joining) -> None:
    """Park a member's JoinGroup and stop its session: it cannot send heartbeats on that connection.

    An earlier parked JoinGroup is answered 27. Kafka never answers it: its client no longer listens, or gets an error
    and joins again. A new member keeps the timer that removes it if it never comes back (semantics 2.7).
    """
    superseded = group.park_join(member, joining.exchange, joining.now)
    if superseded is not None:
        shard.outbox.reply(superseded, join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), shard)
    if not member.is_new:
        shard.cancel(member.session_timer)


def new_member_id(shard: Shard, name: str) -> str:
    """Return an unused member id; its format has no meaning for clients (semantics 2.2)."""
    return f"{name}-{shard.new_id()}"
