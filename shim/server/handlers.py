"""What a request asks of more than one rule, or only of a part of it.

Decides which topics and partitions of a request exist, and makes a view of the request that has these alone: the
request itself never changes. What does not exist is refused here, and its answers stand before those of the rule, as
Kafka has them. Does not know sockets or bytes. Which request goes to which handler is in `requests.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kafka_shim.apis import consumer_group_describe as consumer_group_describe_api
from kafka_shim.apis import consumer_group_heartbeat as consumer_group_heartbeat_api
from kafka_shim.apis import metadata as metadata_api
from kafka_shim.apis import streams_group_describe as streams_group_describe_api
from kafka_shim.apis import streams_group_heartbeat as streams_group_heartbeat_api
from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_shim.apis.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_shim.apis.find_coordinator import (
    GROUP,
    SHARE,
    TRANSACTION,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    is_share_key,
    no_coordinator,
)
from kafka_shim.apis.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka_shim.apis.merge import merge
from kafka_shim.apis.metadata import MetadataRequest, MetadataResponse
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_shim.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafka_shim.apis.offset_fetch import (
    NO_TOPIC_ID,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kafka_shim.apis.profiles import GROUP_OPERATIONS
from kafka_shim.apis.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from kafka_shim.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafka_shim.apis.txn_offset_commit import complete as with_refused
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.broker import Broker
from kafka_shim.groups.interface import Parked, TransactionSupportedOperation
from kafka_shim.groups.streams.checks import topics_of
from kafka_shim.groups.streams.states import StatusCode
from kafka_shim.server.call import Call

_UNKNOWN_TOPIC_ID: Final = int(ErrorCode.UNKNOWN_TOPIC_ID)
_UNKNOWN_TOPIC_OR_PARTITION: Final = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

_TIMESTAMPS_SINCE: Final = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""The version of ListOffsets that brought each timestamp with a meaning of its own."""


def name_topics(request: OffsetCommitRequest | OffsetFetchRequest, broker: Broker) -> None:
    """Give every topic that came by its id its name, empty for an id without a topic. A part of decoding."""
    topics: Iterable[Any] = request.topics or ()
    if isinstance(request, OffsetFetchRequest):
        topics = (topic for group in request.groups for topic in group.topics or ())
    for topic in topics:
        topic.name = broker.topic_name(topic.topic_id) or ""


# Groups


def sync_group(request: SyncGroupRequest, call: Call) -> SyncGroupResponse | Parked:
    """From version 5 on a request without protocol type or name is refused before anything else:
    INCONSISTENT_GROUP_PROTOCOL (23)."""
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return call.groups.sync(request, call, call.arrived)


def describe_groups(request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    groups = call.groups.describe(request.groups, call.arrived)
    if request.include_authorized_operations:
        for group in groups:
            # Before version 6 a group that does not exist is no error.
            if group.error_code == ErrorCode.NONE or (
                group.error_code == ErrorCode.GROUP_ID_NOT_FOUND and call.version < 6
            ):
                group.authorized_operations = GROUP_OPERATIONS[call.broker.release]
    return DescribeGroupsResponse(groups=groups)


def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, call: Call
) -> ConsumerGroupHeartbeatResponse | Parked:
    if not call.broker.has_feature("group.version"):
        return consumer_group_heartbeat_api.error(request, ErrorCode.UNSUPPORTED_VERSION)
    return call.groups.consumer_heartbeat(
        request, call.client, call.arrived, member_makes_id=call.version >= 1, exchange=call
    )


def consumer_group_describe(request: ConsumerGroupDescribeRequest, call: Call) -> ConsumerGroupDescribeResponse:
    if not call.broker.has_feature("group.version"):
        return consumer_group_describe_api.error(request, ErrorCode.UNSUPPORTED_VERSION)
    groups = call.groups.describe_consumer_groups(request.group_ids, call.arrived)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS[call.broker.release]
    return ConsumerGroupDescribeResponse(groups=groups)


def streams_group_heartbeat(request: StreamsGroupHeartbeatRequest, call: Call) -> StreamsGroupHeartbeatResponse:
    """Internal topics that are missing are created, and the member is told what could not be."""
    if not call.broker.has_feature("streams.version"):
        return streams_group_heartbeat_api.error(request, ErrorCode.UNSUPPORTED_VERSION)
    if request.topology is not None and (refusal := call.broker.streams_refusal(topics_of(request.topology))):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY, error_message=refusal)
    response, missing = call.groups.streams_heartbeat(request, call.client, call.arrived)
    if missing:
        failures = call.broker.create_internal_topics(missing, call.arrived)
        for status in response.status or ():
            if failures and status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                shown = ", ".join(f"{topic} ({why})" for topic, why in list(failures.items())[:3])
                more = f" and {len(failures) - 3} more" if len(failures) > 3 else ""
                status.status_detail += f"; Creation failed: {shown}{more}."
    return response


def streams_group_describe(request: StreamsGroupDescribeRequest, call: Call) -> StreamsGroupDescribeResponse:
    if not call.broker.has_feature("streams.version"):
        return streams_group_describe_api.error(request, ErrorCode.UNSUPPORTED_VERSION)
    groups = call.groups.describe_streams_groups(request.group_ids, call.arrived)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS[call.broker.release]
    return StreamsGroupDescribeResponse(groups=groups)


def find_coordinator(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    """Every key has a coordinator, also the empty one; an unknown type of key is INVALID_REQUEST (42).

    There are no share coordinators here, as in a Kafka that has none yet: from version 6 on a well-formed key is
    answered COORDINATOR_NOT_AVAILABLE (15).
    """
    keys = request.coordinator_keys
    if request.key_type == GROUP:
        call.broker.ensure_offsets_topic()
        return FindCoordinatorResponse(coordinators=[_found(key, *call.groups.coordinator_of(key, 0)) for key in keys])
    if request.key_type == TRANSACTION:
        return FindCoordinatorResponse(coordinators=[_found(key, *call.groups.coordinator_of(key, 1)) for key in keys])
    if request.key_type == SHARE and call.version >= 4:
        return FindCoordinatorResponse(coordinators=[_share_coordinator(key, call.version) for key in keys])
    return FindCoordinatorResponse(coordinators=[no_coordinator(key, ErrorCode.INVALID_REQUEST) for key in keys])


def _share_coordinator(key: str, version: int) -> Coordinator:
    is_valid = version >= 6 and is_share_key(key)
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE if is_valid else ErrorCode.INVALID_REQUEST
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message="")


def _found(key: str, code: int, node_id: int, host: str, port: int) -> Coordinator:
    return no_coordinator(key, code) if code else Coordinator(key=key, node_id=node_id, host=host, port=port)


# Offsets


def offset_commit(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    """Refuse what does not exist, UNKNOWN_TOPIC_OR_PARTITION (3) or UNKNOWN_TOPIC_ID (100); the rest is the group's.

    If nothing is left the rule of the group is not called (semantics 3.1).
    """
    unknown_ids: list[OffsetCommitResponseTopic] = []
    unknown_partitions: list[OffsetCommitResponseTopic] = []
    topics = []
    for topic in request.topics:
        if not topic.name and call.version >= 10:
            unknown_ids.append(_commit_refused(topic, topic.partitions, _UNKNOWN_TOPIC_ID))
            continue
        existing = range(call.broker.partitions_of(topic.name))
        unknown = [each for each in topic.partitions if each.partition_index not in existing]
        if unknown:
            unknown_partitions.append(_commit_refused(topic, unknown, _UNKNOWN_TOPIC_OR_PARTITION))
            partitions = [each for each in topic.partitions if each.partition_index in existing]
            topic = OffsetCommitRequestTopic(topic.name, topic.topic_id, partitions)
        topics.append(topic)
    refused = unknown_ids + unknown_partitions
    if not refused:
        return call.groups.commit(request, call.arrived, unknown_group_is_69=call.version >= 9)
    if unknown_partitions:
        topics = [topic for topic in topics if topic.partitions]
    if not topics:
        return OffsetCommitResponse(topics=merge(refused, _name_and_id))
    view = OffsetCommitRequest(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
        topics,
    )
    response = call.groups.commit(view, call.arrived, unknown_group_is_69=call.version >= 9)
    response.topics = merge(refused + response.topics, _name_and_id)
    return response


def all_exist(request: OffsetCommitRequest, broker: Broker) -> bool:
    """Whether every partition that the request commits to exists."""
    return all(
        each.partition_index in range(broker.partitions_of(topic.name))
        for topic in request.topics
        for each in topic.partitions
    )


def _commit_refused(topic: OffsetCommitRequestTopic, partitions: Iterable[Any], code: int) -> OffsetCommitResponseTopic:
    answers = [OffsetCommitResponsePartition(each.partition_index, code) for each in partitions]
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, answers)


def _name_and_id(topic: OffsetCommitResponseTopic) -> tuple[str, bytes]:
    return topic.name, topic.topic_id


def txn_offset_commit(request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse | Parked:
    """Refuse what does not exist, UNKNOWN_TOPIC_OR_PARTITION (3); the rest is the group's (semantics 3.2)."""
    refused: list[TxnOffsetCommitResponseTopic] = []
    topics = []
    for topic in request.topics:
        existing = range(call.broker.partitions_of(topic.name))
        partitions = [each for each in topic.partitions if each.partition_index in existing]
        if len(partitions) < len(topic.partitions):
            answers = [
                TxnOffsetCommitResponsePartition(each.partition_index, _UNKNOWN_TOPIC_OR_PARTITION)
                for each in topic.partitions
                if each.partition_index not in existing
            ]
            refused.append(TxnOffsetCommitResponseTopic(topic.name, answers))
        if partitions:
            topics.append(TxnOffsetCommitRequestTopic(topic.name, partitions))
    if refused and not topics:
        return with_refused(TxnOffsetCommitResponse(), refused)
    view = TxnOffsetCommitRequest(
        request.transactional_id,
        request.group_id,
        request.producer_id,
        request.producer_epoch,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        topics,
    )
    return call.groups.commit_in_transaction(
        view, refused, call, call.arrived, supported_operation=_of_txn_offset_commit(call.version)
    )


def _of_txn_offset_commit(version: int) -> TransactionSupportedOperation:
    if version >= 5:
        return TransactionSupportedOperation.ADD_PARTITION
    if version >= 4:
        return TransactionSupportedOperation.GENERIC_ERROR_SUPPORTED
    return TransactionSupportedOperation.DEFAULT_ERROR


def offset_delete(request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
    """Refuse what does not exist, UNKNOWN_TOPIC_OR_PARTITION (3); the rest is the group's.

    The rule of the group is called even if nothing is left; an error of the group is the whole answer (semantics 3.5).
    """
    refused: list[OffsetDeleteResponseTopic] = []
    topics = []
    for topic in request.topics:
        existing = range(call.broker.partitions_of(topic.name))
        partitions = [each for each in topic.partitions if each.partition_index in existing]
        if len(partitions) < len(topic.partitions):
            answers = [
                OffsetDeleteResponsePartition(each.partition_index, _UNKNOWN_TOPIC_OR_PARTITION)
                for each in topic.partitions
                if each.partition_index not in existing
            ]
            refused.append(OffsetDeleteResponseTopic(topic.name, answers))
        topics.append(OffsetDeleteRequestTopic(topic.name, partitions))
    if not refused:
        return call.groups.delete_offsets(request, call.arrived)
    view = OffsetDeleteRequest(request.group_id, [topic for topic in topics if topic.partitions])
    response = call.groups.delete_offsets(view, call.arrived)
    if response.error_code == 0:
        response.topics = merge(refused + response.topics, lambda topic: topic.name)
    return response


def offset_fetch(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    """Ask for one group after the other. Whether a topic or partition exists does not matter (semantics 3.3).

    In version 10 a topic id without a topic gets UNKNOWN_TOPIC_ID (100) on each partition, behind the topics that have
    one; in an answer for all topics, those without an id any more are left out.
    """
    fetch = _fetch_by_id if call.version >= 10 else _fetch_by_name
    return OffsetFetchResponse(groups=[fetch(group, request.require_stable, call) for group in request.groups])


def _fetch_by_name(group: OffsetFetchRequestGroup, require_stable: bool, call: Call) -> OffsetFetchResponseGroup:
    return call.groups.fetch(group, require_stable=require_stable, now=call.arrived)


def _fetch_by_id(group: OffsetFetchRequestGroup, require_stable: bool, call: Call) -> OffsetFetchResponseGroup:
    if group.topics is None:
        answer = _fetch_by_name(group, require_stable, call)
        for topic in answer.topics:
            topic.topic_id = call.broker.topic_id(topic.name) or NO_TOPIC_ID
        answer.topics = [topic for topic in answer.topics if topic.topic_id != NO_TOPIC_ID]
        return answer
    named = [topic for topic in group.topics if topic.name]
    if len(named) == len(group.topics):
        return _fetch_by_name(group, require_stable, call)
    view = OffsetFetchRequestGroup(group.group_id, group.member_id, group.member_epoch, named)
    answer = _fetch_by_name(view, require_stable, call)
    answer.topics += [
        OffsetFetchResponseTopics(
            topic.name,
            topic.topic_id,
            [
                OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=_UNKNOWN_TOPIC_ID)
                for index in topic.partition_indexes
            ],
        )
        for topic in group.topics
        if not topic.name
    ]
    return answer


# Topics and logs


def metadata(request: MetadataRequest, call: Call) -> MetadataResponse:
    """Only from version 12 on can a request name topics by id; 10 and 11 have the fields and refuse them:
    INVALID_REQUEST (42)."""
    if call.version < 12 and any(topic.name is None or any(topic.topic_id) for topic in request.topics or ()):
        return metadata_api.error(request, ErrorCode.INVALID_REQUEST)
    return call.broker.metadata(request, call.arrived)


def list_offsets(request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    served = [timestamp for timestamp, since in _TIMESTAMPS_SINCE.items() if since <= call.version]
    return call.broker.list_offsets(request, lowest_timestamp=min(served))
