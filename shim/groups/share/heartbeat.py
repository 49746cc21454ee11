"""ShareGroupHeartbeat: a member joins, is heard of, hears what it may fetch from, or leaves.

Decides when the group epoch grows, and whether the answer carries an assignment; what is refused is in `states.RULES`.
A member is always at the target assignment: nothing is revoked first, since partitions are shared. After Kafka's
`GroupMetadataManager.shareGroupHeartbeat` of 4.2 (semantics 4.13).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from kafka_shim.apis.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events as group_events
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import Client
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.share import assignor, events, records
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.initialize import forget_deleted, initialize
from kafka_shim.groups.share.member import Member
from kafka_shim.groups.share.states import ERRORS, JOIN, LEAVE, RULES, Rule, Situation, Trigger, is_member_id


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """What is refused before any group is looked at: INVALID_REQUEST (42). Raises `Refusal`."""
    if not is_member_id(request.member_id):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    for text, name in ((request.member_id, "MemberId"), (request.group_id, "GroupId"), (request.rack_id, "RackId")):
        if text is not None and not text.strip():
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if request.member_epoch == JOIN and not request.subscribed_topic_names:
        raise Refusal(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE:
        raise Refusal(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


def refused(request: ShareGroupHeartbeatRequest, code: int, message: str | None = None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code, error_message=message)


def heartbeat(
    shard: Shard, request: ShareGroupHeartbeatRequest, client: Client, now: float
) -> ShareGroupHeartbeatResponse:
    """The answer to a heartbeat that `check_request` let through.

    Errors: UNKNOWN_MEMBER_ID (25), GROUP_ID_NOT_FOUND (69), GROUP_MAX_SIZE_REACHED (81), FENCED_MEMBER_EPOCH (110).
    """
    try:
        group = shard.groups.get(request.group_id)
        trigger = trigger_of(request)
        situation = situation_of(group, request)
        rule = RULES[trigger][situation]
        if ERRORS[rule]:
            raise Refusal(ERRORS[rule], _REFUSALS[situation](trigger, group, request))
        if rule is Rule.CREATE:
            return _hear(ShareGroup(request.group_id, shard), request, client, now)
        assert isinstance(group, ShareGroup)
        return _leave(group, request) if rule is Rule.REMOVE else _hear(group, request, client, now)
    except Refusal as refusal:
        shard.outbox.touch(shard)
        return refused(request, refusal.code, refusal.message)


def trigger_of(request: ShareGroupHeartbeatRequest) -> Trigger:
    """What a heartbeat is for."""
    return {JOIN: Trigger.JOIN, LEAVE: Trigger.LEAVE}.get(request.member_epoch, Trigger.STAY)


def situation_of(group: Group | None, request: ShareGroupHeartbeatRequest) -> Situation:
    """What a heartbeat finds."""
    if group is None:
        return Situation.NO_GROUP
    if not isinstance(group, ShareGroup):
        return Situation.OTHER_KIND
    member = group.members.get(request.member_id)
    if member is None:
        return Situation.FULL if group.size >= group.shard.config.group_share_max_size else Situation.NO_MEMBER
    is_its = request.member_epoch in (member.epoch, member.previous_epoch)
    return Situation.EPOCH if is_its else Situation.OTHER_EPOCH


def _no_group(trigger: Trigger, group: Any, request: ShareGroupHeartbeatRequest) -> str:
    return f"{'Group' if trigger is Trigger.LEAVE else 'Share group'} {request.group_id} not found."


def _full(trigger: Trigger, group: Any, request: ShareGroupHeartbeatRequest) -> str:
    if trigger is Trigger.LEAVE:
        return _no_member(trigger, group, request)
    return f"The share group has reached its maximum capacity of {group.shard.config.group_share_max_size} members."


def _no_member(trigger: Trigger, group: Any, request: ShareGroupHeartbeatRequest) -> str:
    return f"Member {request.member_id} is not a member of group {request.group_id}."


def _other_epoch(trigger: Trigger, group: Any, request: ShareGroupHeartbeatRequest) -> str:
    epoch, member = request.member_epoch, group.members[request.member_id]
    if epoch > member.epoch:
        compared = f"a greater member epoch ({epoch}) than the one known by the group coordinator ({member.epoch})"
    else:
        compared = (
            f"a smaller member epoch ({epoch}) than the one known by the group coordinator ({member.epoch}), and it"
            f" does not match the previous member epoch ({member.previous_epoch})"
        )
    return f"The share group member has {compared}. The member must abandon all its partitions and rejoin."


_REFUSALS: Final[dict[Situation, Callable[[Trigger, Any, ShareGroupHeartbeatRequest], str]]] = {
    Situation.NO_GROUP: _no_group,
    Situation.OTHER_KIND: lambda trigger, group, request: f"Group {request.group_id} is not a share group.",
    Situation.FULL: _full,
    Situation.NO_MEMBER: _no_member,
    Situation.OTHER_EPOCH: _other_epoch,
}
"""What a refusal says to the client."""


def _leave(group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    fence(group, [group.members[request.member_id]], Cause.MEMBER_LEFT, "left")
    return ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVE)


def _hear(
    group: ShareGroup, request: ShareGroupHeartbeatRequest, client: Client, now: float
) -> ShareGroupHeartbeatResponse:
    """`group` may be new: then it is in the shard once its first record is written."""
    shard = group.shard
    joins = request.member_epoch == JOIN
    member = group.members.get(request.member_id) or Member(request.member_id)
    is_news = group.metadata_stale
    if is_news:
        forget_deleted(group, group.topic_names)
    names = request.subscribed_topic_names
    updated = replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topic_names=member.topic_names if names is None else frozenset(names),
        client_id=client.client_id,
        client_host=client.client_host,
    )
    cause = _cause(group, member, updated)
    written: list[records.Record] = []
    if updated != member:
        written.append(records.member_metadata(group.group_id, updated))
    group_epoch = group.group_epoch
    if cause is not None or group.metadata_stale:
        found_hash = group.hash_of(group.topics_with(updated))
        if cause is None and found_hash != group.metadata_hash:
            cause = Cause.TOPIC_METADATA_CHANGED
        if cause is not None:
            group_epoch += 1
            written.append(records.epoch(group.group_id, group_epoch, found_hash))
    target_epoch, target = group.target_epoch, group.targets.get(member.member_id, NO_PARTITIONS)
    targets: dict[str, Partitions] | None = None
    if group_epoch > group.target_epoch:
        targets = _targets(group, updated)
        target_epoch, target = group_epoch, targets[member.member_id]
        written += (
            records.target_assignment(group.group_id, member_id, each)
            for member_id, each in targets.items()
            if each != group.targets.get(member_id)
        )
        written.append(records.target_epoch(group.group_id, target_epoch))
    reconciled = updated
    if updated.epoch != target_epoch:
        reconciled = replace(updated, epoch=target_epoch, previous_epoch=updated.epoch, assigned=target)
        written.append(records.current_assignment(group.group_id, reconciled))
    group = _write(group, written, member, reconciled, cause, targets)
    shard.arm(group.session(member.member_id), now + group.session_timeout_ms / 1000)
    if is_news or cause is not None:
        initialize(group)
    shows = joins or reconciled.assigned != member.assigned or names is not None
    return ShareGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=reconciled.epoch,
        heartbeat_interval_ms=group.heartbeat_interval_ms,
        assignment=_assignment(reconciled.assigned) if shows else None,
    )


def _cause(group: ShareGroup, member: Member, updated: Member) -> Cause | None:
    """Why the group epoch grows for what this heartbeat says, or because partitions can be assigned that are
    nobody's."""
    if member.member_id not in group.members:
        return Cause.NEW_MEMBER
    if updated.topic_names != member.topic_names:
        return Cause.SUBSCRIPTION_CHANGED
    return Cause.TOPIC_METADATA_CHANGED if group.is_assignment_pending else None


def _targets(group: ShareGroup, updated: Member) -> dict[str, Partitions]:
    members = group.members | {updated.member_id: updated}
    ids = {topic.name: topic_id for topic_id, topic in group.initialized.items()}
    return assignor.assign(
        {member_id: {ids[name] for name in member.topic_names if name in ids} for member_id, member in members.items()},
        {topic_id: sorted(topic.partitions) for topic_id, topic in group.initialized.items()},
        group.targets,
    )


def _write(
    group: ShareGroup,
    written: list[records.Record],
    member: Member,
    reconciled: Member,
    cause: Cause | None,
    targets: dict[str, Partitions] | None,
) -> ShareGroup:
    """Everything is decided: write it, and say so. The group as it is in the shard then."""
    shard = group.shard
    before, is_new = group.state, member.member_id not in group.members
    for key, value in written:
        shard.write(key, value)
    found = shard.groups[group.group_id]
    assert isinstance(found, ShareGroup)
    found.metadata_stale = False
    if cause is not None:
        found.cause, found.trigger = cause, member.member_id
        shard.counters.rebalances[cause] += 1
        shard.counters.share_rebalances += 1
    if shard.outbox.listening:
        if found is not group:
            group_events.group(shard.outbox, found, "created")
        if is_new:
            events.member(found, reconciled, "added")
        if cause is not None:
            events.epoch(found)
        if targets is not None:
            events.target(found, targets)
        if reconciled.epoch != member.epoch:
            events.reconciliation(found, reconciled)
        events.state(found, before)
    shard.outbox.touch(shard)
    return found


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment([TopicPartitions(topic, sorted(numbers)) for topic, numbers in partitions.items()])


def fence(group: ShareGroup, members: list[Member], cause: Cause, change: str) -> None:
    """Remove members: nobody hears of it but by the error of their next heartbeat. `change` is for the trace."""
    if not members:
        return
    shard, before = group.shard, group.state
    gone = {member.member_id for member in members}
    stay = (member.topic_names for member in group.members.values() if member.member_id not in gone)
    written = [record for member in members for record in records.member_gone(group.group_id, member.member_id)]
    found_hash = group.hash_of(frozenset().union(*stay))
    written.append(records.epoch(group.group_id, group.group_epoch + 1, found_hash))
    for key, value in written:
        shard.write(key, value)
    for member_id in gone:
        if (timer := group.sessions.pop(member_id, None)) is not None:
            shard.cancel(timer)
    group.cause, group.trigger = cause, members[0].member_id
    shard.counters.rebalances[cause] += 1
    if shard.outbox.listening:
        for member in members:
            events.member(group, member, change)
        events.epoch(group)
        events.state(group, before)


def session_timeout(group: ShareGroup, member_id: str) -> None:
    """A member was silent for too long."""
    fence(group, [group.members[member_id]], Cause.SESSION_EXPIRED, "expired")
