"""Consumer groups as a kind: its rules by request, the rows of its table, and ConsumerGroupDescribe."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kafka_shim.apis.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    DescribedGroup,
    TopicPartitions,
)
from kafka_shim.apis.consumer_group_describe import Member as DescribedMember
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest
from kafka_shim.apis.leave_group import LeaveGroupRequest
from kafka_shim.apis.sync_group import SyncGroupRequest
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.consumer.group import ConsumerGroup, ConsumerRules
from kafka_shim.groups.consumer.heartbeat import check_request, heartbeat
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.migration import members
from kafka_shim.groups.consumer.migration.conversion import downgrade_without
from kafka_shim.groups.consumer.patterns import resolve
from kafka_shim.groups.consumer.records import CLASSES
from kafka_shim.groups.consumer.states import STEPS, GroupState, MemberState, TimerKind
from kafka_shim.groups.epochs.member import existing
from kafka_shim.groups.epochs.requests import describe_group, row_of_heartbeat
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import Row, steps_row
from kafka_shim.groups.shard import Kind, Shard

RULES: Final = ConsumerRules(downgrade_without, members.heartbeat, {TimerKind.REGEX: resolve})
_ROWS: Final = {state: steps_row("a member of a consumer group", state, STEPS) for state in MemberState}


def heartbeat_row(group: Group | None, request: Any) -> Row | None:
    """Return the row of `states.STEPS` for the sender of a heartbeat."""
    if not isinstance(group, ConsumerGroup | None):
        return None
    member = None
    if group is not None:
        member = group.members.get(request.member_id) or group.static_member(request.instance_id)
    return row_of_heartbeat(member, request.member_epoch, _ROWS, MemberState.STABLE)


def _row_of(group: Group | None, request: Any, *, member_id_required: bool) -> Row | None:
    return heartbeat_row(group, request) if isinstance(request, ConsumerGroupHeartbeatRequest) else None


def describe(shard: Shard, group_id: str) -> DescribedGroup:
    """Describe the group, or return GROUP_ID_NOT_FOUND (69) if there is no consumer group of this id.

    Deleted topics are left out. After Kafka's `ConsumerGroup.asDescribedGroup`.
    """
    return describe_group(shard, group_id, ConsumerGroup, DescribedGroup, _member)


def _member(group: ConsumerGroup, member: Member) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(group, _owned(group, member)),
        target_assignment=_assignment(group, group.targets.get(member.member_id, NO_PARTITIONS)),
        member_type=1 if member.classic is None else 0,
    )


def _owned(group: ConsumerGroup, member: Member) -> Partitions:
    """Return the partitions of the member; from Kafka 4.3 on with those that it has to revoke."""
    if not member.pending_revocation or not group.shard.rules.described_revocations:
        return member.assigned
    owned = dict(member.assigned)
    for topic, numbers in member.pending_revocation.items():
        owned[topic] = owned.get(topic, frozenset()) | numbers
    return owned


def _assignment(group: ConsumerGroup, partitions: Partitions) -> Assignment:
    return Assignment([TopicPartitions(*each) for each in existing(group.shard.topics, partitions)])


KIND: Final = Kind(
    name=ConsumerGroup.type,
    states=GroupState,
    make=partial(ConsumerGroup, rules=RULES),
    records=CLASSES.keys,
    rules={
        ConsumerGroupHeartbeatRequest: heartbeat,
        ConsumerGroupDescribeRequest: describe,
        JoinGroupRequest: members.join_rule,
        SyncGroupRequest: members.sync_rule,
        LeaveGroupRequest: members.leave_rule,
    },
    checks={ConsumerGroupHeartbeatRequest: check_request},
    row_of=_row_of,
)
