"""The requests about transactions on one broker, and the markers that other coordinators send.

A broker that is not the right one answers 14, 15 or 16; 6 for markers. The rules of transactions are in
`transactions.py`.

Source: KIP-98, KIP-890; Kafka's KafkaApis; the answers of a running Kafka 4.2.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_shim.apis import init_producer_id
from kafka_shim.apis.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafka_shim.apis.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafka_shim.apis.end_txn import EndTxnRequest, EndTxnResponse
from kafka_shim.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka_shim.broker.topics import OFFSETS_TOPIC, Partition, Topics
from kafka_shim.broker.transaction_ends import TopicPartition
from kafka_shim.broker.transactions import Additions, Transactions
from kafka_shim.groups import transactions as pending
from kafka_shim.groups.service import GroupService, WaitingOffsets
from kafka_shim.groups.shard import Shard


class TransactionRequests:
    """The transaction rules of one broker; `groups` keeps its transactional ids."""

    def __init__(self, node_id: int, topics: Topics, transactions: Transactions, groups: GroupService) -> None:
        self.node_id = node_id
        self.topics = topics
        self.transactions = transactions
        self._groups = groups

    def admitted(self, waiting: WaitingOffsets, errors: Mapping[TopicPartition, ErrorCode], now: float) -> None:
        """Answer a TxnOffsetCommit that another process has verified."""
        (error,) = errors.values()
        self._groups.admitted(waiting, error, now)

    def init_producer_id(self, request: InitProducerIdRequest, now: float) -> InitProducerIdResponse:
        """Return a new producer id, or that of a transactional id with its next epoch."""
        if request.transactional_id == "" or (request.producer_id == -1) != (request.producer_epoch == -1):
            return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
        if request.transactional_id is None:
            return InitProducerIdResponse(producer_id=next(self.topics.producer_ids), producer_epoch=0)
        shard = self._groups.shard_of(request.transactional_id)
        if isinstance(shard, ErrorCode):
            return init_producer_id.error(request, shard)
        response = self.transactions.init_producer_id(shard, request, now)
        self.topics.settle(now)
        return response

    def add_partitions_to_txn(self, request: AddPartitionsToTxnRequest, now: float) -> AddPartitionsToTxnResponse:
        added: Additions = {}
        results = [
            self.transactions.add_partitions(self._groups.shard_of(each.transactional_id), each, added)
            for each in request.transactions
        ]
        self.transactions.add(added, now)
        return AddPartitionsToTxnResponse(results_by_transaction=results)

    def add_offsets_to_txn(self, request: AddOffsetsToTxnRequest, now: float) -> AddOffsetsToTxnResponse:
        shard = self._groups.shard_of(request.transactional_id)
        if isinstance(shard, ErrorCode):
            return AddOffsetsToTxnResponse(error_code=shard)
        return AddOffsetsToTxnResponse(error_code=self.transactions.add_offsets(shard, request, now))

    def end_txn(self, request: EndTxnRequest, now: float, *, bumps_epoch: bool) -> EndTxnResponse:
        shard = self._groups.shard_of(request.transactional_id)
        if isinstance(shard, ErrorCode):
            return EndTxnResponse(error_code=shard)
        response = self.transactions.end(shard, request, now, bumps_epoch=bumps_epoch)
        self.topics.settle(now)
        return response

    def write_txn_markers(self, request: WriteTxnMarkersRequest, now: float) -> WriteTxnMarkersResponse:
        """Write markers into the partitions that this broker leads.

        Errors per partition: UNKNOWN_TOPIC_OR_PARTITION (3) also without a replica here, NOT_LEADER_OR_FOLLOWER (6)
        also while the groups of a partition of `__consumer_offsets` are loading, INVALID_PRODUCER_EPOCH (47),
        TRANSACTION_COORDINATOR_FENCED (52).

        Pending offsets are with their groups, even if the broker does not show `__consumer_offsets` to clients.
        """
        response = WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    marker.producer_id,
                    [
                        WritableTxnMarkerTopicResult(
                            topic.name,
                            [
                                WritableTxnMarkerPartitionResult(index, self._mark(marker, topic.name, index, now))
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )
        self.topics.settle(now)
        return response

    def _mark(self, marker: WritableTxnMarker, name: str, index: int, now: float) -> ErrorCode:
        shard = self._groups.shards.get(index) if name == OFFSETS_TOPIC else None
        if shard is not None:
            return _end_offsets(marker, shard)
        topic = self.topics.named(name)
        partition = topic.partition(index) if topic is not None else None
        if partition is None or self.node_id not in (partition.leader, *partition.replicas):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader != self.node_id or name == OFFSETS_TOPIC:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self._write(marker, partition, now)

    def _write(self, marker: WritableTxnMarker, partition: Partition, now: float) -> ErrorCode:
        log = partition.log
        if marker.producer_epoch < log.producers.epoch_of(marker.producer_id):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < log.transactions.coordinator_epoch(marker.producer_id):
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.transactions.completion.write_marker(
            log,
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            now,
            committed=marker.transaction_result,
        )
        return ErrorCode.NONE


def _end_offsets(marker: WritableTxnMarker, shard: Shard) -> ErrorCode:
    epochs = [each.producer_epoch for each in shard.pending.of_producer(marker.producer_id).values()]
    if epochs and marker.producer_epoch < max(epochs):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if marker.coordinator_epoch < shard.pending.marker_epochs.of(marker.producer_id):
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    pending.end(shard, marker.producer_id, marker.coordinator_epoch, committed=marker.transaction_result)
    return ErrorCode.NONE
