"""Transactional id of a shard, with its open or last transaction.

The transaction coordinator, `shim/broker/transactions.py`, begins and ends transactions.

Source: KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kafka_shim.groups.timers import ShardTimer, Timer
from kafka_shim.persistence.records import TransactionValue


class Status(IntEnum):
    """State of a transactional id, by Kafka's numbers. A prepared transaction is decided; some partitions lack the
    marker."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


STATES: Final = {
    Status.EMPTY: "Empty",
    Status.ONGOING: "Ongoing",
    Status.PREPARE_COMMIT: "PrepareCommit",
    Status.PREPARE_ABORT: "PrepareAbort",
    Status.COMPLETE_COMMIT: "CompleteCommit",
    Status.COMPLETE_ABORT: "CompleteAbort",
}
"""Kafka's names of the states."""


class Transaction:
    """Transactional id with its open or last transaction.

    Hard state except for the timer, the previous producer, and the partitions that lack the marker of a decision.
    `last_producer` is the id and epoch before the newest ones; it identifies a producer that missed the answer to its
    InitProducerId (KIP-360). A restart loses it, as in Kafka. While a decision is carried out, `producer_epoch` is the
    epoch of its markers, and `next_producer_id` the following id if the epoch was the last one, else -1. `ending` is a
    new object for each decision; `unmarked` are the partitions that lack the marker, each with the last answer to it as
    text; `in_flight` those with a marker on its way to another process, `later` those with a marker to write at the
    next turn. `attempts` counts how often markers were sent.
    """

    __slots__ = (
        "attempts",
        "ending",
        "in_flight",
        "later",
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
        """Unix time of the last change in milliseconds."""
        self.started_ms = -1
        """Start of the open or last transaction in milliseconds of Unix time; -1 if the producer has begun none."""
        self.status = Status.EMPTY
        self.partitions: dict[tuple[str, int], None] = {}
        self.ending: object | None = None
        self.unmarked: dict[tuple[str, int], str] = {}
        self.in_flight: set[tuple[str, int]] = set()
        self.later: list[tuple[str, int]] = []
        self.attempts = 0
        self.last_producer = (-1, -1)
        self.timer = Timer(ShardTimer.TRANSACTION, partition, transactional_id)

    @property
    def is_ongoing(self) -> bool:
        return self.status is Status.ONGOING

    @property
    def is_prepared(self) -> bool:
        """True if the transaction is decided and some partitions lack the marker."""
        return self.status in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)

    @property
    def is_committed(self) -> bool:
        """True if the decision is, or was, to commit."""
        return self.status in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)

    def apply(self, value: TransactionValue) -> None:
        """Apply its record."""
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
        self.unmarked = dict.fromkeys(self.partitions, "") if self.is_prepared else {}
        self.in_flight = set()
        self.later = []
        self.attempts = 0
