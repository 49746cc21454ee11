"""Sessions and other deadlines of members: how long they are, and when each is armed to fire.

Decides that only; which rule a timer fires is in `kind.py`. Source: semantics 4.6; a classic member's timers 4.8.
Settings of a single group come first (KIP-848, resource GROUP), then the broker's.
"""

from __future__ import annotations

from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.timers import TimerKind
from kafka_shim.groups.timers import NEVER

SESSION_SETTING = "consumer.session.timeout.ms"
INTERVAL_SETTING = "consumer.heartbeat.interval.ms"


def session_timeout(group: ConsumerGroup, member: Member) -> float:
    """Seconds a member may be silent."""
    if member.classic is not None:
        return member.classic.session_timeout_ms / 1000
    own = group.shard.group_settings(group.group_id).get(SESSION_SETTING)
    if own is not None:
        return int(own) / 1000
    return group.shard.config.group_consumer_session_timeout_ms / 1000


def heartbeat_interval_ms(group: ConsumerGroup) -> int:
    """How often members are to send heartbeats."""
    own = group.shard.group_settings(group.group_id).get(INTERVAL_SETTING)
    if own is not None:
        return int(own)
    return group.shard.config.group_consumer_heartbeat_interval_ms


def renew_session(group: ConsumerGroup, member: Member, now: float) -> None:
    """A sign of life: the member's session runs from now."""
    session = group.session(member.member_id)
    deadline = now + session_timeout(group, member)
    if session.queued <= deadline:
        session.deadline = deadline
    else:
        group.shard.arm(session, deadline)


def arm_rebalance(group: ConsumerGroup, member: Member, now: float) -> None:
    """The member has its rebalance timeout to give up what it is to give up."""
    group.rebalance_epochs[member.member_id] = member.epoch
    timer = group.timer(TimerKind.REBALANCE, member.member_id)
    group.shard.arm(timer, now + member.rebalance_timeout_ms / 1000)


def arm(group: ConsumerGroup, kind: TimerKind, member_id: str, deadline: float) -> None:
    """Arm a timer, whether it is armed or not."""
    group.shard.arm(group.timer(kind, member_id), deadline)


def cancel(group: ConsumerGroup, kind: TimerKind, member_id: str) -> None:
    """Nothing happens if the timer is not armed."""
    timer = group.timers.get((kind, member_id))
    if timer is not None:
        group.shard.cancel(timer)


def forget(group: ConsumerGroup, member_id: str) -> None:
    """The member is gone, and its timers with it."""
    timers = [
        group.timers.pop((kind, member_id), None) for kind in (TimerKind.REBALANCE, TimerKind.JOIN, TimerKind.SYNC)
    ]
    for timer in (group.sessions.pop(member_id, None), *timers):
        if timer is not None:
            group.shard.cancel(timer)
    group.rebalance_epochs.pop(member_id, None)


def arm_if_idle(group: ConsumerGroup, kind: TimerKind, member_id: str, deadline: float) -> None:
    """Arm a timer that is not armed."""
    timer = group.timer(kind, member_id)
    if timer.deadline == NEVER:
        group.shard.arm(timer, deadline)
