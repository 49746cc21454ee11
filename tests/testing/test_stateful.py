"""The fuzzer of consumers, on three wrong consumers and three right ones; `fuzzed_consumers.py` plays for longer."""

from collections.abc import Callable
from contextlib import closing

import hypothesis
import pytest

from kafka_shim.testing import stateful
from kafka_shim.testing.stateful import (
    Check,
    Player,
    Run,
    Step,
    fuzz,
    journals,
    nothing_after_commit,
    nothing_lost,
    nothing_twice,
    order_by_key,
    play,
    results_exact,
)

from . import fuzzed_consumers as consumers

pytestmark = pytest.mark.second_stage("real clients")


@pytest.mark.parametrize(
    ("consume", "journal", "check"),
    [
        (consumers.commits_before_processing, [("kill", 0)], nothing_lost),
        (consumers.forgets_work_on_revoke, [("stop", 0)], nothing_lost),
        (consumers.ignores_fencing, [("zombie", 0, 1)], nothing_after_commit),
    ],
)
def test_a_journal_shows_the_defect_each_time(
    consume: Callable[[Run], None], journal: list[Step], check: Check
) -> None:
    for _ in range(2):
        with pytest.raises(AssertionError) as failed:
            play(consume, journal, check, crashes=consumers.CRASHES)
        assert f"play({consume.__name__}, {journal!r}, ...)" in failed.value.__notes__[0]


@pytest.mark.parametrize(
    ("consume", "journal", "checks"),
    [
        (
            consumers.commits_each_record,
            [("start",), ("zombie", 0, 4)],
            (nothing_lost, order_by_key, nothing_after_commit),
        ),
        # Its commit is refused, and it closes itself before the journal goes on.
        (consumers.commits_each_record, [("clock", 20)], (nothing_lost, order_by_key)),
        (
            consumers.finishes_work_on_revoke,
            [("process", 0, 1), ("start",), ("produce", 3), ("stop", 0)],
            (nothing_lost, nothing_twice, order_by_key),
        ),
        (consumers.writes_in_transactions, [("process", 0, 1), ("start",), ("kill", 0)], (nothing_lost, results_exact)),
    ],
)
def test_a_right_consumer_passes(
    consume: Callable[[Run], None], journal: list[Step], checks: tuple[Check, ...]
) -> None:
    outcome = play(consume, journal, *checks, crashes=consumers.CRASHES)
    assert len(outcome.done) >= 4


def test_a_fenced_consumer_in_the_middle_of_a_record_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    stood_still = []

    def settle(player: Player) -> None:
        stood_still.append(player._until(player._stands_still))

    monkeypatch.setattr(Player, "settle", settle)
    outcome = play(consumers.commits_each_record, [("zombie", 0, 1), ("kill", 0)], nothing_lost)
    assert stood_still == [True] * 3
    assert {each.client_id for each in outcome.done} == {"consumer-2"}


def test_a_consumer_that_gets_no_more_records_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stateful, "FINISHES", 1)

    def pauses(run: Run) -> None:
        with closing(consumers.kafka_python(run)) as consumer:
            while run.running:
                for record in consumers.batch(consumer)[:1]:
                    consumer.pause(*consumer.assignment())
                    run.process(record)

    with pytest.raises(AssertionError, match="Lost") as failed:
        play(pauses, [("process", 0, 1)], nothing_lost)
    (note,) = (each for each in failed.value.__notes__ if "owned records" in each)
    assert note == "At the end consumer-1 owned records and got none: it polls no more, or its client has stopped."


def test_fuzz_finds_a_wrong_consumer() -> None:
    settings = hypothesis.settings(max_examples=30, database=None, phases=[hypothesis.Phase.generate])
    with pytest.raises(AssertionError, match="Lost"):
        fuzz(consumers.commits_before_processing, nothing_lost, settings=settings, seed=1)


def test_a_failure_that_does_not_come_again_is_reported_with_its_journal() -> None:
    runs: list[Run] = []

    def fails_once(run: Run) -> None:
        runs.append(run)
        if len(runs) == 1:
            raise ZeroDivisionError
        consumers.commits_each_record(run)

    with pytest.raises(ZeroDivisionError) as failed:
        fuzz(
            fails_once, settings=hypothesis.settings(max_examples=1, database=None, phases=[hypothesis.Phase.generate])
        )
    assert any("had another outcome" in note for note in failed.value.__notes__)


def test_an_error_of_a_consumer_fails_unless_it_is_expected() -> None:
    def broken(run: Run) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play(broken, [("produce", 1)], nothing_lost)
    with pytest.raises(ValueError, match=r"There is no step 'kil'; did you mean 'kill'\?"):
        journals(["kil"])
