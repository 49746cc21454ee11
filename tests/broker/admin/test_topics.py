"""CreateTopics, DeleteTopics and CreatePartitions."""

from typing import Any

import pytest

from kafka_shim.apis.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from kafka_shim.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from kafka_shim.apis.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from kafka_shim.apis.wire.errors import ErrorCode
from tests.broker.context import Cluster


def creatable(
    name: str = "t", partitions: int = 2, factor: int = 1, assigned: dict[int, list[int]] | None = None, **configs: Any
) -> CreatableTopic:
    return CreatableTopic(
        name,
        partitions,
        factor,
        [CreatableReplicaAssignment(index, brokers) for index, brokers in (assigned or {}).items()],
        [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()],
    )


def create(cluster: Cluster, *topics: CreatableTopic, validate_only: bool = False) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return cluster.broker.change(request, None, cluster.now).topics


class TestCreateTopics:
    def test_created(self) -> None:
        cluster = Cluster(nodes=2)
        (result,) = create(cluster, creatable(partitions=3, factor=2, retention_ms="5"))
        assert (result.error_code, result.error_message) == (0, None)
        assert (result.num_partitions, result.replication_factor) == (3, 2)
        assert result.topic_id == cluster.broker.topics.topic_id("t")
        assert len(cluster.topics.named("t").partitions) == 3
        configs = {each.name: (each.value, each.config_source) for each in result.configs}
        assert configs["retention.ms"] == ("5", 1)
        assert configs["cleanup.policy"] == ("delete", 5)

    @pytest.mark.parametrize("partitions", [4_001, 2**31 - 1])
    @pytest.mark.parametrize("validate_only", [True, False])
    def test_request_for_too_many_partitions_creates_none(self, partitions: int, validate_only: bool) -> None:
        cluster = Cluster()
        specs = creatable("a", 6_000), creatable("b", partitions), creatable("c", 0)
        results = create(cluster, *specs, validate_only=validate_only)
        assert [each.error_code for each in results] == [ErrorCode.POLICY_VIOLATION] * 3
        assert all(each.error_message for each in results)
        assert cluster.topics.all() == []

    def test_one_request_creates_10000_partitions(self) -> None:
        cluster = Cluster()
        results = create(cluster, creatable("a", 6_000), creatable("b", 4_000), creatable("c", -5))
        assert [each.error_code for each in results] == [0, 0, ErrorCode.INVALID_PARTITIONS]

    def test_defaults(self) -> None:
        (result,) = create(Cluster(nodes=3, num_partitions="4"), creatable(partitions=-1, factor=-1))
        assert (result.num_partitions, result.replication_factor) == (4, 1)

    def test_only_validated(self) -> None:
        cluster = Cluster()
        (result,) = create(cluster, creatable(), validate_only=True)
        assert (result.error_code, result.num_partitions) == (0, 2)
        assert result.topic_id != bytes(16)
        assert cluster.topics.all() == []

    def test_assigned_by_hand(self) -> None:
        cluster = Cluster(nodes=3)
        (result,) = create(cluster, creatable(partitions=-1, factor=-1, assigned={1: [3, 1], 0: [2, 3]}))
        assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 2)
        assert [each.replicas for each in cluster.topics.named("t").partitions] == [[2, 3], [3, 1]]

    @pytest.mark.parametrize(
        ("topic", "error"),
        [
            (creatable(name="old"), ErrorCode.TOPIC_ALREADY_EXISTS),
            (creatable(name="a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (creatable(name=""), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (creatable(name="o_ld"), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (creatable(partitions=0), ErrorCode.INVALID_PARTITIONS),
            (creatable(partitions=-2), ErrorCode.INVALID_PARTITIONS),
            (creatable(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
            (creatable(factor=-2), ErrorCode.INVALID_REPLICATION_FACTOR),
            (creatable(factor=4), ErrorCode.INVALID_REPLICATION_FACTOR),
            (creatable(partitions=-1, factor=1, assigned={0: [1]}), ErrorCode.INVALID_REQUEST),
            (creatable(partitions=1, factor=-1, assigned={0: [1]}), ErrorCode.INVALID_REQUEST),
            (creatable(partitions=-1, factor=-1, assigned={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (creatable(partitions=-1, factor=-1, assigned={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (creatable(partitions=-1, factor=-1, assigned={0: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (creatable(partitions=-1, factor=-1, assigned={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (creatable(partitions=-1, factor=-1, assigned={0: [1], 1: [1, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (creatable(no_such_thing="1"), ErrorCode.INVALID_CONFIG),
            (creatable(retention_ms="soon"), ErrorCode.INVALID_CONFIG),
            (creatable(retention_ms=None), ErrorCode.INVALID_CONFIG),
            (creatable(cleanup_policy="keep"), ErrorCode.INVALID_CONFIG),
        ],
    )
    @pytest.mark.parametrize("validate_only", [True, False])
    def test_refused(self, topic: CreatableTopic, error: ErrorCode, validate_only: bool) -> None:
        cluster = Cluster(nodes=3)
        create(cluster, creatable(name="old"), creatable(name="o.ld"))
        refused, fine = create(cluster, topic, creatable(name="fine"), validate_only=validate_only)
        assert (refused.name, refused.error_code, fine.error_code) == (topic.name, error, 0)
        assert refused.error_message
        assert refused.configs == []
        assert (refused.num_partitions, refused.replication_factor, refused.topic_id) == (-1, -1, bytes(16))
        if topic.name != "old":
            assert cluster.topics.named(topic.name) is None

    def test_named_twice(self) -> None:
        cluster = Cluster()
        results = create(cluster, creatable(name="twice"), creatable(name="once"), creatable(name="twice"))
        assert {each.name: each.error_code for each in results} == {"twice": ErrorCode.INVALID_REQUEST, "once": 0}
        assert cluster.topics.named("twice") is None


class TestDeleteTopics:
    def delete(self, cluster: Cluster, *topics: DeleteTopicState, new: bool = True) -> list[DeletableTopicResult]:
        request = DeleteTopicsRequest(topics=list(topics))
        return cluster.broker.change(request, None, cluster.now, disabled_is_73=new).responses

    def test_by_name_and_by_id(self) -> None:
        cluster = Cluster()
        by_name, by_id = cluster.topics.declare("n", 1), cluster.topics.declare("i", 1)
        results = self.delete(cluster, DeleteTopicState("n"), DeleteTopicState(None, by_id.id))
        assert [(each.name, each.topic_id, each.error_code) for each in results] == [
            ("n", by_name.id, 0),
            ("i", by_id.id, 0),
        ]
        assert cluster.topics.all() == []

    def test_refused(self) -> None:
        cluster = Cluster()
        topic = cluster.topics.declare("t", 1)
        cluster.broker.topics.ensure_offsets_topic()
        cases = [
            (DeleteTopicState("nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (DeleteTopicState(None, b"?" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
            (DeleteTopicState(None), ErrorCode.INVALID_REQUEST),
            (DeleteTopicState("t", topic.id), ErrorCode.INVALID_REQUEST),
            (DeleteTopicState("__consumer_offsets"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]
        results = self.delete(cluster, *(state for state, _ in cases))
        assert [each.error_code for each in results] == [error for _, error in cases]
        assert all(each.error_message for each in results)
        assert len(cluster.topics.all()) == 2

    def test_named_twice(self) -> None:
        cluster = Cluster()
        cluster.topics.declare("t", 1)
        (result,) = self.delete(cluster, DeleteTopicState("t"), DeleteTopicState("t"))
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert 0 in range(cluster.broker.topics.partitions_of("t"))

    @pytest.mark.parametrize(
        ("new", "error"), [(True, ErrorCode.TOPIC_DELETION_DISABLED), (False, ErrorCode.INVALID_REQUEST)]
    )
    def test_disabled(self, new: bool, error: ErrorCode) -> None:
        cluster = Cluster(delete_topic_enable="false")
        cluster.topics.declare("t", 1)
        assert self.delete(cluster, DeleteTopicState("t"), new=new)[0].error_code == error
        assert 0 in range(cluster.broker.topics.partitions_of("t"))


class TestCreatePartitions:
    def grow(
        self, cluster: Cluster, count: int, assigned: list[list[int]] | None = None, name: str = "t", **options: bool
    ) -> int:
        assignments = None if assigned is None else [CreatePartitionsAssignment(each) for each in assigned]
        request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name, count, assignments)], **options)
        (result,) = cluster.broker.change(request, None, cluster.now).results
        assert result.name == name
        assert bool(result.error_code) == bool(result.error_message)
        return result.error_code

    def test_grown(self) -> None:
        cluster = Cluster()
        cluster.topics.declare("t", 2)
        assert self.grow(cluster, 5) == 0
        assert 4 in range(cluster.broker.topics.partitions_of("t"))

    def test_only_validated(self) -> None:
        cluster = Cluster()
        cluster.topics.declare("t", 2)
        assert self.grow(cluster, 5, validate_only=True) == 0
        assert 2 not in range(cluster.broker.topics.partitions_of("t"))

    def test_assigned_by_hand(self) -> None:
        cluster = Cluster(nodes=3)
        topic = cluster.topics.declare("t", 1)
        assert self.grow(cluster, 3, [[3], [2]]) == 0
        assert [each.leader for each in topic.partitions[1:]] == [3, 2]

    @pytest.mark.parametrize(
        ("count", "assigned", "error"),
        [
            (2, None, ErrorCode.INVALID_PARTITIONS),
            (1, None, ErrorCode.INVALID_PARTITIONS),
            (0, None, ErrorCode.INVALID_PARTITIONS),
            (2**31 - 1, None, ErrorCode.POLICY_VIOLATION),
            (4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ],
    )
    def test_refused(self, count: int, assigned: list[list[int]] | None, error: ErrorCode) -> None:
        cluster = Cluster()
        cluster.topics.declare("t", 2)
        assert self.grow(cluster, count, assigned) == error
        assert 2 not in range(cluster.broker.topics.partitions_of("t"))

    def test_one_request_adds_at_most_10000_partitions(self) -> None:
        cluster = Cluster()
        names = ["a", "b", "c"]
        for name in names:
            cluster.topics.declare(name, 1)
        specs = [
            CreatePartitionsTopic(name, count, None) for name, count in zip(names, (6_001, 4_002, 4_001), strict=True)
        ]
        answer = cluster.broker.change(CreatePartitionsRequest(specs), None, cluster.now)
        assert [each.error_code for each in answer.results] == [0, ErrorCode.POLICY_VIOLATION, 0]

    def test_unknown_and_internal_topics(self) -> None:
        cluster = Cluster()
        cluster.broker.topics.ensure_offsets_topic()
        assert self.grow(cluster, 5, name="nope") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert self.grow(cluster, 60, name="__consumer_offsets") == ErrorCode.INVALID_PARTITIONS
