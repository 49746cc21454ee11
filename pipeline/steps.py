"""A scheduler that runs the independent steps of a run side by side.

A step begins once the steps it depends on are done, in the order of the list. Side by side is faster for two reasons:
Spark plans the jobs of one thread one after the other, and one task computes a large group alone. While one step
leaves cores idle, another uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Final, NamedTuple, TypeVar

from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

from kafka_shim.pipeline.session import context_of

T = TypeVar("T")
AT_ONCE: Final = 4
"""Maximum number of steps at a time; more would only use more memory."""


class Task(NamedTuple):
    """A step: `do` runs once the tasks named in `after` are done. Names without a task count as done."""

    name: str
    do: Callable[[], object]
    after: Collection[str] = ()


def side_by_side(spark: SparkSession | None, tasks: Iterable[Task], at_once: int | None = None) -> None:
    """Run all tasks, at most `at_once` at a time; the default is the number of cores, at most `AT_ONCE`.

    With `at_once` 1 the calling thread runs them. On failure: start no more tasks, wait for the running ones, re-raise
    the first error.
    """
    waiting = list(tasks)
    if at_once is None:
        context = None if spark is None else context_of(spark)
        cores = 1 if spark is None else AT_ONCE if context is None else context.defaultParallelism
        at_once = min(AT_ONCE, cores)
    if at_once == 1:
        while waiting:
            task = _ready(waiting, ())[0]
            waiting.remove(task)
            task.do()
        return
    with ThreadPoolExecutor(at_once) as pool:
        running: dict[Future[object], str] = {}
        while waiting or running:
            for task in _ready(waiting, running.values())[: at_once - len(running)]:
                waiting.remove(task)
                do = task.do if spark is None else inheritable_thread_target(spark)(task.do)
                running[pool.submit(do)] = task.name
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                del running[done]
                done.result()


def results(spark: SparkSession | None, calls: Sequence[Callable[[], T]], at_once: int | None = None) -> list[T]:
    """Call these functions side by side and return their results in order."""
    answers: dict[int, T] = {}

    def keep(number: int) -> None:
        answers[number] = calls[number]()

    side_by_side(spark, [Task(str(number), partial(keep, number)) for number in range(len(calls))], at_once)
    return [answers[number] for number in range(len(calls))]


def _ready(waiting: Sequence[Task], running: Collection[str]) -> list[Task]:
    """Return the tasks that may begin now, in order; at least one if nothing runs."""
    undone = {*running, *(task.name for task in waiting)}
    ready = [task for task in waiting if undone.isdisjoint(task.after)]
    if waiting and not ready and not running:
        raise ValueError(f"each of {', '.join(sorted(undone))} waits for another")
    return ready
