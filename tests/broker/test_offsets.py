"""ListOffsets and OffsetForLeaderEpoch."""

import pytest

from kafka_shim.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafka_shim.apis.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_shim.apis.wire.errors import ErrorCode
from tests.broker.context import EPOCH_MS, Cluster, batch


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(log_bytes=2000)
    cluster.topics.declare("t", 2)
    for index in range(40):
        cluster.send("t", 0, batch(b"x" * 100, timestamp=EPOCH_MS + index * 10))
    return cluster


def listed(
    cluster: Cluster,
    timestamp: int,
    *,
    topic: str = "t",
    index: int = 0,
    epoch: int = -1,
    lowest: int = -6,
    **fields: int,
) -> ListOffsetsPartitionResponse:
    partition = ListOffsetsPartition(index, epoch, timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(topic, [partition])], **fields)
    return cluster.broker.offsets.list_offsets(request, lowest_timestamp=lowest).topics[0].partitions[0]


def position(answer: ListOffsetsPartitionResponse) -> tuple[int, int, int, int]:
    return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


class TestListOffsets:
    @pytest.mark.parametrize("isolation_level", [0, 1])
    def test_latest(self, cluster: Cluster, isolation_level: int) -> None:
        assert position(listed(cluster, -1, isolation_level=isolation_level)) == (0, -1, 40, 0)

    @pytest.mark.parametrize("timestamp", [-2, -4])
    def test_earliest(self, cluster: Cluster, timestamp: int) -> None:
        start = cluster.topics.named("t").partitions[0].log.start_offset
        assert start > 0
        assert position(listed(cluster, timestamp)) == (0, -1, start, 0)

    def test_an_empty_log_has_these_offsets(self, cluster: Cluster) -> None:
        assert [position(listed(cluster, each, index=1)) for each in (-1, -2)] == [(0, -1, 0, 0)] * 2
        assert [position(listed(cluster, each, index=1)) for each in (-3, EPOCH_MS)] == [(0, -1, -1, -1)] * 2

    def test_largest_timestamp(self, cluster: Cluster) -> None:
        assert position(listed(cluster, -3)) == (0, EPOCH_MS + 390, 39, 0)

    def test_at_a_time(self, cluster: Cluster) -> None:
        assert position(listed(cluster, EPOCH_MS + 385)) == (0, EPOCH_MS + 390, 39, 0)
        assert position(listed(cluster, EPOCH_MS + 391)) == (0, -1, -1, -1)

    @pytest.mark.parametrize("timestamp", [-5, -6])
    def test_remote_storage_has_nothing(self, cluster: Cluster, timestamp: int) -> None:
        assert position(listed(cluster, timestamp)) == (0, -1, -1, -1)

    @pytest.mark.parametrize(("timestamp", "lowest"), [(-3, -2), (-4, -3), (-7, -6), (-1000, -6)])
    def test_question_the_version_does_not_know(self, cluster: Cluster, timestamp: int, lowest: int) -> None:
        answer = position(listed(cluster, timestamp, lowest=lowest))
        assert answer == (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)

    def test_unknown_partition(self, cluster: Cluster) -> None:
        for answer in (listed(cluster, -1, topic="nope"), listed(cluster, -1, index=2)):
            assert position(answer) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)

    def test_leader_epoch(self, cluster: Cluster) -> None:
        assert listed(cluster, -1, epoch=0).error_code == 0
        assert listed(cluster, -1, epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    def test_a_partition_asked_for_twice(self, cluster: Cluster) -> None:
        partitions = [ListOffsetsPartition(index, -1, -1) for index in (0, 1, 0)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", partitions)])
        answers = cluster.broker.offsets.list_offsets(request, lowest_timestamp=-2).topics[0].partitions
        assert [each.error_code for each in answers] == [ErrorCode.INVALID_REQUEST, 0]

    def test_another_leader(self) -> None:
        cluster = Cluster(nodes=2)
        topic = cluster.topics.declare("t", 2)
        errors = {each.leader: listed(cluster, -1, index=each.index).error_code for each in topic.partitions}
        assert errors == {1: 0, 2: ErrorCode.NOT_LEADER_OR_FOLLOWER}


class TestOffsetForLeaderEpoch:
    def epoch_end(self, cluster: Cluster, epoch: int, *, current: int = -1, index: int = 0) -> EpochEndOffset:
        partition = OffsetForLeaderPartition(index, current, epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("t", [partition])])
        return cluster.broker.offsets.offset_for_leader_epoch(request).topics[0].partitions[0]

    def test_the_one_epoch_ends_where_the_log_does(self, cluster: Cluster) -> None:
        assert self.epoch_end(cluster, 0) == EpochEndOffset(0, 0, 0, 40)

    @pytest.mark.parametrize("epoch", [1, -1])
    def test_other_epochs_end_nowhere(self, cluster: Cluster, epoch: int) -> None:
        assert self.epoch_end(cluster, epoch) == EpochEndOffset(0, 0, -1, -1)

    def test_errors(self, cluster: Cluster) -> None:
        assert self.epoch_end(cluster, 0, current=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert self.epoch_end(cluster, 0, index=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
