"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup of theirs.

Decides how the classic protocol is spoken to such a member: its generation is its member epoch, it never leads, its
JoinGroup is a full heartbeat that is answered at once, and an error 27 has it join again. After Kafka's
`classicGroupJoinToConsumerGroup` and its like of 4.2 (semantics 4.8).
"""

from __future__ import annotations

from dataclasses import replace

from kafka_shim.apis.consumer_protocol import ConsumerProtocolSubscription, subscription_from_bytes
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_shim.apis.join_group import error as join_refused
from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.consumer.change import Change
from kafka_shim.groups.consumer.embedded import embedded_assignment
from kafka_shim.groups.consumer.heartbeat import cause_of, check_room, take_place
from kafka_shim.groups.consumer.leave import check_not_fenced, fence, static_member
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.migration import downgrade, may_downgrade
from kafka_shim.groups.consumer.patterns import PatternChange
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.consumer.sessions import arm, arm_if_idle, cancel, renew_session
from kafka_shim.groups.consumer.states import MemberState
from kafka_shim.groups.consumer.timers import TimerKind
from kafka_shim.groups.interface import Client
from kafka_shim.groups.shard import TopicCatalogue
from kafka_shim.persistence.records import ClassicMemberMetadata, ClassicProtocol

CONSUMER = "consumer"
"""The protocol type of consumers."""


def join(
    group: ConsumerGroup,
    request: JoinGroupRequest,
    member_id: str,
    client: Client,
    now: float,
    *,
    member_id_required: bool,
) -> JoinGroupResponse:
    """A JoinGroup to a group that has members; `member_id` is that of the request, or a new one.

    Raises `Refusal`: 23, 25, 81, 82; `Offloaded`.
    """
    shard = group.shard
    if shard.config.group_consumer_migration_policy == "disabled":
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The group migration is disabled.")
    check_room(group, member_id)
    names = {protocol.name for protocol in request.protocols}
    if request.protocol_type != CONSUMER or not group.supports_classic_protocol(names):
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
    if member_id_required and not request.member_id and request.group_instance_id is None:
        return join_refused(replaced_id(request, member_id), ErrorCode.MEMBER_ID_REQUIRED)
    change = Change(group, now)
    member = _member(change, request, member_id)
    subscription = subscription_from_bytes(request.protocols[0].metadata)
    if subscription is None:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "Malformed embedded consumer protocol.")
    updated = merged(member, request, client, subscription)
    names_changed, pattern = change.subscribe(member, updated)
    change.subscription_changed = names_changed or pattern is not PatternChange.NONE
    cause = cause_of(group, member) if change.subscription_changed else None
    # Also where the static member itself joins again, by the classic protocol.
    holder = group.static_member(request.group_instance_id)
    if holder is not None and may_downgrade(group, [holder], replaced=True):
        return _downgraded(change, holder, updated, owned_by(subscription, shard.topics), now)
    group_epoch = change.renew_epoch(member, updated, cause)
    target_epoch, target = change.assign(updated, group_epoch)
    reconciled = change.reconcile(updated, target_epoch, target, owned_by(subscription, shard.topics))
    group = change.write(updated, reconciled, member_id)
    cancel(group, TimerKind.JOIN, member_id)
    renew_session(group, reconciled, now)
    arm(group, TimerKind.SYNC, member_id, now + request.rebalance_timeout_ms / 1000)
    return joined(reconciled)


def _downgraded(change: Change, holder: Member, updated: Member, owned: Partitions, now: float) -> JoinGroupResponse:
    """The member takes the place of the last one of the consumer protocol: the group is a classic one again."""
    group = change.group
    reconciled = updated
    if not change.subscription_changed:
        target = group.targets.get(holder.member_id, NO_PARTITIONS)
        reconciled = change.reconcile(updated, group.target_epoch, target, owned)
    downgrade(group, [holder], updated, now, change="fenced", rebalances=change.subscription_changed)
    return joined(reconciled)


def replaced_id(request: JoinGroupRequest, member_id: str) -> JoinGroupRequest:
    """A request that is answered with this member id."""
    return JoinGroupRequest(group_id=request.group_id, member_id=member_id)


def joined(member: Member) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER,
        protocol_name=member.classic.supported_protocols[0].name,
    )


def _member(change: Change, request: JoinGroupRequest, member_id: str) -> Member:
    """The member as it is before; a new one, or one that takes a static member's place. Its epoch is not looked at."""
    group, instance_id = change.group, request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or Member(member_id)
    holder = group.static_member(instance_id)
    if request.member_id:
        if holder is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        check_not_fenced(holder, member_id, instance_id)
        return holder
    return Member(member_id) if holder is None else take_place(change, holder, member_id)


def merged(
    member: Member, request: JoinGroupRequest, client: Client, subscription: ConsumerProtocolSubscription
) -> Member:
    """The member with what its JoinGroup says of it."""
    timeout = request.rebalance_timeout_ms
    topic_names = frozenset(subscription.topics)
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        topic_names=member.topic_names if topic_names == member.topic_names else topic_names,
        topic_regex="",
        client_id=client.client_id,
        client_host=client.client_host,
        classic=ClassicMemberMetadata(
            request.session_timeout_ms,
            [ClassicProtocol(protocol.name, protocol.metadata) for protocol in request.protocols],
        ),
    )


def owned_by(subscription: ConsumerProtocolSubscription, topics: TopicCatalogue) -> Partitions:
    """What a subscription says its member owns, by topic ids."""
    owned = {}
    for each in subscription.owned_partitions:
        topic_id = topics.topic_id(each.topic)
        if topic_id is not None:
            owned[topic_id] = frozenset(each.partitions)
    return owned


def sync(group: ConsumerGroup, request: SyncGroupRequest, now: float) -> SyncGroupResponse:
    """A SyncGroup to a group that has members. Raises `Refusal`: 22, 23, 25, 27, 82."""
    member = _speaker(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    assert member.classic is not None
    protocol = member.classic.supported_protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, protocol.name):
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The protocol is not that of the join response.")
    if group.group_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(group, member, now)
        raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "A new rebalance is triggered.")
    cancel(group, TimerKind.SYNC, member.member_id)
    renew_session(group, member, now)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=embedded_assignment(member.assigned, protocol.metadata, group.shard.topics),
    )


def heartbeat(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: float) -> ErrorCode:
    """A Heartbeat: NONE, 22, 25, 82, or REBALANCE_IN_PROGRESS (27) where the member is to join again."""
    try:
        member = _speaker(group, member_id, instance_id)
        _check_generation(member, generation)
    except Refusal as refusal:
        return refusal.code
    renew_session(group, member, now)
    if (
        member.epoch < group.group_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _is_waiting(group, member))
    ):
        _expect_join(group, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(group: ConsumerGroup, request: LeaveGroupRequest, now: float) -> LeaveGroupResponse:
    """A LeaveGroup, which removes members of both protocols; one new group epoch for all of them."""
    answers: list[MemberResponse] = []
    leaving: dict[str, Member] = {}
    for identity in request.members:
        error = ErrorCode.NONE
        try:
            if identity.group_instance_id is None:
                member = group.members.get(identity.member_id)
                if member is None:
                    raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {identity.member_id} is not a member.")
            elif identity.member_id:
                member = static_member(group, identity.member_id, identity.group_instance_id)
            else:
                member = group.static_member(identity.group_instance_id)
                if member is None:
                    raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {identity.group_instance_id} is unknown.")
            leaving[member.member_id] = member
        except Refusal as refusal:
            error = refusal.code
        answers.append(MemberResponse(identity.member_id, identity.group_instance_id, error))
    fence(group, list(leaving.values()), Cause.MEMBER_LEFT, "left", now)
    return LeaveGroupResponse(members=answers)


def _speaker(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    """The member of the classic protocol that asks. Raises `Refusal`: 25 or 82."""
    if instance_id is None:
        member = group.members.get(member_id)
    else:
        member = static_member(group, member_id, instance_id)
    if member is None or member.classic is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    return member


def _check_generation(member: Member, generation: int) -> None:
    if generation != member.epoch:
        raise Refusal(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch {member.epoch} of member"
            f" {member.member_id}.",
        )


def _expect_join(group: ConsumerGroup, member: Member, now: float) -> None:
    arm_if_idle(group, TimerKind.JOIN, member.member_id, now + member.rebalance_timeout_ms / 1000)


def _is_waiting(group: ConsumerGroup, member: Member) -> bool:
    """Whether somebody still has a partition of the member's target assignment."""
    target = group.targets.get(member.member_id, NO_PARTITIONS)
    return any(
        partition in group.owners.get(topic, ())
        for topic, owned in target.items()
        for partition in owned - member.assigned.get(topic, frozenset())
    )
