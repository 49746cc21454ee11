"""Steps of a run that do not rest on each other, side by side.

Decides when a step begins: once those it rests on are done, in the order given. Spark's jobs are planned one after the
other by whoever asks for them, and what is made of one large group is made by one task; side by side, cores that one
step leaves idle work for another. It does not know what the steps do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Final, NamedTuple, TypeVar

from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

T = TypeVar("T")
AT_ONCE: Final = 4
"""So many steps are done side by side at most; more would only hold memory."""


class Task(NamedTuple):
    """`do` is called once the tasks named in `after` are done; names of no task are done already."""

    name: str
    do: Callable[[], object]
    after: Collection[str] = ()


def side_by_side(spark: SparkSession | None, tasks: Iterable[Task], at_once: int | None = None) -> None:
    """Do all of these, at most `at_once` at a time; one at a time is done by who calls this. By default they are as
    many as the session has cores, up to `AT_ONCE`.

    Raises what the first one raised that failed, once those that were at work then have ended; none begins after it.
    """
    waiting = list(tasks)
    if at_once is None:
        at_once = 1 if spark is None else min(AT_ONCE, spark.sparkContext.defaultParallelism)
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
    """What these return, in order, called as tasks of which none waits for another."""
    found: dict[int, T] = {}

    def keep(number: int) -> None:
        found[number] = calls[number]()

    side_by_side(spark, [Task(str(number), partial(keep, number)) for number in range(len(calls))], at_once)
    return [found[number] for number in range(len(calls))]


def _ready(waiting: Sequence[Task], running: Collection[str]) -> list[Task]:
    """Those that may begin now, in order; at least one if nothing runs."""
    undone = {*running, *(task.name for task in waiting)}
    found = [task for task in waiting if undone.isdisjoint(task.after)]
    if waiting and not found and not running:
        raise ValueError(f"each of {', '.join(sorted(undone))} waits for another")
    return found
