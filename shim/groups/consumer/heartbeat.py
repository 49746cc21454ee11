"""ConsumerGroupHeartbeat: a member joins, reports its owned partitions, receives its assignment, or leaves.

This module checks the request, finds the member, and tells if the answer carries an assignment; `change.py` writes the
changes. `epochs/offload.py` queues heartbeats while another thread computes a large target assignment.

`steady` is a fast path for heartbeats that change nothing: it renews the session and gives the same answer as the full
path. `RepeatedHeartbeat` skips even its checks when a client sends the same heartbeat again within one steady period of
its group. Any record of the group, and any change of its topics, ends the period. After Kafka's
`consumerGroupHeartbeat` and `consumerGroupLeave` of 4.2 (semantics 4.2 to 4.7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kafka_shim.apis.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
    error,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import Partitions
from kafka_shim.groups.consumer import patterns
from kafka_shim.groups.consumer.change import Change, cause_of
from kafka_shim.groups.consumer.group import ConsumerGroup, SteadyPeriod
from kafka_shim.groups.consumer.member import Member, reader_of
from kafka_shim.groups.consumer.migration.conversion import draft_of
from kafka_shim.groups.consumer.patterns import PatternChange
from kafka_shim.groups.consumer.states import MemberState
from kafka_shim.groups.epochs import offload
from kafka_shim.groups.epochs.member import JOIN, LEAVE, LEAVE_STATIC, from_records
from kafka_shim.groups.epochs.requests import check_not_blank, find, not_a_member
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import PARKED, Client, Parked, Refusal
from kafka_shim.groups.shard import NodeParts, Shard
from kafka_shim.groups.timers import Timer
from kafka_shim.trace.causes import Cause


def check_request(request: ConsumerGroupHeartbeatRequest, parts: NodeParts) -> None:
    """Check the request alone, before its group is looked up. Raises `Refusal`: INVALID_REQUEST (42),
    UNSUPPORTED_ASSIGNOR (112)."""
    epoch, assignors = request.member_epoch, parts.assignors.names
    if epoch > 0 or epoch == LEAVE:
        check_not_blank("MemberId", request.member_id)
    check_not_blank("GroupId", request.group_id)
    check_not_blank("InstanceId", request.instance_id)
    check_not_blank("RackId", request.rack_id)
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


def heartbeat(
    shard: Shard, request: ConsumerGroupHeartbeatRequest, client: Client, exchange: object, now: float
) -> ConsumerGroupHeartbeatResponse | Parked:
    """Handle a heartbeat after `check_request`; PARKED while another thread computes its assignment.

    Errors: UNKNOWN_MEMBER_ID (25), GROUP_ID_NOT_FOUND (69), GROUP_MAX_SIZE_REACHED (81), FENCED_INSTANCE_ID (82),
    FENCED_MEMBER_EPOCH (110), UNRELEASED_INSTANCE_ID (111), INVALID_REGULAR_EXPRESSION (128), UNKNOWN_SERVER_ERROR
    (-1).
    """
    interval_ms = None
    if request.member_epoch > JOIN and changes_no_metadata(request):
        interval_ms = steady(shard.groups.get(request.group_id), request, client, now)
    if interval_ms is not None:
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=interval_ms
        )
    queued = _QueuedHeartbeat(shard, request, exchange, client, request.member_id or shard.new_id())
    answer: ConsumerGroupHeartbeatResponse | Parked = offload.serve(queued, now)
    if answer is PARKED:
        renew_waiting_session(shard, request, now)
    return answer


def renew_waiting_session(shard: Shard, request: ConsumerGroupHeartbeatRequest, now: float) -> None:
    """Renew the session of a member whose heartbeat waits for a computation."""
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup) and request.member_id in group.members:
        group.renew_session(group.members[request.member_id], now)


@dataclass(frozen=True, slots=True)
class _QueuedHeartbeat(offload.QueuedRequest):
    """Heartbeat that may change its group. A member without an id gets one (version 0)."""

    client: Client
    member_id: str

    def attempt(self, now: float) -> ConsumerGroupHeartbeatResponse:
        shard, request = self.shard, self.request
        try:
            if request.member_epoch in (LEAVE, LEAVE_STATIC):
                return leave(shard, request, now)
            outcome = apply_heartbeat(shard, request, self.member_id, self.client, now)
        except Refusal as refusal:
            shard.outbox.touch(shard)
            return error(request, refusal.code, refusal.message)
        return ConsumerGroupHeartbeatResponse(
            member_id=outcome.member.member_id,
            member_epoch=outcome.member.epoch,
            heartbeat_interval_ms=outcome.group.heartbeat_interval_ms,
            assignment=assignment_of(outcome.member.assigned) if outcome.includes_assignment else None,
        )

    def refuse(self, code: int) -> ConsumerGroupHeartbeatResponse:
        return error(self.request, code)


class Outcome(NamedTuple):
    """Result of a heartbeat: the group in the shard, the member before and after.

    `includes_assignment`: the answer carries the assignment.
    """

    group: ConsumerGroup
    before: Member
    member: Member
    includes_assignment: bool


def apply_heartbeat(
    shard: Shard,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    client: Client,
    now: float,
    make_change: type[Change] = Change,
    extension: bytes | None = None,
) -> Outcome:
    """Handle a heartbeat of a member that does not leave, and write the changes.

    `extension` replaces the member's, unless it is None. Raises `Refusal` and `Offloaded`, with nothing written;
    errors are those of `heartbeat`.
    """
    joins = request.member_epoch == JOIN
    present = shard.groups.get(request.group_id)
    group = present if isinstance(present, ConsumerGroup) else draft_of(shard, request.group_id, joins=joins).group
    group.check_room(request.member_id, request.instance_id, shard.config.group_consumer_max_size)
    draft = group.draft
    change = make_change(group, now, None if draft is None else draft.replaces)
    owned = None if request.topic_partitions is None else from_records(request.topic_partitions)
    member = _member(change, request, member_id, owned, joins=joins)
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    updated = member.merge(
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if timeout_ms == -1 else timeout_ms,
        server_assignor=request.server_assignor,
        topic_names=None if names is None else frozenset(names),
        topic_regex=request.subscribed_topic_regex,
        client_id=client.client_id,
        client_host=client.client_host,
    )
    if updated.classic is not None:
        # From now on it uses the consumer protocol.
        updated = replace(updated, classic=None)
    if extension is not None:
        updated = replace(updated, extension=extension)
    if shard.topic_rights is not None:
        change.reader = reader_of(client)
        patterns.note_reader(group, updated, change.reader)
    names_changed, pattern = change.subscribe(member, updated)
    cause: Cause | None = None
    if (
        group.group_epoch == 0
        or names_changed
        or pattern is PatternChange.RESOLVED
        or (updated.server_assignor != member.server_assignor and changes_assignor(group, member, updated))
    ):
        cause = cause_of(group, member)
    group_epoch = change.renew_epoch(member, updated, cause)
    target_epoch, target = change.assign(updated, group_epoch)
    reconciled = change.reconcile(updated, target_epoch, target, owned)
    group = change.write(updated, reconciled)
    is_full = (
        timeout_ms != -1 and (names is not None or request.subscribed_topic_regex is not None) and owned is not None
    )
    return Outcome(group, member, reconciled, joins or is_full or reconciled.assigned != member.assigned)


def _member(
    change: Change,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    owned: Partitions | None,
    *,
    joins: bool,
) -> Member:
    """Return the member before this heartbeat: existing, new, or in the place of a static one."""
    group, instance_id = change.group, request.instance_id
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            if joins:
                return Member(member_id)
            raise not_a_member(member_id, group.group_id)
        group.check_epoch(member, request.member_epoch, owned)
        return member
    if not joins:
        member = group.holder_of(instance_id, member_id)
        group.check_epoch(member, request.member_epoch, owned)
        return member
    holder = group.static_member(instance_id)
    if holder is None:
        if (former_id := group.static_members.get(instance_id)) is not None:
            # It took another instance id and left, and Kafka does not forget the first one.
            raise not_a_member(former_id, group.group_id)
        return group.members.get(member_id) or Member(member_id)
    group.check_released(holder, member_id)
    return change.take_place(holder, member_id)


def changes_assignor(group: ConsumerGroup, member: Member, updated: Member) -> bool:
    """Return True if the group prefers another assignor after this change of a member, and that makes a new epoch."""
    if not group.shard.rules.assignor_change_rebalances:
        return False
    names = Counter(each.server_assignor for each in group.members.values())
    names[member.server_assignor] -= 1
    names[updated.server_assignor] += 1
    return group.shard.assignors.choose(names.elements()) != group.protocol


def assignment_of(partitions: Partitions) -> Assignment:
    return Assignment([TopicPartitions(topic, sorted(owned)) for topic, owned in partitions.items()])


def leave(shard: Shard, request: ConsumerGroupHeartbeatRequest, now: float) -> ConsumerGroupHeartbeatResponse:
    """Handle a heartbeat with member epoch -1 or -2. Raises `Refusal`: -1, 25, 69 or 82."""
    find(shard, request.group_id, ConsumerGroup).leave(request, now)
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)


# Fast path

_ENDED_PERIOD: Final = SteadyPeriod(float("-inf"))


def changes_no_metadata(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return True if the request of a member that has joined sets no subscription, assignor, rack or timeout."""
    return (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and request.rebalance_timeout_ms == -1
    )


def steady(group: Group | None, request: ConsumerGroupHeartbeatRequest, client: Client, now: float) -> int | None:
    """Serve a heartbeat that `changes_no_metadata` if its group and topics are unchanged too.

    Renews the session and returns the heartbeat interval in milliseconds; None, with nothing done, if the full path is
    needed.
    """
    if not isinstance(group, ConsumerGroup):
        return None
    member = group.members.get(request.member_id)
    epoch = request.member_epoch
    if (
        member is None
        or epoch != member.epoch
        or epoch != group.group_epoch
        or epoch != group.target_epoch
        or member.state is not MemberState.STABLE
        or member.client_id != client.client_id
        or member.client_host != client.client_host
        or (request.instance_id is not None and request.instance_id != member.instance_id)
        or member.classic is not None
        or group.metadata_stale
        or now >= patterns.due(group)
        or group.is_crowded
        or (
            group.subscriptions.views is not None
            and member.topic_regex
            and group.subscriptions.views.readers.get(member.member_id) != reader_of(client)
        )
    ):
        return None
    shard = group.shard
    if shard.batch > shard.outbox.required_batch:
        shard.outbox.touch(shard)
    if shard.group_settings(group.group_id):
        group.renew_session(member, now)
        return group.heartbeat_interval_ms
    # Most groups have no settings of their own: read the server's without a lookup by name.
    config = shard.config
    group.renew_session(member, now, config.group_consumer_session_timeout_ms / 1000)
    return config.group_consumer_heartbeat_interval_ms


class RepeatedHeartbeat:
    """Heartbeat that `changes_no_metadata` and that one client sends repeatedly."""

    __slots__ = ("_client", "_group", "_groups", "_request", "_session", "_steady_period")

    def __init__(self, groups: Mapping[str, Group], request: ConsumerGroupHeartbeatRequest, client: Client) -> None:
        self._groups = groups
        self._request = request
        self._client = client
        self._steady_period = _ENDED_PERIOD
        self._group: ConsumerGroup
        self._session: Timer

    def repeat(self, now: float) -> int | None:
        """Serve the heartbeat once more. Returns the interval or None, as `steady` does."""
        steady_period = self._steady_period
        if now >= steady_period.until or self._group.steady_period is not steady_period:
            return self._check_all(now)
        group = self._group
        shard = group.shard
        if shard.group_settings(group.group_id):
            return self._check_all(now)
        if shard.batch > shard.outbox.required_batch:
            shard.outbox.touch(shard)
        config = shard.config
        session = self._session
        if steady_period.now != now:
            steady_period.now, steady_period.deadline = now, now + config.group_consumer_session_timeout_ms / 1000
        deadline = steady_period.deadline
        if session.queued <= deadline:
            session.deadline = deadline
        else:
            shard.arm(session, deadline)
        return config.group_consumer_heartbeat_interval_ms

    def _check_all(self, now: float) -> int | None:
        """Check everything, as `steady` does; the result is valid in the steady period of the group."""
        self._steady_period = _ENDED_PERIOD
        group = self._groups.get(self._request.group_id)
        interval_ms = steady(group, self._request, self._client, now)
        if interval_ms is not None:
            assert isinstance(group, ConsumerGroup)
            if group.steady_period is None:
                group.steady_period = SteadyPeriod(patterns.due(group))
            self._group = group
            self._steady_period = group.steady_period
            self._session = group.sessions[self._request.member_id]
        return interval_ms
