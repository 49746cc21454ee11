"""Cases about permissions on topics, transactions and the cluster, and about the rule of ACLs itself."""

from __future__ import annotations

from functools import partial

from kafka_shim.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_shim.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafka_shim.apis.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_shim.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_shim.apis.describe_cluster import DescribeClusterRequest
from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_shim.apis.end_txn import EndTxnRequest
from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_shim.apis.init_producer_id import InitProducerIdRequest
from kafka_shim.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.access_groups import DENIED, DENIED_TOPIC, bits
from kafka_shim.conformance.targets.secured import SECURITY
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.user import User

DENIED_CLUSTER, DENIED_ID = E.CLUSTER_AUTHORIZATION_FAILED, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

topic_case = partial(case, source="semantics 6.5", profile=SECURITY)


# -- the rule


def heartbeat(user: User, group: str) -> int:
    """Send a heartbeat; return its error: 30 without READ, 25 with it."""
    code: int = user.call(HeartbeatRequest(group, 1, "nobody")).error_code
    return code


@topic_case("access/rule/1", "A denial stands over an allowance, in whatever order they were created")
def denial(t: Trial) -> None:
    alice = User(t)
    alice.allow("ALL", group=t.group)
    t.equal(heartbeat(alice, t.group), E.UNKNOWN_MEMBER_ID, "the error with ALL")
    alice.deny("READ", group=t.group)
    t.equal(heartbeat(alice, t.group), DENIED, "the error with a denial of READ")
    alice.allow("READ", group=t.group)
    t.equal(heartbeat(alice, t.group), DENIED, "the error with one more allowance")


@topic_case("access/rule/2", "A prefix covers names that begin with it, its own too, and no others")
def prefix(t: Trial) -> None:
    alice = User(t)
    alice.allow("READ", group=f"{t.group}-a", prefixed=True)
    errors = [heartbeat(alice, f"{t.group}{end}") for end in ("-a", "-abc", "-b", "")]
    t.equal(errors, [E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID, DENIED, DENIED], "errors")


@topic_case("access/rule/3", "The literal name * covers every name, the prefix * only names that begin with it")
def wildcard(t: Trial) -> None:
    alice, bob = User(t), User(t, "bob")
    alice.allow("READ", group="*")
    bob.allow("READ", group="*", prefixed=True)
    t.equal(heartbeat(alice, t.group), E.UNKNOWN_MEMBER_ID, "the error with the literal *")
    t.equal([heartbeat(bob, t.group), heartbeat(bob, "*x")], [DENIED, E.UNKNOWN_MEMBER_ID], "errors with the prefix *")


@topic_case("access/rule/4", "An ACL for another address than the client's does not count")
def host(t: Trial) -> None:
    alice = User(t)
    alice.allow("READ", group=t.group, host="192.0.2.1")
    t.equal(heartbeat(alice, t.group), DENIED, "the error with an ACL for another address")
    alice.allow("READ", group=t.group, host="127.0.0.1")
    t.equal(heartbeat(alice, t.group), E.UNKNOWN_MEMBER_ID, "the error with one for this address")


@topic_case("access/rule/5", "A denial of READ leaves DESCRIBE, and one of DESCRIBE leaves READ")
def partial_denial(t: Trial) -> None:
    topic = t.topic(1)
    alice, bob = User(t), User(t, "bob")
    for user, denied in ((alice, "READ"), (bob, "DESCRIBE")):
        user.allow("ALL", topic=topic)
        user.deny(denied, topic=topic)
    errors = [[describe(user, topic), read(user, t, topic)] for user in (alice, bob)]
    t.equal(errors, [[0, DENIED_TOPIC], [DENIED_TOPIC, 0]], "errors of Metadata and Fetch")


@topic_case("access/rule/6", "READ, WRITE, DELETE and ALTER include DESCRIBE; CREATE does not")
def included(t: Trial) -> None:
    topic = t.topic(1)
    for operation in ("READ", "WRITE", "DELETE", "ALTER"):
        user = User(t, operation.lower())
        user.allow(operation, topic=topic)
        t.equal(describe(user, topic), 0, f"the error of Metadata with {operation}")
    user = User(t, "create")
    user.allow("CREATE", topic=topic)
    t.equal(describe(user, topic), DENIED_TOPIC, "the error of Metadata with CREATE")


@topic_case("access/rule/7", "An ACL of User:* counts for every client, and a denial of it too")
def everybody(t: Trial) -> None:
    alice, everyone = User(t), User(t, "*", is_shared=True)
    everyone.allow("READ", group=t.group)
    t.equal(heartbeat(alice, t.group), E.UNKNOWN_MEMBER_ID, "the error with an allowance")
    everyone.deny("READ", group=f"{t.group}-x")
    alice.allow("READ", group=f"{t.group}-x")
    t.equal(heartbeat(alice, f"{t.group}-x"), DENIED, "the error with a denial")


def describe(user: User, topic: str) -> int:
    """Return the error of a topic in Metadata."""
    request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    code: int = user.call(request).topics[0].error_code
    return code


def read(user: User, t: Trial, topic: str) -> int:
    """Return the error of a topic in Fetch."""
    version = t.version_of("Fetch")
    partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)]
    topic_field = {"topic_id": t.topic_id(topic)} if version >= 13 else {"topic": topic}
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(partitions=partitions, **topic_field)])
    code: int = user.call(request).responses[0].partitions[0].error_code
    return code


# -- topics


@topic_case(
    "access/metadata/1",
    "A denied topic is 29 without partitions, whether it exists or not",
    api="Metadata",
    versions=(4, 13),
)
def metadata(t: Trial) -> None:
    topic, missing = t.topic(3), f"{t.group}-missing"
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in (topic, missing)], False)
    answer = User(t).call(request)
    errors = {each.name: (each.error_code, each.topic_id, each.partitions) for each in answer.topics}
    t.equal(errors, dict.fromkeys((topic, missing), (DENIED_TOPIC, bytes(16), [])), "topics")


@topic_case(
    "access/metadata/2",
    "Metadata of all topics has those that the client may describe",
    api="Metadata",
    versions=(1, 13),
)
def metadata_of_all(t: Trial) -> None:
    alice = User(t)
    t.topic(1)
    t.equal(alice.call(MetadataRequest(None)).topics, [], "topics without an ACL")
    alice.allow("READ", topic=t.topic(3))
    t.equal([each.name for each in alice.call(MetadataRequest(None)).topics], [t.topic(3)], "topics with one ACL")


@topic_case(
    "access/metadata/3",
    "A denied topic by its id is 29 with the id and no name; an unknown id is 100",
    api="Metadata",
    versions=(12, 13),
)
def metadata_by_id(t: Trial) -> None:
    ids = [t.topic_id(t.topic(1)), b"\7" * 16]
    request = MetadataRequest([MetadataRequestTopic(topic_id=each, name=None) for each in ids], False)
    errors = {each.topic_id: (each.error_code, each.name) for each in User(t).call(request).topics}
    t.equal(errors, {ids[0]: (DENIED_TOPIC, None), ids[1]: (E.UNKNOWN_TOPIC_ID, None)}, "topics")


@topic_case(
    "access/metadata/4", "The operations of topic and cluster are those of the client", api="Metadata", versions=(8, 10)
)
def metadata_operations(t: Trial) -> None:
    alice = User(t)
    topic = t.topic(1)
    alice.allow("READ", topic=topic)
    request = MetadataRequest([MetadataRequestTopic(name=topic)], False, True, True)
    answer = alice.call(request)
    t.equal(answer.topics[0].topic_authorized_operations, bits(3, 8), "operations of the topic")
    t.expect(answer, cluster_authorized_operations=0)


@topic_case(
    "access/cluster/1", "DescribeCluster needs no right; its operations are 0 without DESCRIBE", api="DescribeCluster"
)
def cluster(t: Trial) -> None:
    alice = User(t)
    request = DescribeClusterRequest(True)
    answer = t.expect(alice.call(request), error_code=0, cluster_authorized_operations=0)
    t.check(len(answer.brokers) > 0, "there are no brokers")
    alice.allow("ALTER", "CREATE")
    t.expect(alice.call(request), error_code=0, cluster_authorized_operations=bits(5, 7, 8))


@topic_case("access/fetch/1", "Fetch needs READ on the topic, else its partitions are 29", api="Fetch")
def fetch(t: Trial) -> None:
    alice = User(t)
    alice.allow("DESCRIBE", topic=t.topic(1))
    t.equal(read(alice, t, t.topic(1)), DENIED_TOPIC, "the error with DESCRIBE")
    alice.allow("READ", topic=t.topic(1))
    t.equal(read(alice, t, t.topic(1)), 0, "the error with READ")


@topic_case(
    "access/list-offsets/1",
    "ListOffsets needs DESCRIBE on the topic, else 29 with offset -1",
    api="ListOffsets",
    versions=(1, 11),
)
def list_offsets(t: Trial) -> None:
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(t.topic(1), partitions)])
    partition = User(t).call(request).topics[0].partitions[0]
    t.expect(partition, error_code=DENIED_TOPIC, offset=-1, timestamp=-1)


@topic_case(
    "access/create-topics/1", "CreateTopics needs CREATE on the cluster or the topic, else 29", api="CreateTopics"
)
def create_topics(t: Trial) -> None:
    alice, bob = User(t), User(t, "bob")
    names = [f"{t.group}-{name}" for name in "ab"]
    alice.allow("CREATE", topic=names[0])
    bob.allow("CREATE")
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1, [], []) for name in names], 10_000)
    topics = {each.name: each for each in alice.call(request).topics}
    t.equal({name: each.error_code for name, each in topics.items()}, {names[0]: 0, names[1]: DENIED_TOPIC}, "errors")
    if t.version >= 1:
        t.equal(topics[names[1]].error_message, "Authorization failed.", "the message")
    if t.version >= 5:
        expected = {"topic_config_error_code": DENIED_TOPIC, "num_partitions": -1, "replication_factor": -1}
        t.expect(topics[names[0]], **expected, configs=[])
    codes = {each.name: each.error_code for each in bob.call(request).topics}
    t.equal(codes, {names[0]: E.TOPIC_ALREADY_EXISTS, names[1]: 0}, "errors with CREATE on the cluster")


@topic_case(
    "access/delete-topics/1", "DeleteTopics needs DELETE on the topic, else 29, for no topic too", api="DeleteTopics"
)
def delete_topics(t: Trial) -> None:
    topic, missing = t.new_topic(1), f"{t.group}-missing"
    alice = User(t)
    alice.allow("DESCRIBE", topic=topic)
    names = [topic, missing]
    if t.version >= 6:
        request = DeleteTopicsRequest([DeleteTopicState(name) for name in names], timeout_ms=10_000)
    else:
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=10_000)
    codes = {each.name: each.error_code for each in alice.call(request).responses}
    t.equal(codes, dict.fromkeys(names, DENIED_TOPIC), "errors")
    alice.allow("DELETE", topic=topic)
    codes = {each.name: each.error_code for each in alice.call(request).responses}
    t.equal(codes, {topic: 0, missing: DENIED_TOPIC}, "errors with DELETE")


@topic_case(
    "access/delete-topics/2",
    "A denied topic by its id has no name unless the client may describe it",
    api="DeleteTopics",
    versions=(6, 6),
)
def delete_topics_by_id(t: Trial) -> None:
    topic_id = t.topic_id(t.topic(1))
    alice = User(t)
    request = DeleteTopicsRequest([DeleteTopicState(None, topic_id)], timeout_ms=10_000)
    t.expect(alice.call(request).responses[0], error_code=DENIED_TOPIC, name=None, topic_id=topic_id)
    alice.allow("DESCRIBE", topic=t.topic(1))
    t.expect(alice.call(request).responses[0], error_code=DENIED_TOPIC, name=t.topic(1), topic_id=topic_id)


@topic_case("access/create-partitions/1", "CreatePartitions needs ALTER on the topic, else 29", api="CreatePartitions")
def create_partitions(t: Trial) -> None:
    request = CreatePartitionsRequest([CreatePartitionsTopic(t.topic(1), 2, None)], 10_000, True)
    t.expect(User(t).call(request).results[0], error_code=DENIED_TOPIC)


@topic_case("access/configs/1", "DescribeConfigs and IncrementalAlterConfigs refuse each resource with its own error")
def configs(t: Trial) -> None:
    alice = User(t)
    resources = [(2, t.topic(1)), (32, t.group), (4, "1"), (2, t.topic(3))]
    alice.allow("ALTER_CONFIGS", topic=t.topic(3))
    described = alice.call(DescribeConfigsRequest([DescribeConfigsResource(*each, None) for each in resources]))
    expected = {t.topic(1): DENIED_TOPIC, t.group: DENIED, "1": DENIED_CLUSTER, t.topic(3): 0}
    t.equal({each.resource_name: each.error_code for each in described.results}, expected, "errors of DescribeConfigs")
    changed = [AlterConfigsResource(*each, [AlterableConfig("retention.ms", 1, None)]) for each in resources]
    answer = alice.call(IncrementalAlterConfigsRequest(changed, True))
    t.equal({each.resource_name: each.error_code for each in answer.responses}, expected, "errors of the change")


# -- transactions


@topic_case(
    "access/producer/1", "InitProducerId of a transactional id needs WRITE on it, else 53", api="InitProducerId"
)
def transactional_producer(t: Trial) -> None:
    alice = User(t)
    key = f"{t.group}-txn"
    alice.allow("DESCRIBE", transactional_id=key)
    t.expect(alice.call(InitProducerIdRequest(key, 60_000)), error_code=DENIED_ID, producer_id=-1)


@topic_case(
    "access/producer/2",
    "InitProducerId without an id needs IDEMPOTENT_WRITE, or WRITE on some topic, else 31",
    api="InitProducerId",
)
def idempotent_producer(t: Trial) -> None:
    alice, bob, carol = User(t), User(t, "bob"), User(t, "carol")
    request = InitProducerIdRequest(None, 60_000)
    t.expect(alice.call(request), error_code=DENIED_CLUSTER)
    alice.allow("IDEMPOTENT_WRITE")
    bob.allow("WRITE", topic=f"{t.group}-", prefixed=True)
    carol.allow("WRITE", topic=f"{t.group}-x")
    carol.deny("WRITE", topic=f"{t.group}-", prefixed=True)

    def error_of(user: User) -> int:
        def ask() -> int:
            code: int = user.call(request).error_code
            return code

        return t.until(ask, lambda code: code not in (14, 15), "there is no producer id")

    t.equal([error_of(user) for user in (alice, bob, carol)], [0, 0, DENIED_CLUSTER], "errors")


@topic_case(
    "access/transaction/1",
    "AddPartitionsToTxn: 53 without the id; with one topic denied 29 and 55",
    api="AddPartitionsToTxn",
    versions=(0, 3),
)
def add_partitions(t: Trial) -> None:
    alice = User(t)
    first, second, key = t.topic(1), t.topic(3), f"{t.group}-txn"
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=key,
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name, [0]) for name in (first, second)],
    )

    def codes() -> dict[str, int]:
        results = alice.call(request).results_by_topic_v3_and_below
        return {each.name: each.results_by_partition[0].partition_error_code for each in results}

    t.equal(codes(), {first: DENIED_ID, second: DENIED_ID}, "errors without the id")
    alice.allow("WRITE", transactional_id=key)
    alice.allow("WRITE", topic=second)
    t.equal(codes(), {first: DENIED_TOPIC, second: E.OPERATION_NOT_ATTEMPTED}, "errors with one topic")


@topic_case(
    "access/transaction/2",
    "AddPartitionsToTxn from version 4 on is for brokers: 31",
    api="AddPartitionsToTxn",
    versions=(4, 5),
)
def add_partitions_as_broker(t: Trial) -> None:
    one = AddPartitionsToTxnTransaction(f"{t.group}-txn", 1, 0, False, [AddPartitionsToTxnTopic(t.topic(1), [0])])
    t.expect(User(t).call(AddPartitionsToTxnRequest(transactions=[one])), error_code=DENIED_CLUSTER)


@topic_case(
    "access/transaction/3",
    "AddOffsetsToTxn needs WRITE on the id, else 53, and READ on the group, else 30",
    api="AddOffsetsToTxn",
)
def add_offsets(t: Trial) -> None:
    alice = User(t)
    request = AddOffsetsToTxnRequest(f"{t.group}-txn", 1, 0, t.group)
    t.expect(alice.call(request), error_code=DENIED_ID)
    alice.allow("WRITE", transactional_id=f"{t.group}-txn")
    t.expect(alice.call(request), error_code=DENIED)


@topic_case(
    "access/transaction/4",
    "TxnOffsetCommit: 53 without the id, 30 without the group, 29 without the topic",
    api="TxnOffsetCommit",
)
def commit_offsets(t: Trial) -> None:
    alice = User(t)
    topic, key = t.topic(1), f"{t.group}-txn"
    topic_field = {"topic_id": t.topic_id(topic)} if t.version >= 6 else {"name": topic}
    partitions = [TxnOffsetCommitRequestPartition(0, 7, committed_metadata="")]
    request = TxnOffsetCommitRequest(
        key, t.group, 1, 0, topics=[TxnOffsetCommitRequestTopic(partitions=partitions, **topic_field)]
    )

    def code() -> int:
        error: int = alice.call(request).topics[0].partitions[0].error_code
        return error

    t.equal(code(), DENIED_ID, "the error without the id")
    alice.allow("WRITE", transactional_id=key)
    t.equal(code(), DENIED, "the error without the group")
    alice.allow("READ", group=t.group)
    t.equal(code(), DENIED_TOPIC, "the error without the topic")


@topic_case("access/transaction/5", "EndTxn needs WRITE on the id, else 53", api="EndTxn")
def end(t: Trial) -> None:
    t.expect(User(t).call(EndTxnRequest(f"{t.group}-txn", 1, 0, True)), error_code=DENIED_ID)
