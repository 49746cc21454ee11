"""For each API the function that answers it, and the groups, topics and transactional ids that its request names.

`rule` calls the rule with the flags of the version; a request that needs more than one rule, or a rule for a part of
the request, has a handler in `handlers.py`. `concerns` lists the groups, topics and transactional ids of a request,
each with the operation that Kafka demands on it, and is the only such list. Source of the operations: Kafka 4.2,
`KafkaApis`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kafka_shim.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafka_shim.apis.alter_configs import AlterConfigsRequest
from kafka_shim.apis.alter_share_group_offsets import error as alter_share_refused
from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeResponse
from kafka_shim.apis.consumer_group_describe import group_error as consumer_group_error
from kafka_shim.apis.delete_groups import DeleteGroupsResponse
from kafka_shim.apis.delete_share_group_offsets import error as delete_share_refused
from kafka_shim.apis.describe_configs import DescribeConfigsRequest
from kafka_shim.apis.find_coordinator import GROUP as GROUP_KEY
from kafka_shim.apis.find_coordinator import TRANSACTION as TRANSACTION_KEY
from kafka_shim.apis.heartbeat import HeartbeatResponse
from kafka_shim.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_shim.apis.join_group import error as join_refused
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.leave_group import LeaveGroupRequest
from kafka_shim.apis.leave_group import error as leave_refused
from kafka_shim.apis.sasl_authenticate import SaslAuthenticateResponse
from kafka_shim.apis.sasl_handshake import SaslHandshakeResponse
from kafka_shim.apis.share_group_describe import ShareGroupDescribeResponse
from kafka_shim.apis.share_group_describe import group_error as share_group_error
from kafka_shim.apis.share_group_heartbeat import error as share_heartbeat_refused
from kafka_shim.apis.streams_group_heartbeat import topics_of
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.admin import acls
from kafka_shim.broker.admin.quorum import one_directory
from kafka_shim.broker.admin.topics import Room
from kafka_shim.broker.admin.transaction_views import describe_producers, weight_of_producers
from kafka_shim.broker.produce import Entry
from kafka_shim.groups.interface import PARKED, TransactionSupportedOperation
from kafka_shim.security.operations import Operation, Resource
from kafka_shim.security.token_requests import OFF, create_token, describe_tokens, expire_token, renew_token
from kafka_shim.server import handlers, listings, share, topic_parts
from kafka_shim.server.division import Divided, by
from kafka_shim.server.rows import NOBODY, Concern, Names, Row, Sender

GROUP_VERSION, STREAMS_VERSION, SHARE_VERSION = "group.version", "streams.version", "share.version"
READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS


def _group_id(request: Any) -> list[str]:
    return [request.group_id]


def _share_group(request: Any) -> list[str]:
    return [] if request.group_id is None else [request.group_id]


def _topic_names(request: Any) -> list[str]:
    return [topic.name for topic in request.topics]


def _resource(element: Any) -> tuple[int, str]:
    return element.resource_type, element.resource_name


def _transactional_id(request: Any) -> list[str]:
    return [] if request.transactional_id is None else [request.transactional_id]


def _owner(request: Any) -> list[str]:
    name = request.owner_principal_name
    return [f"{request.owner_principal_type}:{name}"] if name else []


def _owners(request: Any) -> list[str]:
    return [f"{each.principal_type}:{each.principal_name}" for each in request.owners or ()]


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
        lambda r, c: c.groups.ask(
            r, join_refused, c.client, c, c.arrived,
            member_id_required=c.version >= 4, skip_assignment_supported=c.version >= 9),
        (group(READ),), lambda r: Sender(r.member_id, r.group_instance_id)),
    ApiKey.SYNC_GROUP: Row(handlers.sync_group, (group(READ),), _member),
    ApiKey.HEARTBEAT: Row(
        lambda r, c: HeartbeatResponse(
            0, c.groups.heartbeat(r.group_id, r.generation_id, r.member_id, r.group_instance_id, c.arrived)),
        (group(READ),), _member),
    ApiKey.LEAVE_GROUP: Row(lambda r, c: c.groups.ask(r, leave_refused, c.arrived), (group(READ),), _leaving),
    ApiKey.DESCRIBE_GROUPS: Row(handlers.describe_groups, (group(DESCRIBE, lambda r: r.groups),),
        divided=by("groups", "groups", repeats=True, weight=lambda c, ids: c.groups.weight_of(ids))),
    ApiKey.LIST_GROUPS: Row(
        lambda r, c: c.groups.list(r.states_filter, r.types_filter, c.common), (cluster(DESCRIBE),),
        divided=Divided(listings.list_groups_parts, "groups", common=list)),
    ApiKey.DELETE_GROUPS: Row(
        lambda r, c: share.when_leaders_know(
            DeleteGroupsResponse(results=c.groups.delete(r.groups_names, c.arrived)), c),
        (group(DELETE, lambda r: r.groups_names),),
        divided=by("groups_names", "results", once=True, alone=True)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Row(
        handlers.consumer_group_heartbeat,
        (group(READ), topics(DESCRIBE, lambda r: r.subscribed_topic_names or [])), member_with_epoch,
        feature=GROUP_VERSION),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Row(
        lambda r, c: ConsumerGroupDescribeResponse(groups=handlers.describe_each(r, c, consumer_group_error)),
        (group(DESCRIBE, lambda r: r.group_ids),),
        divided=by("group_ids", "groups", repeats=True, weight=lambda c, ids: c.groups.weight_of(ids)),
        feature=GROUP_VERSION),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Row(
        handlers.streams_group_heartbeat, (group(READ), topics(DESCRIBE, lambda r: topics_of(r.topology))),
        member_with_epoch, feature=STREAMS_VERSION),
    ApiKey.STREAMS_GROUP_DESCRIBE: Row(
        handlers.describe_streams_groups,
        (group(DESCRIBE, lambda r: r.group_ids),),
        divided=by("group_ids", "groups", repeats=True, weight=lambda c, ids: c.groups.weight_of(ids)),
        feature=STREAMS_VERSION),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: Row(
        handlers.update_topology_description, (group(READ),), lambda r: Sender(r.member_id), feature=STREAMS_VERSION),
    ApiKey.SHARE_GROUP_HEARTBEAT: Row(
        lambda r, c: share.when_leaders_know(c.groups.ask(r, share_heartbeat_refused, c.client, c.arrived), c),
        (group(READ), topics(DESCRIBE, lambda r: r.subscribed_topic_names or [])),
        lambda r: Sender(r.member_id, None, r.member_epoch), feature=SHARE_VERSION),
    ApiKey.SHARE_GROUP_DESCRIBE: Row(
        lambda r, c: ShareGroupDescribeResponse(groups=handlers.describe_each(r, c, share_group_error)),
        (group(DESCRIBE, lambda r: r.group_ids),),
        divided=by("group_ids", "groups", repeats=True, weight=lambda c, ids: c.groups.weight_of(ids)),
        feature=SHARE_VERSION),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Row(
        share.describe_share_group_offsets,
        (group(DESCRIBE, lambda r: [g.group_id for g in r.groups]),
         topics(DESCRIBE, lambda r: [t.topic_name for g in r.groups for t in g.topics or ()])),
        divided=by("groups", "groups", repeats=True, alone=True, weight=share.weight_of_progress),
        feature=SHARE_VERSION),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Row(
        lambda r, c: share.when_leaders_know(c.groups.ask(r, alter_share_refused), c),
        (group(READ), topics(READ, lambda r: [t.topic_name for t in r.topics])), feature=SHARE_VERSION),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Row(
        lambda r, c: share.when_leaders_know(c.groups.ask(r, delete_share_refused), c),
        (group(DELETE), topics(READ, lambda r: [t.topic_name for t in r.topics])), feature=SHARE_VERSION),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Row(
        lambda r, c: share.in_states(r, c, c.broker.share_states.initialize), (cluster(CLUSTER_ACTION),)),
    ApiKey.DELETE_SHARE_GROUP_STATE: Row(
        lambda r, c: share.in_states(r, c, c.broker.share_states.delete), (cluster(CLUSTER_ACTION),)),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Row(
        lambda r, c: share.in_states(r, c, c.broker.share_states.summarize), (cluster(CLUSTER_ACTION),)),
    ApiKey.FIND_COORDINATOR: Row(
        handlers.find_coordinator,
        (group(DESCRIBE, lambda r: r.coordinator_keys if r.key_type == GROUP_KEY else []),
         transaction(DESCRIBE, lambda r: r.coordinator_keys if r.key_type == TRANSACTION_KEY else [])),
        divided=by("coordinator_keys", "coordinators", repeats=True)),

    ApiKey.OFFSET_COMMIT: Row(
        handlers.offset_commit, (group(READ), topics(READ, lambda r: _named(r.topics))),
        lambda r: Sender(r.member_id, r.group_instance_id, r.generation_id_or_member_epoch), names_topics_since=10),
    ApiKey.OFFSET_FETCH: Row(
        handlers.offset_fetch,
        (group(DESCRIBE, lambda r: [g.group_id for g in r.groups]),
         topics(DESCRIBE, lambda r: [name for g in r.groups for name in _named(g.topics or ())])),
        names_topics_since=10,
        divided=by("groups", "groups", repeats=True, weight=lambda c, groups: c.groups.weight_of_offsets(groups))),
    ApiKey.OFFSET_DELETE: Row(handlers.offset_delete, (group(DELETE), topics(READ))),
    ApiKey.TXN_OFFSET_COMMIT: Row(
        handlers.txn_offset_commit,
        (transaction(WRITE), group(READ), topics(READ, lambda r: _named(r.topics))), _member, names_topics_since=6),

    # Before these two come to a rule, a connection that must authenticate has taken them.
    ApiKey.SASL_HANDSHAKE: Row(lambda r, c: SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)),
    ApiKey.SASL_AUTHENTICATE: Row(lambda r, c: SaslAuthenticateResponse(
        ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication")),
    ApiKey.API_VERSIONS: Row(handlers.api_versions),
    ApiKey.METADATA: Row(handlers.metadata, (topics(DESCRIBE, lambda r: _named(r.topics or ())),),
        divided=Divided(topic_parts.metadata_parts, "topics")),
    ApiKey.DESCRIBE_CLUSTER: Row(lambda r, c: c.broker.metadata.describe_cluster(r), (cluster(DESCRIBE),)),
    ApiKey.PRODUCE: Row(
        lambda r, c: c.broker.produce(
            r, c, c.arrived, by_topic_id=c.version >= 13, zstd_allowed=c.version >= 7, with_leaders=c.version >= 10,
            supported_operation=_of_produce(c.version), entry=c.common),
        (transaction(WRITE), topics(WRITE, lambda r: _named(r.topic_data))),
        divided=Divided(topic_parts.produce_parts, "responses", topic_parts.produced_topics, Entry)),
    ApiKey.FETCH: Row(
        lambda r, c: c.broker.fetches.fetch(r, c, c.arrived, by_topic_id=c.version >= 13, with_leaders=c.version >= 16),
        (topics(READ, lambda r: [t.topic or t.topic_id for t in r.topics]),)),
    ApiKey.SHARE_FETCH: Row(
        lambda r, c: c.broker.share.fetch(r, c, c.session, c.arrived),
        (group(READ, _share_group), topics(READ, lambda r: [t.topic_id for t in r.topics])),
        lambda r: Sender(r.member_id or ""), feature=SHARE_VERSION),
    ApiKey.SHARE_ACKNOWLEDGE: Row(
        lambda r, c: c.broker.share.acknowledge(r, c.arrived),
        (group(READ, _share_group), topics(READ, lambda r: [t.topic_id for t in r.topics])),
        lambda r: Sender(r.member_id or ""), feature=SHARE_VERSION),
    ApiKey.LIST_OFFSETS: Row(handlers.list_offsets, (topics(DESCRIBE),),
        divided=Divided(topic_parts.list_offsets_parts, "topics", topic_parts.listed_topics)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Row(
        lambda r, c: c.broker.offsets.offset_for_leader_epoch(r),
        (topics(DESCRIBE, lambda r: [t.topic for t in r.topics]),),
        divided=by("topics", "topics")),

    ApiKey.UPDATE_FEATURES: Row(lambda r, c: c.broker.change(r, c, c.arrived), (cluster(ALTER),)),
    ApiKey.CREATE_TOPICS: Row(lambda r, c: c.broker.change(r, c, c.arrived, mutations=c.mutations), (topics(CREATE),),
        divided=Divided(topic_parts.create_topics_parts, "topics")),
    ApiKey.DELETE_TOPICS: Row(
        lambda r, c: c.broker.change(r, c, c.arrived, disabled_is_73=c.version >= 3, mutations=c.mutations),
        (topics(DELETE, lambda r: _named(r.topics)),),
        divided=by("topics", "responses", size=1, alone=True, together=lambda t: (t.name, t.topic_id))),
    ApiKey.CREATE_PARTITIONS: Row(
        lambda r, c: c.broker.change(r, c, c.arrived, mutations=c.mutations, room=c.common), (topics(ALTER),),
        divided=by("topics", "results", size=1, alone=True, together=lambda t: t.name, common=Room)),
    ApiKey.DELETE_RECORDS: Row(lambda r, c: c.broker.deletions.delete(r, c.arrived), (topics(DELETE),)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Row(lambda r, c: c.broker.pages.describe(r), (topics(DESCRIBE),),
        divided=Divided(topic_parts.topic_pages_parts, "topics")),
    ApiKey.DESCRIBE_PRODUCERS: Row(
        lambda r, c: describe_producers(r, c.broker.node_id, c.broker.topics), (topics(READ),),
        divided=by(
            "topics", "topics", repeats=True, weight=lambda c, topics: weight_of_producers(c.broker.topics, topics))),
    ApiKey.ELECT_LEADERS: Row(lambda r, c: c.broker.reassignments.elect(r, c.arrived), (cluster(ALTER),)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Row(
        lambda r, c: c.broker.reassignments.reassign(r, c.arrived), (cluster(ALTER),)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Row(
        lambda r, c: c.broker.reassignments.under_way(r), (cluster(DESCRIBE),)),
    ApiKey.DESCRIBE_LOG_DIRS: Row(
        lambda r, c: c.broker.log_dirs.describe(r), (cluster(DESCRIBE),),
        divided=Divided(topic_parts.log_dirs_parts, "results", one_directory)),
    ApiKey.UNREGISTER_CONTROLLER: Row(lambda r, c: c.broker.quorum.unregister_controller(r), (cluster(ALTER),)),
    ApiKey.DESCRIBE_QUORUM: Row(lambda r, c: c.broker.quorum.describe(r, c.arrived), (cluster(DESCRIBE),)),
    ApiKey.LIST_CONFIG_RESOURCES: Row(
        lambda r, c: c.broker.configs.list_config_resources(r, metrics_only=c.version == 0),
        (cluster(DESCRIBE_CONFIGS),)),
    ApiKey.DESCRIBE_ACLS: Row(lambda r, c: acls.describe_acls(), (cluster(DESCRIBE),)),
    ApiKey.CREATE_ACLS: Row(lambda r, c: acls.create_acls(r), (cluster(ALTER),)),
    ApiKey.DELETE_ACLS: Row(lambda r, c: acls.delete_acls(r), (cluster(ALTER),)),
    # A server with listeners by name has other rules for these four.
    ApiKey.CREATE_DELEGATION_TOKEN: Row(
        lambda r, c: create_token(r, c.client, OFF, 0),
        (Concern(Resource.USER, Operation.CREATE_TOKENS, _owner),)),
    ApiKey.RENEW_DELEGATION_TOKEN: Row(lambda r, c: renew_token(r, c.client, OFF, 0)),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Row(lambda r, c: expire_token(r, c.client, OFF, 0)),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Row(
        lambda r, c: describe_tokens(r, c.client, OFF),
        (Concern(Resource.USER, Operation.DESCRIBE_TOKENS, _owners),)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Row(
        lambda r, c: PARKED if c.broker.looks_first(c, c.arrived) else c.broker.describe_quotas(r),
        (cluster(DESCRIBE_CONFIGS),)),
    ApiKey.ALTER_CLIENT_QUOTAS: Row(lambda r, c: c.broker.change(r, c, c.arrived), (cluster(ALTER_CONFIGS),)),
    ApiKey.DESCRIBE_CONFIGS: Row(
        lambda r, c: c.broker.configs.describe_configs(r),
        (topics(DESCRIBE_CONFIGS, lambda r: _configured(r, 2)), group(DESCRIBE_CONFIGS, lambda r: _configured(r, 32))),
        divided=by("resources", "results", size=1, repeats=True)),
    ApiKey.ALTER_CONFIGS: Row(
        lambda r, c: c.broker.change(r, c, c.arrived),
        (topics(ALTER_CONFIGS, lambda r: _configured(r, 2)), group(ALTER_CONFIGS, lambda r: _configured(r, 32))),
        divided=by("resources", "responses", alone=True, together=_resource)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Row(
        lambda r, c: c.broker.change(r, c, c.arrived),
        (topics(ALTER_CONFIGS, lambda r: _configured(r, 2)), group(ALTER_CONFIGS, lambda r: _configured(r, 32))),
        divided=by("resources", "responses", alone=True, together=_resource)),

    ApiKey.INIT_PRODUCER_ID: Row(
        lambda r, c: c.broker.transactions.init_producer_id(r, c.arrived), (transaction(WRITE),)),
    ApiKey.ADD_PARTITIONS_TO_TXN: Row(
        lambda r, c: c.broker.transactions.add_partitions_to_txn(r, c.arrived),
        (transaction(WRITE, lambda r: [t.transactional_id for t in r.transactions]),
         topics(WRITE, lambda r: _added(r))),
        divided=by("transactions", "results_by_transaction", size=1)),
    ApiKey.ADD_OFFSETS_TO_TXN: Row(
        lambda r, c: c.broker.transactions.add_offsets_to_txn(r, c.arrived), (transaction(WRITE), group(READ))),
    ApiKey.END_TXN: Row(
        lambda r, c: c.broker.transactions.end_txn(r, c.arrived, bumps_epoch=c.version >= 5), (transaction(WRITE),)),
    ApiKey.DESCRIBE_TRANSACTIONS: Row(
        lambda r, c: c.broker.transaction_views.describe(r), (transaction(DESCRIBE, lambda r: r.transactional_ids),),
        divided=by(
            "transactional_ids", "transaction_states", repeats=True,
            weight=lambda c, ids: c.broker.transaction_views.weight_of(ids))),
    ApiKey.LIST_TRANSACTIONS: Row(
        lambda r, c: c.broker.transaction_views.list_ids(r, c.arrived, c, c.common),
        (transaction(DESCRIBE, lambda r: []),),
        divided=Divided(listings.list_transactions_parts, "transaction_states", common=list)),
    ApiKey.WRITE_TXN_MARKERS: Row(
        lambda r, c: c.broker.transactions.write_txn_markers(r, c.arrived), (cluster(CLUSTER_ACTION),)),
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
