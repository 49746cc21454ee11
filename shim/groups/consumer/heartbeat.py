"""ConsumerGroupHeartbeat: a member joins, reports what it owns, and hears what it may use.

Decides what is refused, whose member it is, and whether the answer carries an assignment. One that says nothing new
takes a short way, `steady.py`; one whose target assignment takes too long waits, `offload.py`. What a heartbeat changes
is in `change.py`, leaving in `leave.py`. After Kafka's `consumerGroupHeartbeat` of 4.2 (semantics 4.2 to 4.6).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from kafka_shim.apis.client_assignor import ClientAssignor
from kafka_shim.apis.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import Partitions
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.consumer import offload, records
from kafka_shim.groups.consumer.change import Change
from kafka_shim.groups.consumer.leave import check_not_fenced, leave
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member, from_records
from kafka_shim.groups.consumer.migration import drafted
from kafka_shim.groups.consumer.patterns import PatternChange
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.consumer.sessions import heartbeat_interval_ms, renew_session
from kafka_shim.groups.consumer.states import JOIN, LEAVE, LEAVE_STATIC
from kafka_shim.groups.consumer.steady import says_nothing_new, steady
from kafka_shim.groups.interface import PARKED, Client, Parked
from kafka_shim.groups.shard import Shard


def check_request(request: ConsumerGroupHeartbeatRequest, assignors: Collection[str], *, member_makes_id: bool) -> None:
    """What is refused before any group is looked at: INVALID_REQUEST (42), UNSUPPORTED_ASSIGNOR (112).

    `member_makes_id`: the version has members make their own ids (v1+, KIP-1082). Raises `Refusal`.
    """
    epoch = request.member_epoch
    if member_makes_id or epoch > 0 or epoch == LEAVE:
        _check_text(request.member_id, "MemberId can't be empty.")
    _check_text(request.group_id, "GroupId can't be empty.")
    _check_text(request.instance_id, "InstanceId can't be empty.")
    _check_text(request.rack_id, "RackId can't be empty.")
    if epoch == JOIN:
        if request.rebalance_timeout_ms == -1:
            raise Refusal(ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise Refusal(ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            )
    elif epoch == LEAVE_STATIC:
        if request.instance_id is None:
            raise Refusal(ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
    elif epoch < LEAVE_STATIC:
        raise Refusal(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    name = request.server_assignor
    if name is not None and name not in assignors:
        raise Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_text(text: str | None, sentence: str) -> None:
    if text is not None and not text.strip():
        raise Refusal(ErrorCode.INVALID_REQUEST, sentence)


def refused(
    request: ConsumerGroupHeartbeatRequest, code: int, message: str | None = None
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


def heartbeat(
    shard: Shard, request: ConsumerGroupHeartbeatRequest, client: Client, exchange: object, now: float
) -> ConsumerGroupHeartbeatResponse | Parked:
    """The answer to a heartbeat that `check_request` let through; PARKED while what it needs is computed elsewhere.

    Errors: UNKNOWN_MEMBER_ID (25), GROUP_ID_NOT_FOUND (69), GROUP_MAX_SIZE_REACHED (81), FENCED_INSTANCE_ID (82),
    FENCED_MEMBER_EPOCH (110), UNRELEASED_INSTANCE_ID (111), INVALID_REGULAR_EXPRESSION (128),
    UNKNOWN_SERVER_ERROR (-1).
    """
    interval_ms = None
    if says_nothing_new(request):
        interval_ms = steady(shard.groups.get(request.group_id), request, client, now)
    if interval_ms is not None:
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=interval_ms
        )
    member_id = request.member_id or shard.new_id()

    def attempt(now: float) -> ConsumerGroupHeartbeatResponse:
        try:
            if request.member_epoch in (LEAVE, LEAVE_STATIC):
                return leave(shard, request, now)
            outcome = hear(shard, request, member_id, client, now)
        except Refusal as refusal:
            shard.outbox.touch(shard)
            return refused(request, refusal.code, refusal.message)
        return ConsumerGroupHeartbeatResponse(
            member_id=outcome.member.member_id,
            member_epoch=outcome.member.epoch,
            heartbeat_interval_ms=heartbeat_interval_ms(outcome.group),
            assignment=assignment_of(outcome.member.assigned) if outcome.shows else None,
        )

    waiting = offload.Waiting(exchange, attempt, partial(refused, request))
    answer: ConsumerGroupHeartbeatResponse | Parked = in_line(shard, request, waiting, now)
    return answer


def in_line(shard: Shard, request: ConsumerGroupHeartbeatRequest, waiting: offload.Waiting, now: float) -> Any:
    """The answer to a heartbeat that may change its group; PARKED if it has to wait."""
    answer = offload.serve(shard, request.group_id, waiting, now)
    if answer is PARKED:
        # It was a sign of life all the same.
        group = shard.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and request.member_id in group.members:
            renew_session(group, group.members[request.member_id], now)
    return answer


class Outcome(NamedTuple):
    """What a heartbeat came to: the group as it is in the shard then, the member as it was and as it is. `shows`: the
    answer carries its assignment."""

    group: ConsumerGroup
    before: Member
    member: Member
    shows: bool


def hear(
    shard: Shard,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    client: Client,
    now: float,
    make_change: type[Change] = Change,
    client_assignors: tuple[ClientAssignor, ...] | None = None,
) -> Outcome:
    """Hear a heartbeat of a member that does not leave, and write what it changes. `client_assignors` are None where
    the member does not say any. Raises `Refusal` and `Offloaded`, with nothing written; errors are those of
    `heartbeat`."""
    joins = request.member_epoch == JOIN
    group = _group(shard, request, joins=joins)
    check_room(group, request.member_id)
    change = make_change(group, now)
    owned = None if request.topic_partitions is None else from_records(request.topic_partitions)
    member = _member(change, request, member_id, owned, joins=joins)
    updated = merged(member, request, client)
    if client_assignors is not None:
        updated = replace(updated, client_assignors=client_assignors)
    names_changed, pattern = change.subscribe(member, updated)
    cause: Cause | None = None
    if group.group_epoch == 0 or names_changed or pattern is PatternChange.RESOLVED:
        cause = cause_of(group, member)
    group_epoch = change.renew_epoch(member, updated, cause)
    target_epoch, target = change.assign(updated, group_epoch)
    reconciled = change.reconcile(updated, target_epoch, target, owned)
    group = change.write(updated, reconciled, member_id)
    renew_session(group, reconciled, now)
    is_full = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and owned is not None
    )
    return Outcome(group, member, reconciled, joins or is_full or reconciled.assigned != member.assigned)


def _group(shard: Shard, request: ConsumerGroupHeartbeatRequest, *, joins: bool) -> ConsumerGroup:
    """The group; a draft of it if a member joins that is not there, or is a classic one. Raises `Refusal` and
    `Offloaded`."""
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is None and not joins:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
    if group is not None and not (joins and isinstance(group, ClassicGroup)):
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    return drafted(shard, request.group_id, group).group


def check_room(group: ConsumerGroup, member_id: str) -> None:
    """GROUP_MAX_SIZE_REACHED (81) for a newcomer where there is no room. Raises `Refusal`."""
    most = group.shard.config.group_consumer_max_size
    if group.size >= most and member_id not in group.members:
        raise Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )


def _member(
    change: Change,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    owned: Partitions | None,
    *,
    joins: bool,
) -> Member:
    """The member as it is before this heartbeat; a new one, or one that takes a static member's place."""
    group, instance_id = change.group, request.instance_id
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            if joins:
                return Member(member_id)
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
        _check_epoch(member, request.member_epoch, owned)
        return member
    holder = group.static_member(instance_id)
    if not joins:
        if holder is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        check_not_fenced(holder, member_id, instance_id)
        _check_epoch(holder, request.member_epoch, owned)
        return holder
    if holder is None:
        return group.members.get(member_id) or Member(member_id)
    if holder.classic is None and holder.epoch != LEAVE_STATIC:
        raise Refusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is"
            f" owned by {holder.member_id} member.",
        )
    return take_place(change, holder, member_id)


def take_place(change: Change, holder: Member, member_id: str) -> Member:
    """A member takes a static one's place: it inherits what that one had, at epoch 0."""
    member = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
    change.records += records.member_replaced(change.group, holder, member)
    change.replaced_member = holder
    return member


def _check_epoch(member: Member, epoch: int, owned: Partitions | None) -> None:
    """FENCED_MEMBER_EPOCH (110), but for a member that joins again, or repeats its last epoch and owns nothing it is
    not assigned: the answer that brought the new epoch may have got lost. Raises `Refusal`."""
    if epoch == JOIN or epoch == member.epoch:
        return
    if epoch == member.previous_epoch < member.epoch and _is_within(owned, member.assigned):
        return
    raise Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch})"
        f" than the one known by the group coordinator ({member.epoch}). The member must abandon all its partitions and"
        f" rejoin.",
    )


def _is_within(owned: Partitions | None, assigned: Partitions) -> bool:
    """Whether the member says what it owns, and owns nothing it is not assigned."""
    return owned is not None and all(
        topic in assigned and numbers <= assigned[topic] for topic, numbers in owned.items()
    )


def merged(member: Member, request: ConsumerGroupHeartbeatRequest, client: Client) -> Member:
    """The member with what the heartbeat says of it; what it does not say is unchanged."""
    names, timeout = request.subscribed_topic_names, request.rebalance_timeout_ms
    topic_names = member.topic_names
    if names is not None and topic_names != (sent := frozenset(names)):
        topic_names = sent
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        topic_names=topic_names,
        topic_regex=member.topic_regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        client_id=client.client_id,
        client_host=client.client_host,
        classic=None,
    )


def cause_of(group: ConsumerGroup, member: Member) -> Cause:
    """Why the group epoch grows when this member joined or changed its subscription."""
    if member.member_id in group.members:
        return Cause.SUBSCRIPTION_CHANGED
    return Cause.NEW_MEMBER if group.static_member(member.instance_id) is None else Cause.STATIC_REPLACED


def assignment_of(partitions: Partitions) -> Assignment:
    return Assignment([TopicPartitions(topic, sorted(owned)) for topic, owned in partitions.items()])
