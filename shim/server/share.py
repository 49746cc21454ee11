"""Handlers of share groups (KIP-932): what asks both the groups and the logs, and what is refused where they are off.

Decides nothing else. Source: Kafka 4.2, `KafkaApis`.
"""

from __future__ import annotations

from kafka_shim.apis import alter_share_group_offsets as alter_api
from kafka_shim.apis import delete_share_group_offsets as delete_api
from kafka_shim.apis import describe_share_group_offsets as offsets_api
from kafka_shim.apis import share_acknowledge as acknowledge_api
from kafka_shim.apis import share_fetch as fetch_api
from kafka_shim.apis import share_group_describe as describe_api
from kafka_shim.apis import share_group_heartbeat as heartbeat_api
from kafka_shim.apis.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from kafka_shim.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from kafka_shim.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    RequestGroup,
    RequestTopic,
    ResponseGroup,
    ResponsePartition,
    ResponseTopic,
)
from kafka_shim.apis.profiles import GROUP_OPERATIONS
from kafka_shim.apis.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafka_shim.apis.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafka_shim.apis.share_group_describe import DescribedGroup, ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.interface import Parked
from kafka_shim.groups.share.persister import Place
from kafka_shim.server.call import Call

_FEATURE = "share.version"
_NO_ID = bytes(16)


def share_group_heartbeat(request: ShareGroupHeartbeatRequest, call: Call) -> ShareGroupHeartbeatResponse:
    if not call.broker.has_feature(_FEATURE):
        return heartbeat_api.error(request, ErrorCode.UNSUPPORTED_VERSION)
    return call.groups.share_heartbeat(request, call.client, call.arrived)


def share_group_describe(request: ShareGroupDescribeRequest, call: Call) -> ShareGroupDescribeResponse:
    """An empty group id is INVALID_GROUP_ID (24)."""
    if not call.broker.has_feature(_FEATURE):
        return describe_api.error(request, ErrorCode.UNSUPPORTED_VERSION)
    nameless = [DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID) for each in request.group_ids if not each]
    groups = call.groups.describe_share_groups([each for each in request.group_ids if each])
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS[call.broker.release]
    return ShareGroupDescribeResponse(groups=nameless + groups)


def share_fetch(request: ShareFetchRequest, call: Call) -> ShareFetchResponse | Parked:
    if not call.broker.has_feature(_FEATURE):
        return fetch_api.error(request, ErrorCode.UNSUPPORTED_VERSION)
    return call.broker.share_fetch(request, call, call.session, call.arrived)


def share_acknowledge(request: ShareAcknowledgeRequest, call: Call) -> ShareAcknowledgeResponse:
    if not call.broker.has_feature(_FEATURE):
        return acknowledge_api.error(request, ErrorCode.UNSUPPORTED_VERSION)
    return call.broker.share_acknowledge(request, call.arrived)


def alter_share_group_offsets(request: AlterShareGroupOffsetsRequest, call: Call) -> AlterShareGroupOffsetsResponse:
    if not call.broker.has_feature(_FEATURE):
        return alter_api.error(request, ErrorCode.UNSUPPORTED_VERSION)
    return call.groups.alter_share_offsets(request)


def delete_share_group_offsets(request: DeleteShareGroupOffsetsRequest, call: Call) -> DeleteShareGroupOffsetsResponse:
    if not call.broker.has_feature(_FEATURE):
        return delete_api.error(request, ErrorCode.UNSUPPORTED_VERSION)
    return call.groups.delete_share_offsets(request)


def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, call: Call
) -> DescribeShareGroupOffsetsResponse:
    """Whether a group, topic or partition exists does not matter: what nobody knows of is -1."""
    if not call.broker.has_feature(_FEATURE):
        return offsets_api.error(request, ErrorCode.UNSUPPORTED_VERSION)
    return DescribeShareGroupOffsetsResponse(groups=[_progress(group, call) for group in request.groups])


def _progress(group: RequestGroup, call: Call) -> ResponseGroup:
    shared = call.groups.shared_topics(group.group_id)
    if isinstance(shared, ErrorCode):
        return ResponseGroup(group.group_id, error_code=shared)
    topics = group.topics
    if topics is None:
        topics = [RequestTopic(topic.name, sorted(topic.partitions)) for topic in shared.values()]
    answered = []
    for each in topics:
        topic = call.broker.topics.named(each.topic_name)
        answer = ResponseTopic(each.topic_name, _NO_ID if topic is None else topic.id)
        for index in each.partitions:
            partition = None if topic is None else topic.partition(index)
            offset, lag = call.broker.share.progress(Place(group.group_id, answer.topic_id, index), partition)
            answer.partitions.append(ResponsePartition(index, offset, 0, lag))
        answered.append(answer)
    return ResponseGroup(group.group_id, answered)
