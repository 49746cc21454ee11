"""Steps side by side: each begins once the steps it depends on are done, and a failure ends all."""

import threading

import pytest

from kafka_shim.pipeline.steps import Task, results, side_by_side


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_a_step_begins_after_its_dependencies(at_once: int) -> None:
    done: list[str] = []
    names = {"d": ("b", "c"), "b": ("a",), "c": ("a", "nobody"), "a": ()}
    side_by_side(
        None, [Task(name, lambda name=name: done.append(name), after) for name, after in names.items()], at_once
    )
    assert done[0] == "a"
    assert done[-1] == "d"
    assert sorted(done) == ["a", "b", "c", "d"]


def test_independent_steps_run_together_up_to_the_limit() -> None:
    together = threading.Barrier(2)
    at_work: list[int] = []
    lock = threading.Lock()

    def work() -> None:
        with lock:
            at_work.append(1)
            assert len(at_work) <= 2
        # Only two threads at a time pass this barrier.
        together.wait(30)
        with lock:
            at_work.pop()

    side_by_side(None, [Task(str(number), work) for number in range(4)], 2)


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_failure_starts_no_more_steps(at_once: int) -> None:
    starts: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        side_by_side(None, [Task("fails", fail), Task("rests on it", lambda: starts.append("it"), ("fails",))], at_once)
    assert starts == []


def test_a_cycle_of_steps_is_an_error() -> None:
    with pytest.raises(ValueError, match="each of a, b waits for another"):
        side_by_side(None, [Task("a", int, ("b",)), Task("b", int, ("a",))], 2)


@pytest.mark.parametrize("at_once", [1, 4])
def test_results_come_in_order(at_once: int) -> None:
    assert results(None, [lambda number=number: number * 2 for number in range(9)], at_once) == list(range(0, 18, 2))
