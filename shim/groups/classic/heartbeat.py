"""Heartbeat, and what happens when signs of life stay away.

Decides who is alive. A member with a parked JoinGroup or SyncGroup is: it waits for us. The one exception is a member
that was never in a generation, which may have gone away long ago without our noticing (semantics 2.7).
"""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic import events, rebalance
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.sessions import renew
from kafka_shim.groups.classic.states import RULES, Rule, Trigger
from kafka_shim.groups.shard import Shard


def heartbeat(
    shard: Shard, group: ClassicGroup, generation: int, member_id: str, group_instance_id: str | None, now: float
) -> int:
    """The answer to a Heartbeat: 0, 15, 22, 25, 27 or 82. Accepted ones renew the session, also those answered 27."""
    if RULES[Trigger.HEARTBEAT][group.state] is Rule.REFUSE_NOT_AVAILABLE:
        return group.heartbeat_error
    error = group.check_member(member_id, group_instance_id)
    if error:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    renew(shard, group.members[member_id], now)
    return group.heartbeat_error


def session_timeout(shard: Shard, group: ClassicGroup, member_id: str, now: float) -> None:
    """A member gave no sign of life for its session timeout."""
    member = group.members[member_id]
    if not member.is_new and (member.join_exchange is not None or member.sync_exchange is not None):
        return
    rule = RULES[Trigger.SESSION_TIMEOUT][group.state]
    rebalance.remove_member(shard, group, member, "expired", rule)
    if rule is Rule.EXPIRE:
        rebalance.start(shard, group, Cause.SESSION_EXPIRED, member_id, rule, now)
    elif group.all_joined:
        # Unlike a departure, an expiry also ends the initial round early, as in Kafka.
        rebalance.end(shard, group, rule, now)


def pending_timeout(shard: Shard, group: ClassicGroup, member_id: str, now: float) -> None:
    """An id handed out with error 79 did not come back within the session timeout of its JoinGroup."""
    rule = RULES[Trigger.PENDING_TIMEOUT][group.state]
    del group.pending[member_id]
    if shard.outbox.listening:
        events.pending(shard, group, member_id, None, "expired", rule)
    if rule is Rule.FORGET_PENDING_IN_ROUND and group.all_joined:
        rebalance.end(shard, group, rule, now)
