"""The reads of a share partition: the group's first offset, and the batches of the log for a member.

`share_partition.py` acquires the records. After Kafka's `ShareFetchUtils` and `ShareGroupAutoOffsetResetStrategy` of
4.2 (semantics 4.13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.offset_reset import offset_reset
from kafka_shim.broker.share_batches import Offsets
from kafka_shim.broker.share_partition import AcquiredBatch, Reader, SharePartition
from kafka_shim.groups.share.persister import UNINITIALIZED, ShareState
from kafka_shim.persistence.batch import HEADER, OVERHEAD, TRANSACTIONAL


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
) -> tuple[bytes, list[AcquiredBatch]]:
    """Acquire records for a member; return the batches of the log with these records. `first_whole`: return the first
    batch even when it alone is larger than `max_bytes`."""
    while (offset := shared.first_to_fetch()) is not None:
        data = log.read(offset, max_bytes, first_whole=first_whole, committed=committed)
        if not data:
            break
        places = list(_places(data))
        aborted = []
        if committed:
            transactions = log.aborted(offset, data)
            aborted = [
                Offsets(first, last)
                for first, last, _, producer_id in places
                if producer_id is not None
                and any(
                    each.producer_id == producer_id and each.first_offset <= first <= each.last_offset
                    for each in transactions
                )
            ]
        acquired = shared.acquire(reader, offset, [Offsets(first, last) for first, last, _, _ in places], aborted)
        if acquired:
            first, last = acquired[0].first, acquired[-1].last
            parts = [part for begin, end, part, _ in places if end >= first and begin <= last]
            return data[parts[0].start : parts[-1].stop] if parts else b"", acquired
        if shared.first_to_fetch() == offset:
            break
    return b"", []


def _places(data: bytes) -> Iterator[tuple[int, int, slice, int | None]]:
    """Yield the batches in `data`: first and last offset, bytes, and the producer id if it is in a transaction."""
    at = 0
    while at < len(data):
        base, length, _, _, _, attributes, last_delta, _, _, producer_id, _, _, _ = HEADER.unpack_from(data, at)
        end = at + OVERHEAD + length
        yield base, base + last_delta, slice(at, end), producer_id if attributes & TRANSACTIONAL else None
        at = end
