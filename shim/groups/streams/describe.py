"""StreamsGroupDescribe: a streams group with its topology, members, epochs and tasks.

Decides what is shown of them: the topology as it is configured, or as members sent it while topics are missing. After
Kafka's `StreamsGroup.asDescribedGroup`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_shim.apis.streams_group_describe import Assignment, DescribedGroup, Subtopology, Topology
from kafka_shim.apis.streams_group_describe import Member as DescribedMember
from kafka_shim.apis.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TopicInfo
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.group import GroupDescription, MemberDescription, Subscription
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.streams.events import shown
from kafka_shim.groups.streams.live import StreamsGroup
from kafka_shim.groups.streams.member import Member
from kafka_shim.groups.streams.sessions import session_timeout_ms
from kafka_shim.groups.streams.tasks import in_order
from kafka_shim.groups.streams.topics import InternalTopic
from kafka_shim.persistence import streams_records


def describe(shard: Shard, group_id: str) -> DescribedGroup:
    """The group, or GROUP_ID_NOT_FOUND (69) where there is none or it is of another kind."""
    shard.outbox.touch(shard)
    group = shard.groups.get(group_id)
    if not isinstance(group, StreamsGroup):
        sentence = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a streams group."
        return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=sentence, group_id=group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.members.values()],
    )


def _topology(group: StreamsGroup) -> Topology | None:
    configured = group.configured
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        return Topology(
            configured.epoch,
            [
                Subtopology(
                    subtopology_id,
                    list(each.source_topics),
                    list(each.repartition_sinks),
                    [_configured(topic) for topic in each.changelogs],
                    [_configured(topic) for topic in each.repartition_sources],
                )
                for subtopology_id, each in configured.subtopologies.items()
            ],
        )
    if group.topology is None:
        return None
    return Topology(
        group.topology.epoch,
        [
            Subtopology(
                subtopology_id,
                sorted(each.source_topics),
                sorted(each.repartition_sink_topics),
                _sent(each.state_changelog_topics),
                _sent(each.repartition_source_topics),
            )
            for subtopology_id, each in sorted(group.topology.subtopologies.items())
        ],
    )


def _configured(topic: InternalTopic) -> TopicInfo:
    configs = [KeyValue(*each) for each in topic.configs]
    return TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def _sent(topics: Iterable[streams_records.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            [KeyValue(config.key, config.value) for config in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(group: StreamsGroup, member: Member) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.user_endpoint is None else Endpoint(*member.user_endpoint),
        client_tags=[KeyValue(*tag) for tag in member.client_tags],
        assignment=Assignment(*map(_task_ids, member.assigned)),
        target_assignment=Assignment(*map(_task_ids, group.target_of(member.member_id))),
    )


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(*each) for each in in_order(tasks)]


def description(group: StreamsGroup) -> GroupDescription:
    """The group for people and tests: what it reads are the topics of its topology, and its tasks stand for
    partitions, by the ids of subtopologies."""
    topics = [] if group.topology is None else sorted(group.topology.by_source)
    return GroupDescription(
        type=group.type,
        group_id=group.group_id,
        state=group.state.value,
        protocol_type="streams",
        protocol=group.protocol,
        generation=group.group_epoch,
        leader=None,
        cause=None if group.cause is None else group.cause.value,
        trigger=group.trigger,
        members=[
            MemberDescription(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=session_timeout_ms(group),
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                protocols=[],
                parked=None,
                subscription=Subscription(topics=topics, generation=member.epoch, rack=member.rack_id),
                assignment=shown(member.assigned.active)
                | {f"{subtopology} standby": each for subtopology, each in in_order(member.assigned.standby)},
                has_assignment=member.is_reconciled_to(group.target_epoch),
            )
            for member in group.members.values()
        ],
    )
