"""Batches that a producer of the suite sends, and the records that it reads back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_shim.persistence.batch import Record, read_batch, write_batch


def record_batch(
    values: Sequence[bytes],
    timestamp: int,
    producer: tuple[int, int, int] = (-1, -1, -1),
    *,
    transactional: bool = False,
    key: bytes | None = None,
) -> bytes:
    """Encode one batch of these values, 1 ms apart from `timestamp` on; `producer` is id, epoch, first sequence.

    All records have the same `key`, or none.
    """
    records = [Record(number, timestamp + number, key, value) for number, value in enumerate(values)]
    producer_id, producer_epoch, base_sequence = producer
    return write_batch(
        records,
        leader_epoch=-1,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def read_records(data: bytes) -> Iterator[Record]:
    """Yield the records of whole batches. Raises CorruptBatch."""
    position = 0
    while (found := read_batch(data, position)) is not None:
        batch, position = found
        yield from batch.records()
