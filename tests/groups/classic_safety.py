"""Invariants of a classic group that hold at every moment, under any faults of members, requests and coordinator."""

from __future__ import annotations

from collections import Counter

from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.timers import NEVER, Timers


def check_timers(timers: Timers, group: ClassicGroup | None) -> None:
    """I10: every timer belongs to a present member. A session timer runs for each member without a parked request."""
    for timer in timers.armed():
        assert timer.deadline != NEVER
        if timer.kind == "session":
            assert group is not None
            assert group.members[timer.member_id].session_timer is timer, "I10"
        elif timer.kind == "pending-member":
            assert group is not None
            assert group.pending[timer.member_id] is timer, "I10"
    if group is not None:
        assert (group.join_timer.deadline != NEVER) == (group.state == "PreparingRebalance")
        assert (group.sync_timer.deadline != NEVER) == bool(group.pending_sync)
        for member in group.members.values():
            waits = member.join_exchange is not None or member.sync_exchange is not None
            assert member.session_timer.deadline != NEVER or (waits and not member.is_new)


def check_counts(group: ClassicGroup) -> None:
    """The counts that the group keeps agree with its members."""
    members = group.members.values()
    assert group.parked_joins == sum(member.join_exchange is not None for member in members)
    assert group.static == {m.group_instance_id: m.member_id for m in members if m.group_instance_id is not None}
    names = [tuple(name for name, _ in member.protocols) for member in members]
    assert group.preferences == Counter(names)
    assert group.supporters == Counter(name for each in names for name in set(each))
    assert (group.leader in group.members) if members else (group.leader is None)
    assert not group.members.keys() & group.pending.keys()
    assert group.pending_sync <= group.members.keys()
    assert not (members and group.state == "Empty")


def check_reload(live: ClassicGroup | None, again: ClassicGroup | None) -> None:
    """I5: a restart gives the same group from its records; during a round, an older generation."""
    assert (live is None) == (again is None), "I5"
    if live is None or again is None:
        return
    if live.state in ("Stable", "Empty"):
        assert hard(live) == hard(again), "I5"
    else:
        assert again.generation <= live.generation


def hard(group: ClassicGroup) -> dict[str, object]:
    """The part of the state that must survive a restart."""
    return {
        "state": group.state,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "since": group.state_timestamp,
        "static": group.static,
        "topics": group.subscribed_topics,
        "members": {
            member.member_id: (
                member.client_id,
                member.client_host,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                member.metadata_for(group.protocol),
                member.assignment,
            )
            for member in group.members.values()
        },
    }
