"""Topics: names, places, growth, and notifications."""

import pytest

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import parse_batch
from kafka_shim.broker.documents import apply, describe
from kafka_shim.broker.topics import OFFSETS_TOPIC, TopicError, name_refusal
from kafka_shim.conformance.record_batch import record_batch
from tests.broker.context import EPOCH_MS, Client, Cluster, partitions_of


class Heard:
    """The calls of the callbacks of `Topics`."""

    def __init__(self, cluster: Cluster) -> None:
        self.changed: list[str] = []
        self.deleted: list[tuple[str, bytes]] = []
        cluster.topics.on_topic_changed.append(self.changed.append)
        cluster.topics.on_topic_deleted.append(lambda name, topic_id: self.deleted.append((name, topic_id)))


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"])
def test_legal_names(name: str) -> None:
    assert name_refusal(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a:b"])
def test_illegal_names(name: str) -> None:
    assert name_refusal(name)
    with pytest.raises(TopicError) as caught:
        Cluster().topics.declare(name, 1)
    assert caught.value.error == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_names_that_differ_in_dot_and_underscore_alone_collide() -> None:
    topics = Cluster().topics
    first = topics.declare("a.b", 1)
    with pytest.raises(TopicError, match="collides") as caught:
        topics.declare("a_b", 1)
    assert caught.value.error == ErrorCode.INVALID_TOPIC_EXCEPTION
    topics.delete(first)
    assert topics.declare("a_b", 1).name == "a_b"


class Compared(int):
    """A node id that counts its comparisons."""

    count = 0

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return int(self) == other

    __hash__ = int.__hash__


@pytest.mark.parametrize(
    ("last", "refusal"), [(2000, "includes broker 2, but no such broker is registered"), (7, "the broker 7 more than")]
)
def test_replicas_are_not_compared_with_each_other(last: int, refusal: str) -> None:
    topics = Cluster().topics
    replicas = [Compared(each) for each in (*range(1, 2000), last)]
    Compared.count = 0
    with pytest.raises(TopicError, match=refusal) as caught:
        topics.check_replicas([replicas])
    assert caught.value.error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert Compared.count < 2 * len(replicas)


def test_a_topic_is_found_by_name_and_by_id() -> None:
    cluster = Cluster()
    topic = cluster.topics.declare("t", 3)
    broker = cluster.broker
    assert broker.topics.topic_id("t") == topic.id
    assert broker.topics.topic_name(topic.id) == "t"
    assert [index in range(broker.topics.partitions_of("t")) for index in (-1, 0, 2, 3)] == [False, True, True, False]
    assert 0 not in range(broker.topics.partitions_of("u"))
    assert broker.topics.topic_id("u") is None
    assert broker.topics.topic_name(b"?" * 16) is None


def test_a_deleted_topic_comes_back_with_another_id() -> None:
    cluster = Cluster()
    heard = Heard(cluster)
    first = cluster.topics.declare("t", 1)
    cluster.topics.delete(first)
    second = cluster.topics.declare("t", 1)
    assert first.id != second.id
    assert cluster.broker.topics.topic_name(first.id) is None
    assert heard.deleted == [("t", first.id)]
    assert heard.changed == ["t", "t"]


@pytest.mark.parametrize("is_deleted", [True, False])
def test_log_of_a_deleted_partition_keeps_nothing(is_deleted: bool) -> None:
    """A fetch session, which outlives its connection, has the log still."""
    cluster = Cluster()
    topic = cluster.topics.declare("t", 1)
    client = Client(cluster, ("t", 0, 0))
    client.answer()
    log = topic.partitions[0].log
    for sequence in range(2):
        data = record_batch([b"v"], EPOCH_MS, (1, 0, sequence), transactional=True)
        log.append(parse_batch(data, max_bytes=2**20), None, 0.0)
    if is_deleted:
        cluster.topics.delete(topic)
    else:
        cluster.topics.shrink(topic, 0)
    assert log.watchers
    assert (log.size, len(log.producers), log.transactions.first_unstable()) == (0, 0, None)
    assert log.start_offset == log.end_offset == 2
    assert partitions_of(client.answer())["t", 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not log.watchers


def test_growth_keeps_logs_and_notifies() -> None:
    cluster = Cluster()
    heard = Heard(cluster)
    topic = cluster.topics.declare("t", 1)
    log = topic.partitions[0].log
    cluster.topics.grow(topic, cluster.topics.placed(2, 1))
    assert [each.index for each in topic.partitions] == [0, 1, 2]
    assert topic.partitions[0].log is log
    assert heard.changed == ["t", "t"]


def test_leaders_are_spread_over_the_nodes() -> None:
    cluster = Cluster(nodes=3)
    leaders = [partition.leader for name in "abc" for partition in cluster.topics.declare(name, 2).partitions]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]


def test_replicas_are_different_nodes_with_the_leader_first() -> None:
    cluster = Cluster(nodes=3, default_replication_factor="2")
    for partition in cluster.topics.declare("t", 6).partitions:
        assert len(set(partition.replicas)) == 2
        assert partition.leader == partition.replicas[0]


def test_a_broker_setting_is_the_default_number_of_partitions() -> None:
    assert len(Cluster(num_partitions="7").topics.declare("t").partitions) == 7


def test_retention_bytes_bound_a_log_further() -> None:
    topics = Cluster(log_bytes=5000).topics
    topic = topics.create("t", [[1], [1]], {"retention.bytes": "100"})
    assert [each.log.limit for each in topic.partitions] == [100, 100]
    topics.configure(topic, {"retention.bytes": "9999"})
    assert [each.log.limit for each in topic.partitions] == [5000, 5000]


class TestOffsetsTopic:
    def test_the_offsets_topic_has_fifty_partitions(self) -> None:
        cluster = Cluster()
        assert cluster.topics.named(OFFSETS_TOPIC) is None
        cluster.broker.topics.ensure_offsets_topic()
        topic = cluster.topics.named(OFFSETS_TOPIC)
        assert len(topic.partitions) == 50
        assert topic.is_internal
        cluster.broker.topics.ensure_offsets_topic()
        assert cluster.topics.named(OFFSETS_TOPIC) is topic

    def test_coordinators_lead_the_offsets_topic(self) -> None:
        cluster = Cluster(nodes=3, offsets_topic_num_partitions="6")
        cluster.topics.offsets_owner = lambda index: 3 - index // 2
        topic = cluster.topics.ensure_offsets_topic()
        assert [partition.leader for partition in topic.partitions] == [3, 3, 2, 2, 1, 1]
        assert all(len(set(partition.replicas)) == 3 for partition in topic.partitions)
        assert all(partition.leader in partition.replicas for partition in topic.partitions)

    def test_coordinators_lead_an_offsets_topic_that_another_process_created(self) -> None:
        first, cluster = Cluster(nodes=3), Cluster(nodes=3)
        first.topics.ensure_offsets_topic()
        cluster.topics.offsets_owner = lambda index: 1 + index // 20
        apply(describe(first.topics), cluster.topics)
        topic = cluster.topics.named(OFFSETS_TOPIC)
        assert [partition.leader for partition in topic.partitions] == [1] * 20 + [2] * 20 + [3] * 10


def test_a_leader_that_was_no_replica_becomes_one() -> None:
    cluster = Cluster(nodes=2)
    topic = cluster.topics.declare("t", 1)
    (other,) = {1, 2} - {topic.partitions[0].leader}
    before = cluster.topics.revision
    cluster.topics.lead(topic, 0, other)
    assert (topic.partitions[0].leader, topic.partitions[0].replicas) == (other, [other])
    assert cluster.topics.revision > before


def test_documents_with_equal_acls_leave_them_the_same_object() -> None:
    """Another object means a change, after which the decisions are prepared again."""
    cluster = Cluster()
    cluster.topics.settings.acls = acls = ((2, "t", 3, "User:alice", "*", 3, 3),)
    documents = describe(cluster.topics)
    apply(documents, cluster.topics)
    assert cluster.topics.settings.acls is acls
    apply({}, cluster.topics)
    assert cluster.topics.settings.acls == ()
    apply(documents, cluster.topics)
    assert cluster.topics.settings.acls == acls
