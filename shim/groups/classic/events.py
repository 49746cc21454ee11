"""Trace events of a classic group, and the causes of its rebalances, derived from the requests.

Callers of an event check first that the trace has a listener. `shim/trace/schema.py` lists the fields, `docs/trace.md`
the causes: they tell users why a group rebalanced, and no rule depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_shim.apis.consumer_protocol import (
    ConsumerProtocolSubscription,
    assignment_from_bytes,
    subscription_from_bytes,
)
from kafka_shim.apis.leave_group import MemberIdentity
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.member import Member, Protocols
from kafka_shim.groups.classic.states import Rule, State
from kafka_shim.groups.classic.subscriptions import CONSUMER, Topics, newest
from kafka_shim.groups.interface import Client
from kafka_shim.groups.shard import Shard
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.events import Shares


def state(shard: Shard, group: ClassicGroup, before: State, rule: Rule) -> None:
    """Report a change of state from `before`."""
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
    """Report a change of a member."""
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
    """Report a change of an id given with MEMBER_ID_REQUIRED (79) to `client`, unless that is None."""
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
    """Report the end of a join round, before its parked joins are answered."""
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
    """Report the leader's assignments, which have just taken effect."""
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
        **_subscriptions(group),
    )


def differing_subscriptions(subscriptions: Mapping[str, Topics | None]) -> dict[str, dict[str, list[str]]]:
    """Return the field `subscriptions` of the event, for the consumers' topics by member id; no field if all subscribe
    to the same topics, or if the topics of one are unknown.
    """
    distinct = set(subscriptions.values())
    topics = {each: sorted(each) for each in distinct if each is not None}
    if len(topics) < max(len(distinct), 2):
        return {}
    return {"subscriptions": {member_id: topics[each] for member_id, each in subscriptions.items() if each is not None}}


def topics_of(protocols: Protocols) -> Topics | None:
    """Return the topics of a consumer that offers these protocols; None if its subscription cannot be decoded."""
    subscription = _subscription(protocols)
    return None if subscription is None else frozenset(subscription.topics)


def _subscriptions(group: ClassicGroup) -> dict[str, dict[str, list[str]]]:
    if group.protocol_type != CONSUMER:
        return {}
    read = group.subscriptions.topics
    return differing_subscriptions({each.member_id: read(newest(each.protocols)) for each in group.members.values()})


def readable_assignment(protocol_type: str | None, data: bytes) -> Shares | int:
    """Return topics and partitions of a consumer's assignment; the number of bytes if it cannot be decoded."""
    if protocol_type == "consumer":
        decoded = assignment_from_bytes(data)
        if decoded is not None:
            return {assigned.topic: list(assigned.partitions) for assigned in decoded.assigned_partitions}
    return len(data)


def why_rejoined(group: ClassicGroup, member: Member, before: Protocols) -> Cause:
    """Return the cause of a rebalance by a JoinGroup of `member`, after the protocols `before`."""
    return why_joined_again(group.protocol_type, before, member.protocols, leads=group.leader == member.member_id)


def why_joined_again(protocol_type: str | None, before: Protocols, protocols: Protocols, *, leads: bool) -> Cause:
    """Return the cause of a rebalance by a JoinGroup that changes `before` to `protocols`.

    A cooperative member that revoked partitions joins again with fewer owned partitions; a leader joins again after a
    change of topics; any member joins again with a new subscription.
    """
    if protocols == before:
        return Cause.LEADER_REJOINED
    if protocol_type == CONSUMER:
        old, new = _subscription(before), _subscription(protocols)
        if old is not None and new is not None and set(old.topics) == set(new.topics):
            if _owned(old) - _owned(new):
                return Cause.COOPERATIVE_FOLLOWUP
            if leads:
                return Cause.LEADER_REJOINED
    return Cause.SUBSCRIPTION_CHANGED


def why_left(leaver: MemberIdentity) -> Cause:
    """Return the cause of a departure by LeaveGroup."""
    if leaver.member_id == "":
        return Cause.ADMIN_REMOVED
    if leaver.reason is not None and "poll timeout" in leaver.reason:
        return Cause.POLL_TIMEOUT_REASON
    return Cause.MEMBER_LEFT


def _subscription(protocols: Protocols) -> ConsumerProtocolSubscription | None:
    return subscription_from_bytes(newest(protocols))


def _owned(subscription: ConsumerProtocolSubscription) -> set[tuple[str, int]]:
    return {(owned.topic, partition) for owned in subscription.owned_partitions for partition in owned.partitions}
