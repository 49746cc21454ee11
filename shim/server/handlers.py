"""Handlers of requests that need more than one rule: they refuse unknown topics, and ask the rule for the others.

A handler checks the topics and partitions of a request and makes a view of the existing ones: the request itself never
changes. The others are refused here, and their answers stand before those of the rule, as in Kafka. `requests.py` has
the handler of each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kafka_shim.apis import consumer_group_heartbeat as consumer_group_heartbeat_api
from kafka_shim.apis import metadata as metadata_api
from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_shim.apis.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_shim.apis.describe_groups import group_error as classic_group_error
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
from kafka_shim.apis.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)
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
from kafka_shim.apis.offset_fetch import group_error as fetch_refused
from kafka_shim.apis.profiles import group_operations
from kafka_shim.apis.streams_group_describe import (
    DescriptionStatus,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from kafka_shim.apis.streams_group_describe import group_error as streams_group_error
from kafka_shim.apis.streams_group_heartbeat import (
    StatusCode,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    topics_of,
)
from kafka_shim.apis.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from kafka_shim.apis.streams_group_topology_description_update import error as description_refused
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_shim.apis.sync_group import error as sync_refused
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
from kafka_shim.broker.topics import streams_refusal
from kafka_shim.groups.epochs.requests import check_not_blank
from kafka_shim.groups.interface import PARKED, Parked, Refusal, TransactionSupportedOperation
from kafka_shim.groups.streams.heartbeat import Answer as StreamsAnswer
from kafka_shim.groups.streams.heartbeat import refused as streams_heartbeat_refused
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.parts import MAX_ANSWER_BYTES
from kafka_shim.server.refusals import AnswerTooLongError
from kafka_shim.server.trace import software_of

_UNKNOWN_TOPIC_ID: Final = int(ErrorCode.UNKNOWN_TOPIC_ID)
_UNKNOWN_TOPIC_OR_PARTITION: Final = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_UNSUPPORTED_VERSION: Final = int(ErrorCode.UNSUPPORTED_VERSION)

_MANY_PARTITIONS: Final = 1000
"""The answer of OffsetFetch to fewer partitions is not measured before it is encoded."""

_TIMESTAMPS_SINCE: Final = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""The first version of ListOffsets in which negative timestamps have separate meanings."""


# Groups


def sync_group(request: SyncGroupRequest, call: Exchange) -> SyncGroupResponse | Parked:
    """Refuse a request without protocol type or name from version 5 on, before all else: INCONSISTENT_GROUP_PROTOCOL
    (23)."""
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    answer: SyncGroupResponse | Parked = call.groups.ask(request, sync_refused, call, call.arrived)
    return answer


def describe_groups(request: DescribeGroupsRequest, call: Exchange) -> DescribeGroupsResponse:
    groups = call.groups.ask_each(DescribeGroupsRequest, request.groups, classic_group_error, empty_id_allowed=True)
    if request.include_authorized_operations:
        for group in groups:
            # Before version 6 a missing group is no error.
            if group.error_code == ErrorCode.NONE or (
                group.error_code == ErrorCode.GROUP_ID_NOT_FOUND and call.version < 6
            ):
                group.authorized_operations = group_operations(call.broker.rules)
    return DescribeGroupsResponse(groups=groups)


def describe_each(request: Any, call: Exchange, refuse: Callable[[str, ErrorCode], Any]) -> list[Any]:
    """Describe the groups of a request; `refuse(group_id, code)` returns the answer for a group that is not here."""
    groups = call.groups.ask_each(type(request), request.group_ids, refuse)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = group_operations(call.broker.rules)
    return groups


def describe_streams_groups(request: StreamsGroupDescribeRequest, call: Exchange) -> StreamsGroupDescribeResponse:
    """Describe streams groups, with their topology descriptions if the request includes them."""
    groups = describe_each(request, call, streams_group_error)
    for group in groups:
        if not request.include_topology_description:
            group.topology_description = None
        elif group.error_code == ErrorCode.NONE:
            is_stored = group.topology_description is not None
            status = DescriptionStatus.AVAILABLE if is_stored else DescriptionStatus.NOT_STORED
            group.topology_description_status = status
    return StreamsGroupDescribeResponse(groups=groups)


def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, call: Exchange
) -> ConsumerGroupHeartbeatResponse | Parked:
    if call.version >= 1:
        try:
            # Members make their own ids (KIP-1082), so all their heartbeats have one.
            check_not_blank("MemberId", request.member_id)
        except Refusal as refusal:
            return consumer_group_heartbeat_api.error(request, refusal.code, refusal.message)
    answer: ConsumerGroupHeartbeatResponse | Parked = call.groups.ask(
        request, consumer_group_heartbeat_api.error, call.client, call, call.arrived
    )
    return answer


def streams_group_heartbeat(request: StreamsGroupHeartbeatRequest, call: Exchange) -> StreamsGroupHeartbeatResponse:
    """Create missing internal topics, and report those that cannot be created to the member."""
    if request.topology is not None and (refusal := streams_refusal(topics_of(request.topology))):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY, error_message=refusal)
    answer: StreamsAnswer = call.groups.ask(
        request, streams_heartbeat_refused, call.client, call.arrived, describes=call.version >= 1
    )
    response, missing = answer
    guard = call.session.guard
    denied = guard.not_created([each.name for each in missing], call) if missing and guard is not None else []
    if denied:
        for status in response.status or ():
            if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                status.status_detail += f"; Unauthorized to CREATE on topics {','.join(denied)}."
    elif missing:
        failures = call.broker.create_internal_topics(missing, call.arrived)
        for status in response.status or ():
            if failures and status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                details = ", ".join(f"{topic} ({why})" for topic, why in list(failures.items())[:3])
                more = f" and {len(failures) - 3} more" if len(failures) > 3 else ""
                status.status_detail += f"; Creation failed: {details}{more}."
    return response


def api_versions(request: ApiVersionsRequest, call: Exchange) -> ApiVersionsResponse:
    """List the APIs and features; remember the client's software, which version 3 and later name (KIP-511)."""
    has_software = call.version >= 3
    response = call.broker.api_versions(request, has_software=has_software)
    if has_software and not response.error_code:
        call.session.software = software_of(request)
    return response


def find_coordinator(request: FindCoordinatorRequest, call: Exchange) -> FindCoordinatorResponse:
    """Find the coordinator of a key, even an empty one. An unknown type of key is INVALID_REQUEST (42).

    There are no share coordinators here, as in a Kafka that has none yet: from version 6 on a well-formed key is
    answered COORDINATOR_NOT_AVAILABLE (15).
    """
    keys = request.coordinator_keys
    if request.key_type == GROUP:
        call.broker.topics.ensure_offsets_topic()
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


def update_topology_description(
    request: StreamsGroupTopologyDescriptionUpdateRequest, call: Exchange
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Keep the description, or refuse it with UNSUPPORTED_VERSION (35) without the plugin of KIP-1331."""
    answer: StreamsGroupTopologyDescriptionUpdateResponse = call.groups.ask(request, description_refused)
    return answer


# Offsets


def offset_commit(request: OffsetCommitRequest, call: Exchange) -> OffsetCommitResponse:
    """Refuse unknown partitions, UNKNOWN_TOPIC_OR_PARTITION (3) or UNKNOWN_TOPIC_ID (100); give the rest to the group.

    If nothing is left the rule of the group is not called (semantics 3.1).
    """
    unknown_ids: list[OffsetCommitResponseTopic] = []
    unknown_partitions: list[OffsetCommitResponseTopic] = []
    topics = []
    for topic in request.topics:
        if not topic.name and call.version >= 10:
            unknown_ids.append(_commit_refused(topic, topic.partitions, _UNKNOWN_TOPIC_ID))
            continue
        existing = range(call.broker.topics.partitions_of(topic.name))
        unknown = [each for each in topic.partitions if each.partition_index not in existing]
        if unknown:
            unknown_partitions.append(_commit_refused(topic, unknown, _UNKNOWN_TOPIC_OR_PARTITION))
            partitions = [each for each in topic.partitions if each.partition_index in existing]
            topic = OffsetCommitRequestTopic(topic.name, topic.topic_id, partitions)
        topics.append(topic)
    refused = unknown_ids + unknown_partitions
    if call.version == 0 and call.broker.rules.zookeeper_offsets_refused and any(each.partitions for each in topics):
        # The version stores offsets in ZooKeeper, and the release runs without.
        return OffsetCommitResponse(
            topics=[_commit_refused(topic, topic.partitions, _UNSUPPORTED_VERSION) for topic in request.topics]
        )
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
    """Return True if every partition of the commit exists."""
    return all(
        each.partition_index in range(broker.topics.partitions_of(topic.name))
        for topic in request.topics
        for each in topic.partitions
    )


def _commit_refused(topic: OffsetCommitRequestTopic, partitions: Iterable[Any], code: int) -> OffsetCommitResponseTopic:
    answers = [OffsetCommitResponsePartition(each.partition_index, code) for each in partitions]
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, answers)


def _name_and_id(topic: OffsetCommitResponseTopic) -> tuple[str, bytes]:
    return topic.name, topic.topic_id


def txn_offset_commit(request: TxnOffsetCommitRequest, call: Exchange) -> TxnOffsetCommitResponse | Parked:
    """Refuse unknown partitions, UNKNOWN_TOPIC_OR_PARTITION (3) or UNKNOWN_TOPIC_ID (100); give the rest to the group
    (semantics 3.2)."""
    refused: list[TxnOffsetCommitResponseTopic] = []
    topics = []
    for topic in request.topics:
        if not topic.name and call.version >= 6:
            unknown_id = [
                TxnOffsetCommitResponsePartition(each.partition_index, _UNKNOWN_TOPIC_ID) for each in topic.partitions
            ]
            refused.append(TxnOffsetCommitResponseTopic("", topic.topic_id, unknown_id))
            continue
        existing = range(call.broker.topics.partitions_of(topic.name))
        partitions = [each for each in topic.partitions if each.partition_index in existing]
        if len(partitions) < len(topic.partitions):
            answers = [
                TxnOffsetCommitResponsePartition(each.partition_index, _UNKNOWN_TOPIC_OR_PARTITION)
                for each in topic.partitions
                if each.partition_index not in existing
            ]
            refused.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, answers))
        if partitions:
            topics.append(TxnOffsetCommitRequestTopic(topic.name, topic.topic_id, partitions))
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
        view,
        refused,
        call,
        call.arrived,
        supported_operation=_of_txn_offset_commit(call.version),
        epoch_errors=call.version >= 6,
    )


def _of_txn_offset_commit(version: int) -> TransactionSupportedOperation:
    if version >= 5:
        return TransactionSupportedOperation.ADD_PARTITION
    if version >= 4:
        return TransactionSupportedOperation.GENERIC_ERROR_SUPPORTED
    return TransactionSupportedOperation.DEFAULT_ERROR


def offset_delete(request: OffsetDeleteRequest, call: Exchange) -> OffsetDeleteResponse:
    """Refuse unknown partitions, UNKNOWN_TOPIC_OR_PARTITION (3); give the rest to the group.

    The rule of the group is called even if nothing is left; an error of the group is the whole answer (semantics 3.5).
    """
    refused: list[OffsetDeleteResponseTopic] = []
    topics = []
    for topic in request.topics:
        existing = range(call.broker.topics.partitions_of(topic.name))
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


def offset_fetch(request: OffsetFetchRequest, call: Exchange) -> OffsetFetchResponse:
    """Fetch the offsets of one group after the other, also for unknown topics and partitions (semantics 3.3).

    In version 10 a topic id without a topic gets UNKNOWN_TOPIC_ID (100) on each partition, behind the topics that have
    one; an answer for all topics leaves out those without an id.
    """
    if call.version == 0 and call.broker.rules.zookeeper_offsets_refused:
        return OffsetFetchResponse(groups=[fetch_refused(group, _UNSUPPORTED_VERSION) for group in request.groups])
    fetch = _fetch_by_id if call.version >= 10 else _fetch_by_name
    response = OffsetFetchResponse(groups=[fetch(group, request.require_stable, call) for group in request.groups])
    _check_size(response)
    return response


def _check_size(response: OffsetFetchResponse) -> None:
    """Raise AnswerTooLongError if the metadata alone is too long: a small request that names a partition often would
    otherwise take much memory before its answer is refused."""
    partitions = 0
    for group in response.groups:
        for topic in group.topics:
            partitions += len(topic.partitions)
    if partitions > _MANY_PARTITIONS:
        topics = [topic for group in response.groups for topic in group.topics]
        if sum(len(each.metadata or "") for topic in topics for each in topic.partitions) > MAX_ANSWER_BYTES:
            raise AnswerTooLongError


def _fetch_by_name(group: OffsetFetchRequestGroup, require_stable: bool, call: Exchange) -> OffsetFetchResponseGroup:
    return call.groups.fetch(group, require_stable=require_stable, now=call.arrived)


def _fetch_by_id(group: OffsetFetchRequestGroup, require_stable: bool, call: Exchange) -> OffsetFetchResponseGroup:
    if group.topics is None:
        answer = _fetch_by_name(group, require_stable, call)
        for topic in answer.topics:
            topic.topic_id = call.broker.topics.topic_id(topic.name) or NO_TOPIC_ID
        answer.topics = [topic for topic in answer.topics if topic.topic_id != NO_TOPIC_ID]
        return answer
    with_names = [topic for topic in group.topics if topic.name]
    if len(with_names) == len(group.topics):
        return _fetch_by_name(group, require_stable, call)
    view = OffsetFetchRequestGroup(group.group_id, group.member_id, group.member_epoch, with_names)
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


def metadata(request: MetadataRequest, call: Exchange) -> MetadataResponse | Parked:
    """Describe topics. Versions 10 and 11 have fields for topic ids but refuse them: INVALID_REQUEST (42).

    Where processes share their topics, look for changes first: a client that has seen a change at one process asks the
    coordinator of its group next. librdkafka's leader assigns from that answer alone, and never again.
    """
    if call.broker.looks_first(call, call.arrived):
        return PARKED
    if call.version < 12 and any(topic.name is None or any(topic.topic_id) for topic in request.topics or ()):
        return metadata_api.error(request, ErrorCode.INVALID_REQUEST)
    return call.broker.metadata.describe_topics(request, call.arrived)


def list_offsets(request: ListOffsetsRequest, call: Exchange) -> ListOffsetsResponse:
    served = [timestamp for timestamp, since in _TIMESTAMPS_SINCE.items() if since <= call.version]
    return call.broker.offsets.list_offsets(request, lowest_timestamp=min(served))
