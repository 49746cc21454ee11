"""Reconciliation: brings what a member has nearer to its target assignment, heartbeat by heartbeat.

Decides what a member may use, what it has to give up first, and which epoch it has meanwhile. A partition goes to a
member only when nobody else has it any more: `owners` say so. It does not know timers, records or other members.
Which step is taken is in the table `states.STEPS`. After Kafka's `CurrentAssignmentBuilder` of 4.2 (semantics 4.6).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import filterfalse

from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Owners, Partitions
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.states import STEPS, MemberState, Situation, Step


class FencedError(Exception):
    """FENCED_MEMBER_EPOCH (110)."""


def reconcile(
    member: Member,
    target_epoch: int,
    target: Partitions,
    *,
    topics: AbstractSet[bytes],
    subscription_changed: bool,
    owned: Partitions | None,
    owners: Owners,
) -> Member:
    """The member after this heartbeat; the same object if nothing changes.

    `target` is its target assignment at `target_epoch`, `topics` are the ids of the topics it subscribes to. `owned` is
    what it says it owns, None if it does not say. `owners` are the members that have partitions, or are yet to give
    them up. Raises `FencedError`.
    """
    situation = situation_of(member, target_epoch, owned)
    step = STEPS[member.state, situation]
    if step is Step.TRIM:
        return _trim(member, topics, owned) if subscription_changed else member
    if step is Step.FENCE:
        raise FencedError("The consumer group member is in a unknown state.")
    epoch = target_epoch if member.state is MemberState.UNKNOWN else member.epoch
    return _advance(member, epoch, target_epoch, target, topics, owned, owners)


def situation_of(member: Member, target_epoch: int, owned: Partitions | None) -> Situation:
    """What the heartbeat finds, by the member's state."""
    if member.state is MemberState.STABLE:
        return Situation.AT_TARGET if member.epoch == target_epoch else Situation.BEHIND
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        return Situation.HOLDS_ON if _owns_any(owned, member.pending_revocation) else Situation.GAVE_UP
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return Situation.WAITS
    return Situation.OWNS_NOTHING if owned is not None and not owned else Situation.MAY_OWN


def _owns_any(owned: Partitions | None, partitions: Partitions) -> bool:
    """Whether the member owns any of these; who does not say may own all."""
    if owned is None:
        return True
    return any(topic in partitions and not numbers.isdisjoint(partitions[topic]) for topic, numbers in owned.items())


def _trim(member: Member, topics: AbstractSet[bytes], owned: Partitions | None) -> Member:
    """Without partitions of topics it does not subscribe to any more; its epoch stays."""
    dropped = {topic: partitions for topic, partitions in member.assigned.items() if topic not in topics}
    if not dropped:
        return member
    kept = {topic: partitions for topic, partitions in member.assigned.items() if topic in topics}
    pending = dict(member.pending_revocation)
    for topic, partitions in dropped.items():
        pending[topic] = pending.get(topic, frozenset()) | partitions
    if _owns_any(owned, pending):
        return replace(member, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=pending)
    return replace(member, assigned=kept)


def _advance(
    member: Member,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    topics: AbstractSet[bytes],
    owned: Partitions | None,
    owners: Owners,
) -> Member:
    """First it gives up what is not in its target assignment, then it gets what is free of it."""
    kept: dict[bytes, frozenset[int]] = {}
    revoked: dict[bytes, frozenset[int]] = {}
    added: dict[bytes, frozenset[int]] = {}
    waits = False
    for topic in dict.fromkeys((*target, *member.assigned)):
        aim = target.get(topic, frozenset()) if topic in topics else frozenset()
        has = member.assigned.get(topic, frozenset())
        stay = has & aim
        if stay:
            kept[topic] = stay
        if len(stay) < len(has):
            revoked[topic] = has - stay
        missing = aim - stay
        if missing:
            # What it is itself about to give up nobody else can have got meanwhile.
            own = member.pending_revocation.get(topic, frozenset())
            taken = owners.get(topic, {})
            free = frozenset(filterfalse(taken.__contains__, missing)) | (missing & own)
            waits = waits or len(free) < len(missing)
            if free:
                added[topic] = free
    if revoked and _owns_any(owned, revoked):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            pending_revocation=revoked,
        )
    for topic, partitions in added.items():
        kept[topic] = kept.get(topic, frozenset()) | partitions
    reached = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return replace(
        member,
        state=reached,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned=kept,
        pending_revocation=NO_PARTITIONS,
    )
