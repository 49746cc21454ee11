"""Fetches of topics that keep the newest value of each key."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_shim.broker import compaction, upkeep
from kafka_shim.broker.batch_records import MAX_UNPACKED
from kafka_shim.broker.batches import parse_batch
from kafka_shim.broker.compaction import Dirty, compact
from kafka_shim.broker.log import KeptBatch, PartitionLog
from kafka_shim.groups.outbox import Failure
from kafka_shim.persistence.batch import CODECS, Record, read_batch, write_batch
from tests.broker.context import EPOCH_MS, Cluster, fetch_request, partitions_of
from tests.examples import examples

BACKOFF = 15.0
"""log.cleaner.backoff.ms, in seconds."""


def made(**configs: str) -> Cluster:
    cluster = Cluster(log_bytes=2**22)
    named = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0"}
    cluster.topics.create("t", [[1]], named | {name.replace("_", "."): value for name, value in configs.items()})
    return cluster


def write(cluster: Cluster, *pairs: tuple[str, str | None], codec: str = "none") -> None:
    """One batch, two seconds after the last one, so that the last one's segment is full."""
    cluster.advance(2)
    stamp = EPOCH_MS + round(cluster.now * 1000)
    records = [
        Record(index, stamp, key.encode(), None if value is None else value.encode())
        for index, (key, value) in enumerate(pairs)
    ]
    assert cluster.send("t", 0, write_batch(records, codec=codec)).error_code == 0


def read(cluster: Cluster, offset: int = 0) -> dict[int, tuple[str, str | None]]:
    """Key and value of all records from an offset on, by offset, fetch by fetch as a consumer does."""
    found: dict[int, tuple[str, str | None]] = {}
    while True:
        answer = cluster.fetch(fetch_request(("t", 0, offset), max_wait_ms=0))
        data = partitions_of(answer)["t", 0].records or b""
        if not data:
            return found
        while data:
            parsed = read_batch(data)
            assert parsed is not None
            batch, end = parsed
            for record in batch.records():
                if record.offset >= offset:
                    assert record.key is not None
                    found[record.offset] = (
                        record.key.decode(),
                        None if record.value is None else record.value.decode(),
                    )
            offset, data = batch.last_offset + 1, data[end:]


def clean(cluster: Cluster) -> None:
    cluster.advance(BACKOFF)


def done(steps: Iterator[int]) -> None:
    """Take all steps."""
    for _ in steps:
        pass


@pytest.mark.parametrize("codec", CODECS)
def test_the_newest_value_of_each_key_stays_where_it_was(codec: str) -> None:
    cluster = made()
    write(cluster, ("a", "1"), ("b", "1"), codec=codec)
    write(cluster, ("a", "2"), ("c", "1"), codec=codec)
    write(cluster, ("a", "3"), ("b", "2"), codec=codec)
    write(cluster, ("d", "1"))
    clean(cluster)
    left = {3: ("c", "1"), 4: ("a", "3"), 5: ("b", "2"), 6: ("d", "1")}
    assert read(cluster) == left
    for offset in range(8):
        assert read(cluster, offset) == {each: pair for each, pair in left.items() if each >= offset}


def test_the_newest_segment_is_left_alone() -> None:
    cluster = made(segment_ms="3600000")
    for value in "123":
        write(cluster, ("a", value))
    clean(cluster)
    assert len(read(cluster)) == 3


def test_a_log_that_can_be_compacted_later_is_looked_at_again_and_a_clean_one_stays() -> None:
    cluster = made(min_compaction_lag_ms="60000")
    write(cluster, ("a", "1"))
    write(cluster, ("a", "2"))
    write(cluster, ("b", "1"))
    clean(cluster)
    assert len(read(cluster)) == 3
    for _ in range(4):
        clean(cluster)
    assert read(cluster) == {1: ("a", "2"), 2: ("b", "1")}


def test_compaction_needs_a_share_of_new_records() -> None:
    cluster = made(min_cleanable_dirty_ratio="0.6")
    for key in "abcdefgh":
        write(cluster, (key, "1"))
    clean(cluster)
    write(cluster, ("a", "2"))
    write(cluster, ("b", "2"))
    clean(cluster)
    assert len(read(cluster)) == 10
    cluster = made(min_cleanable_dirty_ratio="0.9", max_compaction_lag_ms="20000")
    for key in "aab":
        write(cluster, (key, "1"))
    clean(cluster)
    assert len(read(cluster)) == 2, "all of it was new"


def test_a_tombstone_stays_for_a_while_and_goes_with_a_later_cleaning() -> None:
    cluster = made(delete_retention_ms="60000")
    write(cluster, ("a", "1"))
    write(cluster, ("a", None))
    write(cluster, ("b", "1"))
    clean(cluster)
    assert read(cluster) == {1: ("a", None), 2: ("b", "1")}
    cluster.advance(60)
    write(cluster, ("b", "2"))
    write(cluster, ("c", "1"))
    clean(cluster)
    assert read(cluster) == {3: ("b", "2"), 4: ("c", "1")}


def test_a_removed_policy_ends_compaction() -> None:
    cluster = made()
    write(cluster, ("a", "1"))
    write(cluster, ("a", "2"))
    topic = cluster.topics.named("t")
    assert topic is not None
    cluster.topics.configure(topic, {"segment.ms": "1000"})
    write(cluster, ("b", "1"))
    clean(cluster)
    assert len(read(cluster)) == 3
    assert cluster.topics.compacted_topics() == []


def test_a_log_that_cannot_be_compacted_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = made()
    cluster.topics.create("a", [[1]], {"cleanup.policy": "compact", "segment.ms": "1000"})
    topic = cluster.topics.named("a")
    assert topic is not None
    assert cluster.send("a", 0, write_batch([Record(0, EPOCH_MS, b"k", b"v")])).error_code == 0

    kept = PartitionLog.kept

    def raises(log: PartitionLog) -> Iterator[KeptBatch]:
        if log is topic.partitions[0].log:
            raise OverflowError("int too large to convert")
        return kept(log)

    monkeypatch.setattr(PartitionLog, "kept", raises)
    for value in "123":
        write(cluster, ("a", value))
    clean(cluster)
    assert read(cluster) == {1: ("a", "2"), 2: ("a", "3")}
    (effect,) = cluster.outbox.effects
    assert isinstance(effect.effect, Failure)
    assert effect.effect.place == "the upkeep of partition 0 of a"
    write(cluster, ("a", "4"))
    clean(cluster)
    assert read(cluster) == {2: ("a", "3"), 3: ("a", "4")}


KEYS = st.sampled_from("abcd")
VALUES = st.one_of(st.none(), st.sampled_from("123"))
BATCH = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(BATCH, st.booleans()), min_size=1, max_size=12), st.sampled_from(CODECS))
def test_a_reader_of_the_compacted_log_learns_the_same_values(
    steps: list[tuple[list[tuple[str, str | None]], bool]], codec: str
) -> None:
    cluster = made(delete_retention_ms="30000")
    everything: list[tuple[str, str | None]] = []
    for pairs, cleans in steps:
        write(cluster, *pairs, codec=codec)
        everything += pairs
        if cleans:
            clean(cluster)
        found = read(cluster)
        assert all(everything[offset] == pair for offset, pair in found.items())
        assert {key: value for key, value in dict(found.values()).items() if value is not None} == {
            key: value for key, value in dict(everything).items() if value is not None
        }


@pytest.mark.parametrize("committed", [True, False])
def test_records_of_an_aborted_transaction_go_and_its_end_stays(committed: bool) -> None:
    log = PartitionLog()
    record = Record(0, EPOCH_MS, b"k", b"v")
    data = write_batch([record], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(parse_batch(data, max_bytes=10_000), None, 0.0)
    log.end_transaction(7, 0, 0, EPOCH_MS, 0.0, committed=committed)
    done(compact(log, Dirty(0, 2, 1.0, EPOCH_MS), EPOCH_MS, 0))
    left = [read_batch(each) for each in log.before(2)]
    assert [found[0].control for found in left if found is not None] == [False] * committed + [True]


def log_of(*batches: list[tuple[str, str | None]], codec: str = "none") -> PartitionLog:
    log = PartitionLog(sys.maxsize)
    for pairs in batches:
        records = [
            Record(index, EPOCH_MS, key.encode(), None if value is None else value.encode())
            for index, (key, value) in enumerate(pairs)
        ]
        log.append(parse_batch(write_batch(records, codec=codec), max_bytes=sys.maxsize), None, 0.0)
    return log


def all_of(log: PartitionLog) -> list[bytes]:
    return log.before(log.end_offset)


def whole(log: PartitionLog) -> Dirty:
    """All batches but the newest."""
    *_, before, _ = log.kept()
    return Dirty(log.cleaned_to, before.next_offset, 1.0, EPOCH_MS)


@pytest.mark.parametrize("key_size", [10, 2**22])
def test_a_compaction_takes_the_memory_of_one_batch(key_size: int) -> None:
    size = MAX_UNPACKED * 3 // 4
    log = log_of(*([(str(number) * key_size, str(number) * (size - key_size))] for number in range(10)), codec="zstd")
    tracemalloc.start()
    try:
        done(compact(log, whole(log), EPOCH_MS, 0))
        assert tracemalloc.get_traced_memory()[1] < 5 * MAX_UNPACKED
    finally:
        tracemalloc.stop()


def test_a_large_log_is_cleaned_turn_by_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = made()
    for number in range(40):
        records = [Record(index, EPOCH_MS + 2000 * number, key, b"v") for index, key in enumerate((b"a", b"b" * 100))]
        assert cluster.send("t", 0, write_batch(records, codec="gzip")).error_code == 0
    reads = 0
    read_one = compaction._read

    def counted(data: bytes) -> compaction._Read | None:
        nonlocal reads
        reads += 1
        return read_one(data)

    monkeypatch.setattr(compaction, "_read", counted)
    monkeypatch.setattr(upkeep, "TURN_BYTES", 4000)
    most = turns = 0
    clean(cluster)
    while cluster.broker.next_deadline() <= cluster.now:
        assert len(read(cluster)) == 80
        most, reads, turns = max(most, reads), 0, turns + 1
        cluster.advance(0)
    assert turns > 5
    assert most < 10
    assert list(read(cluster)) == [76, 77, 78, 79]


def test_many_small_batches_are_looked_at_turn_by_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = made(min_compaction_lag_ms="3600000")
    for _ in range(1000):
        assert cluster.send("t", 0, write_batch([Record(0, EPOCH_MS, b"k", b"v")])).error_code == 0
    monkeypatch.setattr(upkeep, "TURN_BYTES", 1000)
    clean(cluster)
    turns = 1
    while cluster.broker.next_deadline() <= cluster.now:
        cluster.advance(0)
        turns += 1
    assert turns > 3


@pytest.mark.parametrize("dropped", [1, 3, 6, 8])
def test_a_log_may_lose_its_oldest_batches_and_grow_while_it_is_compacted(dropped: int) -> None:
    log, other = (log_of(*([("a", str(n)), (str(n % 3), "x"), (str(n), None)] for n in range(8))) for _ in range(2))
    steps = compact(log, whole(log), EPOCH_MS, 1000)
    for _ in range(9):
        next(steps)
    for each in (log, other):
        record = Record(0, EPOCH_MS, b"new", b"v")
        each.append(parse_batch(write_batch([record]), max_bytes=10_000), None, 0.0)
        each.cut(3 * dropped)
    done(steps)
    if dropped < 7:
        done(compact(other, Dirty(0, 21, 1.0, EPOCH_MS), EPOCH_MS, 1000))
    assert all_of(log) == all_of(other)
    assert (log.start_offset, log.size) == (other.start_offset, other.size)


def test_the_second_of_two_compactions_of_one_log_at_a_time_changes_nothing() -> None:
    log = log_of(*([("a", str(n))] for n in range(8)))
    first, second = (compact(log, whole(log), EPOCH_MS, 0) for _ in range(2))
    next(first)
    next(second)
    done(first)
    left = all_of(log)
    done(second)
    assert all_of(log) == left
    assert len(left) == 2


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(BATCH, min_size=2, max_size=10), st.integers(1, 4))
def test_a_log_with_many_keys_is_cleaned_in_several_runs(
    batches: list[list[tuple[str, str | None]]], most_keys: int
) -> None:
    at_once, in_runs = log_of(*batches), log_of(*batches)
    dirty = whole(at_once)
    done(compact(at_once, dirty, EPOCH_MS, 1000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "MOST_KEYS", most_keys)
        for _ in batches:
            if in_runs.cleaned_to < dirty.end:
                done(compact(in_runs, dirty._replace(begin=in_runs.cleaned_to), EPOCH_MS, 1000))
    assert in_runs.cleaned_to == dirty.end
    assert all_of(in_runs) == all_of(at_once)
