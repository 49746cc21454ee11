"""The end of a transaction: the decision becomes durable, every partition gets a marker, the end is recorded.

A decision is the record of a transactional id in state PrepareCommit or PrepareAbort. It has no effect before that
record is durable; the next coordinator that loads the record, after a crash or a move, completes it. The decision
itself is made in `transactions.py`; `shim/groups/transactions.py` applies it to pending offsets.

Source: KIP-98; Kafka's TransactionCoordinator and TransactionMarkerChannelManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topics
from kafka_shim.groups import transactions as pending
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.transactional_ids import Status, Transaction
from kafka_shim.groups.transactions import write_transaction

RETRY_SECONDS: Final = 0.2
"""Seconds until markers that failed are sent again."""

MARKERS_VERSION: Final = 1

OFFSETS_AT_ONCE: Final = 4_000
"""Pending offsets, of whole partitions, after that the markers of other partitions wait for the next tick."""
_MARKER: Final = 2
"""Pending offsets that take as long as one marker."""

_NOT_LOADED: Final = "no process has loaded it"
_NOT_STORED: Final = "the store has not written the marker yet"
_NOT_LED: Final = "no node leads it"

TopicPartition = tuple[str, int]

_FINAL_ERRORS: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""Errors of a marker that need no retry: the partition has the marker, or a newer epoch."""


class RemoteNodes(Protocol):
    """The other processes of a cluster, for requests to them."""

    def holder(self, topic: str, index: int) -> int | None:
        """Return the node of another process that leads a partition, of `__consumer_offsets` too; None if none does."""

    def epoch(self, partition: int) -> int:
        """Return the epoch of this process's lease of a partition of `__consumer_offsets`."""

    def ask(self, node_id: int, version: int, request: Message, purpose: object) -> None:
        """Send a request; `Transactions.answered(purpose, answer, now)` is called once, with None if there is no
        answer."""


class Decision(NamedTuple):
    """A decision: the partition of its record and the transactional id. `ending` is a new object for each decision."""

    partition: int
    transactional_id: str
    ending: object


class DecisionDurable(NamedTuple):
    """Effect: the decision about a transaction is durable, and can be carried out."""

    partition: int
    transactional_id: str


class OffsetsEnded(NamedTuple):
    """Effect: a partition of `__consumer_offsets` has applied the decision to its offsets, durably."""

    decision: Decision
    topic_partition: TopicPartition


class MarkersSent(NamedTuple):
    """Purpose of a WriteTxnMarkers request to the node `node_id` of another process, for these partitions."""

    decision: Decision
    node_id: int
    topic_partitions: list[TopicPartition]


class Retry(NamedTuple):
    """Markers of a decision to send again, to the partitions `unmarked`, each with its last answer. `attempts` counts
    the earlier retries."""

    transactional_id: str
    is_committed: bool
    attempts: int
    unmarked: dict[TopicPartition, str]


class TransactionCompletion:
    """The ends of the transactions that this process coordinates.

    `shard_at(partition)` is the shard of a partition of `__consumer_offsets`, on any broker of this process, if it is
    active. `epoch_ms` turns monotonic seconds into ms since the epoch. Without `remote_nodes` there is no other
    process.
    """

    def __init__(
        self,
        topics: Topics,
        shard_at: Callable[[int], Shard | None],
        epoch_ms: Callable[[float], int],
        remote_nodes: RemoteNodes | None,
    ) -> None:
        self._topics = topics
        self._shard_at = shard_at
        self._epoch_ms = epoch_ms
        self._remote_nodes = remote_nodes
        self.on_retry: Callable[[Retry], None] = lambda retry: None
        """Called before markers are sent again."""

    def decide(
        self,
        shard: Shard,
        transactional_id: str,
        transaction: Transaction,
        producer: tuple[int, int],
        now: float,
        *,
        committed: bool,
        marker_epoch: int,
    ) -> None:
        """Record that the transaction commits or aborts: markers have `marker_epoch`, and `producer` comes after
        them."""
        if not transaction.partitions:
            status = Status.COMPLETE_COMMIT if committed else Status.COMPLETE_ABORT
            write_transaction(
                shard, transactional_id, now, producer=producer, timeout_ms=transaction.timeout_ms, status=status
            )
            return
        write_transaction(
            shard,
            transactional_id,
            now,
            producer=(transaction.producer_id, marker_epoch),
            timeout_ms=transaction.timeout_ms,
            status=Status.PREPARE_COMMIT if committed else Status.PREPARE_ABORT,
            partitions=transaction.partitions,
            next_producer_id=producer[0] if producer[0] != transaction.producer_id else -1,
        )
        shard.outbox.when_durable(shard, DecisionDurable(shard.partition, transactional_id))

    def apply(self, effect: object, now: float) -> None:
        """Carry out an effect whose records are durable."""
        match effect:
            case DecisionDurable(partition, transactional_id):
                shard = self._shard_at(partition)
                if shard is not None:
                    self.carry_out(shard, transactional_id, now)
            case OffsetsEnded(decision, topic_partition):
                self._delivered(decision, [topic_partition], now)

    def answered(self, markers: MarkersSent, answer: Message | None, now: float) -> None:
        """Take another process's answer for these partitions, an error or none for each; None if it has not
        answered."""
        place = self._find(markers.decision)
        if place is None:
            return
        transaction = place[1]
        transaction.in_flight.difference_update(markers.topic_partitions)
        if not isinstance(answer, WriteTxnMarkersResponse):
            for topic_partition in markers.topic_partitions:
                transaction.unmarked[topic_partition] = f"node {markers.node_id} did not answer"
            return
        delivered: list[TopicPartition] = []
        for result in answer.markers:
            for topic in result.topics:
                for each in topic.partitions:
                    topic_partition = topic.name, each.partition_index
                    if each.error_code in _FINAL_ERRORS:
                        delivered.append(topic_partition)
                    elif topic_partition in transaction.unmarked:
                        error = ErrorCode(each.error_code).name
                        transaction.unmarked[topic_partition] = f"node {markers.node_id} answered {error}"
        self._delivered(markers.decision, delivered, now)

    def _find(self, decision: Decision) -> tuple[Shard, Transaction] | None:
        """Return the shard and the transaction of a decision that is still to be carried out here."""
        shard = self._shard_at(decision.partition)
        transaction = shard.transactions.get(decision.transactional_id) if shard is not None else None
        if shard is None or transaction is None or transaction.ending is not decision.ending:
            return None
        return shard, transaction

    def _delivered(self, decision: Decision, topic_partitions: Iterable[TopicPartition], now: float) -> None:
        """Note that these partitions have the marker; record the end if all have it."""
        place = self._find(decision)
        if place is not None:
            shard, transaction = place
            for topic_partition in topic_partitions:
                transaction.unmarked.pop(topic_partition, None)
            if not transaction.unmarked:
                self._complete(shard, decision.transactional_id, transaction, now)

    def carry_out(self, shard: Shard, transactional_id: str, now: float) -> None:
        """Send the marker of a durable decision to every partition without it; record the end if all have it.

        Many markers, or many offsets, take several turns: the timer of the transaction goes on at the next tick.
        Nothing happens unless there is such a decision, and this shard still has it.
        """
        transaction = shard.transactions.get(transactional_id)
        if transaction is None or not transaction.is_prepared or self._shard_at(shard.partition) is not shard:
            return
        decision = Decision(shard.partition, transactional_id, transaction.ending)
        by_node: dict[int, list[TopicPartition]] = {}
        done: list[TopicPartition] = []
        due, transaction.later = transaction.later, []
        if not due:
            due = sorted(transaction.unmarked.keys() - transaction.in_flight)
            if due:
                self._count(shard, transactional_id, transaction, due)
        rest = OFFSETS_AT_ONCE
        for number, topic_partition in enumerate(due):
            if rest <= 0:
                transaction.later = due[number:]
                break
            rest -= _MARKER
            node_id = self._remote_nodes.holder(*topic_partition) if self._remote_nodes is not None else None
            if node_id is not None:
                by_node.setdefault(node_id, []).append(topic_partition)
            elif topic_partition[0] == OFFSETS_TOPIC:
                rest -= self._end_offsets(shard, transaction, topic_partition, decision)
            elif self._end_records(shard, transaction, topic_partition, now):
                done.append(topic_partition)
        self._topics.settle(now)
        for node_id, topic_partitions in by_node.items():
            self._ask(node_id, shard, transaction, topic_partitions, decision)
        self._delivered(decision, done, now)
        if transaction.ending is decision.ending:
            shard.arm(transaction.timer, now if transaction.later else now + RETRY_SECONDS)

    def _count(self, shard: Shard, transactional_id: str, transaction: Transaction, due: list[TopicPartition]) -> None:
        if transaction.attempts:
            shard.counters.marker_retries += len(due)
            unmarked = {topic_partition: transaction.unmarked[topic_partition] for topic_partition in due}
            self.on_retry(Retry(transactional_id, transaction.is_committed, transaction.attempts, unmarked))
        transaction.attempts += 1

    def _end_offsets(
        self, shard: Shard, transaction: Transaction, topic_partition: TopicPartition, decision: Decision
    ) -> int:
        """Return the number of offsets in the transaction."""
        home = self._shard_at(topic_partition[1])
        transaction.unmarked[topic_partition] = _NOT_LOADED if home is None else _NOT_STORED
        if home is None:
            return 0
        count = len(home.pending.of_producer(transaction.producer_id))
        epoch = self._coordinator_epoch(shard)
        pending.end(home, transaction.producer_id, epoch, committed=transaction.is_committed)
        home.outbox.when_durable(home, OffsetsEnded(decision, topic_partition))
        return count

    def _end_records(self, shard: Shard, transaction: Transaction, topic_partition: TopicPartition, now: float) -> bool:
        """Return True if this partition is done: its log has the marker, or it does not exist any more."""
        name, index = topic_partition
        topic = self._topics.named(name)
        partition = topic.partition(index) if topic is not None else None
        if partition is None:
            return True
        if self._remote_nodes is not None and partition.leader not in self._topics.nodes:
            transaction.unmarked[topic_partition] = _NOT_LED
            return False
        self.write_marker(
            partition.log,
            transaction.producer_id,
            transaction.producer_epoch,
            self._coordinator_epoch(shard),
            now,
            committed=transaction.is_committed,
        )
        return True

    def write_marker(
        self, log: PartitionLog, producer_id: int, epoch: int, coordinator_epoch: int, now: float, *, committed: bool
    ) -> None:
        """End a producer's transaction in one log. The caller settles the topics after the last log."""
        log.end_transaction(producer_id, epoch, coordinator_epoch, self._epoch_ms(now), now, committed=committed)

    def _ask(
        self,
        node_id: int,
        shard: Shard,
        transaction: Transaction,
        topic_partitions: list[TopicPartition],
        decision: Decision,
    ) -> None:
        """Send the markers for the partitions of another process. A partition never has two markers in flight: a late
        one could end the next transaction."""
        assert self._remote_nodes is not None
        by_topic: dict[str, list[int]] = {}
        for topic, index in topic_partitions:
            by_topic.setdefault(topic, []).append(index)
        marker = WritableTxnMarker(
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.is_committed,
            [WritableTxnMarkerTopic(*each) for each in by_topic.items()],
            self._coordinator_epoch(shard),
        )
        transaction.in_flight.update(topic_partitions)
        purpose = MarkersSent(decision, node_id, topic_partitions)
        self._remote_nodes.ask(node_id, MARKERS_VERSION, WriteTxnMarkersRequest([marker]), purpose)

    def _coordinator_epoch(self, shard: Shard) -> int:
        return self._remote_nodes.epoch(shard.partition) if self._remote_nodes is not None else 0

    def _complete(self, shard: Shard, transactional_id: str, transaction: Transaction, now: float) -> None:
        next_id = transaction.next_producer_id
        write_transaction(
            shard,
            transactional_id,
            now,
            producer=(next_id, 0) if next_id != -1 else (transaction.producer_id, transaction.producer_epoch),
            timeout_ms=transaction.timeout_ms,
            status=Status.COMPLETE_COMMIT if transaction.is_committed else Status.COMPLETE_ABORT,
        )
