"""StreamsGroupHeartbeat: a member joins with its topology, reports its tasks, and receives those to run.

This module checks the request, builds the answer, and lets members leave; `change.py` decides on the changes. The
result has the missing internal topics: the caller creates them. After Kafka's `streamsGroupHeartbeat` and
`throwIfStreamsGroupHeartbeatRequestIsInvalid` of 4.2 (semantics 4.12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafka_shim.apis import streams_group_heartbeat as api
from kafka_shim.apis.releases import Rules
from kafka_shim.apis.streams_group_heartbeat import (
    StatusCode,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.epochs.member import JOIN, LEAVE, LEAVE_STATIC
from kafka_shim.groups.epochs.requests import check_not_blank, find
from kafka_shim.groups.interface import Client, Refusal
from kafka_shim.groups.shard import NodeParts, Shard
from kafka_shim.groups.streams import descriptions
from kafka_shim.groups.streams.change import Change
from kafka_shim.groups.streams.group import StreamsGroup
from kafka_shim.groups.streams.records import Member, in_order
from kafka_shim.groups.streams.topology import InternalTopic


class Answer(NamedTuple):
    """The answer to a heartbeat, and the internal topics to create."""

    response: StreamsGroupHeartbeatResponse
    missing_topics: tuple[InternalTopic, ...] = ()


def refused(request: StreamsGroupHeartbeatRequest, code: int, message: str | None = None) -> Answer:
    return Answer(StreamsGroupHeartbeatResponse(error_code=code, error_message=message))


def check_request(request: StreamsGroupHeartbeatRequest, parts: NodeParts) -> None:
    """Check the request alone, before its group is looked up. Raises `Refusal`: INVALID_REQUEST (42) or
    STREAMS_INVALID_TOPOLOGY (130).
    """
    _check_supported(request, parts.rules)
    check_not_blank("MemberId", request.member_id)
    check_not_blank("GroupId", request.group_id)
    check_not_blank("InstanceId", request.instance_id)
    check_not_blank("RackId", request.rack_id)
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == JOIN:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        for owned, name in zip(tasks, ("ActiveTasks", "StandbyTasks", "WarmupTasks"), strict=True):
            if owned is None or owned:
                raise _invalid(f"{name} must be empty when (re-)joining.")
        if request.topology is None:
            raise _invalid("Topology must be non-null when (re-)joining.")
        _check_changelogs(request.topology)
    elif request.member_epoch == LEAVE_STATIC:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < LEAVE_STATIC:
        raise _invalid(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    if any(owned is not None for owned in tasks) and any(owned is None for owned in tasks):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOIN and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_supported(request: StreamsGroupHeartbeatRequest, rules: Rules) -> None:
    """Refuse features that the release does not support."""
    is_static = request.instance_id is not None and not rules.streams_static_members
    has_offsets = not rules.task_offsets
    unsupported: Sequence[tuple[object, str]] = (
        (is_static, "Static membership is not yet supported."),
        (has_offsets and request.task_offsets is not None, "TaskOffsets are not supported yet."),
        (has_offsets and request.task_end_offsets is not None, "TaskEndOffsets are not supported yet."),
        (has_offsets and request.warmup_tasks, "WarmupTasks are not supported yet."),
        (
            request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies),
            "Regular expressions for source topics are not supported yet.",
        ),
    )
    for is_used, sentence in unsupported:
        if is_used:
            raise _invalid(sentence)


def _check_changelogs(topology: api.Topology) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise Refusal(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to"
                    f" {topic.partitions}.",
                )


def _invalid(sentence: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, sentence)


def heartbeat(
    shard: Shard, request: StreamsGroupHeartbeatRequest, client: Client, now: float, *, describes: bool = False
) -> Answer:
    """Answer a heartbeat that has passed `check_request`. `describes`: v1+, answers may ask for a description of the
    topology (KIP-1331).

    Errors: UNKNOWN_SERVER_ERROR (-1), UNKNOWN_MEMBER_ID (25), INVALID_REQUEST (42), GROUP_ID_NOT_FOUND (69),
    GROUP_MAX_SIZE_REACHED (81), FENCED_INSTANCE_ID (82), FENCED_MEMBER_EPOCH (110), UNRELEASED_INSTANCE_ID (111),
    STREAMS_INVALID_TOPOLOGY (130).
    """
    try:
        if request.member_epoch in (LEAVE, LEAVE_STATIC):
            return Answer(_leave(shard, request, now))
        answer = _answer(Change(shard, request, client, now))
        if describes:
            statuses = {each.status_code for each in answer.response.status or ()}
            required = descriptions.is_required(shard, request.group_id, statuses, now)
            answer.response.topology_description_required = required
        return answer
    except Refusal as refusal:
        shard.outbox.touch(shard)
        message = None if refusal.code is ErrorCode.UNKNOWN_SERVER_ERROR else refusal.message
        return refused(request, refusal.code, message)


def _leave(shard: Shard, request: StreamsGroupHeartbeatRequest, now: float) -> StreamsGroupHeartbeatResponse:
    group = find(shard, request.group_id, StreamsGroup)
    if request.shutdown_application and group.shutdown_by is None:
        group.shutdown_by = request.member_id
    group.leave(request, now)
    return StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch, status=[])


def _answer(change: Change) -> Answer:
    """Apply and write the changes of a heartbeat. Return its answer."""
    change.apply()
    group, request, rules = change.group, change.request, change.shard.rules
    configured, reconciled = change.configured, change.reconciled
    if request.shutdown_application and group.shutdown_by is None:
        group.shutdown_by = request.member_id
    was_there = group.group_id in change.shard.groups
    shows = change.joins or reconciled.assigned != change.member.assigned
    if _moves_endpoint(change.member, reconciled, shows=shows, rules=rules):
        group.endpoint_epoch += 1
    if configured.problem is not None:
        change.tell(*configured.problem)
    if group.shutdown_by is not None:
        change.tell(
            StatusCode.SHUTDOWN_APPLICATION,
            f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for the"
            " entire application.",
        )
    if rules.client_tags_required and (tags := group.missing_tags(reconciled)):
        change.tell(
            StatusCode.MISSING_CLIENT_TAGS,
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(tags)}]. Configure them"
            " via 'client.tag.<tagKey>' in your Streams config.",
        )
    response = StreamsGroupHeartbeatResponse(
        member_id=reconciled.member_id,
        member_epoch=reconciled.epoch,
        heartbeat_interval_ms=group.heartbeat_interval_ms,
        status=change.statuses,
        endpoint_information_epoch=group.endpoint_epoch if was_there else 0,
    )
    if rules.task_offsets:
        response.task_offset_interval_ms = group.task_offset_interval_ms
        response.acceptable_recovery_lag = group.acceptable_recovery_lag
    if shows:
        response.active_tasks = _task_ids(reconciled.assigned.active)
        response.standby_tasks = _task_ids(reconciled.assigned.standby)
        response.warmup_tasks = _task_ids(reconciled.assigned.warmup)
    if group.endpoint_epoch != request.endpoint_information_epoch:
        response.partitions_by_user_endpoint = group.endpoints(reconciled, configured, change.replaced_member)
    change.write(change.updated, reconciled)
    return Answer(response, configured.missing)


def _moves_endpoint(before: Member, after: Member, *, shows: bool, rules: Rules) -> bool:
    """Return True if the members have to learn of endpoints or of their tasks again."""
    if not rules.endpoint_may_go:
        return shows and after.user_endpoint is not None
    tasks_changed = after.assigned != before.assigned
    return after.user_endpoint != before.user_endpoint or (tasks_changed and after.user_endpoint is not None)


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(*each) for each in in_order(tasks)]
