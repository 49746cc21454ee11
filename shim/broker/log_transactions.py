"""The open and the aborted transactions in the log of one partition.

They bound the stable part of the log, and tell readers of committed records which records to leave out. Source: KIP-98;
Kafka's ProducerStateManager and TransactionIndex.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from kafka_shim.groups.pending_offsets import MarkerEpochs


class OpenTxn(NamedTuple):
    """An open transaction: the offset of its first record and the transactional id of its producer. `adds_itself`: the
    Produce request added the partition to the transaction (KIP-890)."""

    first_offset: int
    transactional_id: str
    adds_itself: bool


class AbortedTxn(NamedTuple):
    """An aborted transaction: the offsets of its first record and of its marker. Transactions that end later begin at
    `next_offset` or after it."""

    producer_id: int
    first_offset: int
    last_offset: int
    next_offset: int


_last_offset: Final = attrgetter("last_offset")


class AbortedTxns:
    """Aborted transactions, in the order of their ends, by producer."""

    def __init__(self, transactions: Iterable[AbortedTxn]) -> None:
        self._by_producer: dict[int, list[AbortedTxn]] = {}
        for each in transactions:
            self._by_producer.setdefault(each.producer_id, []).append(each)

    def have(self, producer_id: int, offset: int) -> bool:
        """Return True if the transactional batch of a producer at an offset is part of one of them."""
        transactions = self._by_producer.get(producer_id, ())
        # The transactions of one producer follow each other: only the first that ends later may have the batch.
        index = bisect_left(transactions, offset, key=_last_offset)
        return index < len(transactions) and transactions[index].first_offset <= offset


class LogTransactions:
    """The transactions of one log: the open ones by producer id, the oldest first, and the aborted ones.

    `doubtful` are the producers with an open transaction that may have ended at another process (`hanging.py`).
    """

    __slots__ = ("_aborted", "_coordinator_epochs", "_open", "doubtful")

    def __init__(self) -> None:
        self.doubtful: set[int] = set()
        self._open: dict[int, OpenTxn] = {}
        self._aborted: list[AbortedTxn] = []
        self._coordinator_epochs = MarkerEpochs()

    def began(self, producer_id: int, offset: int, transactional_id: str, *, adds_itself: bool) -> None:
        """Note a write at `offset` in a transaction, perhaps not the first one."""
        if producer_id not in self._open:
            self._open[producer_id] = OpenTxn(offset, transactional_id, adds_itself)

    @property
    def open_count(self) -> int:
        """Return the number of open transactions."""
        return len(self._open)

    def is_open(self, producer_id: int) -> bool:
        return producer_id in self._open

    def doubt(self) -> None:
        """Doubt every open transaction."""
        self.doubtful.update(self._open)

    def open_of(self, producer_id: int) -> OpenTxn | None:
        """Return the producer's open transaction."""
        return self._open.get(producer_id)

    def began_at(self, producer_id: int) -> int | None:
        """Return the first offset of the producer's open transaction, or None."""
        transaction = self._open.get(producer_id)
        return None if transaction is None else transaction.first_offset

    def ended(self, producer_id: int, offset: int, coordinator_epoch: int, *, committed: bool) -> None:
        """Note a marker at `offset`; its transaction may have no records."""
        transaction = self._open.pop(producer_id, None)
        self.doubtful.discard(producer_id)
        self._coordinator_epochs.note(producer_id, coordinator_epoch)
        if transaction is not None and not committed:
            unstable = self.first_unstable()
            next_offset = offset + 1 if unstable is None else unstable
            self._aborted.append(AbortedTxn(producer_id, transaction.first_offset, offset, next_offset))

    def coordinator_epoch(self, producer_id: int) -> int:
        """Return the epoch of the coordinator that wrote the producer's last marker; -1 without one."""
        return self._coordinator_epochs.of(producer_id)

    def first_unstable(self) -> int | None:
        """Return the first offset of the oldest open transaction."""
        oldest = next(iter(self._open.values()), None)
        return None if oldest is None else oldest.first_offset

    def aborted_between(self, start: int, end: int) -> list[AbortedTxn]:
        """Return the aborted transactions with records or marker between offset `start` and, not included, `end`."""
        result: list[AbortedTxn] = []
        for index in range(bisect_left(self._aborted, start, key=_last_offset), len(self._aborted)):
            each = self._aborted[index]
            if each.first_offset < end:
                result.append(each)
            if each.next_offset >= end:
                break
        return result

    def forget_before(self, offset: int) -> None:
        """Forget the transactions before `offset`, the new start of the log."""
        del self._aborted[: bisect_left(self._aborted, offset, key=_last_offset)]
