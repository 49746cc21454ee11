"""ShareGroupDescribe: a share group with its members, epochs and assignments.

Decides what is shown of them: topics that are gone are left out. After Kafka's `ShareGroup.asDescribedGroup`.
"""

from __future__ import annotations

from kafka_shim.apis.share_group_describe import Assignment, DescribedGroup, TopicPartitions
from kafka_shim.apis.share_group_describe import Member as DescribedMember
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.group import GroupDescription, MemberDescription, Subscription
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.share import events
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.member import Member


def describe(shard: Shard, group_id: str) -> DescribedGroup:
    """The group, or GROUP_ID_NOT_FOUND (69) where there is none or it is of another kind."""
    shard.outbox.touch(shard)
    group = shard.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        why = "not found." if group is None else "is not a share group."
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=f"Group {group_id} {why}", group_id=group_id
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.protocol,
        members=[_member(group, member) for member in group.members.values()],
    )


def _member(group: ShareGroup, member: Member) -> DescribedMember:
    topics = group.shard.topics
    return DescribedMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=Assignment(
            [
                TopicPartitions(topic_id, name, sorted(numbers))
                for topic_id, numbers in member.assigned.items()
                if (name := topics.topic_name(topic_id)) is not None
            ]
        ),
    )


def description(group: ShareGroup) -> GroupDescription:
    """The group for people and tests."""
    return GroupDescription(
        type=group.type,
        group_id=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        generation=group.group_epoch,
        leader=None,
        cause=None if group.cause is None else group.cause.value,
        trigger=group.trigger,
        members=[
            MemberDescription(
                member_id=member.member_id,
                group_instance_id=None,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=group.session_timeout_ms,
                rebalance_timeout_ms=-1,
                protocols=[],
                parked=None,
                subscription=Subscription(
                    topics=sorted(member.topic_names), generation=member.epoch, rack=member.rack_id
                ),
                assignment=events.named(group, member.assigned),
                has_assignment=member.epoch == group.target_epoch,
            )
            for member in group.members.values()
        ],
    )
