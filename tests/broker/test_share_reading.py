"""Reads of a share partition from its log: whole batches, and transactions by the group's isolation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.broker import share_reading
from kafka_shim.broker.batches import parse_batch
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.share_partition import (
    Acknowledge,
    AcquiredBatch,
    Reader,
    Refused,
    ShareAcknowledgementBatch,
    SharePartition,
)
from kafka_shim.broker.share_reading import Passed, read
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
        passed=Passed(),
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


class Unbounded(SharePartition):
    """A share partition that is read with all the batches of the log, as Kafka reads it."""

    def reach(self, reader: Reader, fetch_offset: int) -> int:
        return 2**62


def test_a_read_looks_at_no_more_batches_than_a_member_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    log = PartitionLog()
    for _ in range(1000):
        appended(log, b"a")
    looked_at = 0
    all_places = share_reading._places

    def counted(data: bytes) -> Iterator[Any]:
        nonlocal looked_at
        for each in all_places(data):
            looked_at += 1
            yield each

    monkeypatch.setattr(share_reading, "_places", counted)
    assert reading(log, committed=False, max_bytes=2**20, max_records=10)[0] == [AcquiredBatch(0, 9, 1)]
    assert looked_at <= 11


def test_a_read_ends_after_many_aborted_batches_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_reading, "MOST_PASSED", 50)
    log = PartitionLog()
    for _ in range(1000):
        appended(log, b"a", transactional=True)
    ended(log, committed=False)
    appended(log, b"b")
    shared = SharePartition(
        SharePersister(), Place("g", bytes(16), 0), ShareState(), 0, most_deliveries=5, most_in_flight=100
    )
    reader, reads, found = Reader("m", 30.0, 100, 100, True), 0, list[AcquiredBatch]()
    while not found:
        before = shared.first_to_fetch()
        _, found = read(shared, log, reader, max_bytes=10_000, first_whole=True, committed=True, passed=Passed())
        assert shared.first_to_fetch() != before, "each read goes on"
        reads += 1
    assert found == [AcquiredBatch(1001, 1001, 1)]
    assert reads > 3


sizes = st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["kept", "kept", "gone", "aborted"])), min_size=1)
acts = st.lists(
    st.one_of(
        st.tuples(
            st.just("read"), st.integers(1, 12), st.integers(1, 6), st.booleans(), st.sampled_from([1, 150, 400, 2**20])
        ),
        st.tuples(st.just("say"), st.integers(0, 60), st.integers(0, 6), st.sampled_from(Acknowledge)),
        st.tuples(st.just("release")),
        st.tuples(st.just("limit"), st.integers(1, 30)),
        st.tuples(st.just("truncate"), st.integers(0, 40)),
        st.tuples(st.just("reload")),
        st.tuples(st.just("compact")),
    ),
    max_size=30,
)


@given(sizes, acts, st.booleans())
def test_a_bounded_read_gives_what_a_read_of_the_whole_log_gives(
    batches: list[tuple[int, str]], script: list[tuple[Any, ...]], committed: bool
) -> None:
    assert history(SharePartition, batches, script, committed) == history(Unbounded, batches, script, committed)


def history(
    kind: type[SharePartition], batches: list[tuple[int, str]], script: list[tuple[Any, ...]], committed: bool
) -> list[object]:
    """The results of a script of reads and acknowledgements in a log of these batches, and the records in flight."""
    log, states, place = PartitionLog(), SharePersister(), Place("g", bytes(16), 0)
    states.reset(place, 1, 0)
    for size, fate in batches:
        appended(log, *[b"a"] * size, transactional=fate == "aborted", producer=log.end_offset)
        if fate == "aborted":
            ended(log, committed=False, producer=log.end_offset - size)
    appended(log, b"z")
    kept: list[bytes | None] = []
    for data in log.before(log.end_offset - 1):
        at = int.from_bytes(data[:8], "big")
        kept.append(None if gone(batches, at) else data)
    most = 20

    def opened() -> SharePartition:
        state = states.get(place)
        assert state is not None
        start = max(state.start_offset, log.start_offset)
        return kind(states, place, state, start, most_deliveries=4, most_in_flight=most)

    shared = opened()
    results: list[object] = []
    for step in script:
        match step:
            case ("read", int(records), int(size), bool(whole), int(max_bytes)):
                reader = Reader("m", 30.0, records, size, whole)
                found = read(
                    shared, log, reader, max_bytes=max_bytes, first_whole=True, committed=committed, passed=Passed()
                )
                results.append(found)
            case ("say", int(first), int(more), Acknowledge() as said):
                try:
                    shared.acknowledge("m", [ShareAcknowledgementBatch(first, first + more, [said])], 60.0)
                except Refused as refused:
                    results.append(str(refused))
            case ("release",):
                shared.release("m")
            case ("limit", int(most)):
                shared.limit(4, most)
            case ("truncate", int(offset)):
                log.cut(min(offset, log.end_offset))
                shared.in_flight.truncate(log.start_offset)
            case ("reload",):
                shared = opened()
            case _ if kept and not log.cleaned_to and not log.start_offset:
                log.compact(kept, log.end_offset - 1)
        results.append([(run.first, run.last, run.state, run.count) for run in shared.in_flight])
        results.append((shared.first_to_fetch(), shared.in_flight.start_offset, shared.in_flight.next_offset))
    return results


def gone(batches: list[tuple[int, str]], offset: int) -> bool:
    """Return True if compaction removes the batch at this offset."""
    at = 0
    for size, fate in batches:
        if at == offset:
            return fate == "gone"
        at += size + (fate == "aborted")
    return False
