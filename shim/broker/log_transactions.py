"""Which transactions are open in the log of one partition, and which were aborted.

Decides up to where the log is stable and what a reader of committed records must leave out. Does not know the log, nor
who ends transactions. Source: KIP-98; Kafka's ProducerStateManager and TransactionIndex.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_shim.groups.pending_offsets import MarkerEpochs


class AbortedTxn(NamedTuple):
    """An aborted transaction: the offsets of its first record and of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class LogTransactions:
    """The open transactions of one log by producer id, the one that began first at the head, and the aborted ones."""

    __slots__ = ("_aborted", "_coordinator_epochs", "_open")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._aborted: list[AbortedTxn] = []
        self._coordinator_epochs = MarkerEpochs()

    def began(self, producer_id: int, offset: int) -> None:
        """A producer wrote at `offset` in a transaction, perhaps not for the first time."""
        self._open.setdefault(producer_id, offset)

    def is_open(self, producer_id: int) -> bool:
        return producer_id in self._open

    def began_at(self, producer_id: int) -> int | None:
        """The first offset of the producer's open transaction, or None."""
        return self._open.get(producer_id)

    def ended(self, producer_id: int, offset: int, coordinator_epoch: int, *, committed: bool) -> None:
        """A marker was written at `offset`; the producer may have written nothing before."""
        first_offset = self._open.pop(producer_id, None)
        self._coordinator_epochs.note(producer_id, coordinator_epoch)
        if first_offset is not None and not committed:
            self._aborted.append(AbortedTxn(producer_id, first_offset, offset))

    def coordinator_epoch(self, producer_id: int) -> int:
        """Of the coordinator that wrote the producer's last marker; -1 where there is none."""
        return self._coordinator_epochs.of(producer_id)

    def first_unstable(self) -> int | None:
        """The first offset of the open transaction that began first."""
        return next(iter(self._open.values()), None)

    def aborted_between(self, start: int, end: int) -> list[AbortedTxn]:
        """The aborted transactions that have something from offset `start` to, not including, `end`."""
        return [each for each in self._aborted if each.last_offset >= start and each.first_offset < end]

    def forget_before(self, offset: int) -> None:
        """The log begins at `offset` now."""
        self._aborted = [each for each in self._aborted if each.last_offset >= offset]
