"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Such a member has its member epoch as its generation and is never the leader. Its JoinGroup counts as a full heartbeat
and is answered at once. REBALANCE_IN_PROGRESS (27) makes it join again. After Kafka's `classicGroupJoinToConsumerGroup`
and the methods for the other requests of 4.2 (semantics 4.8).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kafka_shim.apis.consumer_protocol import ConsumerProtocolSubscription, subscription_from_bytes
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_shim.apis.join_group import error as join_refused
from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.consumer.change import Change, cause_of
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.migration.conversion import (
    become_classic,
    downgrade,
    embedded_assignment,
    may_downgrade,
)
from kafka_shim.groups.consumer.patterns import PatternChange
from kafka_shim.groups.consumer.states import MemberState, TimerKind
from kafka_shim.groups.epochs import offload
from kafka_shim.groups.interface import Client, Parked, Refusal
from kafka_shim.groups.shard import Shard, TopicCatalogue
from kafka_shim.persistence.records import ClassicMemberMetadata, ClassicProtocol
from kafka_shim.trace.causes import Cause

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
    """Handle a JoinGroup at a group with members; `member_id` is the id in the request, or a new one.

    Raises `Refusal`: 23, 25, 81, 82; `Offloaded`.
    """
    shard = group.shard
    if shard.config.group_consumer_migration_policy == "disabled":
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The group migration is disabled.")
    group.check_room(member_id, request.group_instance_id, shard.config.group_consumer_max_size)
    names = {protocol.name for protocol in request.protocols}
    if request.protocol_type != CONSUMER or not group.supports_classic_protocol(names):
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
    if member_id_required and not request.member_id and request.group_instance_id is None:
        return join_refused(with_member_id(request, member_id), ErrorCode.MEMBER_ID_REQUIRED)
    change = Change(group, now)
    member = _member(change, request, member_id)
    subscription = subscription_from_bytes(request.protocols[0].metadata)
    if subscription is None:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "Malformed embedded consumer protocol.")
    updated = merge(member, request, client, subscription)
    names_changed, pattern = change.subscribe(member, updated)
    change.subscription_changed = names_changed or pattern is not PatternChange.NONE
    cause = cause_of(group, member) if change.subscription_changed else None
    # The same static member may also join again with the classic protocol.
    holder = group.static_member(request.group_instance_id)
    group_epoch = change.renew_epoch(member, updated, cause)
    if holder is not None and may_downgrade(group, [holder], replaced=True):
        return _downgraded(change, holder, updated, group_epoch, owned_by(subscription, shard.topics))
    target_epoch, target = change.assign(updated, group_epoch)
    reconciled = change.reconcile(updated, target_epoch, target, owned_by(subscription, shard.topics))
    group = change.write(updated, reconciled)
    group.cancel(TimerKind.JOIN, member_id)
    group.arm(TimerKind.SYNC, member_id, now + request.rebalance_timeout_ms / 1000)
    return join_response(reconciled)


def _downgraded(
    change: Change, holder: Member, updated: Member, group_epoch: int, owned: Partitions
) -> JoinGroupResponse:
    """Convert the group to a classic one: the member replaces the last one that used the consumer protocol.

    The classic group rebalances if the assignment is older than `group_epoch`; before Kafka 4.3, if the subscription
    changed.
    """
    group = change.group
    reconciled = updated
    rebalances = change.subscription_changed
    if group.shard.rules.downgrade_checks_assignment:
        rebalances = group.target_epoch < group_epoch
    if not rebalances:
        target = group.targets.get(holder.member_id, NO_PARTITIONS)
        reconciled = change.reconcile(updated, group.target_epoch, target, owned)
    downgrade(group, [holder], updated, change.now, change="fenced", rebalances=rebalances)
    return join_response(reconciled)


def with_member_id(request: JoinGroupRequest, member_id: str) -> JoinGroupRequest:
    """Return a request with this member id in its answer."""
    return JoinGroupRequest(group_id=request.group_id, member_id=member_id)


def join_response(member: Member) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER,
        protocol_name=member.classic.supported_protocols[0].name,
    )


def _member(change: Change, request: JoinGroupRequest, member_id: str) -> Member:
    """Return the member before the change: existing, new, or in the place of a static one. Does not check its epoch."""
    group, instance_id = change.group, request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or Member(member_id)
    if request.member_id:
        return group.holder_of(instance_id, member_id)
    holder = group.static_member(instance_id)
    return Member(member_id) if holder is None else change.take_place(holder, member_id)


def merge(
    member: Member, request: JoinGroupRequest, client: Client, subscription: ConsumerProtocolSubscription
) -> Member:
    """Return the member updated from its JoinGroup."""
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
    """Return the owned partitions in a subscription, by topic id."""
    owned = {}
    for each in subscription.owned_partitions:
        topic_id = topics.topic_id(each.topic)
        if topic_id is not None:
            owned[topic_id] = frozenset(each.partitions)
    return owned


def sync(group: ConsumerGroup, request: SyncGroupRequest, now: float) -> SyncGroupResponse:
    """Handle a SyncGroup at a group with members. Raises `Refusal`: 22, 23, 25, 27, 82."""
    member = _speaker(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    assert member.classic is not None
    protocol = member.classic.supported_protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, protocol.name):
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The protocol is not that of the join response.")
    if group.epoch_to_join > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(group, member, now)
        raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "A new rebalance is triggered.")
    group.cancel(TimerKind.SYNC, member.member_id)
    group.renew_session(member, now)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=embedded_assignment(member.assigned, protocol.metadata, group.shard.topics),
    )


def heartbeat(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: float) -> ErrorCode:
    """Handle a Heartbeat: NONE, 22, 25, 82, or REBALANCE_IN_PROGRESS (27) if the member has to join again."""
    try:
        member = _speaker(group, member_id, instance_id)
        _check_generation(member, generation)
    except Refusal as refusal:
        return refusal.code
    group.renew_session(member, now)
    if (
        member.epoch < group.epoch_to_join
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _is_waiting(group, member))
    ):
        _expect_join(group, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(group: ConsumerGroup, request: LeaveGroupRequest, now: float) -> LeaveGroupResponse:
    """Handle a LeaveGroup: remove members of both protocols with one new group epoch for all of them."""
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
                member = group.holder_of(identity.group_instance_id, identity.member_id)
            else:
                member = group.static_member(identity.group_instance_id)
                if member is None:
                    raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {identity.group_instance_id} is unknown.")
            leaving[member.member_id] = member
        except Refusal as refusal:
            error = refusal.code
        answers.append(MemberResponse(identity.member_id, identity.group_instance_id, error))
    group.fence(list(leaving.values()), Cause.MEMBER_LEFT, "left", now)
    return LeaveGroupResponse(members=answers)


def _speaker(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    """Return the sender, which must use the classic protocol. Raises `Refusal`: 25 or 82."""
    if instance_id is None:
        member = group.members.get(member_id)
    else:
        member = group.holder_of(instance_id, member_id)
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
    group.arm_if_idle(TimerKind.JOIN, member.member_id, now + member.rebalance_timeout_ms / 1000)


def _is_waiting(group: ConsumerGroup, member: Member) -> bool:
    """True if another member still has a partition of the member's target assignment."""
    target = group.targets.get(member.member_id, NO_PARTITIONS)
    return any(
        partition in group.owners.get(topic, ())
        for topic, owned in target.items()
        for partition in owned - member.assigned.get(topic, frozenset())
    )


# Rules of the kind


def join_rule(
    shard: Shard,
    request: JoinGroupRequest,
    client: Client,
    exchange: object,
    now: float,
    *,
    member_id_required: bool,
    skip_assignment_supported: bool,
) -> JoinGroupResponse | Parked:
    """Handle a JoinGroup: an Empty group becomes a classic one, any other group adds the member."""
    group = shard.groups[request.group_id]
    assert isinstance(group, ConsumerGroup)
    if not group.members:
        return become_classic(
            shard,
            request,
            client,
            exchange,
            now,
            member_id_required=member_id_required,
            skip_assignment_supported=skip_assignment_supported,
        )
    member_id = request.member_id or shard.new_id()
    queued = _QueuedJoin(shard, request, exchange, client, member_id, member_id_required)
    answer: JoinGroupResponse | Parked = offload.serve(queued, now)
    return answer


@dataclass(frozen=True, slots=True)
class _QueuedJoin(offload.QueuedRequest):
    """JoinGroup at a consumer group with members."""

    client: Client
    member_id: str
    member_id_required: bool

    def attempt(self, now: float) -> JoinGroupResponse:
        group = self.shard.groups.get(self.request.group_id)
        if not isinstance(group, ConsumerGroup):
            # The group changed its kind while the request waited: the member asks again.
            return self.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            return join(
                group, self.request, self.member_id, self.client, now, member_id_required=self.member_id_required
            )
        except Refusal as refusal:
            return self.refuse(refusal.code)

    def refuse(self, code: int) -> JoinGroupResponse:
        # Unlike a classic group, a consumer group leaves the member id out of an error.
        return join_refused(with_member_id(self.request, ""), code)


def sync_rule(shard: Shard, request: SyncGroupRequest, exchange: object, now: float) -> SyncGroupResponse | Parked:
    group = shard.groups[request.group_id]
    assert isinstance(group, ConsumerGroup)
    try:
        return sync(group, request, now)
    except Refusal as refusal:
        return SyncGroupResponse(error_code=refusal.code)


def leave_rule(shard: Shard, request: LeaveGroupRequest, now: float) -> LeaveGroupResponse:
    group = shard.groups[request.group_id]
    assert isinstance(group, ConsumerGroup)
    try:
        return leave(group, request, now)
    except Refusal as refusal:
        return LeaveGroupResponse(error_code=refusal.code)
