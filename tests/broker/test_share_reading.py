"""Reads of a share partition from its log: whole batches, and transactions by the group's isolation."""

from __future__ import annotations

import pytest

from kafka_shim.broker.batches import parse_batch
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.share_partition import AcquiredBatch, Reader, SharePartition
from kafka_shim.broker.share_reading import read
from kafka_shim.groups.share.persister import Place, SharePersister, ShareState
from kafka_shim.persistence.batch import Record, write_batch
from tests.effort import effort

from .context import EPOCH_MS, records_of

PRODUCER = 7


def appended(log: PartitionLog, *values: bytes, transactional: bool = False, producer: int = PRODUCER) -> None:
    records = [Record(index, EPOCH_MS, None, value) for index, value in enumerate(values)]
    data = write_batch(
        records, producer_id=producer, producer_epoch=0, base_sequence=log.end_offset, transactional=True
    )
    if not transactional:
        data = write_batch(records)
    log.append(parse_batch(data, max_bytes=10_000), None, 0.0)


def ended(log: PartitionLog, *, committed: bool, producer: int = PRODUCER) -> None:
    log.end_transaction(producer, 0, 0, EPOCH_MS, 0.0, committed=committed)


def reading(
    log: PartitionLog, *, committed: bool, max_bytes: int = 10_000, max_records: int = 100
) -> tuple[list[AcquiredBatch], list[bytes]]:
    """The batches that a new group acquires, and the values in them."""
    place = Place("g", bytes(16), 0)
    shared = SharePartition(SharePersister(), place, ShareState(), 0, most_deliveries=5, most_in_flight=100)
    data, acquired = read(
        shared,
        log,
        Reader("m", 30.0, max_records, 100, True),
        max_bytes=max_bytes,
        first_whole=True,
        committed=committed,
    )
    return acquired, [bytes(each.value) for each in records_of(data)]


def test_aborted_records_are_not_delivered_at_read_committed() -> None:
    log = PartitionLog()
    appended(log, b"a", b"b", transactional=True)
    ended(log, committed=False)
    appended(log, b"c")
    assert reading(log, committed=True) == ([AcquiredBatch(3, 3, 1)], [b"c"])
    acquired, values = reading(log, committed=False)
    assert acquired == [AcquiredBatch(0, 3, 1)], "markers have offsets too, and clients pass over them"
    assert values[:2] == [b"a", b"b"]


def test_an_open_transaction_ends_a_read() -> None:
    log = PartitionLog()
    appended(log, b"a")
    appended(log, b"b", transactional=True)
    appended(log, b"c")
    assert reading(log, committed=True) == ([AcquiredBatch(0, 0, 1)], [b"a"])
    ended(log, committed=True)
    assert reading(log, committed=True)[0] == [AcquiredBatch(0, 3, 1)]


def test_a_batch_is_read_whole_at_any_limit() -> None:
    log = PartitionLog()
    appended(log, b"a" * 100, b"b" * 100)
    appended(log, b"c")
    assert reading(log, committed=False, max_bytes=10)[0] == [AcquiredBatch(0, 1, 1)]


@pytest.mark.parametrize("max_bytes", [2**20, 1])
@pytest.mark.parametrize("max_records", [100, 1])
@pytest.mark.parametrize("kind", ["one transaction", "together", "in turn"])
def test_the_work_of_a_read_grows_as_its_aborted_batches(max_bytes: int, max_records: int, kind: str) -> None:
    def work(count: int) -> int:
        log = PartitionLog()
        producers = [0] if kind == "one transaction" else list(range(count))
        for number in range(count):
            appended(log, b"a", transactional=True, producer=number % len(producers))
            if kind == "in turn":
                ended(log, committed=False, producer=number)
        for producer in producers if kind != "in turn" else []:
            ended(log, committed=False, producer=producer)
        return effort(lambda: reading(log, committed=True, max_bytes=max_bytes, max_records=max_records))

    assert work(400) < 6 * work(100)


def test_a_member_gets_the_records_after_many_aborted_batches() -> None:
    log = PartitionLog()
    for _ in range(300):
        appended(log, b"a", transactional=True)
    ended(log, committed=False)
    for value in (b"b", b"c", b"d"):
        appended(log, value)
    assert reading(log, committed=True, max_records=2)[0] == [AcquiredBatch(301, 302, 1)]
    assert reading(log, committed=True, max_bytes=1)[0] == [AcquiredBatch(301, 301, 1)]
