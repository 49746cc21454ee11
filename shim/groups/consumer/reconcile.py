"""Reconciliation: moves a member's assignment towards its target, one step per heartbeat.

A step determines the partitions that a member may use, those it has to revoke first, and its epoch until then. A member
gets a partition only after its last owner released it (`owners`). The table `states.STEPS` selects the step. After
Kafka's `CurrentAssignmentBuilder` of 4.2 (semantics 4.6).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import filterfalse

from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Owners, Partitions
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.states import STEPS, MemberState, Step
from kafka_shim.groups.epochs.requests import unknown_state


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
    """Return the member after this heartbeat; the same object if nothing changes.

    `target` is its target assignment at `target_epoch`; `topics` are the ids of its subscribed topics; `owned` are the
    partitions in its heartbeat, None if the field is null; `owners` are the members that are assigned partitions or
    have yet to revoke them. Raises `Refusal`: FENCED_MEMBER_EPOCH (110).
    """
    step = STEPS[member.state, member.situation(target_epoch, owned)]
    if step is Step.TRIM:
        return _trim(member, topics, owned) if subscription_changed else member
    if step is Step.FENCE:
        raise unknown_state("consumer", "partitions")
    # Revoke partitions that are not in the target; once they are released, add free partitions of the target.
    assigned: dict[bytes, frozenset[int]] = {}
    revoked: dict[bytes, frozenset[int]] = {}
    added: dict[bytes, frozenset[int]] = {}
    waits = False
    for topic in dict.fromkeys((*target, *member.assigned)):
        aim = target.get(topic, frozenset()) if topic in topics else frozenset()
        has = member.assigned.get(topic, frozenset())
        common = has & aim
        if common:
            assigned[topic] = common
        if len(common) < len(has):
            revoked[topic] = has - common
        missing = aim - common
        if missing:
            # No other member can have got the partitions that this one has not released yet.
            own = member.pending_revocation.get(topic, frozenset())
            topic_owners = owners.get(topic, {})
            free = frozenset(filterfalse(topic_owners.__contains__, missing)) | (missing & own)
            waits = waits or len(free) < len(missing)
            if free:
                added[topic] = free
    if revoked and member.may_own(owned, revoked):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            epoch=target_epoch if member.state is MemberState.UNKNOWN else member.epoch,
            previous_epoch=member.epoch,
            assigned=assigned,
            pending_revocation=revoked,
        )
    for topic, partitions in added.items():
        assigned[topic] = assigned.get(topic, frozenset()) | partitions
    reached = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return replace(
        member,
        state=reached,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        pending_revocation=NO_PARTITIONS,
    )


def _trim(member: Member, topics: AbstractSet[bytes], owned: Partitions | None) -> Member:
    """Remove partitions of topics that the member no longer subscribes to; its epoch stays."""
    dropped = {topic: partitions for topic, partitions in member.assigned.items() if topic not in topics}
    if not dropped:
        return member
    assigned = {topic: partitions for topic, partitions in member.assigned.items() if topic in topics}
    pending = dict(member.pending_revocation)
    for topic, partitions in dropped.items():
        pending[topic] = pending.get(topic, frozenset()) | partitions
    if member.may_own(owned, pending):
        return replace(member, state=MemberState.UNREVOKED_PARTITIONS, assigned=assigned, pending_revocation=pending)
    return replace(member, assigned=assigned)
