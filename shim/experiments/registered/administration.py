"""Creation, deletion, rewind and description of registered groups, by request.

The server adds the address of the controller.
"""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.experiments.registered.group import RegisteredGroup
from kafka_shim.experiments.registered.messages import (
    ControllerCreateGroupRequest,
    ControllerCreateGroupResponse,
    GroupInfo,
    RewindConsumerRequest,
    RewindConsumerResponse,
)
from kafka_shim.experiments.registered.records import RegisteredGroupKey, RegisteredGroupValue
from kafka_shim.experiments.registered.rounds import rewind as begin_rewind
from kafka_shim.groups import events
from kafka_shim.groups.offsets import delete_all
from kafka_shim.groups.shard import Shard


def create(shard: Shard, request: ControllerCreateGroupRequest) -> ControllerCreateGroupResponse:
    """Create a group. Errors: INVALID_SESSION_TIMEOUT (26), INVALID_REQUEST (42) without topics, DUPLICATE_RESOURCE
    (92).
    """
    shard.outbox.touch(shard)
    group_id = request.group_id
    least, most = shard.config.group_min_session_timeout_ms, shard.config.group_max_session_timeout_ms
    present = shard.groups.get(group_id)
    if not least <= request.session_timeout <= most:
        return ControllerCreateGroupResponse(group_id, ErrorCode.INVALID_SESSION_TIMEOUT)
    if not request.topics:
        return ControllerCreateGroupResponse(group_id, ErrorCode.INVALID_REQUEST)
    if present is not None and not present.is_simple:
        return ControllerCreateGroupResponse(group_id, ErrorCode.DUPLICATE_RESOURCE)
    topics = list(dict.fromkeys(request.topics))
    value = RegisteredGroupValue(0, request.session_timeout, request.ephemeral, topics)
    shard.write(RegisteredGroupKey(group_id), value)
    if shard.outbox.listening:
        events.group(shard.outbox, shard.groups[group_id], "created")
    return ControllerCreateGroupResponse(group_id)


def delete(shard: Shard, group_id: str) -> ErrorCode:
    """Delete a group. Errors: NON_EMPTY_GROUP (68), GROUP_ID_NOT_FOUND (69)."""
    shard.outbox.touch(shard)
    group = shard.groups.get(group_id)
    if not isinstance(group, RegisteredGroup):
        return ErrorCode.GROUP_ID_NOT_FOUND
    if error := group.check_delete():
        return error
    if shard.outbox.listening:
        events.group(shard.outbox, group, "deleted")
    delete_all(shard, group_id)
    group.erase()
    return ErrorCode.NONE


def rewind(shard: Shard, request: RewindConsumerRequest, now: float) -> RewindConsumerResponse:
    """Set the offsets from which a group continues. Errors: OFFSET_OUT_OF_RANGE (1) for one below 0,
    UNKNOWN_TOPIC_OR_PARTITION (3) for a partition that the group does not read, GROUP_ID_NOT_FOUND (69).
    """
    shard.outbox.touch(shard)
    group = shard.groups.get(request.group_id)
    if not isinstance(group, RegisteredGroup):
        return RewindConsumerResponse(request.group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    for each in request.offsets:
        if each.topic not in group.topics or not 0 <= each.partition < shard.topics.partitions_of(each.topic):
            return RewindConsumerResponse(request.group_id, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if each.offset < 0:
            return RewindConsumerResponse(request.group_id, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    new = {(each.topic, each.partition): each.offset for each in request.offsets}
    if new:
        group.write(group.generation, group.members, group.rewinds | new)
        begin_rewind(group, now)
    return RewindConsumerResponse(request.group_id, request.offsets)


def info(shard: Shard, group_id: str) -> GroupInfo | ErrorCode:
    """Describe a group, without the address of its controller. Error: GROUP_ID_NOT_FOUND (69)."""
    shard.outbox.touch(shard)
    group = shard.groups.get(group_id)
    if not isinstance(group, RegisteredGroup):
        return ErrorCode.GROUP_ID_NOT_FOUND
    return GroupInfo(group_id, list(group.members), list(group.topics), session_timeout=group.session_timeout_ms)
