"""How a transaction ends: first the decision is durable, then every partition is told, then the end is noted.

Decides who must be told of a decision, and when all have been. A decision is the record of a transactional id in state
PrepareCommit or PrepareAbort; nothing of it shows before that record is durable, and whoever has the record next, after
a crash or a move, carries it out to its end. It does not know why a transaction ends (`transactions.py`), what becomes
of the offsets in it (`shim/groups/transactions.py`), nor how other processes are reached.

Source: KIP-98; Kafka's TransactionCoordinator and TransactionMarkerChannelManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

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
"""When partitions that could not be told are told again."""

MARKERS_VERSION: Final = 1

Place = tuple[str, int]

_NEVER_AGAIN: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""What a partition answers that need not be told again: it was told, or knows of something newer."""


class Elsewhere(Protocol):
    """The other processes of a cluster, as one of them reaches them."""

    def holder(self, topic: str, index: int) -> int | None:
        """The node of another process that leads a partition, of `__consumer_offsets` too; None if none does."""

    def epoch(self, partition: int) -> int:
        """With which epoch this process has a partition of `__consumer_offsets`."""

    def ask(self, node_id: int, version: int, request: Message, told: Callable[[Message | None, float], None]) -> None:
        """Send a request; `told(answer, now)` is called once, with None if there is no answer."""


class Ends:
    """The ends of the transactions that are coordinated in one process.

    `shard_at(partition)` is the shard of a partition of `__consumer_offsets`, on whichever broker of this process, if
    it is active. `epoch_ms` turns monotonic seconds into ms since the epoch. Without `elsewhere` there is no other
    process.
    """

    def __init__(
        self,
        topics: Topics,
        shard_at: Callable[[int], Shard | None],
        epoch_ms: Callable[[float], int],
        elsewhere: Elsewhere | None,
    ) -> None:
        self._topics = topics
        self._shard_at = shard_at
        self._epoch_ms = epoch_ms
        self._elsewhere = elsewhere

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
        """The transaction is committed or aborted: markers have `marker_epoch`, and after it comes `producer`."""
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
        shard.outbox.then(shard, lambda later: self.carry_out(shard, transactional_id, later))

    def carry_out(self, shard: Shard, transactional_id: str, now: float) -> None:
        """Tell every partition that has not been told what was decided and is durable; note the end if all have been.

        Nothing happens unless there is such a decision, and this shard still has it.
        """
        transaction = shard.transactions.get(transactional_id)
        if transaction is None or not transaction.is_prepared or self._shard_at(shard.partition) is not shard:
            return
        ending = transaction.ending

        def told(places: Iterable[Place], later: float) -> None:
            if transaction.ending is ending:
                transaction.untold -= set(places)
                self._complete_if_told(shard, transactional_id, transaction, later)

        by_node: dict[int, list[Place]] = {}
        done: list[Place] = []
        for place in sorted(transaction.untold - transaction.asked):
            node_id = self._elsewhere.holder(*place) if self._elsewhere is not None else None
            if node_id is not None:
                by_node.setdefault(node_id, []).append(place)
            elif place[0] == OFFSETS_TOPIC:
                self._end_offsets(shard, transaction, place, told)
            elif self._end_records(shard, transaction, place, now):
                done.append(place)
        self._topics.settle(now)
        for node_id, places in by_node.items():
            self._ask(node_id, shard, transaction, places, told)
        told(done, now)
        if transaction.ending is ending:
            shard.arm(transaction.timer, now + RETRY_SECONDS)

    def _end_offsets(
        self,
        shard: Shard,
        transaction: Transaction,
        place: Place,
        told: Callable[[Iterable[Place], float], None],
    ) -> None:
        home = self._shard_at(place[1])
        if home is not None:
            epoch = self._coordinator_epoch(shard)
            pending.end(home, transaction.producer_id, epoch, committed=transaction.is_committed)
            home.outbox.then(home, lambda now: told([place], now))

    def _end_records(self, shard: Shard, transaction: Transaction, place: Place, now: float) -> bool:
        """Whether nothing is left to be told of: the log has its marker, or there is no such partition any more."""
        name, index = place
        topic = self._topics.named(name)
        partition = topic.partition(index) if topic is not None else None
        if partition is None:
            return True
        if self._elsewhere is not None and partition.leader not in self._topics.nodes:
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
        """End a producer's transaction in one log. Whoever is done with all logs settles the topics."""
        log.end_transaction(producer_id, epoch, coordinator_epoch, self._epoch_ms(now), now, committed=committed)

    def _ask(
        self,
        node_id: int,
        shard: Shard,
        transaction: Transaction,
        places: list[Place],
        told: Callable[[Iterable[Place], float], None],
    ) -> None:
        """Let another process tell the partitions it has. None is told twice at a time: what comes late could end the
        transaction after this one."""
        assert self._elsewhere is not None
        by_topic: dict[str, list[int]] = {}
        for topic, index in places:
            by_topic.setdefault(topic, []).append(index)
        marker = WritableTxnMarker(
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.is_committed,
            [WritableTxnMarkerTopic(*each) for each in by_topic.items()],
            self._coordinator_epoch(shard),
        )
        asked = transaction.asked
        asked.update(places)

        def answered(answer: Message | None, now: float) -> None:
            asked.difference_update(places)
            if isinstance(answer, WriteTxnMarkersResponse):
                told(
                    [
                        (topic.name, each.partition_index)
                        for result in answer.markers
                        for topic in result.topics
                        for each in topic.partitions
                        if each.error_code in _NEVER_AGAIN
                    ],
                    now,
                )

        self._elsewhere.ask(node_id, MARKERS_VERSION, WriteTxnMarkersRequest([marker]), answered)

    def _coordinator_epoch(self, shard: Shard) -> int:
        return self._elsewhere.epoch(shard.partition) if self._elsewhere is not None else 0

    def _complete_if_told(self, shard: Shard, transactional_id: str, transaction: Transaction, now: float) -> None:
        if transaction.untold or self._shard_at(shard.partition) is not shard:
            return
        next_id = transaction.next_producer_id
        write_transaction(
            shard,
            transactional_id,
            now,
            producer=(next_id, 0) if next_id != -1 else (transaction.producer_id, transaction.producer_epoch),
            timeout_ms=transaction.timeout_ms,
            status=Status.COMPLETE_COMMIT if transaction.is_committed else Status.COMPLETE_ABORT,
        )
