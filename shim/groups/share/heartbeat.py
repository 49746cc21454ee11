"""ShareGroupHeartbeat: a member joins, heartbeats, receives its assignment, or leaves.

`states.RULES` selects the rule; this module carries it out. A member moves to its target assignment at once, without
revocation, since partitions are shared. After Kafka's `GroupMetadataManager.shareGroupHeartbeat` of 4.2 (semantics
4.13).
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
    error,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.epochs.change import Change
from kafka_shim.groups.epochs.member import JOIN, LEAVE
from kafka_shim.groups.epochs.records import Target
from kafka_shim.groups.epochs.requests import check_not_blank, full
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import Client, Refusal
from kafka_shim.groups.shard import NodeParts, Shard
from kafka_shim.groups.share import assignor, records
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.records import Member
from kafka_shim.groups.share.states import ERRORS, RULES, Rule, Situation, Trigger, is_member_id
from kafka_shim.trace.causes import Cause


def check_request(request: ShareGroupHeartbeatRequest, parts: NodeParts | None = None) -> None:
    """Check the request alone, before its group is looked up. Raises `Refusal`: INVALID_REQUEST (42)."""
    if not is_member_id(request.member_id):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    check_not_blank("MemberId", request.member_id)
    check_not_blank("GroupId", request.group_id)
    check_not_blank("RackId", request.rack_id)
    if request.member_epoch == JOIN and not request.subscribed_topic_names:
        raise Refusal(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE:
        raise Refusal(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


def heartbeat(
    shard: Shard, request: ShareGroupHeartbeatRequest, client: Client, now: float
) -> ShareGroupHeartbeatResponse:
    """Handle a heartbeat after `check_request`.

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
            return _apply(ShareGroup(request.group_id, shard), request, client, now)
        assert isinstance(group, ShareGroup)
        return _leave(group, request, now) if rule is Rule.REMOVE else _apply(group, request, client, now)
    except Refusal as refusal:
        shard.outbox.touch(shard)
        return error(request, refusal.code, refusal.message)


def trigger_of(request: ShareGroupHeartbeatRequest) -> Trigger:
    """Return the purpose of a heartbeat: join, stay or leave."""
    return {JOIN: Trigger.JOIN, LEAVE: Trigger.LEAVE}.get(request.member_epoch, Trigger.STAY)


def situation_of(group: Group | None, request: ShareGroupHeartbeatRequest) -> Situation:
    """Return the situation of the group and the member at a heartbeat."""
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
    return str(full("share", group.shard.config.group_share_max_size))


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
"""Error messages of refusals."""


def _leave(group: ShareGroup, request: ShareGroupHeartbeatRequest, now: float) -> ShareGroupHeartbeatResponse:
    group.fence([group.members[request.member_id]], Cause.MEMBER_LEFT, "left", now)
    return ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVE)


def _apply(
    group: ShareGroup, request: ShareGroupHeartbeatRequest, client: Client, now: float
) -> ShareGroupHeartbeatResponse:
    """Apply a heartbeat and write the changes. `group` may be new; its first record puts it into the shard."""
    joins = request.member_epoch == JOIN
    member = group.members.get(request.member_id) or Member(request.member_id)
    topics_changed = group.metadata_stale
    if topics_changed:
        group.forget_deleted(group.topic_names)
    names = request.subscribed_topic_names
    updated = member.merge(
        rack_id=request.rack_id,
        topic_names=None if names is None else frozenset(names),
        client_id=client.client_id,
        client_host=client.client_host,
    )
    cause = _cause(group, member, updated)
    change = _Change(group, now)
    if updated is not member:
        change.records.append(records.member_metadata(group.group_id, updated))
    group_epoch = group.group_epoch
    if cause is not None or group.metadata_stale:
        new_hash = group.hash_of(group.topics_with(updated))
        if cause is None and new_hash != group.metadata_hash:
            cause = Cause.TOPIC_METADATA_CHANGED
        if cause is not None:
            group_epoch += 1
            change.cause = cause
            change.records.append(records.epoch(group.group_id, group_epoch, new_hash))
    target_epoch, assigned = change.assign(updated, group_epoch)
    reconciled = updated
    if updated.epoch != target_epoch:
        reconciled = replace(updated, epoch=target_epoch, previous_epoch=updated.epoch, assigned=assigned)
        change.records.append(records.current_assignment(group.group_id, reconciled))
    group = change.write(updated, reconciled)
    if topics_changed or cause is not None:
        group.initialize()
    includes_assignment = joins or reconciled.assigned != member.assigned or names is not None
    return ShareGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=reconciled.epoch,
        heartbeat_interval_ms=group.heartbeat_interval_ms,
        assignment=_assignment(reconciled.assigned) if includes_assignment else None,
    )


def _cause(group: ShareGroup, member: Member, updated: Member) -> Cause | None:
    """Return the cause of a new group epoch: the heartbeat, or assignable partitions without a member; else None."""
    if member.member_id not in group.members:
        return Cause.NEW_MEMBER
    if updated.topic_names != member.topic_names:
        return Cause.SUBSCRIPTION_CHANGED
    if group.group_epoch > group.target_epoch and group.shard.rules.initialized_in_waiting_epoch:
        return None
    return Cause.TOPIC_METADATA_CHANGED if group.is_assignment_pending else None


class _Change(Change[ShareGroup, Member, Partitions]):
    """Change of a share group by a heartbeat."""

    def last_target(self, updated: Member) -> Partitions:
        return self.group.targets.get(updated.member_id, NO_PARTITIONS)

    def compute(self, updated: Member, group_epoch: int) -> Target[Partitions]:
        group = self.group
        members = group.members | {updated.member_id: updated}
        ids = {topic.name: topic_id for topic_id, topic in group.initialized.items()}
        assigned = assignor.assign(
            {
                member_id: {ids[name] for name in member.topic_names if name in ids}
                for member_id, member in members.items()
            },
            {topic_id: sorted(topic.partitions) for topic_id, topic in group.initialized.items()},
            group.targets,
            homogeneous=len({member.topic_names for member in members.values()}) == 1,
        )
        return group.new_target(group_epoch, assigned)


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment([TopicPartitions(topic, sorted(numbers)) for topic, numbers in partitions.items()])
