"""The reads of a share partition: the group's first offset, and the batches of the log for a member.

`share_partition.py` acquires the records. After Kafka's `ShareFetchUtils` and `ShareGroupAutoOffsetResetStrategy` of
4.2 (semantics 4.13).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Final, TypeAlias

from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.log_transactions import AbortedTxns
from kafka_shim.broker.offset_reset import offset_reset
from kafka_shim.broker.share_batches import Offsets
from kafka_shim.broker.share_partition import AcquiredBatch, Reader, SharePartition
from kafka_shim.groups.share.persister import UNINITIALIZED, ShareState
from kafka_shim.persistence.batch import HEADER, OVERHEAD, TRANSACTIONAL

_FIRST_LOOK_AHEAD: Final = 2**13
"""Bytes of the log in which aborted batches are passed at once; then twice as many, and so on."""
MOST_PASSED: Final = 5_000
"""Batches, aborted ones among them, after which an answer reads no more: the next one goes on."""

_Place: TypeAlias = tuple[int, int, slice, int | None]


class Passed:
    """The batches that an answer has gone through, in all its partitions."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    @property
    def is_enough(self) -> bool:
        """Return True once the answer reads no more."""
        return self.count >= MOST_PASSED


def is_search(state: ShareState, log: PartitionLog, reset: str) -> bool:
    """Return True if `start_offset` may unpack a batch."""
    if state.start_offset != UNINITIALIZED or log.start_offset == log.end_offset:
        return False
    strategy = offset_reset(reset)
    return strategy is not None and strategy.back_ms is not None


def start_offset(state: ShareState, log: PartitionLog, reset: str, epoch_ms: Callable[[], int]) -> int:
    """Return the offset at which a group goes on, or begins by its `share.auto.offset.reset`."""
    if state.start_offset != UNINITIALIZED:
        return max(state.start_offset, log.start_offset)
    strategy = offset_reset(reset)
    if strategy is not None and strategy.earliest:
        return log.start_offset
    if strategy is None or strategy.back_ms is None:
        return log.end_offset
    first = log.offset_for_timestamp(epoch_ms() - strategy.back_ms)
    return log.end_offset if first is None else first[1]


def read(
    shared: SharePartition,
    log: PartitionLog,
    reader: Reader,
    *,
    max_bytes: int,
    first_whole: bool,
    committed: bool,
    passed: Passed,
) -> tuple[bytes, list[AcquiredBatch]]:
    """Acquire records for a member; return the batches of the log with these records. `first_whole`: return the first
    batch even when it alone is larger than `max_bytes`. `passed` is that of the whole answer."""
    while not passed.is_enough and (offset := shared.first_to_fetch()) is not None:
        offsets = shared.reach(reader, offset)
        data = log.read(offset, max_bytes, first_whole=first_whole, committed=committed, offsets=offsets)
        if not data:
            break
        places = list(_places(data))
        passed.count += len(places)
        aborted = _aborted(log, offset, data, places) if committed else []
        acquired = shared.acquire(reader, offset, [Offsets(first, last) for first, last, _, _ in places], aborted)
        if acquired:
            first, last = acquired[0].first, acquired[-1].last
            parts = [part for begin, end, part, _ in places if end >= first and begin <= last]
            return data[parts[0].start : parts[-1].stop] if parts else b"", acquired
        if shared.first_to_fetch() == offset:
            break
        if aborted:
            _pass_aborted(shared, log, reader, passed)
    return b"", []


def _pass_aborted(shared: SharePartition, log: PartitionLog, reader: Reader, passed: Passed) -> None:
    """Be done with the batches of aborted transactions that come next, however few records the reader takes at once: no
    member gets them."""
    look_ahead = _FIRST_LOOK_AHEAD
    while not passed.is_enough and (offset := shared.first_to_fetch()) is not None:
        data = log.read(offset, look_ahead, first_whole=True, committed=True)
        places = list(_places(data))
        aborted = _aborted(log, offset, data, places)
        count = sum(1 for _ in takewhile(lambda pair: pair[0][:2] == pair[1], zip(places, aborted, strict=False)))
        while offset is not None and count and offset <= aborted[count - 1].last:
            begin = bisect_left(aborted, offset, key=lambda each: each.last)
            part = aborted[begin : min(count, begin + shared.most_in_flight)]
            last = part[-1].last
            shared.acquire(reader._replace(max_records=last - offset + 1), offset, part, [Offsets(part[0].first, last)])
            before, offset = offset, shared.first_to_fetch()
            if offset is not None and offset <= before:
                return
        passed.count += count
        if count < len(places) or not places:
            break
        look_ahead *= 2


def _aborted(log: PartitionLog, offset: int, data: bytes, places: list[_Place]) -> list[Offsets]:
    """Return the batches of aborted transactions in `data`, read at `offset`."""
    transactions = AbortedTxns(log.aborted(offset, data))
    return [
        Offsets(first, last)
        for first, last, _, producer_id in places
        if producer_id is not None and transactions.have(producer_id, first)
    ]


def _places(data: bytes) -> Iterator[_Place]:
    """Yield the batches in `data`: first and last offset, bytes, and the producer id if it is in a transaction."""
    at = 0
    while at < len(data):
        base, length, _, _, _, attributes, last_delta, _, _, producer_id, _, _, _ = HEADER.unpack_from(data, at)
        end = at + OVERHEAD + length
        yield base, base + last_delta, slice(at, end), producer_id if attributes & TRANSACTIONAL else None
        at = end
