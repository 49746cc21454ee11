"""Trace events of a classic group's life: states, members, rounds, assignments.

Decides how they are built from state. Callers check first whether anybody listens. `trace.py` says what the fields are.
"""

from __future__ import annotations

from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.member import Member
from kafka_shim.groups.classic.states import Rule, State
from kafka_shim.groups.interface import Client
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.trace import readable_assignment


def state(shard: Shard, group: ClassicGroup, before: State, rule: Rule) -> None:
    """The group has just left the state `before`."""
    round_ = group.round
    shard.outbox.event(
        "state",
        group=group.group_id,
        **{"from": before.value},
        to=group.state.value,
        generation=group.generation,
        cause=None if round_ is None else round_.cause.value,
        trigger="" if round_ is None else round_.trigger,
        rule=rule.value,
    )


def member(shard: Shard, group: ClassicGroup, member: Member, change: str, rule: Rule) -> None:
    """Something happened to a member."""
    shard.outbox.event(
        "member",
        group=group.group_id,
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        change=change,
        rule=rule.value,
    )


def pending(shard: Shard, group: ClassicGroup, member_id: str, client: Client | None, change: str, rule: Rule) -> None:
    """Something happened to an id handed out with error 79, of `client`, unless None."""
    shard.outbox.event(
        "member",
        group=group.group_id,
        member_id=member_id,
        instance_id=None,
        client_id="" if client is None else client.client_id,
        client_host="" if client is None else client.client_host,
        change=change,
        rule=rule.value,
    )


def round_ended(shard: Shard, group: ClassicGroup, now: float) -> None:
    """The join round ended; its parked joins are not answered yet."""
    round_ = group.round
    assert round_ is not None
    waited = sorted(
        (
            (round(max(member.joined_at - round_.started, 0.0) * 1000, 3), member.member_id)
            for member in group.members.values()
            if member.join_exchange is not None
        ),
        reverse=True,
    )
    shard.outbox.event(
        "round",
        group=group.group_id,
        generation=group.generation,
        cause=round_.cause.value,
        trigger=round_.trigger,
        started=round_.started,
        ended=now,
        waited_for=[{"member_id": member_id, "ms": ms} for ms, member_id in waited],
        dropped=list(round_.dropped),
        leader=group.leader,
        protocol=group.protocol,
        members=list(group.members),
    )


def assignment(shard: Shard, group: ClassicGroup, now: float) -> None:
    """The leader's assignments have just taken effect."""
    round_ = group.round
    assert round_ is not None
    shard.outbox.event(
        "assignment",
        group=group.group_id,
        generation=group.generation,
        cause=round_.cause.value,
        trigger=round_.trigger,
        leader=group.leader,
        leader_ms=round((now - round_.joined) * 1000, 3),
        assignments={
            member.member_id: readable_assignment(group.protocol_type, member.assignment)
            for member in group.members.values()
        },
    )
