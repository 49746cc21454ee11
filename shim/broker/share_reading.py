"""How a share partition reads its log: where it begins, and which batches of the log a member gets.

Decides that alone; what is acquired of them is in `share_partition.py`. After Kafka's `ShareFetchUtils` and
`ShareGroupAutoOffsetResetStrategy` of 4.2 (semantics 4.13).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from kafka_shim.broker.batches import HEADER, LOG_OVERHEAD, TRANSACTIONAL
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.share_partition import AcquiredBatch, Offsets, SharePartition
from kafka_shim.groups.share.persister import UNINITIALIZED, ShareState

_DURATION: Final = re.compile(r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.I)
_UNITS: Final = (86_400, 3_600, 60, 1)


def start_offset(state: ShareState, log: PartitionLog, reset: str, epoch_ms: Callable[[], int]) -> int:
    """Where a group goes on, or begins by `share.auto.offset.reset`: `earliest`, `latest` or `by_duration:` with an ISO
    8601 duration."""
    if state.start_offset != UNINITIALIZED:
        return max(state.start_offset, log.start_offset)
    if reset.lower() == "earliest":
        return log.start_offset
    seconds = duration(reset)
    if seconds is None:
        return log.end_offset
    found = log.offset_for_timestamp(epoch_ms() - round(seconds * 1000))
    return log.end_offset if found is None else found[1]


def duration(reset: str) -> float | None:
    """The seconds of a `by_duration:` strategy, or None."""
    match = _DURATION.fullmatch(reset)
    if match is None or not any(match.groups()):
        return None
    return sum(float(amount) * unit for amount, unit in zip(match.groups(), _UNITS, strict=True) if amount)


def read(
    shared: SharePartition,
    log: PartitionLog,
    member_id: str,
    deadline: float,
    *,
    max_bytes: int,
    max_records: int,
    batch_size: int,
    whole_batches: bool,
    committed: bool,
) -> tuple[bytes, list[AcquiredBatch]]:
    """Acquire records for a member, and the batches of the log that they are in."""
    while (offset := shared.first_to_fetch()) is not None:
        data = log.read(offset, max_bytes, first_whole=True, committed=committed)
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
        acquired = shared.acquire(
            member_id,
            [Offsets(first, last) for first, last, _, _ in places],
            deadline,
            max_records=max_records,
            batch_size=batch_size,
            whole_batches=whole_batches,
            aborted=aborted,
        )
        if acquired:
            first, last = acquired[0].first, acquired[-1].last
            parts = [part for begin, end, part, _ in places if end >= first and begin <= last]
            return data[parts[0].start : parts[-1].stop], acquired
        if shared.first_to_fetch() == offset:
            break
    return b"", []


def _places(data: bytes) -> Iterator[tuple[int, int, slice, int | None]]:
    """The batches in `data`: first and last offset, bytes, and the producer id of those in a transaction."""
    at = 0
    while at < len(data):
        base, length, _, _, _, attributes, last_delta, _, _, producer_id, _, _, _ = HEADER.unpack_from(data, at)
        end = at + LOG_OVERHEAD + length
        yield base, base + last_delta, slice(at, end), producer_id if attributes & TRANSACTIONAL else None
        at = end
