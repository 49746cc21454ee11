"""Tasks of a Kafka Streams application as plain data: which there are of a member, in each of three roles.

Decides nothing. A task is a subtopology and a partition. An active task processes records; a standby keeps a copy of
its state; a warm-up is a standby that is to become active. After Kafka's `TasksTuple` and `TasksTupleWithEpochs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

TaskSet: TypeAlias = Mapping[str, frozenset[int]]
"""Subtopology id -> partitions. A subtopology without tasks is left out."""

ActiveTasks: TypeAlias = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> the member epoch that the task was assigned at."""

NO_TASK_SET: TaskSet = {}
NO_ACTIVE_TASKS: ActiveTasks = {}


class Tasks(NamedTuple):
    """The tasks of a member in a target assignment, or those that it says it owns."""

    active: TaskSet = NO_TASK_SET
    standby: TaskSet = NO_TASK_SET
    warmup: TaskSet = NO_TASK_SET


class AssignedTasks(NamedTuple):
    """The tasks that a member has, or is to give up."""

    active: ActiveTasks = NO_ACTIVE_TASKS
    standby: TaskSet = NO_TASK_SET
    warmup: TaskSet = NO_TASK_SET

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


NO_TASKS = Tasks()
NONE_ASSIGNED = AssignedTasks()


def own_any(owned: Tasks, tasks: AssignedTasks) -> bool:
    """Whether one of `tasks` is among those owned, in the same role."""
    return (
        any(not partitions.isdisjoint(tasks.active.get(each, ())) for each, partitions in owned.active.items())
        or _meet(owned.standby, tasks.standby)
        or _meet(owned.warmup, tasks.warmup)
    )


def _meet(one: TaskSet, other: TaskSet) -> bool:
    return any(not partitions.isdisjoint(other.get(each, frozenset())) for each, partitions in one.items())


def each_task(tasks: Mapping[str, Iterable[int]]) -> Iterator[tuple[str, int]]:
    """Every task as `(subtopology id, partition)`."""
    return ((subtopology, partition) for subtopology, partitions in tasks.items() for partition in partitions)


class _TaskIds(Protocol):
    subtopology_id: str
    partitions: list[int]


def from_ids(ids: Iterable[_TaskIds]) -> TaskSet:
    """The tasks of a list as records and requests have it."""
    return {each.subtopology_id: frozenset(each.partitions) for each in ids}


def in_order(tasks: Mapping[str, Iterable[int]]) -> list[tuple[str, list[int]]]:
    """The tasks as Kafka writes them: by subtopology id, then by partition."""
    return [(subtopology, sorted(tasks[subtopology])) for subtopology in sorted(tasks)]
