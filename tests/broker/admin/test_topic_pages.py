"""DescribeTopicPartitions: the content of a page, and the cursor of the next."""

import pytest

from kafka_shim.apis.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from kafka_shim.apis.wire.errors import ErrorCode
from tests.broker.context import Cluster


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(nodes=2)
    made.topics.create("a", [[1, 2], [2, 1], [1, 2]])
    made.topics.create("b", [[2]])
    return made


def page(
    cluster: Cluster, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    return cluster.broker.pages.describe(
        DescribeTopicPartitionsRequest(
            [TopicRequest(name) for name in names], limit, None if cursor is None else Cursor(*cursor)
        )
    )


def shown(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, int, list[int]]]:
    return [
        (topic.name, topic.error_code, [each.partition_index for each in topic.partitions]) for topic in response.topics
    ]


def test_without_names_all_topics_come_in_the_order_of_their_names(cluster: Cluster) -> None:
    response = page(cluster)
    assert shown(response) == [("a", 0, [0, 1, 2]), ("b", 0, [0])]
    assert response.next_cursor is None
    first = response.topics[0]
    assert (first.topic_id, first.is_internal) == (cluster.broker.topics.topic_id("a"), False)
    assert first.topic_authorized_operations > 0
    partition = first.partitions[1]
    assert (partition.leader_id, partition.leader_epoch) == (2, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([2, 1], [2, 1], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


@pytest.mark.parametrize(
    ("limit", "cursor", "topics", "following"),
    [
        (2, None, [("a", 0, [0, 1])], ("a", 2)),
        (3, None, [("a", 0, [0, 1, 2])], ("b", 0)),
        (4, None, [("a", 0, [0, 1, 2]), ("b", 0, [0])], None),
        (0, None, [("a", 0, [0])], ("a", 1)),
        (-5, None, [("a", 0, [0])], ("a", 1)),
        (2, ("a", 1), [("a", 0, [1, 2])], ("b", 0)),
        (2, ("a", 2), [("a", 0, [2]), ("b", 0, [0])], None),
        (2, ("a", 9), [("a", 0, []), ("b", 0, [0])], None),
        (2, ("b", 0), [("b", 0, [0])], None),
    ],
)
def test_pages(
    cluster: Cluster,
    limit: int,
    cursor: tuple[str, int] | None,
    topics: list[tuple[str, int, list[int]]],
    following: tuple[str, int] | None,
) -> None:
    response = page(cluster, "b", "a", limit=limit, cursor=cursor)
    assert shown(response) == topics
    assert response.next_cursor == (None if following is None else Cursor(*following))


def test_the_broker_bounds_a_page_too() -> None:
    cluster = Cluster(max_request_partition_size_limit="2")
    cluster.topics.declare("t", 5)
    response = page(cluster, "t")
    assert shown(response) == [("t", 0, [0, 1])]
    assert response.next_cursor == Cursor("t", 2)


def test_topics_that_do_not_exist_take_no_room(cluster: Cluster) -> None:
    response = page(cluster, "zz", "a", "..", "zz", limit=4)
    before = [("..", ErrorCode.INVALID_TOPIC_EXCEPTION, []), ("a", 0, [0, 1, 2])]
    assert shown(response) == [*before, ("zz", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])]
    assert response.next_cursor is None
    response = page(cluster, "zz", "a", "..", "zz", limit=3)
    assert shown(response) == before
    assert response.next_cursor == Cursor("zz", 0)


@pytest.mark.parametrize("cursor", [("aa", 0), ("a", -1)])
def test_a_cursor_at_nothing_that_is_asked_for(cluster: Cluster, cursor: tuple[str, int]) -> None:
    assert shown(page(cluster, "a", "b", cursor=cursor)) == [("a", 42, []), ("b", 42, [])]


def test_a_partition_without_a_leader(cluster: Cluster) -> None:
    del cluster.topics.nodes[2]
    (topic,) = page(cluster, "b").topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (partition.isr_nodes, partition.offline_replicas) == ([], [2])
