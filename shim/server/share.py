"""Handlers of the offsets of share groups (KIP-932), and of answers that wait for the leaders of partitions.

Source: Kafka 4.2, `KafkaApis`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kafka_shim.apis import alter_share_group_offsets as alter_api
from kafka_shim.apis import delete_share_group_offsets as delete_api
from kafka_shim.apis.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from kafka_shim.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
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
from kafka_shim.broker.share_states import Progress
from kafka_shim.groups.interface import PARKED, Parked
from kafka_shim.groups.share.offsets import initialized
from kafka_shim.groups.share_states import Place
from kafka_shim.server.exchange import Exchange

StateRequestT = TypeVar(
    "StateRequestT",
    InitializeShareGroupStateRequest,
    DeleteShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
)

_NO_ID = bytes(16)
_SILENT = "The leader of the partition did not answer."


def when_leaders_know(
    response: Message, call: Exchange, refuse: Callable[[Place], None] = lambda place: None
) -> Message | Parked:
    """Return `response` once the leaders of the partitions know the changed share states. `refuse(place)` sets the
    error of a partition if its leader, in another process, does not answer."""
    remote = call.broker.remote_share_states
    return response if remote is None else remote.settle(call, response, refuse)


def in_states(request: StateRequestT, call: Exchange, rule: Callable[[StateRequestT], Message]) -> Message | Parked:
    """Answer a request of another coordinator for share states.

    Look for changes first if a partition is unknown: the coordinator that sends the request may have seen a topic or a
    partition before this process did, and it sends no second request.
    """
    if not call.broker.share_states.knows(request) and call.broker.looks_first(call, call.arrived):
        return PARKED
    return rule(request)


def alter_share_group_offsets(request: AlterShareGroupOffsetsRequest, call: Exchange) -> Message | Parked:
    response: AlterShareGroupOffsetsResponse = call.groups.ask(request, alter_api.error)

    def refuse(place: Place) -> None:
        for topic in response.responses:
            for each in topic.partitions:
                if (topic.topic_id, each.partition_index) == (place.topic_id, place.partition):
                    each.error_code, each.error_message = ErrorCode.COORDINATOR_NOT_AVAILABLE, _SILENT

    return when_leaders_know(response, call, refuse)


def delete_share_group_offsets(request: DeleteShareGroupOffsetsRequest, call: Exchange) -> Message | Parked:
    response: DeleteShareGroupOffsetsResponse = call.groups.ask(request, delete_api.error)

    def refuse(place: Place) -> None:
        for topic in response.responses:
            if topic.topic_id == place.topic_id:
                topic.error_code, topic.error_message = ErrorCode.COORDINATOR_NOT_AVAILABLE, _SILENT

    return when_leaders_know(response, call, refuse)


def describe_share_group_offsets(request: DescribeShareGroupOffsetsRequest, call: Exchange) -> Message | Parked:
    """Return the progress of a group; -1 for an unknown group, topic or partition."""
    places: dict[Place, Callable[[Progress, int], None]] = {}
    response = DescribeShareGroupOffsetsResponse(groups=[_progress(group, call, places) for group in request.groups])
    remote = call.broker.remote_share_states
    return response if remote is None else remote.describe(call, response, places)


def _progress(
    group: RequestGroup, call: Exchange, places: dict[Place, Callable[[Progress, int], None]]
) -> ResponseGroup:
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
                answer.partitions.append(ResponsePartition(index, -1, 0, -1))
                places[place] = partial(_say, answer.partitions[-1])
                continue
            offset, lag = call.broker.share.progress(place, partition)
            answer.partitions.append(ResponsePartition(index, offset, 0, lag))
        answered.append(answer)
    return ResponseGroup(group.group_id, answered)


def _say(answer: ResponsePartition, progress: Progress, end: int) -> None:
    answer.start_offset = progress.start_offset
    answer.lag = progress.lag(end)
