"""Steps side by side: each begins once those it rests on are done, and a failure ends all."""

import threading

import pytest

from kafka_shim.pipeline.steps import Task, results, side_by_side


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_a_step_begins_when_those_it_rests_on_are_done(at_once: int) -> None:
    done: list[str] = []
    names = {"d": ("b", "c"), "b": ("a",), "c": ("a", "nobody"), "a": ()}
    side_by_side(
        None, [Task(name, lambda name=name: done.append(name), after) for name, after in names.items()], at_once
    )
    assert done[0] == "a"
    assert done[-1] == "d"
    assert sorted(done) == ["a", "b", "c", "d"]


def test_those_that_rest_on_nothing_are_at_work_together_and_no_more_than_there_may_be() -> None:
    together = threading.Barrier(2)
    at_work: list[int] = []
    lock = threading.Lock()

    def work() -> None:
        with lock:
            at_work.append(1)
            assert len(at_work) <= 2
        # Passed only by two at a time.
        together.wait(30)
        with lock:
            at_work.pop()

    side_by_side(None, [Task(str(number), work) for number in range(4)], 2)


@pytest.mark.parametrize("at_once", [1, 3])
def test_after_a_failure_nothing_begins(at_once: int) -> None:
    begun: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        side_by_side(None, [Task("fails", fail), Task("rests on it", lambda: begun.append("it"), ("fails",))], at_once)
    assert begun == []


def test_steps_that_wait_for_each_other_are_an_error() -> None:
    with pytest.raises(ValueError, match="each of a, b waits for another"):
        side_by_side(None, [Task("a", int, ("b",)), Task("b", int, ("a",))], 2)


@pytest.mark.parametrize("at_once", [1, 4])
def test_results_come_in_order(at_once: int) -> None:
    assert results(None, [lambda number=number: number * 2 for number in range(9)], at_once) == list(range(0, 18, 2))
