"""The join round: how a rebalance starts, whom it waits for, and how it ends in the next generation.

Decides when a round is over and who is in the generation that follows. It does not know why a rebalance starts: the
rules say so with a `Cause`, and every entry into PreparingRebalance takes one.

A round starts from Empty (the initial one), CompletingRebalance or Stable. The initial round only ends by its timer, so
that members started together get into one generation; every other ends as soon as everybody has joined, or when the
longest rebalance timeout is over. Ids handed out with error 79 hold a round back too, but not beyond its timer.

Source: semantics 2.4, 2.5.
"""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic import events, records
from kafka_shim.groups.classic.answers import join_refused, joined, sync_refused
from kafka_shim.groups.classic.group import ClassicGroup, Round
from kafka_shim.groups.classic.member import Member
from kafka_shim.groups.classic.sessions import wake
from kafka_shim.groups.classic.states import RULES, Rule, State, Trigger
from kafka_shim.groups.events import group as group_event
from kafka_shim.groups.offsets import delete_all
from kafka_shim.groups.shard import Shard


def start(shard: Shard, group: ClassicGroup, cause: Cause, trigger: str, rule: Rule, now: float) -> None:
    """Start a rebalance because of `cause`, brought about by member `trigger` ("" if by nobody)."""
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
    """End the round under way, unless it is the initial one or somebody is still awaited."""
    if group.state is State.PREPARING_REBALANCE and group.all_joined and not group.in_initial_round:
        end(shard, group, rule, now)


def join_timeout(shard: Shard, group: ClassicGroup, now: float) -> None:
    """The round's time is up: end it, or go on waiting if newcomers keep the initial round open."""
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
    """End the round: drop who did not come back and begin the next generation with the others."""
    shard.cancel(group.join_timer)
    if group.parked_joins < len(group.members):
        absent = [m for m in group.members.values() if m.join_exchange is None and m.group_instance_id is None]
        for member in absent:
            remove_member(shard, group, member, "removed", rule)
    if not group.elect_leader() and group.members:
        # Only absent static members are left. Their sessions decide; a timeout of zero must not fire without end.
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
    """An ephemeral group goes with its last member."""
    delete_all(shard, group.group_id)
    records.erase(shard, group)
    if shard.outbox.listening:
        group_event(shard.outbox, group, "deleted")


def remove_member(shard: Shard, group: ClassicGroup, member: Member, change: str, rule: Rule) -> None:
    """Take a member out and answer what it has parked: 25, for it can only begin anew."""
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
    """Answer a member's parked SyncGroup; its session, asleep while it was parked, runs again."""
    shard.outbox.reply(member.sync_exchange, response, shard)
    member.sync_exchange = None
    wake(shard, member, now)


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
            reply(exchange, joined(group, member_id, members), shard)
        member.is_new = False
        wake(shard, member, now)
    group.pending_sync.update(group.members)
    shard.arm(group.sync_timer, now + group.rebalance_timeout)
