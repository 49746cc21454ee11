"""Produce: appends the batches of producers to the logs of their partitions.

Sources: Kafka's KafkaApis and ReplicaManager; KIP-516, KIP-951.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from kafka_shim.apis.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batch_records import MAX_RECORDS, MAX_UNPACKED, check_records
from kafka_shim.broker.batches import LEADER_EPOCH, InvalidBatch, parse_batch, producer_of
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.topics import Topic, Topics
from kafka_shim.broker.transaction_ends import TopicPartition
from kafka_shim.broker.transactions import Additions, Sender, Transactions, Verification
from kafka_shim.groups.interface import NO_REPLY, NoReply, TransactionSupportedOperation
from kafka_shim.persistence.batch import NO_TIMESTAMP, Batch

NO_ACKS = 0
_LEGAL_ACKS = frozenset({-1, 0, 1})
_FAR = 2**62 - 1
_RECORD = MAX_UNPACKED // MAX_RECORDS
"""The bytes that take as long to read as a record."""


class Entry:
    """The entry of a divided Produce into its transaction. While it is `open`, a part adds its partitions and appends
    nothing: as in Kafka, a request adds all its partitions before any batch is read, and one record has many of them.
    `topics` are those of such parts, without those that the client may not write."""

    __slots__ = ("open", "topics")

    def __init__(self) -> None:
        self.open = False
        self.topics: list[TopicProduceData] = []


class ProduceApi:
    """The Produce rule of one broker. `epoch_ms` turns monotonic seconds into ms since the epoch."""

    def __init__(
        self, node_id: int, topics: Topics, transactions: Transactions, epoch_ms: Callable[[float], int]
    ) -> None:
        self.node_id = node_id
        self.topics = topics
        self.transactions = transactions
        self._epoch_ms = epoch_ms
        self._room = inf
        """The bytes of records, unpacked, to read before other clients are served."""

    def produce(
        self,
        request: ProduceRequest,
        now: float,
        *,
        by_topic_id: bool,
        zstd_allowed: bool,
        with_leaders: bool,
        supported_operation: TransactionSupportedOperation,
        answers: Mapping[TopicPartition, ErrorCode] | None = None,
    ) -> ProduceResponse | NoReply:
        """Append the batches; one answer per partition, or none at all with acks 0.

        `by_topic_id`: v13+; `zstd_allowed`: v7+ (KIP-110); `with_leaders`: v10+ (KIP-951). `answers`: the answers to
        `verification`, if another process coordinates the transaction. Such a request is not divided: batches beyond
        those of `MAX_UNPACKED` bytes are refused with NOT_ENOUGH_REPLICAS (19), and the producer sends them again.
        """

        self._room = inf if answers is None else MAX_UNPACKED
        added: Additions = {}
        adds_itself = supported_operation is TransactionSupportedOperation.ADD_PARTITION

        def admit(batch: Batch, topic: Topic, index: int) -> None:
            if batch.transactional:
                log = topic.partitions[index].log
                self._admit(
                    batch, log, request.transactional_id, (topic.name, index), supported_operation, answers, added
                )

        responses = []
        try:
            for data in request.topic_data:
                topic = self.topics.with_id(data.topic_id) if by_topic_id else self.topics.named(data.name)
                appended = [
                    self._append(
                        topic,
                        data,
                        each,
                        request,
                        now,
                        admit,
                        zstd_allowed=zstd_allowed,
                        by_topic_id=by_topic_id,
                        adds_itself=adds_itself,
                    )
                    for each in data.partition_data
                ]
                responses.append(TopicProduceResponse(data.name, data.topic_id, appended))
        finally:
            # After an exception too: the logs have the batches before it.
            if added:
                self.transactions.add(added, now)
        self.topics.settle(now)
        if request.acks == NO_ACKS:
            return NO_REPLY
        response = ProduceResponse(responses)
        if with_leaders:
            self._add_leaders(response)
        return response

    def add_partitions(
        self, request: ProduceRequest, entry: Entry, now: float, *, by_topic_id: bool
    ) -> ProduceResponse | NoReply:
        """Add the partitions of a request to its transaction; answer none of them yet."""
        entry.topics += request.topic_data
        added: Additions = {}
        for data in request.topic_data:
            topic = self.topics.with_id(data.topic_id) if by_topic_id else self.topics.named(data.name)
            for each in data.partition_data:
                partition = topic.partition(each.index) if topic is not None and not topic.is_internal else None
                producer = producer_of(each.records)
                if topic is None or partition is None or producer is None or partition.leader != self.node_id:
                    continue
                if self._is_doubtful(partition.log, topic.name, each.index, *producer):
                    continue
                self.transactions.check(
                    Sender(request.transactional_id or "", *producer),
                    (topic.name, each.index),
                    TransactionSupportedOperation.ADD_PARTITION,
                    added,
                )
        self.transactions.add(added, now)
        return NO_REPLY if request.acks == NO_ACKS else ProduceResponse([])

    def verification(
        self, request: ProduceRequest, supported_operation: TransactionSupportedOperation, *, by_topic_id: bool
    ) -> Verification | None:
        """Return the verification that another process must make for these batches; None if their coordinator is in
        this process.

        Partitions in which the producer has already written in this transaction need no check; those with a doubtful
        transaction of the producer are refused without one.
        """
        if request.transactional_id is None:
            return None
        node_id = self.transactions.remote_coordinator(request.transactional_id)
        if node_id is None:
            return None
        verification = Verification(node_id, Sender(request.transactional_id, -1, -1), [], supported_operation)
        for data in request.topic_data:
            topic = self.topics.with_id(data.topic_id) if by_topic_id else self.topics.named(data.name)
            for each in data.partition_data:
                partition = topic.partition(each.index) if topic is not None else None
                producer = producer_of(each.records)
                if topic is None or partition is None or producer is None or partition.leader != self.node_id:
                    continue
                if not _is_within(partition.log, *producer) and not self._is_doubtful(
                    partition.log, topic.name, each.index, *producer
                ):
                    verification = verification._replace(sender=Sender(request.transactional_id, *producer))
                    verification.topic_partitions.append((topic.name, each.index))
        return verification

    def _is_doubtful(self, log: PartitionLog, topic: str, index: int, producer_id: int, epoch: int) -> bool:
        hanging = self.transactions.hanging
        return hanging is not None and hanging.refuses(log, (topic, index), producer_id, epoch)

    def _append(
        self,
        topic: Topic | None,
        topic_data: TopicProduceData,
        data: PartitionProduceData,
        request: ProduceRequest,
        now: float,
        admit: Callable[[Batch, Topic, int], None],
        *,
        zstd_allowed: bool,
        by_topic_id: bool,
        adds_itself: bool,
    ) -> PartitionProduceResponse:
        partition = topic.partition(data.index) if topic is not None else None
        if request.acks not in _LEGAL_ACKS:
            return _refused(data, ErrorCode.INVALID_REQUIRED_ACKS)
        if topic is None and by_topic_id:
            return _refused(data, ErrorCode.UNKNOWN_TOPIC_ID)
        if topic is None or partition is None:
            return _refused(data, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic.is_internal:
            return _refused(data, ErrorCode.INVALID_TOPIC_EXCEPTION)
        if partition.leader != self.node_id:
            return _refused(data, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        wall = self._epoch_ms(now)
        try:
            batch = parse_batch(data.records, max_bytes=topic.max_message_bytes, zstd_allowed=zstd_allowed)
            if batch.transactional and self._is_doubtful(
                partition.log, topic.name, data.index, batch.producer_id, batch.producer_epoch
            ):
                # The producer sends it again.
                raise InvalidBatch(ErrorCode.NOT_ENOUGH_REPLICAS)
            admit(batch, topic, data.index)
            self._read(batch)
            _check_timestamps(batch, topic, wall)
            if batch.has_producer and not batch.transactional and partition.log.transactions.is_open(batch.producer_id):
                raise InvalidBatch(ErrorCode.INVALID_TXN_STATE)
            append_time = wall if topic.log_append_time else None
            written = partition.log.append(batch, append_time, now, request.transactional_id, adds_itself=adds_itself)
        except InvalidBatch as refused:
            return _refused(data, refused.error, refused.message)
        return PartitionProduceResponse(
            index=data.index,
            base_offset=written.base_offset,
            log_append_time_ms=written.append_time,
            log_start_offset=written.log_start_offset,
        )

    def _read(self, batch: Batch) -> None:
        """Raises InvalidBatch unless all records are sound, and if there is no room to read them now."""
        if self._room <= 0:
            raise InvalidBatch(ErrorCode.NOT_ENOUGH_REPLICAS)
        room, self._room = self._room, self._room - MAX_UNPACKED
        unpacked = check_records(batch.data, batch.attributes, batch.record_count)
        self._room = room - unpacked - batch.record_count * _RECORD

    def _admit(
        self,
        batch: Batch,
        log: PartitionLog,
        transactional_id: str | None,
        topic_partition: TopicPartition,
        supported_operation: TransactionSupportedOperation,
        answers: Mapping[TopicPartition, ErrorCode] | None,
        added: Additions,
    ) -> None:
        """Raises InvalidBatch with an error unless the batch is part of its producer's transaction. A partition
        to add to it goes into `added`."""
        if transactional_id is None or not batch.has_producer:
            raise InvalidBatch(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        sender = Sender(transactional_id, batch.producer_id, batch.producer_epoch)
        if answers is None:
            error = self.transactions.check(sender, topic_partition, supported_operation, added)
        elif topic_partition not in answers and _is_within(log, batch.producer_id, batch.producer_epoch):
            error = ErrorCode.NONE
        else:
            error = answers.get(topic_partition, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        is_ending = (
            error is ErrorCode.CONCURRENT_TRANSACTIONS
            and supported_operation is not TransactionSupportedOperation.ADD_PARTITION
        )
        if is_ending or error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            raise InvalidBatch(ErrorCode.NOT_ENOUGH_REPLICAS)
        if error is ErrorCode.INVALID_TXN_STATE:
            raise InvalidBatch(error, "Partition was not added to the transaction")
        if error:
            raise InvalidBatch(error)

    def _add_leaders(self, response: ProduceResponse) -> None:
        """Add the leader of each partition that this broker does not lead."""
        leaders = set()
        for topic_response in response.responses:
            named = self.topics.with_id(topic_response.topic_id) or self.topics.named(topic_response.name)
            for answer in topic_response.partition_responses:
                if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and named is not None:
                    leader = named.partitions[answer.index].leader
                    answer.current_leader = LeaderIdAndEpoch(leader, LEADER_EPOCH)
                    leaders.add(leader)
        response.node_endpoints = [
            NodeEndpoint(*self.topics.nodes[each]) for each in sorted(leaders & self.topics.nodes.keys())
        ]


def _is_within(log: PartitionLog, producer_id: int, producer_epoch: int) -> bool:
    """Return True if the producer has already written to the log in its present transaction."""
    return log.transactions.is_open(producer_id) and log.producers.epoch_of(producer_id) == producer_epoch


def _check_timestamps(batch: Batch, topic: Topic, wall: int) -> None:
    """Raises InvalidBatch with INVALID_TIMESTAMP (32) for times too far from `wall`, ms.

    The check reads the largest timestamp from the header; Kafka also reads those of the single records. With the base
    timestamp in bounds they have 64 bits.
    """
    if topic.log_append_time:
        return
    if not -_FAR <= batch.base_timestamp <= _FAR:
        raise InvalidBatch(ErrorCode.INVALID_TIMESTAMP)
    early, late = wall - topic.timestamp_before_max_ms, wall + topic.timestamp_after_max_ms
    if batch.max_timestamp != NO_TIMESTAMP and not early <= batch.max_timestamp <= late:
        raise InvalidBatch(
            ErrorCode.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp"
        )


def _refused(data: PartitionProduceData, error: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1, error_message=message)
