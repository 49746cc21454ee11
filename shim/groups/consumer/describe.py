"""ConsumerGroupDescribe: a consumer group with its members, epochs and assignments.

Decides what is shown of them: topics that are gone are left out. After Kafka's `ConsumerGroup.asDescribedGroup`.
"""

from __future__ import annotations

from kafka_shim.apis.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    TopicPartitions,
)
from kafka_shim.apis.consumer_group_describe import Member as DescribedMember
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.consumer import events
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.sessions import session_timeout
from kafka_shim.groups.group import GroupDescription, MemberDescription, Subscription
from kafka_shim.groups.shard import Shard


def describe(shard: Shard, group_id: str) -> DescribedGroup:
    """The group, or GROUP_ID_NOT_FOUND (69) where there is none or it is of another kind."""
    shard.outbox.touch(shard)
    group = shard.groups.get(group_id)
    if group is None:
        return missing(group_id, f"Group {group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        return missing(group_id, f"Group {group_id} is not a consumer group.")
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.protocol,
        members=[_member(group, member) for member in group.members.values()],
    )


def missing(group_id: str, message: str) -> DescribedGroup:
    return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message, group_id=group_id)


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
        assignment=_assignment(group, member.assigned),
        target_assignment=_assignment(group, group.targets.get(member.member_id, NO_PARTITIONS)),
        member_type=1 if member.classic is None else 0,
    )


def _assignment(group: ConsumerGroup, partitions: Partitions) -> Assignment:
    topics = group.shard.topics
    return Assignment(
        [
            TopicPartitions(topic_id, name, sorted(owned))
            for topic_id, owned in partitions.items()
            if (name := topics.topic_name(topic_id)) is not None
        ]
    )


def description(group: ConsumerGroup) -> GroupDescription:
    """The group for people and tests."""
    return GroupDescription(
        type=group.type,
        group_id=group.group_id,
        state=group.state.value,
        protocol_type="consumer",
        protocol=group.protocol,
        generation=group.group_epoch,
        leader=group.leader,
        cause=None if group.cause is None else group.cause.value,
        trigger=group.trigger,
        members=[
            MemberDescription(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=round(session_timeout(group, member) * 1000),
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                protocols=[] if member.server_assignor is None else [member.server_assignor],
                parked=None,
                subscription=Subscription(
                    topics=sorted(member.topic_names),
                    regex=member.regex,
                    generation=member.epoch,
                    rack=member.rack_id,
                ),
                assignment=events.named(group, member.assigned),
                has_assignment=member.is_reconciled_to(group.target_epoch),
            )
            for member in group.members.values()
        ],
    )
