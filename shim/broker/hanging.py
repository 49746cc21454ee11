"""Hanging transactions: open ones in a log, with their markers at another process.

Processes that share a store have logs of their own. If a process is paused, or a node comes, another one leads its
partitions for a time. If a transaction ends at that time its marker is there, and in the log here it stays open:
readers of committed records wait for it without end. So a process doubts its open transactions after a time in which
others may have led, and from the end of its leases to the next. It takes no batch of their producers until their
coordinators have answered, and writes the markers that are missing.

Source: Kafka knows hanging transactions too (KIP-664), and its tool `kafka-transactions.sh` aborts them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

from kafka_shim.apis.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.log_transactions import OpenTxn
from kafka_shim.broker.topics import Topics
from kafka_shim.broker.transaction_ends import RemoteNodes, TopicPartition
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.transactional_ids import STATES, Status

log: Final = logging.getLogger("kafka_shim.server")

AT_ONCE: Final = 200
"""Questions at once: a client may open any number of transactions."""

CLOCKS_MS: Final = 1_000
"""Difference of the clocks of two processes, at most, in milliseconds: a transaction that starts later than that after
the last batch is another one."""

_VERSION: Final = 0
_ONGOING: Final = STATES[Status.ONGOING]
_COMMITTED: Final = STATES[Status.COMPLETE_COMMIT]
_ENDING: Final = frozenset({STATES[Status.PREPARE_COMMIT], STATES[Status.PREPARE_ABORT]})


class Fate(Enum):
    """State of a transaction in a log, by its coordinator. UNKNOWN: it moves, or ends the transaction just now."""

    OPEN = "open"
    UNKNOWN = "unknown"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Doubt(NamedTuple):
    """A doubtful transaction in the log of one partition."""

    topic_partition: TopicPartition
    log: PartitionLog
    producer_id: int
    transaction: OpenTxn


class Doubts(NamedTuple):
    """Purpose of a DescribeTransactions request to the node `node_id` of another process."""

    node_id: int
    doubts: list[Doubt]


class HangingTransactions:
    """The doubtful transactions in the logs that the node `node_id` leads.

    `shard_of(transactional_id)` is the shard of an id in this process, or an error; `coordinator(transactional_id)` is
    the node of another process that coordinates, or None. `epoch_ms` turns monotonic seconds into ms since the epoch.
    """

    def __init__(
        self,
        node_id: int,
        topics: Topics,
        shard_of: Callable[[str], Shard | ErrorCode],
        coordinator: Callable[[str], int | None],
        remote_nodes: RemoteNodes,
        epoch_ms: Callable[[float], int],
    ) -> None:
        self._node_id = node_id
        self._topics = topics
        self._shard_of = shard_of
        self._coordinator = coordinator
        self._remote_nodes = remote_nodes
        self._epoch_ms = epoch_ms
        self._logs: dict[TopicPartition, PartitionLog] = {}
        """Those with doubtful transactions."""
        self._suspects: dict[tuple[TopicPartition, int], PartitionLog] = {}
        """Open transactions to ask about, by partition and producer id, with batches of later epochs refused."""
        self._round: Iterator[Doubt] = iter(())
        """The doubts that no question has had yet."""
        self._asked: set[int] = set()
        """The nodes that have not answered yet."""
        self.is_cut_off: Callable[[], bool] = lambda: False
        """Returns True while this process has no leases: others may lead its partitions."""

    def refuses(self, log: PartitionLog, topic_partition: TopicPartition, producer_id: int, epoch: int) -> bool:
        """Return True for a batch in doubt: the open transaction of its producer may have ended."""
        if self.is_cut_off():
            return True
        if log.producers.epoch_of(producer_id) < epoch and log.transactions.is_open(producer_id):
            # A new epoch comes after a marker: that of the open transaction is in another log, or on its way here. Any
            # client may claim an epoch: batches of the open transaction are still taken.
            self._suspects[topic_partition, producer_id] = log
            return True
        return producer_id in log.transactions.doubtful

    def doubt(self) -> None:
        """Doubt every open transaction: other processes may have led the partitions."""
        for topic in self._topics.all():
            for partition in topic.partitions:
                if partition.leader == self._node_id and partition.log.transactions.open_count:
                    partition.log.transactions.doubt()
                    self._logs[topic.name, partition.index] = partition.log

    def ask(self, now: float) -> None:
        """Ask coordinators about some of the doubtful transactions; answers lead to the next questions."""
        doubts = list(islice(self._round, AT_ONCE))
        if not doubts:
            self._round = self._doubts()
            doubts = list(islice(self._round, AT_ONCE))
        by_node: dict[int, list[Doubt]] = {}
        ends: list[tuple[Doubt, Fate]] = []
        for doubt in doubts:
            transactional_id = doubt.transaction.transactional_id
            node_id = self._coordinator(transactional_id)
            if node_id is None:
                self._judge(doubt, self._own_state(doubt), ends, now)
            elif node_id not in self._asked:
                by_node.setdefault(node_id, []).append(doubt)
        self._tell(ends, now)
        for node_id, those in by_node.items():
            self._asked.add(node_id)
            request = DescribeTransactionsRequest([*{each.transaction.transactional_id: None for each in those}])
            self._remote_nodes.ask(node_id, _VERSION, request, Doubts(node_id, those))

    def _doubts(self) -> Iterator[Doubt]:
        suspects, self._suspects = self._suspects, {}
        for (topic_partition, producer_id), partition_log in suspects.items():
            transaction = partition_log.transactions.open_of(producer_id)
            if transaction is not None:
                yield Doubt(topic_partition, partition_log, producer_id, transaction)
        for topic_partition, partition_log in list(self._logs.items()):
            transactions = partition_log.transactions
            if not transactions.doubtful:
                del self._logs[topic_partition]
            for producer_id in list(transactions.doubtful):
                transaction = transactions.open_of(producer_id)
                if transaction is not None:
                    yield Doubt(topic_partition, partition_log, producer_id, transaction)

    def _own_state(self, doubt: Doubt) -> TransactionState:
        """Return the state of an id of this process as DescribeTransactions does, with the partition alone."""
        transactional_id = doubt.transaction.transactional_id
        shard = self._shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            return TransactionState(shard, transactional_id)
        transaction = shard.transactions.get(transactional_id)
        if transaction is None:
            return TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
        name, index = doubt.topic_partition
        return TransactionState(
            transactional_id=transactional_id,
            transaction_state=STATES[transaction.status],
            transaction_start_time_ms=transaction.started_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=[TopicData(name, [index])] if doubt.topic_partition in transaction.partitions else [],
        )

    def answered(self, question: Doubts, answer: Message | None, now: float) -> None:
        """Take the answer of another process; None if it has not answered."""
        self._asked.discard(question.node_id)
        if not isinstance(answer, DescribeTransactionsResponse):
            return
        states = {each.transactional_id: each for each in answer.transaction_states}
        ends: list[tuple[Doubt, Fate]] = []
        decided = [
            self._judge(doubt, states.get(doubt.transaction.transactional_id), ends, now) for doubt in question.doubts
        ]
        self._tell(ends, now)
        if any(decided):
            self.ask(now)

    def _judge(self, doubt: Doubt, state: TransactionState | None, ends: list[tuple[Doubt, Fate]], now: float) -> bool:
        """Write the marker that is missing, if any; return True if the transaction is no longer doubtful."""
        transactions, producer_id = doubt.log.transactions, doubt.producer_id
        if transactions.open_of(producer_id) != doubt.transaction:
            return True
        fate = self._fate(doubt, state)
        if fate is Fate.UNKNOWN:
            return False
        transactions.doubtful.discard(producer_id)
        if fate is not Fate.OPEN:
            doubt.log.end_transaction(
                producer_id,
                doubt.log.producers.epoch_of(producer_id),
                max(transactions.coordinator_epoch(producer_id), 0),
                self._epoch_ms(now),
                now,
                committed=fate is Fate.COMMITTED,
            )
            # Its last batches are those of another log.
            doubt.log.producers.forget(producer_id)
            ends.append((doubt, fate))
        return True

    def _tell(self, ends: list[tuple[Doubt, Fate]], now: float) -> None:
        """Tell readers and people of the transactions that have ended."""
        if not ends:
            return
        self._topics.settle(now)
        doubt = ends[0][0]
        log.warning(
            "%d transactions had ended at another process and were open here: %d are committed, %d aborted; the first "
            "is that of %r in partition %d of %s",
            len(ends),
            sum(fate is Fate.COMMITTED for _, fate in ends),
            sum(fate is Fate.ABORTED for _, fate in ends),
            doubt.transaction.transactional_id,
            doubt.topic_partition[1],
            doubt.topic_partition[0],
        )

    def _fate(self, doubt: Doubt, state: TransactionState | None) -> Fate:
        """Return the state of a transaction by the answer for its transactional id.

        A producer that adds partitions by its writes has the next epoch as soon as an end is decided. Others keep it
        for many transactions: there the start decides. If the answer is about a later transaction the coordinator no
        longer knows the end of this one, and its records must not be read.
        """
        if state is None or state.transaction_state in _ENDING:
            return Fate.UNKNOWN
        if state.error_code:
            return Fate.ABORTED if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND else Fate.UNKNOWN
        producer = doubt.log.producers.get(doubt.producer_id)
        assert producer is not None, "one with an open transaction is kept"
        epochs = state.producer_epoch - producer.epoch if state.producer_id == doubt.producer_id else -1
        is_ongoing = state.transaction_state == _ONGOING
        if doubt.transaction.adds_itself:
            is_same = epochs == (0 if is_ongoing else 1)
        else:
            latest = self._epoch_ms(producer.seen) + CLOCKS_MS
            is_same = epochs == 0 and state.transaction_start_time_ms <= latest
        if is_same and is_ongoing and _names(state.topics, *doubt.topic_partition):
            return Fate.OPEN
        return Fate.COMMITTED if is_same and state.transaction_state == _COMMITTED else Fate.ABORTED


def _names(topics: Iterable[TopicData], name: str, index: int) -> bool:
    return any(topic.topic == name and index in topic.partitions for topic in topics)
