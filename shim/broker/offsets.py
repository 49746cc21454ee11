"""ListOffsets and OffsetForLeaderEpoch: where a log begins, ends, and was at a time.

Decides the offset for each timestamp and leader epoch. Does not know how a log finds a timestamp. Sources: KIP-79,
KIP-734, KIP-405, KIP-1005, KIP-1023 for the special timestamps; KIP-101, KIP-320 for leader epochs.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kafka_shim.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafka_shim.apis.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import LEADER_EPOCH
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.topics import Partition, Topics

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

READ_COMMITTED: Final = 1
_NOWHERE: Final = (-1, -1, -1)


class Offsets:
    """The two rules, for the logs that one broker leads."""

    def __init__(self, node_id: int, topics: Topics) -> None:
        self.node_id = node_id
        self.topics = topics

    def list_offsets(self, request: ListOffsetsRequest, *, lowest_timestamp: int) -> ListOffsetsResponse:
        """`lowest_timestamp`: the lowest special timestamp that the request's version has; lower ones answer
        UNSUPPORTED_VERSION (35). A partition that is in the request twice answers INVALID_REQUEST (42), once."""
        committed = request.isolation_level == READ_COMMITTED
        named = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
        topics = []
        for topic in request.topics:
            answers = {}
            for each in topic.partitions:
                if named[topic.name, each.partition_index] > 1:
                    answer = ListOffsetsPartitionResponse(each.partition_index, ErrorCode.INVALID_REQUEST)
                else:
                    answer = self._listed(topic.name, each, committed, lowest_timestamp)
                answers[each.partition_index] = answer
            topics.append(ListOffsetsTopicResponse(topic.name, list(answers.values())))
        return ListOffsetsResponse(topics=topics)

    def offset_for_leader_epoch(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        """The end of the log for the one epoch there is, nothing for an epoch yet to come."""
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic.topic, [self._epoch_end(topic.topic, each) for each in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    def _listed(
        self, topic: str, query: ListOffsetsPartition, committed: bool, lowest_timestamp: int
    ) -> ListOffsetsPartitionResponse:
        if query.timestamp < lowest_timestamp:
            return ListOffsetsPartitionResponse(query.partition_index, ErrorCode.UNSUPPORTED_VERSION)
        found = self._led(topic, query.partition_index, query.current_leader_epoch)
        if isinstance(found, int):
            return ListOffsetsPartitionResponse(query.partition_index, found)
        timestamp, offset, epoch = _position(found.log, query.timestamp, committed)
        return ListOffsetsPartitionResponse(
            partition_index=query.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
        )

    def _epoch_end(self, topic: str, query: OffsetForLeaderPartition) -> EpochEndOffset:
        found = self._led(topic, query.partition, query.current_leader_epoch)
        if isinstance(found, int):
            return EpochEndOffset(found, query.partition)
        if query.leader_epoch != LEADER_EPOCH:
            return EpochEndOffset(0, query.partition)
        return EpochEndOffset(0, query.partition, LEADER_EPOCH, found.log.end_offset)

    def _led(self, name: str, index: int, leader_epoch: int) -> Partition | int:
        """The partition, or the error why this broker cannot answer for it."""
        topic = self.topics.named(name)
        partition = topic.partition(index) if topic is not None else None
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader != self.node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition.begin_log is not None and (error := partition.begin_log()):
            return error
        return partition if leader_epoch <= LEADER_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH


def _position(log: PartitionLog, timestamp: int, committed: bool) -> tuple[int, int, int]:
    """Timestamp, offset and leader epoch that answer `timestamp`; all -1 where no record does."""
    if timestamp == LATEST:
        return -1, log.last_stable_offset if committed else log.high_watermark, LEADER_EPOCH
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset, LEADER_EPOCH
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOWHERE
    found = log.largest_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    return (*found, LEADER_EPOCH) if found is not None else _NOWHERE
