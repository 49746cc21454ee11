"""Handlers of the offsets of share groups (KIP-932), and of answers that wait for the leaders of partitions.

Source: Kafka 4.2, `KafkaApis`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kafka_shim.apis.delete_share_group_state import DeleteShareGroupStateRequest
from kafka_shim.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    RequestGroup,
    RequestTopic,
    ResponseGroup,
    ResponsePartition,
    ResponseTopic,
)
from kafka_shim.apis.initialize_share_group_state import InitializeShareGroupStateRequest
from kafka_shim.apis.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.interface import PARKED, Parked
from kafka_shim.groups.share.offsets import initialized
from kafka_shim.groups.share.persister import Place
from kafka_shim.server.exchange import Exchange

StateRequestT = TypeVar(
    "StateRequestT",
    InitializeShareGroupStateRequest,
    DeleteShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
)

_NO_ID = bytes(16)


def when_leaders_know(response: Message, call: Exchange) -> Message | Parked:
    """Return `response` once the leaders of the partitions, some in other processes, know the changed share states."""
    remote = call.broker.remote_share_states
    return response if remote is None else remote.settle(call, response)


def in_states(request: StateRequestT, call: Exchange, rule: Callable[[StateRequestT], Message]) -> Message | Parked:
    """Answer a request of another coordinator for share states.

    Look for changes first if a partition is unknown: the coordinator that sends the request may have seen a topic or a
    partition before this process did, and it sends no second request.
    """
    if not call.broker.share_states.knows(request) and call.broker.looks_first(call, call.arrived):
        return PARKED
    return rule(request)


def describe_share_group_offsets(request: DescribeShareGroupOffsetsRequest, call: Exchange) -> Message | Parked:
    """Return the progress of a group; -1 for an unknown group, topic or partition."""
    elsewhere: dict[Place, ResponsePartition] = {}
    response = DescribeShareGroupOffsetsResponse(groups=[_progress(group, call, elsewhere) for group in request.groups])
    remote = call.broker.remote_share_states
    return response if remote is None else remote.describe(call, response, elsewhere)


def weight_of_progress(call: Exchange, groups: Sequence[RequestGroup]) -> int:
    """Return the number of partitions in the answer for some groups."""
    weight = 0
    for group in groups:
        if group.topics is not None:
            weight += sum(len(each.partitions) for each in group.topics)
        elif not isinstance(shard := call.groups.shard_of(group.group_id), ErrorCode):
            weight += sum(len(topic.partitions) for topic in initialized(shard, group.group_id).values())
    return weight


def _progress(group: RequestGroup, call: Exchange, elsewhere: dict[Place, ResponsePartition]) -> ResponseGroup:
    """Return the progress of a group, and add partitions that other processes lead to `elsewhere`."""
    shard = call.groups.shard_of(group.group_id)
    if isinstance(shard, ErrorCode):
        return ResponseGroup(group.group_id, error_code=shard)
    shared = initialized(shard, group.group_id)
    remote = call.broker.remote_share_states
    topics = group.topics
    if topics is None:
        topics = [RequestTopic(topic.name, sorted(topic.partitions)) for topic in shared.values()]
    answered = []
    for each in topics:
        topic = call.broker.topics.named(each.topic_name)
        answer = ResponseTopic(each.topic_name, _NO_ID if topic is None else topic.id)
        for index in each.partitions:
            partition = None if topic is None else topic.partition(index)
            place = Place(group.group_id, answer.topic_id, index)
            if remote is not None and remote.leads(place):
                elsewhere[place] = ResponsePartition(index, -1, 0, -1)
                answer.partitions.append(elsewhere[place])
                continue
            offset, lag = call.broker.share.progress(place, partition)
            answer.partitions.append(ResponsePartition(index, offset, 0, lag))
        answered.append(answer)
    return ResponseGroup(group.group_id, answered)
