"""What becomes of classic groups when their partition comes to this node and when it leaves.

Decides which timers a loaded group gets, and the answer to requests that are parked when it leaves.
Source: semantics 2.7, 5.4.
"""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic import rebalance
from kafka_shim.groups.classic.answers import join_refused, sync_refused
from kafka_shim.groups.classic.group import CONSUMER, ClassicGroup
from kafka_shim.groups.classic.sessions import wake
from kafka_shim.groups.classic.states import ERRORS, RULES, State, Trigger
from kafka_shim.groups.shard import Shard


def activate(shard: Shard, group: ClassicGroup, now: float) -> None:
    """Begin to coordinate a group that was just loaded: every member has its whole session to come back in."""
    if shard.outbox.listening:
        events.group(shard.outbox, group, "loaded")
    for member in group.members.values():
        wake(shard, member, now)
    if len(group.members) > shard.config.group_max_size:
        rebalance.start(shard, group, Cause.COORDINATOR_RELOADED, "", RULES[Trigger.OVERSIZE][group.state], now)


def resign(shard: Shard, group: ClassicGroup) -> None:
    """Stop coordinating a group: answer what is parked with NOT_COORDINATOR (16), and drop it."""
    for member in group.members.values():
        exchange = group.unpark_join(member)
        if exchange is not None:
            shard.outbox.reply(exchange, join_refused(ErrorCode.NOT_COORDINATOR, member.member_id), shard)
        if member.sync_exchange is not None:
            shard.outbox.reply(member.sync_exchange, sync_refused(ErrorCode.NOT_COORDINATOR), shard)
            member.sync_exchange = None
    group.enter(State.DEAD)
    shard.drop(group.group_id)
    if shard.outbox.listening:
        events.group(shard.outbox, group, "unloaded")


def release(shard: Shard, group: ClassicGroup) -> None:
    """Cancel every timer of a group that has just been dropped."""
    for member in group.members.values():
        shard.cancel(member.session_timer)
    for timer in group.pending.values():
        shard.cancel(timer)
    shard.cancel(group.join_timer)
    shard.cancel(group.sync_timer)


def check_delete(group: ClassicGroup) -> ErrorCode:
    """Whether DeleteGroups may delete it: 0, 68 or 69. Ids handed out with error 79 do not keep it."""
    return ERRORS[RULES[Trigger.DELETE][group.state]]


def check_delete_offsets(group: ClassicGroup) -> ErrorCode:
    """Whether OffsetDelete is answered: 0, 68 or 69. Consumers' groups may lose offsets of what nobody subscribes to
    (semantics 3.5)."""
    of_consumers = group.protocol_type == CONSUMER
    return ERRORS[RULES[Trigger.DELETE_OFFSETS if of_consumers else Trigger.DELETE_OFFSETS_OTHER][group.state]]
