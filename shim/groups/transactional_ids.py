"""A transactional id and its open or last transaction, as a shard keeps them.

Decides what its record does to it. It does not know when a transaction begins or ends: that is the transaction
coordinator, `shim/broker/transactions.py`.

Source: KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from enum import IntEnum

from kafka_shim.groups.timers import ShardTimer, Timer
from kafka_shim.persistence.records import TransactionValue


class Status(IntEnum):
    """State of a transactional id, by Kafka's numbers. What is prepared is decided; some partitions lack the marker."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


class Transaction:
    """A transactional id, and its open or last transaction: hard state but for the timer, the previous producer, and
    which partitions have yet to receive the marker of a decision.

    `last_producer` is the id and epoch before the newest ones, by which a producer that missed the answer to its
    InitProducerId is recognised (KIP-360); it is forgotten with the process, as in Kafka. While a decision is carried
    out `producer_epoch` is that of its markers, and `next_producer_id` the id that follows if the epoch was the last,
    else -1. `ending` is an object of its own for each decision; `unmarked` are the partitions that still
    lack the marker, and `in_flight` those of them whose marker is on its way to another process.
    """

    __slots__ = (
        "in_flight",
        "ending",
        "last_producer",
        "next_producer_id",
        "partitions",
        "producer_epoch",
        "producer_id",
        "started_ms",
        "status",
        "timeout_ms",
        "timer",
        "unmarked",
        "updated_ms",
    )

    def __init__(self, transactional_id: str, partition: int) -> None:
        self.producer_id = -1
        self.producer_epoch = -1
        self.next_producer_id = -1
        self.timeout_ms = 0
        self.updated_ms = 0
        """Unix time of the last change."""
        self.started_ms = -1
        """Unix time at which the open or last transaction began; -1 where there was none since the producer's start."""
        self.status = Status.EMPTY
        self.partitions: dict[tuple[str, int], None] = {}
        self.ending: object | None = None
        self.unmarked: set[tuple[str, int]] = set()
        self.in_flight: set[tuple[str, int]] = set()
        self.last_producer = (-1, -1)
        self.timer = Timer(ShardTimer.TRANSACTION, partition, transactional_id)

    @property
    def is_ongoing(self) -> bool:
        return self.status is Status.ONGOING

    @property
    def is_prepared(self) -> bool:
        """Decided; some partitions have yet to receive the marker."""
        return self.status in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)

    @property
    def is_committed(self) -> bool:
        """What was decided, or was in the end."""
        return self.status in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)

    def apply(self, value: TransactionValue) -> None:
        """Make it what its record says."""
        self.producer_id = value.producer_id
        self.producer_epoch = value.producer_epoch
        self.next_producer_id = value.next_producer_id
        self.timeout_ms = value.transaction_timeout_ms
        self.updated_ms = value.transaction_last_update_timestamp_ms
        self.started_ms = value.transaction_start_timestamp_ms
        self.status = Status(value.transaction_status)
        self.partitions = {
            (topic.topic, partition): None
            for topic in value.transaction_partitions
            for partition in topic.partition_ids
        }
        self.ending = object() if self.is_prepared else None
        self.unmarked = set(self.partitions) if self.is_prepared else set()
        self.in_flight = set()
