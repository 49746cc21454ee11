"""Replicas and leaders of partitions, changed by an administrator."""

from typing import Any

import pytest

from kafka_shim.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafka_shim.apis.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafka_shim.apis.list_partition_reassignments import ListPartitionReassignmentsRequest
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.admin.reassignments import PREFERRED, UNCLEAN, Reassignments
from kafka_shim.broker.topics import OFFSETS_TOPIC
from tests.broker.context import Cluster, batch, fetch_request, partitions_of


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(nodes=3)
    made.topics.create("t", [[1, 2], [2, 3], [3, 1]])
    return made


def reassign(cluster: Cluster, replicas: dict[int, list[int] | None], *, topic: str = "t", factor: bool = True) -> Any:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=factor,
        topics=[ReassignableTopic(topic, [ReassignablePartition(*each) for each in replicas.items()])],
    )
    response = cluster.broker.reassignments.reassign(request, cluster.now)
    assert (response.error_code, response.allow_replication_factor_change) == (0, factor)
    (only,) = response.responses
    return {each.partition_index: each.error_code for each in only.partitions}


def elect(cluster: Cluster, partitions: list[int] | None, election_type: int = PREFERRED, topic: str = "t") -> Any:
    places = None if partitions is None else [TopicPartitions(topic, partitions)]
    response = cluster.broker.reassignments.elect(ElectLeadersRequest(election_type, places), cluster.now)
    return {
        (each.topic, result.partition_id): result.error_code
        for each in response.replica_election_results
        for result in each.partition_result
    }


def placed(cluster: Cluster, topic: str = "t") -> list[tuple[int, list[int]]]:
    found = cluster.topics.named(topic)
    assert found is not None
    return [(each.leader, each.replicas) for each in found.partitions]


class TestReassign:
    def test_the_leader_stays_if_it_can(self, cluster: Cluster) -> None:
        assert reassign(cluster, {0: [2, 3], 1: [3, 1, 2], 2: [1]}) == {0: 0, 1: 0, 2: 0}
        assert placed(cluster) == [(2, [2, 3]), (2, [3, 1, 2]), (1, [1])]

    def test_records_are_where_the_partition_is(self, cluster: Cluster) -> None:
        cluster.send("t", 0, batch(b"one"))
        waiting = cluster.fetch(fetch_request(("t", 0, 1)))
        reassign(cluster, {0: [3]})
        ((token, response),) = cluster.replies()
        assert token == waiting
        assert partitions_of(response)["t", 0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partitions_of(response)["t", 0].current_leader.leader_id == 3
        read = cluster.fetch(fetch_request(("t", 0, 0)), node=3)
        assert partitions_of(read)["t", 0].high_watermark == 1

    def test_nothing_is_ever_under_way(self, cluster: Cluster) -> None:
        reassign(cluster, {0: [3]})
        listed = cluster.broker.reassignments.under_way(ListPartitionReassignmentsRequest())
        assert (listed.error_code, listed.topics) == (0, [])
        assert reassign(cluster, {0: None}) == {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}

    @pytest.mark.parametrize(
        ("topic", "index", "replicas", "error"),
        [
            ("t", 9, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("t", 9, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("none", 0, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("t", 0, [9, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("t", 0, [-1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("t", 0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("t", 0, [1, 2, 3], ErrorCode.INVALID_REPLICATION_FACTOR),
            ("t", 0, [1], ErrorCode.INVALID_REPLICATION_FACTOR),
        ],
    )
    def test_refused(
        self, cluster: Cluster, topic: str, index: int, replicas: list[int] | None, error: ErrorCode
    ) -> None:
        before = placed(cluster)
        assert reassign(cluster, {index: replicas}, topic=topic, factor=False) == {index: error}
        assert placed(cluster) == before

    def test_the_coordinator_of_a_partition_of_offsets_stays(self, cluster: Cluster) -> None:
        topic = cluster.topics.ensure_offsets_topic()
        leader = topic.partitions[0].leader
        others = sorted(cluster.topics.nodes.keys() - {leader})
        assert reassign(cluster, {0: others}, topic=OFFSETS_TOPIC) == {0: ErrorCode.POLICY_VIOLATION}
        assert reassign(cluster, {0: [*others, leader]}, topic=OFFSETS_TOPIC) == {0: 0}
        assert elect(cluster, [0], topic=OFFSETS_TOPIC) == {(OFFSETS_TOPIC, 0): ErrorCode.ELECTION_NOT_NEEDED}

    def test_several_processes_have_logs_of_their_own(self, cluster: Cluster) -> None:
        fixed = Reassignments(cluster.topics, movable=False)
        topics = [ReassignableTopic("t", [ReassignablePartition(0, [1, 2]), ReassignablePartition(1, [1, 2])])]
        (response,) = fixed.reassign(AlterPartitionReassignmentsRequest(topics=topics), 0.0).responses
        assert [each.error_code for each in response.partitions] == [0, ErrorCode.POLICY_VIOLATION]
        assert placed(cluster)[1] == (2, [2, 3])


class TestElect:
    def test_the_preferred_leader_is_the_first_replica(self, cluster: Cluster) -> None:
        reassign(cluster, {1: [3, 1, 2]})
        assert elect(cluster, [0, 1]) == {("t", 0): ErrorCode.ELECTION_NOT_NEEDED, ("t", 1): 0}
        assert placed(cluster)[1] == (3, [3, 1, 2])

    def test_only_changed_partitions_are_listed(self, cluster: Cluster) -> None:
        reassign(cluster, {1: [3, 1, 2]})
        assert elect(cluster, None) == {("t", 1): 0}
        assert elect(cluster, None) == {}

    def test_a_present_leader_is_never_replaced_uncleanly(self, cluster: Cluster) -> None:
        reassign(cluster, {1: [3, 1, 2]})
        assert elect(cluster, [1], UNCLEAN) == {("t", 1): ErrorCode.ELECTION_NOT_NEEDED}

    def test_lost_leaders_are_replaced(self, cluster: Cluster) -> None:
        del cluster.topics.nodes[1]
        assert elect(cluster, [0]) == {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
        assert elect(cluster, [0], UNCLEAN) == {("t", 0): 0}
        assert placed(cluster)[0] == (2, [1, 2])
        del cluster.topics.nodes[2]
        assert elect(cluster, [0], UNCLEAN) == {("t", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}

    def test_refused(self, cluster: Cluster) -> None:
        assert elect(cluster, [9]) == {("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert elect(cluster, [0], topic="none") == {("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert elect(cluster, [0], election_type=2) == {("t", 0): ErrorCode.INVALID_REQUEST}
        assert (
            cluster.broker.reassignments.elect(ElectLeadersRequest(2, None), 0.0).error_code
            == ErrorCode.INVALID_REQUEST
        )
