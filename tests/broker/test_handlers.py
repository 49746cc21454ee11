"""From bytes to bytes: every version of every API of the broker is decoded, handled, shaped and encoded.

Only the differences between versions are tested here; other modules test the rules.
"""

from typing import Any

import pytest

from kafka_shim.apis import (
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from kafka_shim.apis.api import Api
from kafka_shim.apis.profiles import PROFILES
from kafka_shim.apis.releases import DEFAULT_RELEASE
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.interface import NO_REPLY, Client
from tests.broker.context import Cluster, batch
from tests.handling import Call, handle


class Coordinators:
    """Where groups and transactional ids are coordinated, as far as FindCoordinator asks."""

    def coordinator_of(self, key: str, key_type: int) -> tuple[int, int, str, int]:
        return (
            (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, "", -1)
            if key == "loading"
            else (0, 1, "host", 9000 + key_type)
        )


def cluster_of_two() -> Cluster:
    """Two brokers; topic `t` has its partition 0 on broker 1, which is asked, and partition 1 on broker 2."""
    cluster = Cluster(nodes=2)
    cluster.topics.create("t", [[1], [2]])
    cluster.send("t", 0, batch(b"a", b"b"))
    return cluster


def ask(cluster: Cluster, api: Api, request: Message, version: int) -> Any:
    """The response to a request, both as bytes on their way; None where nothing is answered."""
    call = Call(version, Client("client", "/127.0.0.1"), cluster.now, Coordinators(), cluster.broker)
    decoded = api.request.decode(request.encode(version), version)
    answer = handle(decoded, call)
    if answer is NO_REPLY:
        return None
    return api.response.decode(api.shape(answer, version).encode(version), version)


def versions(api: Api, since: int = 0) -> Any:
    """Run a test with each version of an API, from one on."""
    return pytest.mark.parametrize("version", [each for each in api.request.versions if each >= since])


class TestApiVersions:
    @versions(api_versions.API)
    def test_lists_the_release(self, version: int) -> None:
        request = api_versions.ApiVersionsRequest()
        if version >= 3:
            request = api_versions.ApiVersionsRequest("some-client", "1.0")
        answer = ask(Cluster(), api_versions.API, request, version)
        listed = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert (answer.error_code, listed) == (0, PROFILES[DEFAULT_RELEASE])
        lowest = [each.min_version for each in answer.supported_features]
        assert (0 in lowest) == (version >= 4)
        assert bool(answer.finalized_features) == (version >= 3)

    @pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "x\n"])
    @versions(api_versions.API, since=3)
    def test_malformed_software(self, version: int, name: str) -> None:
        answer = ask(Cluster(), api_versions.API, api_versions.ApiVersionsRequest(name, "1"), version)
        assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])


class TestMetadata:
    @versions(metadata.API)
    def test_all_topics(self, version: int) -> None:
        topics: list[Any] | None = [] if version == 0 else None
        answer = ask(cluster_of_two(), metadata.API, metadata.MetadataRequest(topics=topics), version)
        assert [topic.name for topic in answer.topics] == ["t"]

    @versions(metadata.API, since=1)
    def test_no_topics(self, version: int) -> None:
        assert ask(cluster_of_two(), metadata.API, metadata.MetadataRequest(topics=[]), version).topics == []

    @versions(metadata.API)
    def test_created_unless_the_client_says_no(self, version: int) -> None:
        rows = [metadata.MetadataRequestTopic(name="new")]
        request = metadata.MetadataRequest(topics=rows, allow_auto_topic_creation=version < 4)
        cluster = Cluster()
        for expected in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0 if version < 4 else 3):
            assert ask(cluster, metadata.API, request, version).topics[0].error_code == expected

    @versions(metadata.API, since=10)
    def test_by_id(self, version: int) -> None:
        cluster = cluster_of_two()
        ids = [cluster.broker.topics.topic_id("t"), b"?" * 16]
        request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(each, None) for each in ids])
        answer = ask(cluster, metadata.API, request, version)
        if version < 12:
            assert {topic.error_code for topic in answer.topics} == {ErrorCode.INVALID_REQUEST}
        else:
            assert [(each.error_code, each.name) for each in answer.topics] == [
                (0, "t"),
                (ErrorCode.UNKNOWN_TOPIC_ID, None),
            ]


class TestFindCoordinator:
    def find(self, version: int, *keys: str, key_type: int = 0) -> list[tuple[int, int, str, int]]:
        request = find_coordinator.FindCoordinatorRequest(key_type=key_type)
        if version < 4:
            (request.key,) = keys
        else:
            request.coordinator_keys = list(keys)
        answer = ask(Cluster(), find_coordinator.API, request, version)
        found = answer.coordinators if version >= 4 else [answer]
        return [(each.error_code, each.node_id, each.host, each.port) for each in found]

    @pytest.mark.parametrize("key", ["group", ""])
    @versions(find_coordinator.API)
    def test_group(self, version: int, key: str) -> None:
        assert self.find(version, key) == [(0, 1, "host", 9000)]

    @versions(find_coordinator.API)
    def test_error(self, version: int) -> None:
        assert self.find(version, "loading") == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, "", -1)]

    @versions(find_coordinator.API, since=1)
    def test_other_kinds_of_key(self, version: int) -> None:
        assert self.find(version, "id", key_type=1) == [(0, 1, "host", 9001)]
        assert self.find(version, "id", key_type=9) == [(ErrorCode.INVALID_REQUEST, -1, "", -1)]

    @versions(find_coordinator.API, since=4)
    def test_many(self, version: int) -> None:
        found = self.find(version, "a", "loading", "b")
        assert [each[0] for each in found] == [0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0]

    @versions(find_coordinator.API)
    def test_makes_the_offsets_topic(self, version: int) -> None:
        cluster = Cluster()
        request = find_coordinator.FindCoordinatorRequest(key="g")
        if version >= 4:
            request = find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"])
        ask(cluster, find_coordinator.API, request, version)
        assert 49 in range(cluster.broker.topics.partitions_of("__consumer_offsets"))


class TestProduce:
    def request(self, cluster: Cluster, version: int, data: bytes, **fields: Any) -> produce.ProduceRequest:
        partitions = [produce.PartitionProduceData(index, data) for index in (0, 1, 2)]
        topic = produce.TopicProduceData("t", bytes(16), partitions)
        if version >= 13:
            topic = produce.TopicProduceData("", cluster.broker.topics.topic_id("t"), partitions)
        return produce.ProduceRequest(**{"acks": -1, "timeout_ms": 1000, **fields}, topic_data=[topic])

    @versions(produce.API)
    def test_each_partition_for_itself(self, version: int) -> None:
        cluster = cluster_of_two()
        answer = ask(cluster, produce.API, self.request(cluster, version, batch(b"c")), version)
        (topic,) = answer.responses
        assert [(each.index, each.error_code, each.base_offset) for each in topic.partition_responses] == [
            (0, 0, 2),
            (1, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
            (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ]
        assert [each.node_id for each in answer.node_endpoints] == ([2] if version >= 10 else [])

    @versions(produce.API)
    def test_zstd(self, version: int) -> None:
        cluster = cluster_of_two()
        data = batch(b"c", client="aiokafka", codec="zstd")
        answer = ask(cluster, produce.API, self.request(cluster, version, data), version)
        expected = 0 if version >= 7 else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert answer.responses[0].partition_responses[0].error_code == expected

    @versions(produce.API)
    def test_no_acks(self, version: int) -> None:
        cluster = cluster_of_two()
        assert ask(cluster, produce.API, self.request(cluster, version, batch(b"c"), acks=0), version) is None
        assert cluster.topics.named("t").partitions[0].log.end_offset == 3


class TestFetch:
    @versions(fetch.API)
    def test_each_partition_for_itself(self, version: int) -> None:
        cluster = cluster_of_two()
        partitions = [fetch.FetchPartition(partition=each, partition_max_bytes=2**20) for each in (0, 1, 2)]
        topic = fetch.FetchTopic("t", bytes(16), partitions)
        if version >= 13:
            topic = fetch.FetchTopic("", cluster.broker.topics.topic_id("t"), partitions)
        request = fetch.FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic])
        if version >= 7:
            request.session_epoch = 0
        answer = ask(cluster, fetch.API, request, version)
        (found,) = answer.responses
        assert (found.topic, found.topic_id) == (topic.topic, topic.topic_id)
        assert [(each.partition_index, each.error_code) for each in found.partitions] == [
            (0, 0),
            (1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert found.partitions[0].high_watermark == 2
        assert [bool(each.records) for each in found.partitions] == [True, False, False]
        assert bool(answer.session_id) == (version >= 7)
        assert [each.node_id for each in answer.node_endpoints] == ([2] if version >= 16 else [])


@versions(list_offsets.API)
def test_list_offsets_knows_the_questions_of_its_version(version: int) -> None:
    cluster = cluster_of_two()
    since = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11, -7: 99}
    for timestamp, first in since.items():
        topic = list_offsets.ListOffsetsTopic("t", [list_offsets.ListOffsetsPartition(0, timestamp=timestamp)])
        request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = ask(cluster, list_offsets.API, request, version).topics[0].partitions[0]
        assert answer.error_code == (0 if version >= first else ErrorCode.UNSUPPORTED_VERSION)
        if timestamp == -1:
            assert answer.old_style_offsets == [2] if version == 0 else answer.offset == 2


@versions(offset_for_leader_epoch.API)
def test_offset_for_leader_epoch(version: int) -> None:
    rows = [offset_for_leader_epoch.OffsetForLeaderPartition(index, leader_epoch=0) for index in (0, 1)]
    topic = offset_for_leader_epoch.OffsetForLeaderTopic("t", rows)
    request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[topic])
    answer = ask(cluster_of_two(), offset_for_leader_epoch.API, request, version)
    found = [(each.error_code, each.end_offset) for each in answer.topics[0].partitions]
    assert found == [(0, 2), (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


@versions(create_topics.API)
def test_create_topics(version: int) -> None:
    cluster = cluster_of_two()
    topics = [create_topics.CreatableTopic(name, 1, 1) for name in ("new", "t")]
    answer = ask(cluster, create_topics.API, create_topics.CreateTopicsRequest(topics=topics), version)
    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("new", 0),
        ("t", ErrorCode.TOPIC_ALREADY_EXISTS),
    ]
    if version >= 7:
        assert answer.topics[0].topic_id == cluster.broker.topics.topic_id("new")


@versions(delete_topics.API)
def test_delete_topics(version: int) -> None:
    cluster = cluster_of_two()
    request = delete_topics.DeleteTopicsRequest(topic_names=["t", "nope"])
    if version >= 6:
        request = delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState(name) for name in ("t", "nope")])
    answer = ask(cluster, delete_topics.API, request, version)
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("t", 0),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert 0 not in range(cluster.broker.topics.partitions_of("t"))


@versions(delete_topics.API)
def test_delete_topics_where_it_is_disabled(version: int) -> None:
    cluster = Cluster(delete_topic_enable="false")
    request = delete_topics.DeleteTopicsRequest(topic_names=["t"])
    if version >= 6:
        request = delete_topics.DeleteTopicsRequest([delete_topics.DeleteTopicState("t")])
    expected = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert ask(cluster, delete_topics.API, request, version).responses[0].error_code == expected


@versions(create_partitions.API)
def test_create_partitions(version: int) -> None:
    cluster = cluster_of_two()
    topics = [create_partitions.CreatePartitionsTopic(name, 5, None) for name in ("t", "nope")]
    request = create_partitions.CreatePartitionsRequest(topics=topics)
    answer = ask(cluster, create_partitions.API, request, version)
    assert [each.error_code for each in answer.results] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert 4 in range(cluster.broker.topics.partitions_of("t"))


@versions(describe_configs.API)
def test_describe_configs(version: int) -> None:
    cluster = cluster_of_two()
    cluster.topics.configure(cluster.topics.named("t"), {"retention.ms": "5"})
    keys = ["retention.ms", "cleanup.policy"]
    resources = [describe_configs.DescribeConfigsResource(2, name, keys) for name in ("t", "nope")]
    request = describe_configs.DescribeConfigsRequest(resources, include_synonyms=version >= 1)
    known, unknown = ask(cluster, describe_configs.API, request, version).results
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    by_name = {each.name: each for each in known.configs}
    assert by_name["retention.ms"].value == "5"
    if version == 0:
        assert [by_name[key].is_default for key in keys] == [False, True]
    else:
        assert [by_name[key].config_source for key in keys] == [1, 5]
        assert by_name["retention.ms"].synonyms


@versions(incremental_alter_configs.API)
def test_incremental_alter_configs(version: int) -> None:
    cluster = cluster_of_two()
    change = incremental_alter_configs.AlterableConfig("retention.ms", 0, "5")
    resources = [incremental_alter_configs.AlterConfigsResource(2, name, [change]) for name in ("t", "nope")]
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=resources)
    answer = ask(cluster, incremental_alter_configs.API, request, version)
    assert [each.error_code for each in answer.responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert cluster.topics.named("t").configs == {"retention.ms": "5"}


@versions(describe_cluster.API)
def test_describe_cluster(version: int) -> None:
    answer = ask(cluster_of_two(), describe_cluster.API, describe_cluster.DescribeClusterRequest(), version)
    assert [each.broker_id for each in answer.brokers] == [1, 2]
    if version >= 1:
        request = describe_cluster.DescribeClusterRequest(endpoint_type=2)
        answer = ask(cluster_of_two(), describe_cluster.API, request, version)
        assert answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


@versions(init_producer_id.API, since=3)
def test_init_producer_id_wants_id_and_epoch_or_neither(version: int) -> None:
    request = init_producer_id.InitProducerIdRequest(None, 1000, producer_id=5, producer_epoch=-1)
    assert ask(cluster_of_two(), init_producer_id.API, request, version).error_code == ErrorCode.INVALID_REQUEST


@versions(init_producer_id.API)
def test_init_producer_id(version: int) -> None:
    cluster = cluster_of_two()
    request = init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    answers = [ask(cluster, init_producer_id.API, request, version) for _ in range(2)]
    assert [(each.error_code, each.producer_epoch) for each in answers] == [(0, 0), (0, 0)]
    assert 0 <= answers[0].producer_id < answers[1].producer_id
    for transactional_id, error in {"": ErrorCode.INVALID_REQUEST, "t": ErrorCode.NOT_COORDINATOR}.items():
        request = init_producer_id.InitProducerIdRequest(transactional_id, 1000)
        refused = ask(cluster, init_producer_id.API, request, version)
        assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (error, -1, -1)
