"""DeleteRecords, and its effect on fetches and offset look-ups."""

from typing import Any

import pytest

from kafka_shim.apis.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_shim.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_shim.apis.wire.errors import ErrorCode
from tests.broker.context import EPOCH_MS, Cluster, batch, fetch_request, partitions_of, records_of


@pytest.fixture
def cluster() -> Cluster:
    """Topic t with the batches 0-1, 2 and 3-5, a record each millisecond."""
    made = Cluster()
    made.topics.declare("t", 2)
    for first, count in ((0, 2), (2, 1), (3, 3)):
        made.send("t", 0, batch(*[b"v"] * count, timestamp=EPOCH_MS + first))
    return made


def delete(cluster: Cluster, *rows: tuple[str, int, int], node: int = 1) -> dict[tuple[str, int], tuple[int, int]]:
    """Error and low watermark by partition."""
    request = DeleteRecordsRequest(
        [DeleteRecordsTopic(topic, [DeleteRecordsPartition(index, offset)]) for topic, index, offset in rows]
    )
    response = cluster.brokers[node].deletions.delete(request, cluster.now)
    return {
        (topic.name, each.partition_index): (each.error_code, each.low_watermark)
        for topic in response.topics
        for each in topic.partitions
    }


def offset_of(cluster: Cluster, timestamp: int) -> tuple[int, int]:
    request = ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, timestamp)])])
    found = cluster.broker.offsets.list_offsets(request, lowest_timestamp=-6).topics[0].partitions[0]
    return found.timestamp, found.offset


def read(cluster: Cluster, offset: int) -> Any:
    return partitions_of(cluster.fetch(fetch_request(("t", 0, offset), max_wait_ms=0)))["t", 0]


class TestStart:
    def test_deleted_records_are_out_of_range(self, cluster: Cluster) -> None:
        assert delete(cluster, ("t", 0, 2)) == {("t", 0): (0, 2)}
        assert offset_of(cluster, -2) == (-1, 2)
        assert read(cluster, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        found = read(cluster, 2)
        assert (found.log_start_offset, [each.offset for each in records_of(found.records)]) == (2, [2, 3, 4, 5])

    def test_the_batch_with_the_start_offset_stays_whole(self, cluster: Cluster) -> None:
        delete(cluster, ("t", 0, 4))
        found = read(cluster, 4)
        assert (found.log_start_offset, [each.offset for each in records_of(found.records)]) == (4, [3, 4, 5])
        assert read(cluster, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_offset_minus_one_deletes_the_whole_log(self, cluster: Cluster) -> None:
        assert delete(cluster, ("t", 0, -1)) == {("t", 0): (0, 6)}
        assert (offset_of(cluster, -2), offset_of(cluster, -1), offset_of(cluster, 0)) == ((-1, 6), (-1, 6), (-1, -1))
        assert cluster.send("t", 0, batch(b"next")).base_offset == 6
        assert [each.offset for each in records_of(read(cluster, 6).records)] == [6]

    def test_the_start_offset_never_moves_back(self, cluster: Cluster) -> None:
        delete(cluster, ("t", 0, 4))
        assert delete(cluster, ("t", 0, 1)) == {("t", 0): (0, 4)}
        assert offset_of(cluster, -2) == (-1, 4)

    def test_a_full_log_does_not_move_the_start_offset_back(self) -> None:
        data = batch(b"x" * 100, b"y" * 100)
        cluster = Cluster(log_bytes=len(data) * 8)
        cluster.topics.declare("t")
        for _ in range(8):
            cluster.send("t", 0, data)
        delete(cluster, ("t", 0, 15))
        for _ in range(20):
            cluster.send("t", 0, data)
            assert offset_of(cluster, -2)[1] >= 15

    def test_no_timestamp_finds_deleted_records(self, cluster: Cluster) -> None:
        delete(cluster, ("t", 0, 5))
        assert offset_of(cluster, EPOCH_MS) == (EPOCH_MS + 5, 5)
        assert offset_of(cluster, EPOCH_MS + 6) == (-1, -1)

    def test_no_timestamp_finds_the_deleted_late_record_of_a_batch(self) -> None:
        cluster = Cluster()
        cluster.topics.declare("t")
        cluster.send("t", 0, batch(b"late", b"early", timestamp=EPOCH_MS + 10, step=-10))
        cluster.send("t", 0, batch(b"later", timestamp=EPOCH_MS + 11))
        assert offset_of(cluster, EPOCH_MS + 5) == (EPOCH_MS + 10, 0)
        delete(cluster, ("t", 0, 1))
        assert offset_of(cluster, EPOCH_MS + 5) == (EPOCH_MS + 11, 2)

    def test_a_fetch_that_waits_in_a_session_is_notified(self, cluster: Cluster) -> None:
        opened = cluster.fetch(fetch_request(("t", 0, 6), session_epoch=0, max_wait_ms=0))
        waiting = cluster.fetch(fetch_request(session_id=opened.session_id, session_epoch=1))
        delete(cluster, ("t", 0, 3))
        assert cluster.replies() == []
        cluster.advance(1.0)
        ((token, response),) = cluster.replies()
        assert token == waiting
        assert partitions_of(response)["t", 0].log_start_offset == 3

    def test_a_fetch_that_waits_before_the_start_offset_is_answered_at_once(self, cluster: Cluster) -> None:
        waiting = cluster.fetch(fetch_request(("t", 0, 0), min_bytes=10_000))
        delete(cluster, ("t", 0, 3))
        ((token, response),) = cluster.replies()
        assert (token, partitions_of(response)["t", 0].error_code) == (waiting, ErrorCode.OFFSET_OUT_OF_RANGE)


class TestRefused:
    def test_missing_offsets_are_refused(self, cluster: Cluster) -> None:
        for offset in (7, -2):
            assert delete(cluster, ("t", 0, offset)) == {("t", 0): (ErrorCode.OFFSET_OUT_OF_RANGE, -1)}

    def test_missing_partitions_are_refused(self, cluster: Cluster) -> None:
        found = delete(cluster, ("t", 9, 0), ("none", 0, 0), ("..", 0, 0))
        assert {error for error, _ in found.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    def test_another_broker_leads(self) -> None:
        cluster = Cluster(nodes=2)
        cluster.topics.create("t", [[2, 1]])
        assert delete(cluster, ("t", 0, 0)) == {("t", 0): (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)}
        assert delete(cluster, ("t", 0, 0), node=2) == {("t", 0): (0, 0)}

    def test_topics_of_kafkas_own(self, cluster: Cluster) -> None:
        cluster.topics.ensure_offsets_topic()
        found = delete(cluster, ("__consumer_offsets", 0, 0))
        assert found == {("__consumer_offsets", 0): (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)}

    def test_topics_that_are_compacted_alone(self, cluster: Cluster) -> None:
        cluster.topics.create("compacted", [[1]], {"cleanup.policy": "compact"})
        cluster.topics.create("both", [[1]], {"cleanup.policy": "compact,delete"})
        found = delete(cluster, ("compacted", 0, 0), ("both", 0, 0))
        assert found == {("compacted", 0): (ErrorCode.POLICY_VIOLATION, -1), ("both", 0): (0, 0)}

    def test_a_partition_named_twice(self, cluster: Cluster) -> None:
        assert delete(cluster, ("t", 0, 4), ("t", 0, 3)) == {("t", 0): (0, 3)}
