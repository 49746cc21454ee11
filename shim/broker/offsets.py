"""ListOffsets and OffsetForLeaderEpoch: offsets by timestamp, and the end of a leader epoch.

Sources: KIP-79, KIP-734, KIP-405, KIP-1005, KIP-1023 for the special timestamps; KIP-101, KIP-320 for leader epochs.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kafka_shim.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
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
    """The rules of both APIs, for the logs that one broker leads."""

    def __init__(self, node_id: int, topics: Topics) -> None:
        self.node_id = node_id
        self.topics = topics

    def list_offsets(self, request: ListOffsetsRequest, *, lowest_timestamp: int) -> ListOffsetsResponse:
        """Find offsets by timestamp. `lowest_timestamp`: the lowest special timestamp of the request's version; a lower
        one is UNSUPPORTED_VERSION (35). A partition that is in the request twice is INVALID_REQUEST (42), once."""
        committed = request.isolation_level == READ_COMMITTED
        counts = _counts(request)
        topics = []
        for topic in request.topics:
            answers = {}
            for each in topic.partitions:
                if counts[topic.name, each.partition_index] > 1:
                    answer = ListOffsetsPartitionResponse(each.partition_index, ErrorCode.INVALID_REQUEST)
                else:
                    answer = self._listed(topic.name, each, committed, lowest_timestamp)
                answers[each.partition_index] = answer
            topics.append(ListOffsetsTopicResponse(topic.name, list(answers.values())))
        return ListOffsetsResponse(topics=topics)

    def searches(self, request: ListOffsetsRequest) -> tuple[list[ListOffsetsTopic], list[ListOffsetsTopic]]:
        """Return the topics of the request with the partitions that need no search for a timestamp, and a topic for
        each partition that does: a search may unpack a batch."""
        counts = _counts(request)
        first: list[ListOffsetsTopic] = []
        searched: list[ListOffsetsTopic] = []
        for topic in request.topics:
            others = []
            for each in topic.partitions:
                if counts[topic.name, each.partition_index] == 1 and self._is_searched(topic.name, each):
                    searched.append(ListOffsetsTopic(topic.name, [each]))
                else:
                    others.append(each)
            if others or not topic.partitions:
                first.append(ListOffsetsTopic(topic.name, others))
        return first, searched

    def _is_searched(self, name: str, query: ListOffsetsPartition) -> bool:
        topic = self.topics.named(name)
        partition = topic.partition(query.partition_index) if topic is not None else None
        return is_search(query.timestamp) and partition is not None and partition.log.size > 0

    def offset_for_leader_epoch(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        """Return the end of the log for the only epoch, and no offset for a later one."""
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
        partition = self._led(topic, query.partition_index, query.current_leader_epoch)
        if isinstance(partition, int):
            return ListOffsetsPartitionResponse(query.partition_index, partition)
        timestamp, offset, epoch = _position(partition.log, query.timestamp, committed)
        return ListOffsetsPartitionResponse(
            partition_index=query.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
        )

    def _epoch_end(self, topic: str, query: OffsetForLeaderPartition) -> EpochEndOffset:
        partition = self._led(topic, query.partition, query.current_leader_epoch)
        if isinstance(partition, int):
            return EpochEndOffset(partition, query.partition)
        if query.leader_epoch != LEADER_EPOCH:
            return EpochEndOffset(0, query.partition)
        return EpochEndOffset(0, query.partition, LEADER_EPOCH, partition.log.end_offset)

    def _led(self, name: str, index: int, leader_epoch: int) -> Partition | int:
        """Return the partition, or the error if this broker cannot answer for it."""
        topic = self.topics.named(name)
        partition = topic.partition(index) if topic is not None else None
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader != self.node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition.begin_log is not None and (error := partition.begin_log()):
            return error
        return partition if leader_epoch <= LEADER_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH


def is_search(timestamp: int) -> bool:
    """Return True for a timestamp that is searched for in the batches of a log."""
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


def _counts(request: ListOffsetsRequest) -> Counter[tuple[str, int]]:
    """Return how often each partition is in the request."""
    return Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)


def _position(log: PartitionLog, timestamp: int, committed: bool) -> tuple[int, int, int]:
    """Return timestamp, offset and leader epoch for `timestamp`; all -1 if no record matches."""
    if timestamp == LATEST:
        return -1, log.last_stable_offset if committed else log.high_watermark, LEADER_EPOCH
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset, LEADER_EPOCH
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOWHERE
    position = log.largest_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    return (*position, LEADER_EPOCH) if position is not None else _NOWHERE
