"""Metadata and DescribeCluster."""

import pytest

from kafka_shim.apis.describe_cluster import DescribeClusterRequest
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from kafka_shim.apis.wire.errors import ErrorCode
from tests.broker.context import Cluster


def ask(cluster: Cluster, *names: str, create: bool = False, **fields: bool) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=create, **fields)
    return cluster.broker.metadata.describe_topics(request, cluster.now)


def summary(topic: MetadataResponseTopic) -> tuple[int, str | None, int]:
    return topic.error_code, topic.name, len(topic.partitions)


class TestTopics:
    def test_all_and_none(self) -> None:
        cluster = Cluster()
        for name in "ab":
            cluster.topics.declare(name, 1)
        everything = cluster.broker.metadata.describe_topics(MetadataRequest(topics=None), 0.0)
        assert [topic.name for topic in everything.topics] == ["a", "b"]
        assert ask(cluster).topics == []

    def test_partitions_with_constant_epochs(self) -> None:
        cluster = Cluster(nodes=2, default_replication_factor="2")
        cluster.topics.declare("t", 2)
        (topic,) = ask(cluster, "t").topics
        assert topic.topic_id == cluster.broker.topics.topic_id("t")
        assert not topic.is_internal
        for partition in topic.partitions:
            assert (partition.error_code, partition.leader_epoch) == (0, 0)
            assert partition.replica_nodes == partition.isr_nodes
            assert partition.leader_id == partition.replica_nodes[0]
            assert partition.offline_replicas == []

    def test_by_id(self) -> None:
        cluster = Cluster()
        topic = cluster.topics.declare("t", 2)
        topics = [MetadataRequestTopic(topic_id=each, name=None) for each in (topic.id, b"?" * 16)]
        known, unknown = cluster.broker.metadata.describe_topics(MetadataRequest(topics=topics), 0.0).topics
        assert summary(known) == (0, "t", 2)
        assert (unknown.error_code, unknown.name, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, b"?" * 16)

    def test_a_topic_named_twice_is_listed_once(self) -> None:
        cluster = Cluster()
        cluster.topics.declare("t", 1)
        assert len(ask(cluster, "t", "t").topics) == 1

    def test_internal_topic_once_it_exists(self) -> None:
        cluster = Cluster()
        assert summary(ask(cluster, "__consumer_offsets").topics[0])[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        cluster.broker.topics.ensure_offsets_topic()
        (topic,) = cluster.broker.metadata.describe_topics(MetadataRequest(topics=None), 0.0).topics
        assert (topic.name, topic.is_internal, len(topic.partitions)) == ("__consumer_offsets", True, 50)

    def test_a_partition_of_a_lost_broker_has_no_leader(self) -> None:
        cluster = Cluster(nodes=2, default_replication_factor="2")
        topic = cluster.topics.declare("t", 2)
        del cluster.topics.nodes[2]
        for partition in ask(cluster, "t").topics[0].partitions:
            assert partition.isr_nodes == [1]
            assert partition.offline_replicas == [2]
            if topic.partitions[partition.partition_index].leader == 2:
                assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


class TestUnknownTopics:
    def test_not_created_unless_the_client_wants_it(self) -> None:
        cluster = Cluster()
        assert summary(ask(cluster, "t").topics[0]) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t", 0)
        assert cluster.topics.all() == []

    def test_created_when_both_want_it(self) -> None:
        cluster = Cluster(num_partitions="3")
        assert summary(ask(cluster, "t", create=True).topics[0]) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t", 0)
        assert summary(ask(cluster, "t", create=True).topics[0]) == (0, "t", 3)
        assert 2 in range(cluster.broker.topics.partitions_of("t"))

    def test_not_created_unless_the_broker_allows_it(self) -> None:
        cluster = Cluster(auto_create_topics_enable="false")
        assert ask(cluster, "t", create=True).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_never_created_by_asking_for_all(self) -> None:
        assert Cluster().broker.metadata.describe_topics(MetadataRequest(topics=None), 0.0).topics == []

    @pytest.mark.parametrize("create", [True, False])
    def test_illegal_name(self, create: bool) -> None:
        (topic,) = ask(Cluster(), "a b", create=create).topics
        assert summary(topic) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "a b", 0)

    def test_colliding_name(self) -> None:
        cluster = Cluster()
        cluster.topics.declare("a.b", 1)
        for _ in range(2):
            assert ask(cluster, "a_b", create=True).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_metadata_creates_the_offsets_topic_with_its_settings(self) -> None:
        cluster = Cluster()
        ask(cluster, "__consumer_offsets", create=True)
        assert summary(ask(cluster, "__consumer_offsets", create=True).topics[0]) == (0, "__consumer_offsets", 50)


class TestCluster:
    def test_brokers_and_controller(self) -> None:
        response = ask(Cluster(nodes=2))
        assert [(each.node_id, each.host, each.port, each.rack) for each in response.brokers] == [
            (1, "host-1", 9091, None),
            (2, "host-2", 9092, None),
        ]
        assert (response.cluster_id, response.controller_id, response.error_code) == ("cluster", 1, 0)

    def test_authorized_operations_only_when_asked_for(self) -> None:
        cluster = Cluster()
        cluster.topics.declare("t", 1)
        silent = ask(cluster, "t")
        assert (silent.cluster_authorized_operations, silent.topics[0].topic_authorized_operations) == (-(2**31),) * 2
        answer = ask(
            cluster,
            "t",
            "nope",
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        assert answer.cluster_authorized_operations == 0b1_1111_1010_0000
        assert [topic.topic_authorized_operations for topic in answer.topics] == [0b1101_1111_1000] * 2

    def test_describe_cluster(self) -> None:
        response = Cluster(nodes=2).broker.metadata.describe_cluster(DescribeClusterRequest())
        assert [(each.broker_id, each.port, each.is_fenced) for each in response.brokers] == [
            (1, 9091, False),
            (2, 9092, False),
        ]
        assert (response.cluster_id, response.controller_id, response.endpoint_type) == ("cluster", 1, 1)
        assert response.cluster_authorized_operations == -(2**31)

    @pytest.mark.parametrize(
        ("endpoint_type", "error"),
        [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
    )
    def test_a_broker_is_no_controller(self, endpoint_type: int, error: ErrorCode) -> None:
        response = Cluster().broker.metadata.describe_cluster(DescribeClusterRequest(endpoint_type=endpoint_type))
        assert response.error_code == error
        assert response.brokers == []
