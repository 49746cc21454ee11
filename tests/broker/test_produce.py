"""Produce: where a batch went, why it was refused, and when nothing is answered."""

import pytest

from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.interface import NO_REPLY, TransactionSupportedOperation
from tests.broker.context import EPOCH_MS, Cluster, batch, fetch_request, partitions_of, records_of


def cluster_with(topic: str = "t", **settings: str) -> Cluster:
    cluster = Cluster(**settings)
    cluster.topics.declare(topic, 2)
    return cluster


def stored(cluster: Cluster, topic: str = "t") -> list[tuple[int, int, bytes]]:
    data = partitions_of(cluster.fetch(fetch_request((topic, 0, 0), max_wait_ms=0)))[topic, 0].records
    return [(record.offset, record.timestamp, record.value) for record in records_of(data)]


class TestAppended:
    def test_appended_batches_have_offsets_and_times(self) -> None:
        cluster = cluster_with()
        first, second = (cluster.send("t", 0, batch(*values)) for values in ([b"a", b"b"], [b"c"]))
        assert (first.error_code, first.base_offset, first.log_append_time_ms, first.log_start_offset) == (0, 0, -1, 0)
        assert second.base_offset == 2
        assert stored(cluster) == [(0, EPOCH_MS, b"a"), (1, EPOCH_MS + 1, b"b"), (2, EPOCH_MS, b"c")]

    @pytest.mark.parametrize("acks", [1, -1])
    def test_with_acks(self, acks: int) -> None:
        assert cluster_with().send("t", 0, batch(b"a"), acks=acks).error_code == 0

    def test_without_acks_nothing_is_answered(self) -> None:
        cluster = cluster_with()
        request = ProduceRequest(
            acks=0, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, batch(b"a"))])]
        )
        answer = cluster.broker.produce(
            request,
            None,
            0.0,
            by_topic_id=False,
            zstd_allowed=True,
            with_leaders=True,
            supported_operation=TransactionSupportedOperation.ADD_PARTITION,
        )
        assert answer is NO_REPLY
        assert stored(cluster) == [(0, EPOCH_MS, b"a")]

    def test_append_time(self) -> None:
        cluster = cluster_with()
        cluster.topics.configure(cluster.topics.named("t"), {"message.timestamp.type": "LogAppendTime"})
        cluster.advance(1.5)
        assert cluster.send("t", 0, batch(b"a", timestamp=5)).log_append_time_ms == EPOCH_MS + 1500
        assert stored(cluster) == [(0, EPOCH_MS + 1500, b"a")]

    def test_repeated_batch_of_an_idempotent_producer(self) -> None:
        cluster = cluster_with()
        data = [batch(b"v", producer=(4, 0, sequence)) for sequence in range(3)]
        offsets = [cluster.send("t", 0, each).base_offset for each in [*data, data[1]]]
        assert offsets == [0, 1, 2, 1]
        assert cluster.send("t", 0, data[1]).log_append_time_ms == EPOCH_MS
        assert len(stored(cluster)) == 3

    def test_by_topic_id(self) -> None:
        cluster = cluster_with()
        request = ProduceRequest(
            acks=1,
            topic_data=[
                TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(0, batch(b"a"))])
                for topic_id in (cluster.broker.topics.topic_id("t"), b"?" * 16)
            ],
        )
        answer = cluster.broker.produce(
            request,
            None,
            0.0,
            by_topic_id=True,
            zstd_allowed=True,
            with_leaders=True,
            supported_operation=TransactionSupportedOperation.ADD_PARTITION,
        )
        assert [each.topic_id for each in answer.responses] == [each.topic_id for each in request.topic_data]
        errors = [each.partition_responses[0].error_code for each in answer.responses]
        assert errors == [0, ErrorCode.UNKNOWN_TOPIC_ID]


class TestRefused:
    def refused(self, cluster: Cluster, topic: str, index: int, data: bytes | None, **options: int) -> int:
        answer = cluster.send(topic, index, data, **options)
        assert (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (-1, -1, -1)
        return answer.error_code

    def test_unknown_topic_and_partition(self) -> None:
        cluster = cluster_with()
        assert self.refused(cluster, "nope", 0, batch(b"a")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert self.refused(cluster, "t", 2, batch(b"a")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert self.refused(cluster, "t", -1, batch(b"a")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @pytest.mark.parametrize("acks", [2, -2])
    def test_acks_that_do_not_exist(self, acks: int) -> None:
        cluster = cluster_with()
        assert self.refused(cluster, "t", 0, batch(b"a"), acks=acks) == ErrorCode.INVALID_REQUIRED_ACKS
        assert stored(cluster) == []

    def test_internal_topic(self) -> None:
        cluster = cluster_with()
        cluster.broker.topics.ensure_offsets_topic()
        assert self.refused(cluster, "__consumer_offsets", 0, batch(b"a")) == ErrorCode.INVALID_TOPIC_EXCEPTION

    def test_corrupt_batch(self) -> None:
        assert self.refused(cluster_with(), "t", 0, batch(b"a")[:-1] + b"?") == ErrorCode.CORRUPT_MESSAGE

    def test_larger_than_the_topic_allows(self) -> None:
        cluster = cluster_with()
        data = batch(b"x" * 500)
        cluster.topics.configure(cluster.topics.named("t"), {"max.message.bytes": str(len(data) - 1)})
        assert self.refused(cluster, "t", 0, data) == ErrorCode.MESSAGE_TOO_LARGE
        cluster.topics.configure(cluster.topics.named("t"), {"max.message.bytes": str(len(data))})
        assert cluster.send("t", 0, data).error_code == 0

    def test_broker_setting_is_the_default_of_topics(self) -> None:
        cluster = cluster_with(message_max_bytes="200")
        assert self.refused(cluster, "t", 0, batch(b"x" * 500)) == ErrorCode.MESSAGE_TOO_LARGE

    def test_time_too_far_in_the_future(self) -> None:
        cluster = cluster_with()
        hour = 3_600_000
        assert cluster.send("t", 0, batch(b"a", timestamp=EPOCH_MS + hour)).error_code == 0
        too_late = batch(b"a", timestamp=EPOCH_MS + hour + 1)
        assert self.refused(cluster, "t", 0, too_late) == ErrorCode.INVALID_TIMESTAMP
        assert "invalid timestamp" in (cluster.send("t", 0, too_late).error_message or "")

    def test_missing_batch_of_an_idempotent_producer(self) -> None:
        cluster = cluster_with()
        cluster.send("t", 0, batch(b"v", producer=(4, 0, 0)))
        later = batch(b"v", producer=(4, 0, 2))
        assert self.refused(cluster, "t", 0, later) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_another_leader_is_named(self) -> None:
        cluster = Cluster(nodes=2)
        topic = cluster.topics.declare("t", 2)
        (index,) = [each.index for each in topic.partitions if each.leader == 2]
        request = ProduceRequest(
            acks=1, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(index, batch(b"a"))])]
        )
        answer = cluster.broker.produce(
            request,
            None,
            0.0,
            by_topic_id=False,
            zstd_allowed=True,
            with_leaders=True,
            supported_operation=TransactionSupportedOperation.ADD_PARTITION,
        )
        refused = answer.responses[0].partition_responses[0]
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refused.current_leader.leader_id == 2
        assert [(node.node_id, node.host, node.port) for node in answer.node_endpoints] == [(2, "host-2", 9092)]

    def test_one_bad_partition_does_not_spoil_the_others(self) -> None:
        cluster = cluster_with()
        data = [PartitionProduceData(index, batch(b"a")) for index in (0, 7, 1)]
        request = ProduceRequest(acks=1, topic_data=[TopicProduceData("t", partition_data=data)])
        answer = cluster.broker.produce(
            request,
            None,
            0.0,
            by_topic_id=False,
            zstd_allowed=True,
            with_leaders=True,
            supported_operation=TransactionSupportedOperation.ADD_PARTITION,
        )
        found = [(each.index, each.error_code) for each in answer.responses[0].partition_responses]
        assert found == [(0, 0), (7, 3), (1, 0)]
