"""Share groups as a kind: its rules by request, the rows of its table, and ShareGroupDescribe."""

from __future__ import annotations

from typing import Any, Final

from kafka_shim.apis.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kafka_shim.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_shim.apis.join_group import error as join_refused
from kafka_shim.apis.share_group_describe import Assignment, DescribedGroup, ShareGroupDescribeRequest, TopicPartitions
from kafka_shim.apis.share_group_describe import Member as DescribedMember
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.epochs.member import existing
from kafka_shim.groups.epochs.requests import describe_group
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import Refusal, Row, row
from kafka_shim.groups.shard import Kind, Shard
from kafka_shim.groups.share import offsets
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.heartbeat import check_request, heartbeat, situation_of, trigger_of
from kafka_shim.groups.share.records import CLASSES, Member
from kafka_shim.groups.share.states import ERRORS, RULES, GroupState


def _join(shard: Shard, request: JoinGroupRequest, *arguments: Any, **flags: Any) -> JoinGroupResponse:
    """Refuse a JoinGroup, even at an Empty group: INCONSISTENT_GROUP_PROTOCOL (23), without the member id."""
    return join_refused(JoinGroupRequest(group_id=request.group_id), ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _row_of(group: Group | None, request: Any, *, member_id_required: bool) -> Row | None:
    """Return a row of `states.RULES`; None for a heartbeat that `check_request` refuses."""
    if not isinstance(request, ShareGroupHeartbeatRequest):
        return None
    try:
        check_request(request)
    except Refusal:
        return None
    trigger, situation = trigger_of(request), situation_of(group, request)
    rule = RULES[trigger][situation]
    return row("a share group", trigger, RULES[trigger], situation, rule.value, int(ERRORS[rule]))


def describe(shard: Shard, group_id: str) -> DescribedGroup:
    """Describe the group, or return GROUP_ID_NOT_FOUND (69) if there is no share group of this id.

    Deleted topics are left out. After Kafka's `ShareGroup.asDescribedGroup`.
    """
    return describe_group(shard, group_id, ShareGroup, DescribedGroup, _member)


def _member(group: ShareGroup, member: Member) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=Assignment([TopicPartitions(*each) for each in existing(group.shard.topics, member.assigned)]),
    )


KIND: Final = Kind(
    name=ShareGroup.type,
    states=GroupState,
    make=ShareGroup,
    records=CLASSES.keys,
    rules={
        ShareGroupHeartbeatRequest: heartbeat,
        ShareGroupDescribeRequest: describe,
        AlterShareGroupOffsetsRequest: offsets.alter,
        DeleteShareGroupOffsetsRequest: offsets.delete,
        JoinGroupRequest: _join,
    },
    checks={ShareGroupHeartbeatRequest: check_request},
    row_of=_row_of,
)
