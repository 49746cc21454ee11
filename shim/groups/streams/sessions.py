"""Sessions and other deadlines of a streams group, and its settings.

Decides how long each is and when it is armed; which rule a timer fires is in `kind.py`. Settings of a single group come
first (resource GROUP), then the broker's. Source: semantics 4.12.
"""

from __future__ import annotations

from kafka_shim.groups.streams.live import StreamsGroup
from kafka_shim.groups.streams.member import Member
from kafka_shim.groups.streams.timers import TimerKind


def _setting(group: StreamsGroup, name: str) -> int:
    own = group.shard.group_settings(group.group_id).get(f"streams.{name}")
    if own is not None:
        return int(own)
    value: int = getattr(group.shard.config, "group_streams_" + name.replace(".", "_"))
    return value


def session_timeout_ms(group: StreamsGroup) -> int:
    """How long a member may be silent."""
    return _setting(group, "session.timeout.ms")


def heartbeat_interval_ms(group: StreamsGroup) -> int:
    """How often members are to send heartbeats."""
    return _setting(group, "heartbeat.interval.ms")


def assignment_configs(group: StreamsGroup) -> dict[str, str]:
    """What the assignor is told; a change of it is a new group epoch."""
    return {"num.standby.replicas": str(_setting(group, "num.standby.replicas"))}


def renew_session(group: StreamsGroup, member_id: str, now: float) -> None:
    """A sign of life: the member's session runs from now."""
    session = group.timer(TimerKind.SESSION, member_id)
    deadline = now + session_timeout_ms(group) / 1000
    if session.queued <= deadline:
        session.deadline = deadline
    else:
        group.shard.arm(session, deadline)


def arm_rebalance(group: StreamsGroup, member: Member, now: float) -> None:
    """The member has its rebalance timeout to give up what it is to give up."""
    group.rebalance_epochs[member.member_id] = member.epoch
    timer = group.timer(TimerKind.REBALANCE, member.member_id)
    group.shard.arm(timer, now + member.rebalance_timeout_ms / 1000)


def cancel_rebalance(group: StreamsGroup, member_id: str) -> None:
    """Nothing happens if the timer is not armed."""
    timer = group.timers.get((TimerKind.REBALANCE, member_id))
    if timer is not None:
        group.shard.cancel(timer)


def initial_delay_ms(group: StreamsGroup) -> int:
    """How long the first assignment of a group that was empty waits for more members; 0: not at all."""
    return _setting(group, "initial.rebalance.delay.ms")


def delay_first_assignment(group: StreamsGroup, now: float) -> None:
    """A member has joined a group that was empty: others may follow soon."""
    group.shard.arm(group.timer(TimerKind.INITIAL), now + initial_delay_ms(group) / 1000)


def forget(group: StreamsGroup, member_id: str) -> None:
    """The member is gone, and its timers with it."""
    for kind in (TimerKind.SESSION, TimerKind.REBALANCE):
        timer = group.timers.pop((kind, member_id), None)
        if timer is not None:
            group.shard.cancel(timer)
    group.rebalance_epochs.pop(member_id, None)
