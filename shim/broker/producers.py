"""The last batches of each producer of a partition, so that no batch is appended twice.

A batch of an idempotent producer is the next one, a repeated one, or out of order. Sources: KIP-98, KIP-360; the rules
are those of Kafka's ProducerStateManager and ProducerAppendInfo.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import InvalidBatch
from kafka_shim.broker.log_transactions import LogTransactions
from kafka_shim.persistence.batch import Batch

BATCHES_KEPT: Final = 5
"""A producer may have five requests in flight, so a repeated batch is one of the last five."""

EXPIRATION_SECONDS: Final = 86_400.0
"""producer.id.expiration.ms"""

MOST: Final = 10_000
"""The limit of producers without an open transaction. Kafka has none, and a client needs no permission to use a new id
in each batch."""
_FORGOTTEN_AT_ONCE: Final = 8
"""Beyond the limit an eighth of it is forgotten at a time, so that a batch seldom costs a look at all producers."""

_MAX_SEQUENCE: Final = 2**31 - 1


class BatchMetadata(NamedTuple):
    """The place of a batch, and its largest timestamp, ms."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp: int


class Producer:
    """The newest epoch of one producer, its last batches, and the time `seen` of its last write (monotonic seconds).

    `last_timestamp` is that of its newest batch or marker, ms since the epoch.

    An epoch that began with the end of a transaction has no batches yet.
    """

    __slots__ = ("batches", "epoch", "last_timestamp", "seen")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        # Most producers have one batch: a deque would take ten times its memory.
        self.batches: tuple[BatchMetadata, ...] = ()
        self.last_timestamp = -1
        self.seen = 0.0

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


class Producers:
    """The producers of one partition by id, the one with the newest append last.

    Those without an open transaction are `MOST` at most; the ones with the oldest append are forgotten first.
    """

    __slots__ = ("_by_id", "_transactions")

    def __init__(self, transactions: LogTransactions) -> None:
        self._by_id: dict[int, Producer] = {}
        self._transactions = transactions

    def __len__(self) -> int:
        return len(self._by_id)

    def items(self) -> Iterable[tuple[int, Producer]]:
        """Return the producers with their ids."""
        return self._by_id.items()

    def check(self, batch: Batch) -> BatchMetadata | None:
        """Return None if `batch` may be appended, or its place if it was appended before.

        Raises InvalidBatch with INVALID_PRODUCER_EPOCH (47) for an old epoch, and with OUT_OF_ORDER_SEQUENCE_NUMBER
        (45) when batches are missing before this one. A producer that is unknown to the partition may start with any
        sequence number: its earlier batches may have been dropped.
        """
        producer = self._by_id.get(batch.producer_id)
        if producer is None:
            return None
        if batch.producer_epoch < producer.epoch:
            raise InvalidBatch(ErrorCode.INVALID_PRODUCER_EPOCH)
        if batch.producer_epoch > producer.epoch:
            expected = 0
        else:
            for duplicate in producer.batches:
                if (duplicate.base_sequence, duplicate.last_sequence) == (batch.base_sequence, batch.last_sequence):
                    return duplicate
            last = producer.last_sequence
            expected = 0 if last == _MAX_SEQUENCE else last + 1
        if batch.base_sequence != expected:
            raise InvalidBatch(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return None

    def get(self, producer_id: int) -> Producer | None:
        return self._by_id.get(producer_id)

    def forget(self, producer_id: int) -> None:
        """Forget a producer: its next batch may have any sequence number."""
        self._by_id.pop(producer_id, None)

    def epoch_of(self, producer_id: int) -> int:
        """Return the newest epoch of a producer, -1 for an unknown producer."""
        producer = self._by_id.get(producer_id)
        return producer.epoch if producer is not None else -1

    def ended(self, producer_id: int, producer_epoch: int, timestamp: int, now: float) -> None:
        """Note the end of a transaction; with a new epoch the sequence numbers begin again (KIP-890).

        `timestamp`: that of the marker, ms since the epoch.
        """
        producer = self._by_id.pop(producer_id, None)
        if producer is None or producer.epoch != producer_epoch:
            producer = Producer(producer_epoch)
        producer.last_timestamp = timestamp
        self._seen(producer_id, producer, now)

    def appended(self, batch: Batch, now: float) -> None:
        """Remember an appended batch, and forget the producers that have been silent for a day, but for those with an
        open transaction."""
        producer = self._by_id.pop(batch.producer_id, None)
        if producer is None or producer.epoch != batch.producer_epoch:
            producer = Producer(batch.producer_epoch)
        place = BatchMetadata(batch.base_sequence, batch.last_sequence, batch.base_offset, batch.max_timestamp)
        producer.batches = (*producer.batches[1 - BATCHES_KEPT :], place)
        producer.last_timestamp = batch.max_timestamp
        self._seen(batch.producer_id, producer, now)
        while self._by_id[oldest := next(iter(self._by_id))].seen < now - EXPIRATION_SECONDS:
            silent = self._by_id.pop(oldest)
            if self._transactions.is_open(oldest):
                # As in Kafka it stays, and a day later it is the oldest again: no append looks at it until then.
                silent.seen = now
                self._by_id[oldest] = silent

    def _seen(self, producer_id: int, producer: Producer, now: float) -> None:
        producer.seen = now
        self._by_id[producer_id] = producer
        if len(self._by_id) > MOST and len(self._by_id) > MOST + self._transactions.open_count:
            is_open = self._transactions.is_open
            quiet = [each for each in self._by_id if not is_open(each)]
            for oldest in quiet[: MOST // _FORGOTTEN_AT_ONCE]:
                del self._by_id[oldest]
