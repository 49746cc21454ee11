"""DeleteRecords: an administrator moves the start of a log forward.

There is one copy of each log, so the answer waits for no replica. Sources: KIP-107; Kafka's
ReplicaManager.deleteRecords.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.setting import as_list
from kafka_shim.broker.topics import Topics

HIGH_WATERMARK: Final = -1
_NOTHING: Final = -1


class Deletions:
    """The rule of DeleteRecords, for the logs that one broker leads."""

    def __init__(self, node_id: int, topics: Topics) -> None:
        self.node_id = node_id
        self.topics = topics

    def delete(self, request: DeleteRecordsRequest, now: float) -> DeleteRecordsResponse:
        """Delete the records before an offset. If a partition is in the request twice, its last offset counts.

        Errors per partition: UNKNOWN_TOPIC_OR_PARTITION (3), INVALID_TOPIC_EXCEPTION (17) for a topic of Kafka's own,
        NOT_LEADER_OR_FOLLOWER (6), POLICY_VIOLATION (44) if `cleanup.policy` is without `delete`, OFFSET_OUT_OF_RANGE
        (1).
        """
        results: dict[str, dict[int, DeleteRecordsPartitionResult]] = {}
        offsets = {
            (topic.name, each.partition_index): each.offset for topic in request.topics for each in topic.partitions
        }
        for (name, index), offset in offsets.items():
            error, low_watermark = self._cut(name, index, offset)
            results.setdefault(name, {})[index] = DeleteRecordsPartitionResult(index, low_watermark, error)
        self.topics.settle(now)
        return DeleteRecordsResponse(
            topics=[DeleteRecordsTopicResult(name, list(of_topic.values())) for name, of_topic in results.items()]
        )

    def _cut(self, name: str, index: int, offset: int) -> tuple[ErrorCode, int]:
        topic = self.topics.named(name)
        partition = topic.partition(index) if topic is not None else None
        if topic is None or partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOTHING
        if topic.is_internal:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, _NOTHING
        if partition.leader != self.node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, _NOTHING
        if "delete" not in as_list(self.topics.settings.topic_text("cleanup.policy", topic.configs)):
            return ErrorCode.POLICY_VIOLATION, _NOTHING
        log = partition.log
        start = log.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= start <= log.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE, _NOTHING
        log.cut(start)
        return ErrorCode.NONE, log.start_offset
