"""The table of requests: what each API does, what a request of it concerns, and what a client must be allowed to do.

A row per API that is served. `rule` calls the rule with the flags of the version; what calls more than one rule, or a
rule for a part of the request, is in `handlers.py`. `concerns` says which groups, topics and transactional ids
a request is about, each with the operation that Kafka demands on them. Nothing else says what a request
is about. Source of the operations: Kafka 4.2, `KafkaApis`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kafka_shim.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafka_shim.apis.alter_configs import AlterConfigsRequest
from kafka_shim.apis.delete_groups import DeleteGroupsResponse
from kafka_shim.apis.describe_configs import DescribeConfigsRequest
from kafka_shim.apis.find_coordinator import GROUP as GROUP_KEY
from kafka_shim.apis.find_coordinator import TRANSACTION as TRANSACTION_KEY
from kafka_shim.apis.heartbeat import HeartbeatResponse
from kafka_shim.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.leave_group import LeaveGroupRequest
from kafka_shim.apis.wire import Message
from kafka_shim.groups.interface import NoReply, Parked, TransactionSupportedOperation
from kafka_shim.groups.streams.checks import topics_of
from kafka_shim.server import handlers, share
from kafka_shim.server.call import Call


class Operation(IntEnum):
    """What a client does to a resource; Kafka's AclOperation codes."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Resource(IntEnum):
    """What a client does it to; Kafka's ResourceType codes."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


Names = Callable[[Any], Iterable[str | bytes]]
"""The resources of one type that a request is about: names, or a topic's id where the request has no name."""


class Concern(NamedTuple):
    """Resources that a request is about, and the operation on them. The cluster has no name."""

    resource: Resource
    operation: Operation
    names: Names


class Sender(NamedTuple):
    """The member that a request says it comes from. `generation` is its member epoch where it has one."""

    member_id: str = ""
    instance_id: str | None = None
    generation: int | None = None


NOBODY: Final = Sender()


class Row(NamedTuple):
    """One API. `sender` is the member that sends a request. From version `names_topics_since` on its topics come by id
    and get their names when decoded."""

    rule: Callable[[Any, Call], Message | Parked | NoReply]
    concerns: tuple[Concern, ...] = ()
    sender: Callable[[Any], Sender] = lambda r: NOBODY
    names_topics_since: int = 1 << 15

    def groups_of(self, request: Message) -> list[str]:
        """The groups that a request is about."""
        return self._names(request, Resource.GROUP)

    def transactional_ids_of(self, request: Message) -> list[str]:
        """The transactional ids that a request is about."""
        return self._names(request, Resource.TRANSACTIONAL_ID)

    def _names(self, request: Message, resource: Resource) -> list[str]:
        return [
            str(name) for concern in self.concerns if concern.resource is resource for name in concern.names(request)
        ]


READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS


def _group_id(request: Any) -> list[str]:
    return [request.group_id]


def _share_group(request: Any) -> list[str]:
    return [] if request.group_id is None else [request.group_id]


def _topic_names(request: Any) -> list[str]:
    return [topic.name for topic in request.topics]


def _transactional_id(request: Any) -> list[str]:
    return [] if request.transactional_id is None else [request.transactional_id]


def _member(request: Any) -> Sender:
    return Sender(request.member_id, request.group_instance_id, request.generation_id)


def member_with_epoch(request: Any) -> Sender:
    return Sender(request.member_id, request.instance_id, request.member_epoch)


def _leaving(request: LeaveGroupRequest) -> Sender:
    return Sender(request.members[0].member_id, request.members[0].group_instance_id) if request.members else NOBODY


def group(operation: Operation, names: Names = _group_id) -> Concern:
    return Concern(Resource.GROUP, operation, names)


def topics(operation: Operation, names: Names = _topic_names) -> Concern:
    return Concern(Resource.TOPIC, operation, names)


def transaction(operation: Operation, names: Names = _transactional_id) -> Concern:
    return Concern(Resource.TRANSACTIONAL_ID, operation, names)


def cluster(operation: Operation) -> Concern:
    return Concern(Resource.CLUSTER, operation, lambda r: [])


# fmt: off
REQUESTS: Final[dict[ApiKey, Row]] = {
    ApiKey.JOIN_GROUP: Row(
        lambda r, c: c.groups.join(
            r, c.client, c, c.arrived, member_id_required=c.version >= 4, skip_assignment_supported=c.version >= 9),
        (group(READ),), lambda r: Sender(r.member_id, r.group_instance_id)),
    ApiKey.SYNC_GROUP: Row(handlers.sync_group, (group(READ),), _member),
    ApiKey.HEARTBEAT: Row(
        lambda r, c: HeartbeatResponse(
            0, c.groups.heartbeat(r.group_id, r.generation_id, r.member_id, r.group_instance_id, c.arrived)),
        (group(READ),), _member),
    ApiKey.LEAVE_GROUP: Row(lambda r, c: c.groups.leave(r, c.arrived), (group(READ),), _leaving),
    ApiKey.DESCRIBE_GROUPS: Row(handlers.describe_groups, (group(DESCRIBE, lambda r: r.groups),)),
    ApiKey.LIST_GROUPS: Row(lambda r, c: c.groups.list(r.states_filter, r.types_filter), (cluster(DESCRIBE),)),
    ApiKey.DELETE_GROUPS: Row(
        lambda r, c: DeleteGroupsResponse(results=c.groups.delete(r.groups_names, c.arrived)),
        (group(DELETE, lambda r: r.groups_names),)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Row(
        handlers.consumer_group_heartbeat,
        (group(READ), topics(DESCRIBE, lambda r: r.subscribed_topic_names or [])), member_with_epoch),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Row(
        handlers.consumer_group_describe, (group(DESCRIBE, lambda r: r.group_ids),)),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Row(
        handlers.streams_group_heartbeat, (group(READ), topics(DESCRIBE, lambda r: topics_of(r.topology))),
        member_with_epoch),
    ApiKey.STREAMS_GROUP_DESCRIBE: Row(
        handlers.streams_group_describe, (group(DESCRIBE, lambda r: r.group_ids),)),
    ApiKey.SHARE_GROUP_HEARTBEAT: Row(
        share.share_group_heartbeat, (group(READ), topics(DESCRIBE, lambda r: r.subscribed_topic_names or [])),
        lambda r: Sender(r.member_id, None, r.member_epoch)),
    ApiKey.SHARE_GROUP_DESCRIBE: Row(share.share_group_describe, (group(DESCRIBE, lambda r: r.group_ids),)),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Row(
        share.describe_share_group_offsets,
        (group(DESCRIBE, lambda r: [g.group_id for g in r.groups]),
         topics(DESCRIBE, lambda r: [t.topic_name for g in r.groups for t in g.topics or ()]))),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Row(
        share.alter_share_group_offsets, (group(READ), topics(READ, lambda r: [t.topic_name for t in r.topics]))),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Row(
        share.delete_share_group_offsets, (group(DELETE), topics(READ, lambda r: [t.topic_name for t in r.topics]))),
    ApiKey.FIND_COORDINATOR: Row(
        handlers.find_coordinator,
        (group(DESCRIBE, lambda r: r.coordinator_keys if r.key_type == GROUP_KEY else []),
         transaction(DESCRIBE, lambda r: r.coordinator_keys if r.key_type == TRANSACTION_KEY else []))),

    ApiKey.OFFSET_COMMIT: Row(
        handlers.offset_commit, (group(READ), topics(READ, lambda r: _named(r.topics))),
        lambda r: Sender(r.member_id, r.group_instance_id, r.generation_id_or_member_epoch), names_topics_since=10),
    ApiKey.OFFSET_FETCH: Row(
        handlers.offset_fetch,
        (group(DESCRIBE, lambda r: [g.group_id for g in r.groups]),
         topics(DESCRIBE, lambda r: [name for g in r.groups for name in _named(g.topics or ())])),
        names_topics_since=10),
    ApiKey.OFFSET_DELETE: Row(handlers.offset_delete, (group(DELETE), topics(READ))),
    ApiKey.TXN_OFFSET_COMMIT: Row(
        handlers.txn_offset_commit, (transaction(WRITE), group(READ), topics(READ)), _member),

    ApiKey.API_VERSIONS: Row(lambda r, c: c.broker.api_versions(r, has_software=c.version >= 3)),
    ApiKey.METADATA: Row(handlers.metadata, (topics(DESCRIBE, lambda r: _named(r.topics or ())),)),
    ApiKey.DESCRIBE_CLUSTER: Row(lambda r, c: c.broker.describe_cluster(r), (cluster(DESCRIBE),)),
    ApiKey.PRODUCE: Row(
        lambda r, c: c.broker.produce(
            r, c, c.arrived, by_topic_id=c.version >= 13, zstd_allowed=c.version >= 7, with_leaders=c.version >= 10,
            supported_operation=_of_produce(c.version)),
        (transaction(WRITE), topics(WRITE, lambda r: _named(r.topic_data)))),
    ApiKey.FETCH: Row(
        lambda r, c: c.broker.fetch(r, c, c.arrived, by_topic_id=c.version >= 13, with_leaders=c.version >= 16),
        (topics(READ, lambda r: [t.topic or t.topic_id for t in r.topics]),)),
    ApiKey.SHARE_FETCH: Row(
        share.share_fetch, (group(READ, _share_group), topics(READ, lambda r: [t.topic_id for t in r.topics])),
        lambda r: Sender(r.member_id or "")),
    ApiKey.SHARE_ACKNOWLEDGE: Row(
        share.share_acknowledge, (group(READ, _share_group), topics(READ, lambda r: [t.topic_id for t in r.topics])),
        lambda r: Sender(r.member_id or "")),
    ApiKey.LIST_OFFSETS: Row(handlers.list_offsets, (topics(DESCRIBE),)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Row(
        lambda r, c: c.broker.offset_for_leader_epoch(r), (topics(DESCRIBE, lambda r: [t.topic for t in r.topics]),)),

    ApiKey.UPDATE_FEATURES: Row(lambda r, c: c.broker.update_features(r, c, c.arrived), (cluster(ALTER),)),
    ApiKey.CREATE_TOPICS: Row(lambda r, c: c.broker.create_topics(r, c, c.arrived), (topics(CREATE),)),
    ApiKey.DELETE_TOPICS: Row(
        lambda r, c: c.broker.delete_topics(r, c, c.arrived, disabled_is_73=c.version >= 3),
        (topics(DELETE, lambda r: _named(r.topics)),)),
    ApiKey.CREATE_PARTITIONS: Row(lambda r, c: c.broker.create_partitions(r, c, c.arrived), (topics(ALTER),)),
    ApiKey.DELETE_RECORDS: Row(lambda r, c: c.broker.delete_records(r, c.arrived), (topics(DELETE),)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Row(lambda r, c: c.broker.describe_topic_partitions(r), (topics(DESCRIBE),)),
    ApiKey.DESCRIBE_PRODUCERS: Row(lambda r, c: c.broker.describe_producers(r), (topics(READ),)),
    ApiKey.ELECT_LEADERS: Row(lambda r, c: c.broker.elect_leaders(r, c.arrived), (cluster(ALTER),)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Row(
        lambda r, c: c.broker.alter_partition_reassignments(r, c.arrived), (cluster(ALTER),)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Row(
        lambda r, c: c.broker.list_partition_reassignments(r), (cluster(DESCRIBE),)),
    ApiKey.DESCRIBE_LOG_DIRS: Row(lambda r, c: c.broker.describe_log_dirs(r), (cluster(DESCRIBE),)),
    ApiKey.DESCRIBE_QUORUM: Row(lambda r, c: c.broker.describe_quorum(r, c.arrived), (cluster(DESCRIBE),)),
    ApiKey.LIST_CONFIG_RESOURCES: Row(
        lambda r, c: c.broker.list_config_resources(r, metrics_only=c.version == 0), (cluster(DESCRIBE_CONFIGS),)),
    ApiKey.DESCRIBE_CONFIGS: Row(
        lambda r, c: c.broker.describe_configs(r),
        (topics(DESCRIBE_CONFIGS, lambda r: _configured(r, 2)), group(DESCRIBE_CONFIGS, lambda r: _configured(r, 32)))),
    ApiKey.ALTER_CONFIGS: Row(
        lambda r, c: c.broker.alter_configs(r, c, c.arrived),
        (topics(ALTER_CONFIGS, lambda r: _configured(r, 2)), group(ALTER_CONFIGS, lambda r: _configured(r, 32)))),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Row(
        lambda r, c: c.broker.incremental_alter_configs(r, c, c.arrived),
        (topics(ALTER_CONFIGS, lambda r: _configured(r, 2)), group(ALTER_CONFIGS, lambda r: _configured(r, 32)))),

    ApiKey.INIT_PRODUCER_ID: Row(lambda r, c: c.broker.init_producer_id(r, c.arrived), (transaction(WRITE),)),
    ApiKey.ADD_PARTITIONS_TO_TXN: Row(
        lambda r, c: c.broker.add_partitions_to_txn(r, c.arrived),
        (transaction(WRITE, lambda r: [t.transactional_id for t in r.transactions]),
         topics(WRITE, lambda r: _added(r)))),
    ApiKey.ADD_OFFSETS_TO_TXN: Row(
        lambda r, c: c.broker.add_offsets_to_txn(r, c.arrived), (transaction(WRITE), group(READ))),
    ApiKey.END_TXN: Row(lambda r, c: c.broker.end_txn(r, c.arrived, bumps_epoch=c.version >= 5), (transaction(WRITE),)),
    ApiKey.DESCRIBE_TRANSACTIONS: Row(
        lambda r, c: c.broker.describe_transactions(r), (transaction(DESCRIBE, lambda r: r.transactional_ids),)),
    ApiKey.LIST_TRANSACTIONS: Row(
        lambda r, c: c.broker.list_transactions(r, c.arrived), (transaction(DESCRIBE, lambda r: []),)),
    ApiKey.WRITE_TXN_MARKERS: Row(lambda r, c: c.broker.write_txn_markers(r, c.arrived), (cluster(CLUSTER_ACTION),)),
}
# fmt: on


def _named(topics: Iterable[Any]) -> list[str | bytes]:
    return [topic.name or topic.topic_id for topic in topics]


def _configured(
    request: DescribeConfigsRequest | AlterConfigsRequest | IncrementalAlterConfigsRequest, resource_type: int
) -> list[str]:
    return [each.resource_name for each in request.resources if each.resource_type == resource_type]


def _added(request: AddPartitionsToTxnRequest) -> list[str]:
    return [topic.name for transaction in request.transactions for topic in transaction.topics]


def _of_produce(version: int) -> TransactionSupportedOperation:
    if version >= 12:
        return TransactionSupportedOperation.ADD_PARTITION
    if version >= 11:
        return TransactionSupportedOperation.GENERIC_ERROR_SUPPORTED
    return TransactionSupportedOperation.DEFAULT_ERROR
