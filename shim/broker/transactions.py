"""A minimal transaction coordinator: the producer of a transactional id, and the begin and end of its transactions.

The state of an id lives in the shard that its name hashes to, as a group does, and only records change it; the shard
also keeps pending offsets (`shim/groups/transactions.py`).

A transaction ends in steps (`transaction_ends.py`): the decision is durable, then partitions get markers, then the end
is recorded. A producer is answered when the decision is durable; until all partitions have the marker, requests for the
id are answered CONCURRENT_TRANSACTIONS (51), and clients try again.

Source: KIP-98, KIP-360, KIP-447, KIP-890; error by error the answers of a running Kafka 4.2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from kafka_shim.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_shim.apis.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kafka_shim.apis.end_txn import EndTxnRequest, EndTxnResponse
from kafka_shim.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_shim.apis.produce import ProduceRequest
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.hanging import Doubts, HangingTransactions
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topics
from kafka_shim.broker.transaction_ends import MarkersSent, RemoteNodes, TopicPartition, TransactionCompletion
from kafka_shim.groups.interface import PARKED, Parked, TransactionSupportedOperation
from kafka_shim.groups.service import WaitingOffsets
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.transactional_ids import Status, Transaction
from kafka_shim.groups.transactions import write_transaction
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.records import TransactionKey

LAST_EPOCH: Final = 2**15 - 2
"""A producer with this epoch gets a new id instead of the next epoch."""

Partitions = Mapping[TopicPartition, None]

VERIFICATION_VERSION: Final = 5
"""Version of AddPartitionsToTxn between processes."""


class Sender(NamedTuple):
    """The producer that sends a request about a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


Additions: TypeAlias = dict[Sender, dict[TopicPartition, None]]
"""The partitions that one request adds to the transactions of producers."""


class Verification(NamedTuple):
    """A question to the transaction coordinator `node_id` of another process: are these partitions part of the
    transaction? With some values of `supported_operation` it adds them instead (KIP-890)."""

    node_id: int
    sender: Sender
    topic_partitions: list[TopicPartition]
    supported_operation: TransactionSupportedOperation


class WaitingBatches(NamedTuple):
    """A Produce that waits for the verification of its transaction, with the flags of its version."""

    exchange: object
    request: ProduceRequest
    by_topic_id: bool
    zstd_allowed: bool
    with_leaders: bool
    supported_operation: TransactionSupportedOperation


Waiting: TypeAlias = WaitingBatches | WaitingOffsets
"""A request that waits for a verification."""


class _Verifying(NamedTuple):
    verification: Verification
    waiting: Waiting


class Transactions:
    """The transaction rules of the brokers of one process, which share the `topics`.

    `shard_at(partition)` is the shard of a partition of `__consumer_offsets`, on any broker, if it is active;
    `place_of(name)` is the partition of a group or transactional id. `epoch_ms` turns monotonic seconds into ms since
    the epoch. Without `remote_nodes` this process is the whole cluster.
    """

    def __init__(
        self,
        topics: Topics,
        shard_at: Callable[[int], Shard | None],
        partitions: int,
        epoch_ms: Callable[[float], int],
        remote_nodes: RemoteNodes | None = None,
    ) -> None:
        self.topics = topics
        self.completion = TransactionCompletion(topics, shard_at, epoch_ms, remote_nodes)
        self._remote_nodes = remote_nodes
        self._shard_at = shard_at
        self._partitions = partitions
        self.on_verified: Callable[[Waiting, Mapping[TopicPartition, ErrorCode], float], None] | None = None
        """Called when another process has verified a waiting request."""
        self.hanging: HangingTransactions | None = None
        """Those in the logs of this process, if it shares its store with others."""
        self._longest_ms = topics.settings.number("transaction.max.timeout.ms")
        self._expiration_ms = topics.settings.number("transactional.id.expiration.ms")

    # Ids and epochs

    def init_producer_id(self, shard: Shard, request: InitProducerIdRequest, now: float) -> InitProducerIdResponse:
        """Give a transactional id its next epoch; an open transaction is aborted first.

        Errors: INVALID_TRANSACTION_TIMEOUT (50); PRODUCER_FENCED (90) for a producer id or epoch that is no longer the
        current one (KIP-360); CONCURRENT_TRANSACTIONS (51) when a transaction had to be aborted.
        """
        transactional_id = request.transactional_id or ""
        if not 0 < request.transaction_timeout_ms <= self._longest_ms:
            return _no_producer(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        claim = (request.producer_id, request.producer_epoch)
        transaction = shard.transactions.get(transactional_id)
        if transaction is None:
            producer = (next(self.topics.producer_ids), 0)
        else:
            current = (transaction.producer_id, transaction.producer_epoch)
            is_retried = claim[1] != -1 and claim == transaction.last_producer
            if claim[0] not in (-1, current[0]) and (not is_retried or transaction.is_ongoing):
                return _no_producer(ErrorCode.PRODUCER_FENCED)
            if transaction.is_ongoing:
                self._fence(shard, transactional_id, transaction, now)
            if transaction.is_prepared:
                return _no_producer(ErrorCode.CONCURRENT_TRANSACTIONS)
            if is_retried:
                producer = current
                if claim[0] != current[0]:
                    # As in Kafka, the old producer id is known until the next change.
                    transaction.last_producer = (-1, -1)
            elif claim[1] in (-1, current[1]):
                producer = self._next(current)
            else:
                return _no_producer(ErrorCode.PRODUCER_FENCED)
        self._note(
            shard, transactional_id, now, producer=producer, status=Status.EMPTY, timeout=request.transaction_timeout_ms
        )
        if transaction is not None and producer != current:
            # Only a producer that named its epoch may have missed the answer: others come after one that is fenced.
            transaction.last_producer = current if claim[1] != -1 else (-1, -1)
        return InitProducerIdResponse(producer_id=producer[0], producer_epoch=producer[1])

    def _next(self, producer: tuple[int, int]) -> tuple[int, int]:
        """Return the producer id and epoch after these."""
        producer_id, epoch = producer
        return (next(self.topics.producer_ids), 0) if epoch >= LAST_EPOCH else (producer_id, epoch + 1)

    def _fence(self, shard: Shard, transactional_id: str, transaction: Transaction, now: float) -> None:
        """Abort a transaction and fence its producer, which may ask for the next epoch by InitProducerId."""
        current = (transaction.producer_id, transaction.producer_epoch)
        epoch = current[1] + (current[1] <= LAST_EPOCH)
        producer = self._next(current) if shard.rules.new_id_after_own_abort else (current[0], epoch)
        self.completion.decide(shard, transactional_id, transaction, producer, now, committed=False, marker_epoch=epoch)
        may_return = shard.rules.aborted_producers_return and producer[1] <= LAST_EPOCH
        transaction.last_producer = current if may_return else (-1, -1)

    def time_out(self, shard: Shard, transactional_id: str, now: float) -> None:
        """Abort a transaction that has been open for longer than its timeout, or go on with one that lacks markers."""
        transaction = shard.transactions[transactional_id]
        if transaction.is_prepared:
            self.completion.carry_out(shard, transactional_id, now)
        else:
            self._fence(shard, transactional_id, transaction, now)

    def expire_ids(self, shard: Shard, now: float) -> None:
        """Forget the transactional ids without a transaction and without use for transactional.id.expiration.ms."""
        oldest = shard.wall_ms(now) - self._expiration_ms
        for transactional_id, transaction in list(shard.transactions.items()):
            if transaction.updated_ms <= oldest and not (transaction.is_ongoing or transaction.is_prepared):
                shard.write(TransactionKey(transactional_id), None)

    # Parts of a transaction

    def admit(
        self, shard: Shard, sender: Sender, partitions: Partitions, added: Additions, *, adds: bool
    ) -> tuple[ErrorCode, Partitions]:
        """Add partitions to a transaction, which may begin with them, or check that they are part of it. Those to add
        go into `added`, for `add`.

        Return an error for all, or none and the partitions that are missing. Errors: INVALID_REQUEST (42),
        INVALID_PRODUCER_ID_MAPPING (49), PRODUCER_FENCED (90), CONCURRENT_TRANSACTIONS (51).
        """
        if not sender.transactional_id:
            return ErrorCode.INVALID_REQUEST, {}
        transaction = shard.transactions.get(sender.transactional_id)
        if transaction is None or transaction.producer_id != sender.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING, {}
        if transaction.producer_epoch != sender.producer_epoch:
            return ErrorCode.PRODUCER_FENCED, {}
        if transaction.is_prepared:
            return ErrorCode.CONCURRENT_TRANSACTIONS, {}
        within = transaction.partitions if transaction.is_ongoing else {}
        new = added.get(sender, {})
        missing = {each: None for each in partitions if each not in within and each not in new}
        if not adds or not missing:
            return ErrorCode.NONE, missing
        added.setdefault(sender, {}).update(missing)
        return ErrorCode.NONE, {}

    def add(self, added: Additions, now: float) -> None:
        """Write the partitions that a request adds to transactions: one record for each transaction, as a record has
        all partitions."""
        for sender, partitions in added.items():
            shard = self._shard_at(self._partition_of(sender.transactional_id))
            assert shard is not None, "the coordinator has just admitted them"
            transaction = shard.transactions[sender.transactional_id]
            self._note(
                shard,
                sender.transactional_id,
                now,
                producer=(sender.producer_id, sender.producer_epoch),
                status=Status.ONGOING,
                timeout=transaction.timeout_ms,
                partitions={**transaction.partitions, **partitions} if transaction.is_ongoing else partitions,
            )

    def add_partitions(
        self, shard: Shard | ErrorCode, transaction: AddPartitionsToTxnTransaction, added: Additions
    ) -> AddPartitionsToTxnResult:
        """Put the partitions of one transaction of AddPartitionsToTxn into `added`, for `add`.

        If a partition does not exist, UNKNOWN_TOPIC_OR_PARTITION (3), the others are OPERATION_NOT_ATTEMPTED (55). A
        partition to verify that is not part of the transaction is TRANSACTION_ABORTABLE (120).
        """
        partitions = {(topic.name, index): None for topic in transaction.topics for index in topic.partitions}
        errors: dict[tuple[str, int], ErrorCode] = {}
        if isinstance(shard, ErrorCode):
            errors = dict.fromkeys(partitions, shard)
        elif unknown := [each for each in partitions if not self._exists(*each)]:
            errors = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
            errors |= dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            sender = Sender(transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
            error, missing = self.admit(shard, sender, partitions, added, adds=not transaction.verify_only)
            errors = dict.fromkeys(partitions, error)
            errors |= dict.fromkeys(missing, ErrorCode.TRANSACTION_ABORTABLE)
        return AddPartitionsToTxnResult(
            transaction.transactional_id,
            [
                AddPartitionsToTxnTopicResult(
                    topic.name,
                    [AddPartitionsToTxnPartitionResult(index, errors[topic.name, index]) for index in topic.partitions],
                )
                for topic in transaction.topics
            ],
        )

    def add_offsets(self, shard: Shard, request: AddOffsetsToTxnRequest, now: float) -> ErrorCode:
        """Add the offsets of a group to a transaction (AddOffsetsToTxn)."""
        sender = Sender(request.transactional_id, request.producer_id, request.producer_epoch)
        topic_partition = {(OFFSETS_TOPIC, self._partition_of(request.group_id)): None}
        added: Additions = {}
        error, _ = self.admit(shard, sender, topic_partition, added, adds=True)
        self.add(added, now)
        return error

    def admit_offsets(
        self,
        waiting: WaitingOffsets,
        partition: int,
        now: float,
        supported_operation: TransactionSupportedOperation,
    ) -> int | Parked:
        """See `TransactionCoordinator.admit_offsets`; the errors are those of `check`."""
        request = waiting.request
        sender = Sender(request.transactional_id, request.producer_id, request.producer_epoch)
        topic_partition = (OFFSETS_TOPIC, partition)
        node_id = self.remote_coordinator(request.transactional_id)
        if node_id is None:
            added: Additions = {}
            error = self.check(sender, topic_partition, supported_operation, added)
            self.add(added, now)
            return error
        self.verify(Verification(node_id, sender, [topic_partition], supported_operation), waiting)
        return PARKED

    def remote_coordinator(self, transactional_id: str) -> int | None:
        """Return the node of another process that coordinates a transactional id; None if it is this process, or if the
        id has no coordinator."""
        if self._remote_nodes is None:
            return None
        return self._remote_nodes.holder(OFFSETS_TOPIC, self._partition_of(transactional_id))

    def verify(self, verification: Verification, waiting: Waiting) -> None:
        """Let another process check; `on_verified` is called once, with the errors that `check` would give."""
        assert self._remote_nodes is not None
        by_topic: dict[str, list[int]] = {}
        for topic, index in verification.topic_partitions:
            by_topic.setdefault(topic, []).append(index)
        topics = [AddPartitionsToTxnTopic(*each) for each in by_topic.items()]
        verify_only = verification.supported_operation is not TransactionSupportedOperation.ADD_PARTITION
        request = AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(*verification.sender, verify_only, topics)])

        purpose = _Verifying(verification, waiting)
        self._remote_nodes.ask(verification.node_id, VERIFICATION_VERSION, request, purpose)

    def answered(self, purpose: object, answer: Message | None, now: float) -> None:
        """Take another process's answer to the request of this purpose; None if it gave none."""
        if isinstance(purpose, MarkersSent):
            self.completion.answered(purpose, answer, now)
        elif isinstance(purpose, Doubts) and self.hanging is not None:
            self.hanging.answered(purpose, answer, now)
        elif isinstance(purpose, _Verifying):
            verification, waiting = purpose
            errors = dict.fromkeys(verification.topic_partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if isinstance(answer, AddPartitionsToTxnResponse):
                for result in answer.results_by_transaction:
                    for topic in result.topic_results:
                        for each in topic.results_by_partition:
                            error = _of_writer(ErrorCode(each.partition_error_code), verification.supported_operation)
                            errors[topic.name, each.partition_index] = error
            if self.on_verified is not None:
                self.on_verified(waiting, errors, now)

    def apply(self, effect: object, now: float) -> None:
        """Carry out an effect once its records are durable."""
        self.completion.apply(effect, now)

    def check(
        self,
        sender: Sender,
        partition: TopicPartition,
        supported_operation: TransactionSupportedOperation,
        added: Additions,
    ) -> ErrorCode:
        """Return the error with which the coordinator of a transaction refuses a write to a partition, or NONE
        (KIP-890). A partition to add goes into `added`, for `add`.

        Errors: COORDINATOR_NOT_AVAILABLE (15) while the id has no coordinator, INVALID_PRODUCER_ID_MAPPING (49),
        INVALID_PRODUCER_EPOCH (47), CONCURRENT_TRANSACTIONS (51); INVALID_TXN_STATE (48) or TRANSACTION_ABORTABLE (120)
        for a partition that is not part of the transaction.
        """
        shard = self._shard_at(self._partition_of(sender.transactional_id))
        if shard is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error, missing = self.admit(
            shard,
            sender,
            {partition: None},
            added,
            adds=supported_operation is TransactionSupportedOperation.ADD_PARTITION,
        )
        return _of_writer(ErrorCode.TRANSACTION_ABORTABLE if missing else error, supported_operation)

    # Ends

    def end(self, shard: Shard, request: EndTxnRequest, now: float, *, bumps_epoch: bool) -> EndTxnResponse:
        """Commit or abort a transaction. `bumps_epoch` (KIP-890, v5+): every end gives the next epoch, which fences
        late requests.

        Errors: INVALID_REQUEST (42), INVALID_PRODUCER_ID_MAPPING (49), PRODUCER_FENCED (90), INVALID_TXN_STATE (48)
        where there is nothing to end, or it ended the other way; CONCURRENT_TRANSACTIONS (51) while it is ending.
        """
        if not request.transactional_id:
            return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
        transaction = shard.transactions.get(request.transactional_id)
        claim = (request.producer_id, request.producer_epoch)
        if transaction is None:
            return EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        current = (transaction.producer_id, transaction.producer_epoch)
        is_repeated = bumps_epoch and self._is_repeated(transaction, claim)
        if claim[0] != current[0] and not is_repeated:
            return EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if claim != current and not is_repeated:
            return EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
        if transaction.is_prepared:
            # Kafka refuses an end while the completion of another is in progress, before it looks at the state.
            return EndTxnResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
        producer = self._next(current) if bumps_epoch else current
        if not transaction.is_ongoing:
            target = Status.COMPLETE_COMMIT if request.committed else Status.COMPLETE_ABORT
            if transaction.status is target and (is_repeated or not bumps_epoch):
                shard.outbox.touch(shard)
                return EndTxnResponse(producer_id=current[0], producer_epoch=current[1])
            if request.committed or not bumps_epoch or is_repeated:
                return EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
        self.completion.decide(
            shard,
            request.transactional_id,
            transaction,
            producer,
            now,
            committed=request.committed,
            marker_epoch=current[1] + bumps_epoch,
        )
        if bumps_epoch:
            transaction.last_producer = current
        return EndTxnResponse(producer_id=producer[0], producer_epoch=producer[1])

    def _is_repeated(self, transaction: Transaction, claim: tuple[int, int]) -> bool:
        """Return True if a producer repeats an end because it missed the answer: it has the id and epoch from before
        that end."""
        if transaction.is_ongoing or transaction.status is Status.EMPTY:
            return False
        previous = (transaction.producer_id, transaction.producer_epoch - 1)
        return claim in (previous, transaction.last_producer)

    def _note(
        self,
        shard: Shard,
        transactional_id: str,
        now: float,
        *,
        producer: tuple[int, int],
        status: Status,
        timeout: int,
        partitions: Partitions | None = None,
    ) -> None:
        write_transaction(
            shard,
            transactional_id,
            now,
            producer=producer,
            timeout_ms=timeout,
            status=status,
            partitions=partitions or {},
        )

    def _partition_of(self, name: str) -> int:
        return partition_for(name, self._partitions)

    def _exists(self, name: str, index: int) -> bool:
        if name == OFFSETS_TOPIC:
            return 0 <= index < self._partitions
        topic = self.topics.named(name)
        return topic is not None and topic.partition(index) is not None


def _of_writer(error: ErrorCode, supported_operation: TransactionSupportedOperation) -> ErrorCode:
    """Return the error for a writer, if the same check for the coordinator's own APIs gives `error`."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if (
        error is ErrorCode.TRANSACTION_ABORTABLE
        and supported_operation is not TransactionSupportedOperation.GENERIC_ERROR_SUPPORTED
    ):
        return ErrorCode.INVALID_TXN_STATE
    return error


def _no_producer(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=-1)
