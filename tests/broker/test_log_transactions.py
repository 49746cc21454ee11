"""The aborted transactions of a log: those between two offsets, and the batches in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.broker.log_transactions import AbortedTxns, LogTransactions
from tests.effort import effort


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["write", "commit", "abort"])), max_size=30))
def test_a_reader_learns_the_aborted_transactions_of_its_offsets(script: list[tuple[int, str]]) -> None:
    log = LogTransactions()
    began: dict[int, int] = {}
    aborted: list[tuple[int, int, int]] = []
    for offset, (producer_id, action) in enumerate(script):
        if action == "write":
            log.began(producer_id, offset, "id", adds_itself=True)
            began.setdefault(producer_id, offset)
            continue
        log.ended(producer_id, offset, 0, committed=action == "commit")
        first = began.pop(producer_id, None)
        if first is not None and action == "abort":
            aborted.append((producer_id, first, offset))
    for start in range(len(script) + 1):
        for end in range(start, len(script) + 1):
            between = [each[:3] for each in log.aborted_between(start, end)]
            assert between == [each for each in aborted if each[2] >= start and each[1] < end]
    known = AbortedTxns(log.aborted_between(0, len(script)))
    for producer_id in range(4):
        for offset in range(len(script)):
            within = any(each[0] == producer_id and each[1] <= offset <= each[2] for each in aborted)
            assert known.have(producer_id, offset) == within


def test_a_read_looks_at_the_transactions_of_its_offsets_alone() -> None:
    log = LogTransactions()
    for number in range(1_000):
        log.began(number, 2 * number, "id", adds_itself=True)
        log.ended(number, 2 * number + 1, 0, committed=False)
    assert len(log.aborted_between(1_000, 1_004)) == 2
    assert effort(lambda: log.aborted_between(1_000, 1_004)) < 50
