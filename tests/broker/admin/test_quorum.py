"""DescribeQuorum and DescribeLogDirs."""

from kafka_shim.apis.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafka_shim.apis.describe_quorum import DescribeQuorumRequest, PartitionAsked, TopicAsked
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.settings import BROKER_SETTINGS
from tests.broker.context import EPOCH_MS, Cluster, batch


def quorum(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        [TopicAsked(name, [PartitionAsked(each) for each in indexes]) for name, indexes in topics]
    )


class TestQuorum:
    def test_the_controller_is_the_voter_and_the_others_observe(self) -> None:
        cluster = Cluster(nodes=3)
        for broker in cluster.brokers.values():
            response = broker.quorum.describe(quorum(("__cluster_metadata", [0])), 2.0)
            assert (response.error_code, response.error_message) == (0, "")
            (topic,) = response.topics
            (data,) = topic.partitions
            assert (topic.topic_name, data.partition_index, data.error_code, data.leader_id) == (
                "__cluster_metadata",
                0,
                0,
                1,
            )
            assert [each.replica_id for each in data.current_voters] == [1]
            assert [each.replica_id for each in data.observers] == [2, 3]
            replicas = [*data.current_voters, *data.observers]
            assert {each.log_end_offset for each in replicas} == {data.high_watermark}
            assert {each.last_caught_up_timestamp for each in replicas} == {EPOCH_MS + 2000}
            assert len({each.replica_directory_id for each in replicas}) == 3
            (node,) = response.nodes
            assert (node.node_id, [(each.host, each.port) for each in node.listeners]) == (1, [("host-1", 9091)])

    def test_the_metadata_log_grows_with_changes_of_topics(self) -> None:
        cluster = Cluster()
        request = quorum(("__cluster_metadata", [0]))
        before = cluster.broker.quorum.describe(request, 0.0).topics[0].partitions[0].high_watermark
        cluster.topics.declare("t")
        assert cluster.broker.quorum.describe(request, 0.0).topics[0].partitions[0].high_watermark > before

    def test_nothing_else_has_a_quorum(self) -> None:
        broker = Cluster().broker
        assert broker.quorum.describe(quorum(), 0.0).topics == []
        for topics in ([("t", [0])], [("__cluster_metadata", [1])], [("__cluster_metadata", [0, 1])]):
            (topic,) = broker.quorum.describe(quorum(*topics), 0.0).topics
            assert {each.error_code for each in topic.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            assert topic.partitions[0].error_message


class TestLogDirs:
    def test_a_broker_lists_partitions_that_it_leads_and_follows(self) -> None:
        cluster = Cluster(nodes=2)
        cluster.topics.create("t", [[1], [2], [2, 1]])
        data = batch(b"value")
        cluster.send("t", 2, data, node=2)
        (found,) = cluster.broker.log_dirs.describe(DescribeLogDirsRequest(None)).results
        assert (found.error_code, found.log_dir) == (0, BROKER_SETTINGS["log.dir"].default)
        assert [
            (each.name, [(p.partition_index, p.partition_size) for p in each.partitions]) for each in found.topics
        ] == [("t", [(0, 0), (2, len(data))])]

    def test_only_requested_partitions_are_listed(self) -> None:
        cluster = Cluster(log_dirs="/data/one")
        cluster.topics.declare("t", 2)
        cluster.topics.declare("u", 2)
        topics = [DescribableLogDirTopic("t", [1, 7]), DescribableLogDirTopic("none", [0])]
        (found,) = cluster.broker.log_dirs.describe(DescribeLogDirsRequest(topics)).results
        assert found.log_dir == "/data/one"
        assert [(each.name, [p.partition_index for p in each.partitions]) for each in found.topics] == [("t", [1])]
        (empty,) = cluster.broker.log_dirs.describe(DescribeLogDirsRequest([])).results
        assert empty.topics == []
