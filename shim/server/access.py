"""Permissions of each API: the right that it needs, the place of a refusal in the answer, and the parts without it.

`ACCESS` has one entry for each API; an API without one needs CLUSTER_ACTION. `rights.py` has the ways to ask. Source:
Kafka 4.2, `KafkaApis` and `ControllerApis`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka_shim.apis import alter_share_group_offsets, delete_share_group_offsets
from kafka_shim.apis.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.offset_delete import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
from kafka_shim.apis.offset_fetch import OffsetFetchResponsePartitions, OffsetFetchResponseTopics
from kafka_shim.apis.streams_group_heartbeat import topics_of
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.security import acl_requests
from kafka_shim.security.delegation import principal_of, text_of
from kafka_shim.security.operations import CLUSTER_NAME, Operation, Resource
from kafka_shim.security.token_requests import creation_refused, has_no_type, owner_of
from kafka_shim.server.caller import Caller
from kafka_shim.server.jointly import change_durably
from kafka_shim.server.rights import (
    DENIED,
    Access,
    Cut,
    ask,
    cluster,
    cut,
    each,
    filtered,
    reduce_cluster,
    whole,
    with_fields,
    with_operations,
)

_TOPIC, _GROUP, _CLUSTER, _TRANSACTION = (
    Resource.TOPIC,
    Resource.GROUP,
    Resource.CLUSTER,
    Resource.TRANSACTIONAL_ID,
)
_TOPIC_DENIED: Final = "Topic authorization failed."
_CONFIG_RESOURCES: Final = {2: _TOPIC, 4: _CLUSTER, 8: _CLUSTER, 16: _CLUSTER, 32: _GROUP}


def _describe_cluster(request: Any, exchange: Any, caller: Caller) -> Any:
    caller.amend(exchange, lambda response: reduce_cluster(response, caller))
    return ask(request, exchange, caller)


def _sync(request: Any, exchange: Any, caller: Caller) -> Any:
    # A request without its protocol is INCONSISTENT_GROUP_PROTOCOL (23) before permissions count.
    if exchange.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return ask(request, exchange, caller)
    return _member(request, exchange, caller)


def _all_described(names: Callable[[Any], Any]) -> Access:
    """Refuse a heartbeat that names a topic that the client may not describe."""

    def access(request: Any, exchange: Any, caller: Caller) -> Any:
        if all(caller.may(Operation.DESCRIBE, _TOPIC, name) for name in names(request) or ()):
            return ask(request, exchange, caller)
        return caller.refusal(request, exchange, DENIED[_TOPIC])

    return whole(_GROUP, Operation.READ, lambda r: r.group_id, access)


def _describe_groups_of(request: Any, exchange: Any, caller: Caller) -> Any:
    def hide(response: Any) -> Any:
        for group in response.groups:
            if group.error_code == 0 and not all(
                caller.may(Operation.DESCRIBE, _TOPIC, topic) for topic in _topics_of_described(group, caller)
            ):
                group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                group.error_message = "The group has described topic(s) that the client is not authorized to describe."
                group.members = []
                if hasattr(group, "topology"):
                    group.topology = None
        return response

    caller.amend(exchange, hide)
    return ask(request, exchange, caller)


def _topics_of_described(group: Any, caller: Caller) -> set[str]:
    names: set[str] = set()
    for member in group.members:
        for assignment in (member.assignment, getattr(member, "target_assignment", None)):
            for topic in getattr(assignment, "topic_partitions", ()):
                names.add(topic.topic_name)
    topology = getattr(group, "topology", None)
    for part in (topology.subtopologies or ()) if topology is not None else ():
        names |= {*part.source_topics, *part.repartition_sink_topics}
        names |= {topic.name for topic in (*part.state_changelog_topics, *part.repartition_source_topics)}
    return names


def _offset_fetch(request: Any, exchange: Any, caller: Caller) -> Any:
    denied: dict[str, list[Any]] = {}
    groups = []
    for group in request.groups:
        if group.topics is not None:
            allowed: list[Any] = []
            refused: list[Any] = []
            for topic in group.topics:
                may = not topic.name or caller.may(Operation.DESCRIBE, _TOPIC, topic.name)
                (allowed if may else refused).append(topic)
            if refused:
                denied[group.group_id] = refused
                group = with_fields(group, topics=allowed)
        groups.append(group)
    whole_groups = {group.group_id for group in request.groups if group.topics is None}
    view = with_fields(request, groups=groups)

    def put_back(response: Any) -> Any:
        for group in response.groups:
            if group.group_id in whole_groups:
                group.topics = [
                    topic
                    for topic in group.topics
                    if caller.may(Operation.DESCRIBE, _TOPIC, topic.name or caller.topic(topic) or "")
                ]
            elif group.group_id in denied and not group.error_code:
                group.topics = [
                    *group.topics,
                    *(_no_offsets(topic, exchange) for topic in denied[group.group_id]),
                ]
        return response

    if denied:
        caller.denied = True
    if denied or whole_groups:
        caller.amend(exchange, put_back)
    return ask(view, exchange, caller)


def _no_offsets(topic: Any, exchange: Any) -> Any:
    return OffsetFetchResponseTopics(
        topic.name,
        topic.topic_id,
        [
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
            for index in topic.partition_indexes
        ],
    )


def _metadata(request: Any, exchange: Any, caller: Caller) -> Any:
    whole_request = exchange.request
    if whole_request.topics is None:

        def leave_out(response: Any) -> Any:
            response.topics = [
                topic for topic in response.topics if caller.may(Operation.DESCRIBE, _TOPIC, topic.name or "")
            ]
            return response

        caller.amend(exchange, leave_out)
        return ask(request, exchange, caller)
    may_create = caller.may(Operation.CREATE, _CLUSTER, CLUSTER_NAME)
    allowed: list[Any] = []
    denied: list[Any] = []
    for topic in request.topics:
        name = caller.topic(topic)
        exists = name is None or caller.exists(name)
        is_allowed = name is None or (
            caller.may(Operation.DESCRIBE, _TOPIC, name)
            and (
                exists
                or not request.allow_auto_topic_creation
                or not caller.creates_topics
                or may_create
                or caller.may(Operation.CREATE, _TOPIC, name)
            )
        )
        (allowed if is_allowed else denied).append(topic)
    if not denied:
        return ask(request, exchange, caller)
    caller.denied = True
    refused = exchange.endpoint.api.error(with_fields(request, topics=denied), DENIED[_TOPIC]).topics
    for topic, answer in zip(denied, refused, strict=True):
        answer.name = topic.name

    def put_back(response: Any) -> Any:
        response.topics = [*response.topics, *refused]
        return response

    caller.amend(exchange, put_back)
    return ask(with_fields(request, topics=allowed), exchange, caller)


def _fetch(request: Any, exchange: Any, caller: Caller) -> Any:
    # Kafka checks all partitions of a session at each fetch. A fetch without a session names them all, and a broker may
    # always answer that there is no session, as one with a full cache does.
    if request.session_id and request.session_epoch > 0:
        return caller.refusal(request, exchange, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    allowed: list[Any] = []
    refused: list[Any] = []
    for topic in request.topics:
        name = caller.topic(topic)
        if name is None or caller.may(Operation.READ, _TOPIC, name):
            allowed.append(topic)
        else:
            partitions = [
                PartitionData(each.partition, DENIED[_TOPIC], high_watermark=-1, records=b"")
                for each in topic.partitions
            ]
            refused.append(FetchableTopicResponse(topic.topic, topic.topic_id, partitions))
    if refused:
        caller.denied = True
        if not allowed:
            return FetchResponse(responses=refused)

        def put_back(response: Any) -> Any:
            # The answer may serve another request too.
            return with_fields(response, responses=[*refused, *response.responses])

        caller.amend(exchange, put_back)
    return ask(with_fields(request, session_id=0, session_epoch=-1, topics=allowed), exchange, caller)


def _share(request: Any, exchange: Any, caller: Caller) -> Any:
    # A share session names its partitions once; therefore the answer is checked too.
    def hide(response: Any) -> Any:
        for topic in response.responses:
            name = caller.topic(topic)
            if name is not None and not caller.may(Operation.READ, _TOPIC, name):
                for partition in topic.partitions:
                    partition.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    if hasattr(partition, "records"):
                        partition.records, partition.acquired_records = b"", []
        return response

    caller.amend(exchange, hide)
    return ask(request, exchange, caller)


def _create_topics(request: Any, exchange: Any, caller: Caller) -> Any:
    def tell(response: Any) -> Any:
        for topic in response.topics:
            if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                topic.error_message = "Authorization failed."
            elif topic.error_code == 0 and not caller.may(Operation.DESCRIBE_CONFIGS, _TOPIC, topic.name):
                topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []
        return response

    caller.amend(exchange, tell)
    return _CREATE_TOPICS(request, exchange, caller)


def _delete_topics(request: Any, exchange: Any, caller: Caller) -> Any:
    def hide(response: Any) -> Any:
        for topic in response.responses:
            if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and any(topic.topic_id):
                name = caller.topic(topic)
                topic.name = name if name and caller.may(Operation.DESCRIBE, _TOPIC, name) else None
        return response

    caller.amend(exchange, hide)
    return _DELETE_TOPICS(request, exchange, caller)


def _topic_pages(request: Any, exchange: Any, caller: Caller) -> Any:
    if exchange.request.topics:
        return _DESCRIBE_TOPIC_PAGES(request, exchange, caller)
    return filtered("topics", _TOPIC, Operation.DESCRIBE, lambda t: t.name)(request, exchange, caller)


def _configs(operation: Operation, answers: str) -> Access:
    def access(request: Any, exchange: Any, caller: Caller) -> Any:
        by_code: dict[int, list[Any]] = {}
        allowed = []
        for resource in request.resources:
            kind = _CONFIG_RESOURCES.get(resource.resource_type)
            name = CLUSTER_NAME if kind is _CLUSTER else resource.resource_name
            if kind is None or caller.may(operation, kind, name):
                allowed.append(resource)
            else:
                by_code.setdefault(DENIED[kind], []).append(resource)
        then: Access = ask
        for code, denied in by_code.items():
            then = _cut_configs(answers, denied, code, then)
        return then(with_fields(request, resources=allowed) if by_code else request, exchange, caller)

    return access


def _cut_configs(answers: str, denied: list[Any], code: int, then: Access) -> Access:
    def access(request: Any, exchange: Any, caller: Caller) -> Any:
        where = Cut("resources", answers, code, last=True, asks_anyway=True)
        return cut(request, exchange, caller, where, request.resources, denied, then)

    return access


def _producer_id(request: Any, exchange: Any, caller: Caller) -> Any:
    if request.transactional_id is not None:
        if not caller.may(Operation.WRITE, _TRANSACTION, request.transactional_id):
            return caller.refusal(request, exchange, DENIED[_TRANSACTION])
    elif not caller.may(Operation.IDEMPOTENT_WRITE, _CLUSTER, CLUSTER_NAME) and not caller.may_on_any_topic(
        Operation.WRITE
    ):
        return caller.refusal(request, exchange, DENIED[_CLUSTER])
    return ask(request, exchange, caller)


def _add_partitions(request: Any, exchange: Any, caller: Caller) -> Any:
    if exchange.version >= 4:
        return cluster(Operation.CLUSTER_ACTION)(request, exchange, caller)
    for transaction in request.transactions:
        if not caller.may(Operation.WRITE, _TRANSACTION, transaction.transactional_id):
            return caller.refusal(request, exchange, DENIED[_TRANSACTION])
        denied = {topic.name for topic in transaction.topics if not caller.may(Operation.WRITE, _TOPIC, topic.name)}
        if denied:
            response: Any = caller.refusal(request, exchange, ErrorCode.OPERATION_NOT_ATTEMPTED)
            for result in response.results_by_transaction:
                for topic in result.topic_results:
                    for partition in topic.results_by_partition:
                        if topic.name in denied:
                            partition.partition_error_code = DENIED[_TOPIC]
            return response
    return ask(request, exchange, caller)


def _describe_transactions(request: Any, exchange: Any, caller: Caller) -> Any:
    def hide(response: Any) -> Any:
        for state in response.transaction_states:
            state.topics = [each for each in state.topics if caller.may(Operation.DESCRIBE, _TOPIC, each.topic)]
        return response

    caller.amend(exchange, hide)
    return ask(request, exchange, caller)


def _describe_share_offsets(request: Any, exchange: Any, caller: Caller) -> Any:
    def hide(response: Any) -> Any:
        for group in response.groups:
            in_request = asks_for.get(group.group_id)
            topics = []
            for topic in group.topics:
                if caller.may(Operation.DESCRIBE, _TOPIC, topic.topic_name):
                    topics.append(topic)
                elif in_request is not None:
                    for partition in topic.partitions:
                        partition.start_offset = -1
                        partition.error_code = DENIED[_TOPIC]
                    topics.append(topic)
            group.topics = topics
        return response

    asks_for = {group.group_id: group.topics for group in request.groups}
    caller.amend(exchange, hide)
    return ask(request, exchange, caller)


def _no_deletion(topic: Any, code: int) -> OffsetDeleteResponseTopic:
    partitions = [OffsetDeleteResponsePartition(each.partition_index, code) for each in topic.partitions]
    return OffsetDeleteResponseTopic(topic.name, partitions)


def _no_share_change(topic: Any, code: int) -> alter_share_group_offsets.ResponseTopic:
    partitions = [
        alter_share_group_offsets.ResponsePartition(each.partition_index, code, _TOPIC_DENIED)
        for each in topic.partitions
    ]
    return alter_share_group_offsets.ResponseTopic(topic.topic_name, partitions=partitions)


def _no_share_deletion(topic: Any, code: int) -> delete_share_group_offsets.ResponseTopic:
    return delete_share_group_offsets.ResponseTopic(topic.topic_name, error_code=code, error_message=_TOPIC_DENIED)


def _find_coordinator(request: Any, exchange: Any, caller: Caller) -> Any:
    kinds = {0: (_GROUP, Operation.DESCRIBE), 1: (_TRANSACTION, Operation.DESCRIBE)}
    if request.key_type not in kinds:
        return cluster(Operation.CLUSTER_ACTION)(request, exchange, caller)
    resource, operation = kinds[request.key_type]
    return each("coordinator_keys", "coordinators", resource, operation, str)(request, exchange, caller)


def _acls(rule: Callable[[Any, Any], Any]) -> Access:
    def access(request: Any, exchange: Any, caller: Caller) -> Any:
        return change_durably(exchange, caller.authorizer, lambda authorizer: rule(request, authorizer))

    return access


def _create_token(request: Any, exchange: Any, caller: Caller) -> Any:
    client = exchange.client
    owner = text_of(owner_of(request, client))
    # A client without a proof of its own is refused before permissions count, and an owner without a type too.
    if (
        has_no_type(request)
        or not client.is_proved
        or owner == client.principal
        or caller.may(Operation.CREATE_TOKENS, Resource.USER, owner)
    ):
        return ask(request, exchange, caller)
    caller.denied = True
    return creation_refused(request, client, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


def _describe_tokens(request: Any, exchange: Any, caller: Caller) -> Any:
    principal = principal_of(exchange.client.principal)

    def may_see(token: Any) -> bool:
        owner = token.principal_type, token.principal_name
        return (
            principal in (owner, (token.token_requester_principal_type, token.token_requester_principal_name))
            or any(principal == (each.principal_type, each.principal_name) for each in token.renewers)
            or caller.may(Operation.DESCRIBE, Resource.DELEGATION_TOKEN, token.token_id)
            or caller.may(Operation.DESCRIBE_TOKENS, Resource.USER, text_of(owner))
        )

    def hide(response: Any) -> Any:
        response.tokens = [token for token in response.tokens if may_see(token)]
        return response

    caller.amend(exchange, hide)
    return ask(request, exchange, caller)


def _transactional_id(request: Any) -> str | None:
    name: str | None = request.transactional_id
    return name


_member: Final = whole(_GROUP, Operation.READ, lambda r: r.group_id or "")
_CREATE_TOPICS: Final = each("topics", "topics", _TOPIC, Operation.CREATE, lambda t: t.name, unless=(Operation.CREATE,))
_DELETE_TOPICS: Final = each("topics", "responses", _TOPIC, Operation.DELETE, unless=(Operation.DELETE,))
_DESCRIBE_TOPIC_PAGES: Final = each("topics", "topics", _TOPIC, Operation.DESCRIBE, lambda t: t.name)
_DESCRIBE_GROUPS: Final = each("group_ids", "groups", _GROUP, Operation.DESCRIBE, str, then=_describe_groups_of)
_describe_newer: Final = with_operations("groups", _GROUP, lambda g: g.group_id, _DESCRIBE_GROUPS)
_write_id: Final = whole(_TRANSACTION, Operation.WRITE, _transactional_id)

# fmt: off
ACCESS: Final[dict[int, Access]] = {
    ApiKey.API_VERSIONS: ask,
    ApiKey.SASL_HANDSHAKE: ask,
    ApiKey.SASL_AUTHENTICATE: ask,
    ApiKey.JOIN_GROUP: _member,
    ApiKey.SYNC_GROUP: _sync,
    ApiKey.HEARTBEAT: _member,
    ApiKey.LEAVE_GROUP: _member,
    ApiKey.DESCRIBE_GROUPS: with_operations("groups", _GROUP, lambda g: g.group_id,
        each("groups", "groups", _GROUP, Operation.DESCRIBE, str)),
    ApiKey.LIST_GROUPS: filtered("groups", _GROUP, Operation.DESCRIBE, lambda g: g.group_id, unless=True),
    ApiKey.DELETE_GROUPS: each("groups_names", "results", _GROUP, Operation.DELETE, str, last=True),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _all_described(lambda r: r.subscribed_topic_names),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _describe_newer,
    ApiKey.STREAMS_GROUP_HEARTBEAT: _all_described(lambda r: topics_of(r.topology)),
    ApiKey.STREAMS_GROUP_DESCRIBE: _describe_newer,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _member,
    ApiKey.SHARE_GROUP_HEARTBEAT: _all_described(lambda r: r.subscribed_topic_names),
    ApiKey.SHARE_GROUP_DESCRIBE: _describe_newer,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: each("groups", "groups", _GROUP, Operation.DESCRIBE, lambda g: g.group_id,
        then=_describe_share_offsets),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: whole(_GROUP, Operation.READ, lambda r: r.group_id,
        each("topics", "responses", _TOPIC, Operation.READ, lambda t: t.topic_name, refuse=_no_share_change,
            asks_anyway=True)),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: whole(_GROUP, Operation.DELETE, lambda r: r.group_id,
        each("topics", "responses", _TOPIC, Operation.READ, lambda t: t.topic_name, refuse=_no_share_deletion,
            asks_anyway=True)),
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.OFFSET_COMMIT: whole(_GROUP, Operation.READ, lambda r: r.group_id,
        each("topics", "topics", _TOPIC, Operation.READ)),
    ApiKey.OFFSET_FETCH: each("groups", "groups", _GROUP, Operation.DESCRIBE, lambda g: g.group_id, then=_offset_fetch),
    ApiKey.OFFSET_DELETE: whole(_GROUP, Operation.DELETE, lambda r: r.group_id,
        each("topics", "topics", _TOPIC, Operation.READ, asks_anyway=True, refuse=_no_deletion)),
    ApiKey.TXN_OFFSET_COMMIT: whole(_TRANSACTION, Operation.WRITE, _transactional_id,
        whole(_GROUP, Operation.READ, lambda r: r.group_id, each("topics", "topics", _TOPIC, Operation.READ))),
    ApiKey.METADATA: with_operations("topics", _TOPIC, lambda t: t.name, _metadata),
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
    ApiKey.PRODUCE: whole(_TRANSACTION, Operation.WRITE, _transactional_id,
        each("topic_data", "responses", _TOPIC, Operation.WRITE)),
    ApiKey.FETCH: _fetch,
    ApiKey.SHARE_FETCH: whole(_GROUP, Operation.READ, lambda r: r.group_id or "", _share),
    ApiKey.SHARE_ACKNOWLEDGE: whole(_GROUP, Operation.READ, lambda r: r.group_id or "", _share),
    ApiKey.LIST_OFFSETS: each("topics", "topics", _TOPIC, Operation.DESCRIBE, lambda t: t.name),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: each("topics", "topics", _TOPIC, Operation.DESCRIBE, lambda t: t.topic,
        unless=(Operation.CLUSTER_ACTION,)),
    ApiKey.UPDATE_FEATURES: cluster(Operation.ALTER),
    ApiKey.UNREGISTER_CONTROLLER: cluster(Operation.ALTER),
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: each("topics", "results", _TOPIC, Operation.ALTER, lambda t: t.name),
    ApiKey.DELETE_RECORDS: each("topics", "topics", _TOPIC, Operation.DELETE, lambda t: t.name),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: with_operations("topics", _TOPIC, lambda t: t.name, _topic_pages),
    ApiKey.DESCRIBE_PRODUCERS: each("topics", "topics", _TOPIC, Operation.READ, lambda t: t.name),
    ApiKey.ELECT_LEADERS: cluster(Operation.ALTER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster(Operation.ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster(Operation.DESCRIBE),
    ApiKey.DESCRIBE_LOG_DIRS: cluster(Operation.DESCRIBE),
    ApiKey.DESCRIBE_QUORUM: cluster(Operation.DESCRIBE),
    ApiKey.LIST_CONFIG_RESOURCES: cluster(Operation.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_ACLS: cluster(Operation.DESCRIBE, then=_acls(acl_requests.describe_acls)),
    ApiKey.CREATE_ACLS: cluster(Operation.ALTER, then=_acls(acl_requests.create_acls)),
    ApiKey.DELETE_ACLS: cluster(Operation.ALTER, then=_acls(acl_requests.delete_acls)),
    ApiKey.CREATE_DELEGATION_TOKEN: _create_token,
    ApiKey.RENEW_DELEGATION_TOKEN: ask,
    ApiKey.EXPIRE_DELEGATION_TOKEN: ask,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _describe_tokens,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster(Operation.DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster(Operation.ALTER),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster(Operation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: cluster(Operation.ALTER_CONFIGS),
    ApiKey.DESCRIBE_CONFIGS: _configs(Operation.DESCRIBE_CONFIGS, "results"),
    ApiKey.ALTER_CONFIGS: _configs(Operation.ALTER_CONFIGS, "responses"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs(Operation.ALTER_CONFIGS, "responses"),
    ApiKey.INIT_PRODUCER_ID: _producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: whole(_TRANSACTION, Operation.WRITE, _transactional_id, _member),
    ApiKey.END_TXN: _write_id,
    ApiKey.DESCRIBE_TRANSACTIONS: each("transactional_ids", "transaction_states", _TRANSACTION, Operation.DESCRIBE, str,
        then=_describe_transactions),
    ApiKey.LIST_TRANSACTIONS: filtered("transaction_states", _TRANSACTION, Operation.DESCRIBE,
        lambda t: t.transactional_id),
    ApiKey.WRITE_TXN_MARKERS: cluster(Operation.ALTER, Operation.CLUSTER_ACTION),
}
# fmt: on
OTHERS: Final = cluster(Operation.CLUSTER_ACTION)
"""The access to an API without an entry."""
