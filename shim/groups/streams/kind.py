"""Streams groups as a kind: its rules by request, the rows of its table, and StreamsGroupDescribe.

A described topology is the configured one or, while topics are missing, the one that members sent. After Kafka's
`StreamsGroup.asDescribedGroup`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafka_shim.apis.streams_group_describe import (
    Assignment,
    DescribedGroup,
    StreamsGroupDescribeRequest,
    Subtopology,
    Topology,
)
from kafka_shim.apis.streams_group_describe import Member as DescribedMember
from kafka_shim.apis.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    TaskIds,
    TaskOffset,
    TopicInfo,
)
from kafka_shim.apis.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
)
from kafka_shim.groups.epochs.requests import describe_group, row_of_heartbeat
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import Row, steps_row
from kafka_shim.groups.shard import Kind, Shard
from kafka_shim.groups.streams import descriptions
from kafka_shim.groups.streams.group import StreamsGroup
from kafka_shim.groups.streams.heartbeat import check_request, heartbeat
from kafka_shim.groups.streams.records import CLASSES, NO_OFFSETS, Member, in_order
from kafka_shim.groups.streams.states import STEPS, GroupState, MemberState
from kafka_shim.groups.streams.topology import InternalTopic, topics_in_message
from kafka_shim.persistence import streams_records

_ROWS: Final = {state: steps_row("a member of a streams group", state, STEPS) for state in MemberState}


def _row_of(group: Group | None, request: Any, *, member_id_required: bool) -> Row | None:
    """Return the row of `states.STEPS` for the member of a heartbeat."""
    if not isinstance(group, StreamsGroup | None) or not isinstance(request, StreamsGroupHeartbeatRequest):
        return None
    member = None if group is None else group.members.get(request.member_id)
    return row_of_heartbeat(member, request.member_epoch, _ROWS, MemberState.STABLE)


def describe(shard: Shard, group_id: str) -> DescribedGroup:
    """Describe a group; GROUP_ID_NOT_FOUND (69) if it does not exist or is of another kind."""
    return describe_group(shard, group_id, StreamsGroup, DescribedGroup, _member, _own_fields)


def _own_fields(group: StreamsGroup) -> dict[str, object]:
    return {"topology": _topology(group), "topology_description": _description(group)}


def _description(group: StreamsGroup) -> TopologyDescription | None:
    """Return the topology description, if it is here. The server knows whether it was requested."""
    if group.topology is not None and group.description is not None:
        epoch, description = group.description
        if epoch == group.topology.epoch == group.description_epochs[0]:
            return description
    return None


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
    return topics_in_message(sorted(topics, key=lambda topic: topic.name))


def _member(group: StreamsGroup, member: Member) -> DescribedMember:
    offsets, end_offsets = group.task_offsets.get(member.member_id, NO_OFFSETS)
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
        task_offsets=_offsets(offsets),
        task_end_offsets=_offsets(end_offsets),
        assignment=Assignment(*map(_task_ids, member.assigned)),
        target_assignment=Assignment(*map(_task_ids, group.target_of(member.member_id))),
    )


def _offsets(by_task: Mapping[tuple[str, int], int]) -> list[TaskOffset]:
    return [TaskOffset(*task, offset) for task, offset in sorted(by_task.items())]


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(*each) for each in in_order(tasks)]


KIND: Final = Kind(
    name=StreamsGroup.type,
    states=GroupState,
    make=StreamsGroup,
    records=CLASSES.keys,
    rules={
        StreamsGroupHeartbeatRequest: heartbeat,
        StreamsGroupDescribeRequest: describe,
        StreamsGroupTopologyDescriptionUpdateRequest: descriptions.update,
    },
    checks={
        StreamsGroupHeartbeatRequest: check_request,
        StreamsGroupTopologyDescriptionUpdateRequest: descriptions.check_request,
    },
    row_of=_row_of,
)
