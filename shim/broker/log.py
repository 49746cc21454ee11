"""The log of one partition: record batches in memory, at the offsets the broker gave them.

It drops its oldest batches when it is full, and calls every registered `Watcher` when it changes. There is one copy of
each log, so the high watermark is the end of the log; the last stable offset is the start of the first open
transaction.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, Protocol

from kafka_shim.broker.batch_records import first_at_or_after, first_of_largest_timestamp
from kafka_shim.broker.batches import LEADER_EPOCH
from kafka_shim.broker.log_transactions import AbortedTxn, LogTransactions
from kafka_shim.broker.producers import Producers
from kafka_shim.persistence.batch import (
    ABORT,
    COMMIT,
    NO_TIMESTAMP,
    Batch,
    end_marker,
    last_offset,
    max_timestamp,
    write_batch,
)

DEFAULT_LOG_BYTES: Final = 16 * 2**20
"""Bytes of batches that a partition keeps by default."""

_DROPPED_AT_ONCE: Final = 8
"""A full log loses an eighth of its limit at a time, as Kafka drops whole segments and not single batches."""


class Watcher(Protocol):
    """An object that is called for every change of a log, with its own name for the log."""

    def changed(self, name: Any) -> None: ...


class LogAppendInfo:
    """The result of an append. `append_time` is in ms, -1 where records keep their producer's time; for a batch that
    was in the log already it is the largest timestamp in either case, as in Kafka's answer."""

    __slots__ = ("append_time", "base_offset", "log_start_offset")

    def __init__(self, base_offset: int, append_time: int, log_start_offset: int) -> None:
        self.base_offset = base_offset
        self.append_time = append_time
        self.log_start_offset = log_start_offset


class KeptBatch(NamedTuple):
    """A batch in the log: its bytes, the offset after it, and its largest timestamp (ms)."""

    size: int
    next_offset: int
    latest: int


class PartitionLog:
    """Record batches in order, at most `limit` bytes of them but always the newest one. Compaction makes gaps between
    offsets.

    `cleaned_to`: the log is compacted up to this offset. `tombstones`: by base offset of a batch, the time in ms since
    the epoch from which its tombstones may go. `_data` has the batches; beside it, index for index: `_bases` the base
    offsets, `_ends` the position after the batch in bytes since the log began, `_times` the largest timestamp,
    `_latest` that up to and including the batch: None until somebody looks for a time, since all of it changes with the
    start of the log.
    """

    __slots__ = (
        "_bases",
        "_data",
        "_ends",
        "_latest",
        "_times",
        "cleaned_to",
        "end_offset",
        "limit",
        "producers",
        "start_offset",
        "tombstones",
        "transactions",
        "watchers",
    )

    def __init__(self, limit: int = DEFAULT_LOG_BYTES) -> None:
        self.limit = limit
        self.start_offset = 0
        self.end_offset = 0
        self.transactions = LogTransactions()
        self.producers = Producers(self.transactions)
        self.watchers: dict[Watcher, object] = {}
        """Each with its name for this log."""
        self.cleaned_to = 0
        self.tombstones: dict[int, int] = {}
        self._data: list[bytes] = []
        self._bases: list[int] = []
        self._ends: list[int] = []
        self._times: list[int] = []
        self._latest: list[int] | None = None

    @property
    def high_watermark(self) -> int:
        return self.end_offset

    @property
    def last_stable_offset(self) -> int:
        """Return the end for readers of committed records."""
        unstable = self.transactions.first_unstable()
        return self.end_offset if unstable is None else max(unstable, self.start_offset)

    def readable_end(self, *, committed: bool) -> int:
        """Return the end for readers: of `committed` records alone, or of all."""
        return self.last_stable_offset if committed else self.end_offset

    @property
    def size(self) -> int:
        """Return the bytes of all batches."""
        return self._ends[-1] - self._ends[0] + len(self._data[0]) if self._data else 0

    def append(
        self,
        batch: Batch,
        append_time: int | None,
        now: float,
        transactional_id: str | None = None,
        *,
        adds_itself: bool = False,
    ) -> LogAppendInfo:
        """Append a checked batch, unless its producer sent it before; return its place in either case.

        `append_time`: ms since the epoch for a topic with LogAppendTime, else None. `now`: monotonic seconds.
        `transactional_id` and `adds_itself`: see `OpenTxn`, for a transactional batch. Raises InvalidBatch when the
        producer's epoch or sequence number is wrong.
        """
        if batch.has_producer and (duplicate := self.producers.check(batch)) is not None:
            return LogAppendInfo(duplicate.base_offset, duplicate.max_timestamp, self.start_offset)
        stamped = batch.stamped(self.end_offset, append_time, LEADER_EPOCH)
        if batch.has_producer:
            self.producers.appended(stamped, now)
        if batch.transactional:
            self.transactions.began(
                batch.producer_id, stamped.base_offset, transactional_id or "", adds_itself=adds_itself
            )
        self._add(stamped.data, stamped.base_offset, stamped.last_offset, stamped.max_timestamp)
        given_time = NO_TIMESTAMP if append_time is None else append_time
        return LogAppendInfo(stamped.base_offset, given_time, self.start_offset)

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timestamp: int,
        now: float,
        *,
        committed: bool,
    ) -> None:
        """Append the marker that ends a producer's transaction, even if the producer has written no record.

        `timestamp`: ms since the epoch. `now`: monotonic seconds.
        """
        offset = self.end_offset
        marker = end_marker(offset, timestamp, COMMIT if committed else ABORT, coordinator_epoch)
        data = write_batch(
            [marker], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
        )
        self.producers.ended(producer_id, producer_epoch, timestamp, now)
        self.transactions.ended(producer_id, offset, coordinator_epoch, committed=committed)
        self._add(data, offset, offset, timestamp)

    def _add(self, data: bytes, base_offset: int, last_offset: int, latest: int) -> None:
        self._data.append(data)
        self._bases.append(base_offset)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(data))
        self._times.append(latest)
        if self._latest is not None:
            self._latest.append(max(self._latest[-1], latest) if self._latest else latest)
        self.end_offset = last_offset + 1
        if self.size > self.limit:
            self._drop_oldest()
        self.tell()

    def tell(self) -> None:
        """Tell the watchers that the log has changed."""
        if self.watchers:
            for watcher, name in tuple(self.watchers.items()):
                watcher.changed(name)

    def has(self, offset: int) -> bool:
        """Return True if a read may start at `offset`: anywhere from the log's start to its end, both included."""
        return self.start_offset <= offset <= self.end_offset

    def readable(self, offset: int, *, committed: bool = False) -> int:
        """Return the number of bytes that a read at `offset` without limits would return."""
        end = self.readable_end(committed=committed)
        if offset >= end:
            return 0
        index, last = self._index(offset), self._last_before(end)
        return 0 if last < index else self._ends[last] - self._ends[index] + len(self._data[index])

    def read(
        self, offset: int, max_bytes: int, *, first_whole: bool, committed: bool = False, offsets: int | None = None
    ) -> bytes:
        """Return the batches from the one that holds `offset` on: as many whole ones as fit into `max_bytes`.

        `first_whole`: return the first batch even when it alone is too large (KIP-74), so that a consumer moves on.
        `committed`: stop at the last stable offset; aborted records are in the result all the same. `offsets`: stop
        after the first batch that begins so many offsets or more beyond the first offset that there is.
        """
        end = self.readable_end(committed=committed)
        if offset >= end:
            return b""
        first, last = self._index(offset), self._last_before(end)
        if last < first:
            return b""
        if offsets is not None:
            last = min(last, bisect_left(self._bases, max(offset, self._bases[first]) + offsets))
        start = self._ends[first] - len(self._data[first])
        after = bisect_right(self._ends, start + max_bytes, first, last + 1)
        if after <= first:
            return self._data[first] if first_whole else b""
        return self._data[first] if after == first + 1 else b"".join(self._data[first:after])

    def aborted(self, offset: int, data: bytes) -> list[AbortedTxn]:
        """Return the aborted transactions that a reader of `data`, a result of `read` at `offset`, must leave out."""
        if not data:
            return []
        first = self._index(offset)
        start = self._ends[first] - len(self._data[first])
        after = bisect_right(self._ends, start + len(data), first)
        return self.transactions.aborted_between(
            offset, self._bases[after] if after < len(self._bases) else self.end_offset
        )

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Return timestamp and offset of the first record that is not older than `timestamp` (ms), or None."""
        for index in range(bisect_left(self._in_order(), timestamp), len(self._data)):
            # A batch that the log's start has cut in two may have no record that is late enough.
            if self._times[index] >= timestamp:
                record_position = first_at_or_after(self._data[index], timestamp, self.start_offset)
                if record_position is not None:
                    return record_position
        return None

    def largest_timestamp(self) -> tuple[int, int] | None:
        """Return timestamp and offset of the first record with the largest timestamp (KIP-734), or None in an empty
        log."""
        if not self._data:
            return None
        latest = self._in_order()
        return first_of_largest_timestamp(self._data[bisect_left(latest, latest[-1])])

    def _in_order(self) -> list[int]:
        if self._latest is None:
            self._latest = list(accumulate(self._times, max))
        return self._latest

    @property
    def newest_offset(self) -> int:
        """Return the offset at which the newest batch begins; `end_offset` of an empty log."""
        return self._bases[-1] if self._bases else self.end_offset

    def kept(self) -> Iterator[KeptBatch]:
        """Yield the batches that there are at the first step, the oldest first."""
        ends = [*self._bases[1:], self.end_offset] if self._data else []
        for data, next_offset, latest in zip(tuple(self._data), ends, tuple(self._times), strict=True):
            yield KeptBatch(len(data), next_offset, latest)

    def before(self, offset: int) -> list[bytes]:
        """Return the batches that end before `offset`, at the end of a batch or in a gap."""
        return self._data[: bisect_left(self._bases, offset)]

    def compact(self, batches: Sequence[bytes | None], cleaned_to: int) -> None:
        """Replace the first batches by these; None removes one. The newest batch is not among them."""
        bases = [base for base, data in zip(self._bases, batches, strict=False) if data is not None]
        times = [
            time if data is before else max_timestamp(data)
            for before, data, time in zip(self._data, batches, self._times, strict=False)
            if data is not None
        ]
        self._data[: len(batches)] = [data for data in batches if data is not None]
        self._bases[: len(batches)] = bases
        self._times[: len(batches)] = times
        self._ends = list(accumulate(map(len, self._data)))
        self._latest = None
        self.cleaned_to = cleaned_to
        self.tombstones = {base: self.tombstones[base] for base in self._bases if base in self.tombstones}
        self.tell()

    def _holds(self, offset: int) -> bool:
        index = bisect_right(self._bases, offset) - 1
        return index >= 0 and offset <= last_offset(self._data[index])

    def _index(self, offset: int) -> int:
        """Return the index of the batch that holds the offset, or of the next one if compaction has left a gap."""
        index = bisect_right(self._bases, offset) - 1
        return index + 1 if offset < self.cleaned_to and not self._holds(offset) else index

    def _last_before(self, offset: int) -> int:
        """Return the index of the last batch that begins before the offset; -1 if there is none."""
        return bisect_left(self._bases, offset) - 1

    def cut(self, start_offset: int) -> None:
        """Move the start of the log forward to `start_offset`, at most its end; a start beyond it stays.

        The batch that holds the new start stays whole, as in Kafka: consumers leave out the records before the start.
        """
        if start_offset <= self.start_offset:
            return
        self._drop(len(self._data) if start_offset == self.end_offset else self._index(start_offset))
        self._begin_at(start_offset)
        self.tell()

    def clear(self) -> None:
        """Forget everything but the offsets: the partition is deleted. A fetch session may keep the log for a long
        time."""
        self._drop(len(self._data))
        self.transactions = LogTransactions()
        self.producers = Producers(self.transactions)
        self._begin_at(self.end_offset)
        self.tell()

    def _drop_oldest(self) -> None:
        kept_from = bisect_right(self._ends, self._ends[-1] - self.limit + self.limit // _DROPPED_AT_ONCE)
        kept_from = min(max(kept_from, 1), len(self._data) - 1)
        self._drop(kept_from)
        self._begin_at(max(self._bases[0], self.start_offset))

    def _drop(self, kept_from: int) -> None:
        """Forget the batches before the one with this index."""
        for column in (self._data, self._bases, self._ends, self._times):
            del column[:kept_from]
        self._latest = None

    def _begin_at(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.transactions.forget_before(start_offset)
