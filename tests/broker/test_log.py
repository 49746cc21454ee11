"""The log of one partition: offsets, limits of a read, dropped segments, and the first record at a time."""

from typing import Any

import pytest

from kafka_shim.broker import log as log_module
from kafka_shim.broker.batches import parse_batch
from kafka_shim.broker.log import PartitionLog
from tests.broker.context import BUILDERS, CODECS, EPOCH_MS, batch, records_of


def log_of(*batches: bytes, limit: int = 2**20) -> PartitionLog:
    log = PartitionLog(limit)
    for data in batches:
        log.append(parse_batch(data, max_bytes=2**30), None, 0.0)
    return log


class TestOffsets:
    def test_follow_on_each_other(self) -> None:
        log = PartitionLog()
        sizes = [3, 1, 2]
        written = [
            log.append(parse_batch(batch(*[b"v"] * size), max_bytes=2**20), None, 0.0).base_offset for size in sizes
        ]
        assert written == [0, 3, 4]
        assert (log.start_offset, log.end_offset, log.high_watermark, log.last_stable_offset) == (0, 6, 6, 6)

    def test_an_empty_log_may_be_read_at_its_end(self) -> None:
        log = PartitionLog()
        assert log.has(0)
        assert not log.has(1)
        assert log.read(0, 100, first_whole=True) == b""
        assert log.readable(0) == 0


class TestRead:
    BATCHES = (batch(b"a", b"b"), batch(b"c"), batch(b"d" * 500))

    def test_begins_with_the_batch_that_holds_the_offset(self) -> None:
        log = log_of(*self.BATCHES)
        assert [record.offset for record in records_of(log.read(1, 2**20, first_whole=True))] == [0, 1, 2, 3]
        assert [record.offset for record in records_of(log.read(2, 2**20, first_whole=True))] == [2, 3]

    def test_returns_whole_batches_within_the_limit(self) -> None:
        log = log_of(*self.BATCHES)
        two = len(self.BATCHES[0]) + len(self.BATCHES[1])
        assert len(log.read(0, two, first_whole=True)) == two
        assert len(log.read(0, two + 1, first_whole=True)) == two
        assert len(log.read(0, two - 1, first_whole=True)) == len(self.BATCHES[0])

    def test_first_batch_comes_whole_when_it_must(self) -> None:
        log = log_of(*self.BATCHES)
        assert len(log.read(3, 10, first_whole=True)) == len(self.BATCHES[2])
        assert log.read(3, 10, first_whole=False) == b""

    def test_readable_counts_whole_batches(self) -> None:
        log = log_of(*self.BATCHES)
        sizes = [len(each) for each in self.BATCHES]
        assert [log.readable(offset) for offset in range(5)] == [
            sum(sizes),
            sum(sizes),
            sum(sizes[1:]),
            sizes[2],
            0,
        ]


class TestLimit:
    def test_oldest_batches_are_dropped_and_the_start_moves(self) -> None:
        data = batch(b"x" * 100)
        log = log_of(*[data] * 100, limit=len(data) * 16)
        assert log.end_offset == 100
        assert log.size <= len(data) * 16
        assert log.start_offset == 100 - log.size // len(data)
        assert log.start_offset >= 84
        assert not log.has(log.start_offset - 1)
        assert records_of(log.read(log.start_offset, 2**20, first_whole=True))[0].offset == log.start_offset

    def test_newest_batch_stays_however_large(self) -> None:
        log = log_of(batch(b"a"), batch(b"x" * 1000), limit=100)
        assert (log.start_offset, log.end_offset) == (1, 2)
        assert records_of(log.read(1, 1, first_whole=True))[0].value == b"x" * 1000

    def test_timestamps_of_dropped_batches_are_forgotten(self) -> None:
        data = [batch(b"x" * 100, timestamp=EPOCH_MS + time) for time in (90, 10, 20, 30)]
        log = log_of(*data, limit=sum(map(len, data)) - 1)
        assert log.start_offset == 1
        assert log.largest_timestamp() == (EPOCH_MS + 30, 3)


class TestTimestamps:
    @pytest.mark.parametrize("client", BUILDERS)
    @pytest.mark.parametrize("codec", CODECS)
    def test_first_record_at_or_after(self, client: str, codec: str) -> None:
        data = [
            batch(*[b"v"] * 5, client=client, codec=codec, timestamp=EPOCH_MS + start, step=10) for start in (0, 100)
        ]
        log = log_of(*data)
        expected = {-1: (0, 0), 0: (0, 0), 1: (10, 1), 40: (40, 4), 41: (100, 5), 135: (140, 9), 140: (140, 9)}
        for timestamp, (found, offset) in expected.items():
            assert log.offset_for_timestamp(EPOCH_MS + timestamp) == (EPOCH_MS + found, offset)
        assert log.offset_for_timestamp(EPOCH_MS + 141) is None

    def test_out_of_order_batches(self) -> None:
        log = log_of(*(batch(b"v", timestamp=EPOCH_MS + time) for time in (50, 10, 70, 60)))
        assert log.offset_for_timestamp(EPOCH_MS + 5) == (EPOCH_MS + 50, 0)
        assert log.offset_for_timestamp(EPOCH_MS + 55) == (EPOCH_MS + 70, 2)
        assert log.largest_timestamp() == (EPOCH_MS + 70, 2)

    def test_largest_is_the_first_of_equals(self) -> None:
        log = log_of(batch(b"a", b"b", timestamp=EPOCH_MS, step=9), batch(b"c", timestamp=EPOCH_MS + 9))
        assert log.largest_timestamp() == (EPOCH_MS + 9, 1)

    def test_empty_log_has_none(self) -> None:
        assert PartitionLog().largest_timestamp() is None
        assert PartitionLog().offset_for_timestamp(0) is None

    def test_appended_time_is_that_of_the_whole_batch(self) -> None:
        log = PartitionLog()
        log.append(parse_batch(batch(b"a", b"b"), max_bytes=2**20), EPOCH_MS + 500, 0.0)
        assert log.offset_for_timestamp(EPOCH_MS + 100) == (EPOCH_MS + 500, 0)

    def test_records_that_cannot_be_unpacked_count_as_their_batch(self) -> None:
        lying = bytearray(batch(b"a", b"b", b"c", step=10))
        lying[61:] = b"\xff" * (len(lying) - 61)
        log = log_of(batch(b"a"))
        log._data[0] = bytes(lying)
        assert log.offset_for_timestamp(EPOCH_MS) == (EPOCH_MS + 20, 0)


class Listening:
    def __init__(self, heard: list[int]) -> None:
        self._heard = heard

    def changed(self, name: int) -> None:
        self._heard.append(name)

    def settle(self, now: float) -> None:
        raise AssertionError("the log settles nothing")


def test_the_start_of_a_log_moves_without_a_look_at_the_batches_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    maxima, latest_of = log_module.accumulate, log_module.max_timestamp

    def accumulated(*arguments: Any) -> Any:
        looks.append(arguments)
        return maxima(*arguments)

    def latest(data: bytes) -> int:
        looks.append(data)
        return latest_of(data)

    log = PartitionLog()
    for number in range(100):
        log.append(parse_batch(batch(b"a", timestamp=EPOCH_MS + 100 - number), max_bytes=2**20), None, 0.0)
    monkeypatch.setattr(log_module, "accumulate", accumulated)
    monkeypatch.setattr(log_module, "max_timestamp", latest)
    for start in range(1, 99):
        log.cut(start)
    assert looks == []
    assert log.largest_timestamp() == (EPOCH_MS + 2, 98)
    assert log.offset_for_timestamp(EPOCH_MS + 1) == (EPOCH_MS + 2, 98)
    assert log.offset_for_timestamp(EPOCH_MS + 3) is None
    assert len(looks) == 1


def test_watchers_hear_of_every_append_in_their_order() -> None:
    """A replay of a journal answers parked fetches in the same order, so no hash may decide it."""
    log, heard = PartitionLog(), list[int]()
    for number in range(20):
        log.watchers[Listening(heard)] = number
    for _ in range(3):
        log.append(parse_batch(batch(b"a"), max_bytes=2**20), None, 0.0)
    assert heard == [*range(20)] * 3
