"""What becomes of classic groups when their partition comes to this node and when it leaves.

Decides which timers a loaded group gets, and what parked requests are told at the end. Source: semantics 2.7, 5.4.
"""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import trace
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic import rebalance
from kafka_shim.groups.classic.answers import join_refused, sync_refused
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.states import RULES, Request, State
from kafka_shim.groups.shard import Shard


def activate(shard: Shard, group: ClassicGroup, now: float) -> None:
    """Begin to coordinate a group that was just loaded: every member has its whole session to come back in."""
    if shard.outbox.listening:
        trace.group(shard.outbox, group, "loaded")
    for member in group.members.values():
        shard.wake(member, now)
    if len(group.members) > shard.config.group_max_size:
        rebalance.start(shard, group, Cause.COORDINATOR_RELOADED, "", RULES[Request.OVERSIZE][group.state], now)


def resign(shard: Shard, group: ClassicGroup) -> None:
    """Stop coordinating a group: what is parked is told NOT_COORDINATOR (16), and nobody finds the group here again."""
    for member in group.members.values():
        token = group.unpark_join(member)
        if token is not None:
            shard.outbox.reply(token, join_refused(ErrorCode.NOT_COORDINATOR, member.member_id), shard)
        if member.sync_token is not None:
            shard.outbox.reply(member.sync_token, sync_refused(ErrorCode.NOT_COORDINATOR), shard)
            member.sync_token = None
    group.enter(State.DEAD)
    shard.drop(group.group_id)
    if shard.outbox.listening:
        trace.group(shard.outbox, group, "unloaded")
