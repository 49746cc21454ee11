"""Idempotent producers: a batch sent again is not appended again, and a missing one is noticed."""

import pytest

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker import producers
from kafka_shim.broker.batches import InvalidBatch, parse_batch
from kafka_shim.broker.log import LogAppendInfo, PartitionLog
from kafka_shim.broker.producers import BATCHES_KEPT, EXPIRATION_SECONDS
from tests.broker.context import batch


def append(
    log: PartitionLog, sequence: int, *, epoch: int = 0, id: int = 1, size: int = 1, now: float = 0.0
) -> LogAppendInfo:
    data = batch(*[b"v"] * size, producer=(id, epoch, sequence))
    return log.append(parse_batch(data, max_bytes=2**20), None, now)


def refusal(log: PartitionLog, sequence: int, **producer: int) -> ErrorCode:
    before = log.end_offset
    with pytest.raises(InvalidBatch) as caught:
        append(log, sequence, **producer)
    assert log.end_offset == before
    return caught.value.error


def test_batches_in_order_are_appended() -> None:
    log = PartitionLog()
    assert [append(log, sequence, size=2).base_offset for sequence in (0, 2, 4)] == [0, 2, 4]


def test_a_repeated_batch_answers_where_it_is() -> None:
    log = PartitionLog()
    for sequence in range(BATCHES_KEPT):
        append(log, sequence)
    assert [append(log, sequence).base_offset for sequence in range(BATCHES_KEPT)] == list(range(BATCHES_KEPT))
    assert log.end_offset == BATCHES_KEPT


def test_a_repeated_batch_that_is_too_old_is_out_of_order() -> None:
    log = PartitionLog()
    for sequence in range(BATCHES_KEPT + 1):
        append(log, sequence)
    assert refusal(log, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("sequence", [0, 2, 4, 100])
def test_a_gap_is_out_of_order(sequence: int) -> None:
    log = PartitionLog()
    append(log, 0, size=3)
    assert refusal(log, sequence) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_anywhere() -> None:
    log = PartitionLog()
    assert append(log, 17).base_offset == 0
    assert append(log, 18).base_offset == 1


def test_sequences_wrap_to_zero() -> None:
    log = PartitionLog()
    append(log, 2**31 - 1)
    assert append(log, 0).base_offset == 1


def test_a_new_epoch_begins_with_zero() -> None:
    log = PartitionLog()
    append(log, 0)
    assert refusal(log, 1, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, 0, epoch=1).base_offset == 1


def test_an_older_epoch_is_fenced() -> None:
    log = PartitionLog()
    append(log, 0, epoch=1)
    assert refusal(log, 1, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_producers_do_not_mix() -> None:
    log = PartitionLog()
    assert [append(log, 0, id=id).base_offset for id in (1, 2, 3)] == [0, 1, 2]


def test_a_producer_silent_for_a_day_is_forgotten() -> None:
    log = PartitionLog()
    append(log, 0, id=1)
    append(log, 0, id=2, now=EXPIRATION_SECONDS / 2)
    append(log, 0, id=3, now=EXPIRATION_SECONDS + 1)
    assert len(log.producers) == 2
    assert append(log, 5, id=1, now=EXPIRATION_SECONDS + 2).base_offset == 3


def test_a_producer_with_an_open_transaction_is_kept_for_longer_than_a_day() -> None:
    log = PartitionLog()
    append(log, 0, id=1)
    append(log, 0, id=2)
    log.transactions.began(1, 0, "a", adds_itself=True)
    append(log, 0, id=3, now=EXPIRATION_SECONDS + 1)
    assert {id for id, _ in log.producers.items()} == {1, 3}
    assert append(log, 0, id=1, now=EXPIRATION_SECONDS + 2).base_offset == 0
    log.end_transaction(1, 0, 0, 0, EXPIRATION_SECONDS + 3, committed=True)
    append(log, 1, id=3, now=2 * EXPIRATION_SECONDS + 4)
    assert {id for id, _ in log.producers.items()} == {3}


def test_the_producers_that_were_seen_last_and_those_in_a_transaction_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "MOST", 80)
    log = PartitionLog()
    for id in (1, 2, 3):
        append(log, 0, id=id)
    log.transactions.began(2, 1, "b", adds_itself=True)
    for id in range(4, 84):
        append(log, 0, id=id)
        append(log, id - 3, id=3)
        assert len(log.producers) <= 81
    # An eighth of the limit is gone.
    assert [id for id, _ in log.producers.items()] == [2, *range(13, 84), 3]
    # A producer that is forgotten may begin anywhere, and a batch that it repeats is a new one.
    assert append(log, 0, id=1).base_offset == log.end_offset - 1


def test_markers_of_unknown_producers_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "MOST", 80)
    log = PartitionLog()
    for id in range(1000):
        log.end_transaction(id, 0, 0, 0, 0.0, committed=True)
        assert len(log.producers) <= 80
