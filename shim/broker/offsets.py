"""ListOffsets and OffsetForLeaderEpoch: where a log begins, ends, and was at a time.

Decides which offset answers which question. Does not know how a log finds a timestamp. Sources: KIP-79, KIP-734,
KIP-405, KIP-1005, KIP-1023 for the timestamps that mean something else; KIP-101, KIP-320 for leader epochs.
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
        """`lowest_timestamp`: the last special timestamp that the request's version knows; lower ones answer
        UNSUPPORTED_VERSION (35). A partition asked for twice answers INVALID_REQUEST (42), once."""
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
        self, topic: str, asked: ListOffsetsPartition, committed: bool, lowest_timestamp: int
    ) -> ListOffsetsPartitionResponse:
        if asked.timestamp < lowest_timestamp:
            return ListOffsetsPartitionResponse(asked.partition_index, ErrorCode.UNSUPPORTED_VERSION)
        found = self._led(topic, asked.partition_index, asked.current_leader_epoch)
        if isinstance(found, int):
            return ListOffsetsPartitionResponse(asked.partition_index, found)
        timestamp, offset, epoch = _position(found.log, asked.timestamp, committed)
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
        )

    def _epoch_end(self, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
        found = self._led(topic, asked.partition, asked.current_leader_epoch)
        if isinstance(found, int):
            return EpochEndOffset(found, asked.partition)
        if asked.leader_epoch != LEADER_EPOCH:
            return EpochEndOffset(0, asked.partition)
        return EpochEndOffset(0, asked.partition, LEADER_EPOCH, found.log.end_offset)

    def _led(self, name: str, index: int, leader_epoch: int) -> Partition | int:
        """The partition, or the error why it cannot be asked here."""
        topic = self.topics.named(name)
        partition = topic.partition(index) if topic is not None else None
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader != self.node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
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
