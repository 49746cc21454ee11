"""Sticky task assignor: the active and standby tasks of each member.

Input is plain data: former tasks, processes, and stateful subtopologies. A task stays with its member, or goes to a
member with its standby, or to the least loaded member, as long as no member gets more than a fair share. A process gets
a task at most once. Members that have reported an offset of a task count as former standbys, behind the real ones and
those with a larger offset. Source: Kafka's `StickyTaskAssignor` of 4.4 (semantics 4.12); where Kafka depends on the
order of a hash map, names decide here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeAlias

from kafka_shim.groups.streams.records import NO_TASKS, Tasks, each_task

Task: TypeAlias = tuple[str, int]
"""Subtopology id and partition."""

_Previous: TypeAlias = Callable[[Task], "str | None"]


class MemberSpec(NamedTuple):
    """A member: its process, its part of the newest target assignment, and its last report of offsets, by task."""

    process_id: str
    tasks: Tasks = NO_TASKS
    offsets: Mapping[Task, int] = {}


class SubtopologySpec(NamedTuple):
    """Number of tasks of a subtopology, and whether they have state: only such tasks have standbys."""

    tasks: int
    is_stateful: bool


def assign(
    members: Mapping[str, MemberSpec], subtopologies: Mapping[str, SubtopologySpec], standby_replicas: int
) -> dict[str, Tasks]:
    """Compute the tasks of every member. With too few processes, some standbys are left out."""
    if not members:
        return {}
    active = [(name, partition) for name, each in subtopologies.items() for partition in range(each.tasks)]
    stateful = [(name, partition) for name, partition in active if subtopologies[name].is_stateful]
    assignment = _Assignment(members, len(active), len(active) + len(stateful) * standby_replicas)
    assignment.assign_active(active)
    if standby_replicas:
        assignment.assign_standbys(stateful, standby_replicas)
    return assignment.result()


class _Process:
    """A process: its members, and their tasks so far. Its load is tasks per member."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.total = 0
        self.tasks: set[Task] = set()

    @property
    def load(self) -> float:
        return self.total / len(self.counts)

    def idlest(self) -> str:
        return min(self.counts, key=lambda member_id: (self.counts[member_id], member_id))


class _Heap:
    """Processes by their load, the least loaded first."""

    def __init__(self, processes: Mapping[str, _Process]) -> None:
        self._processes = processes
        self._heap = [(process.load, process_id) for process_id, process in processes.items()]
        heapify(self._heap)

    def pop(self) -> str:
        return heappop(self._heap)[1]

    def pop_if_any(self) -> str | None:
        return self.pop() if self._heap else None

    def push(self, process_id: str) -> None:
        heappush(self._heap, (self._processes[process_id].load, process_id))


class _Quota:
    """Largest number of tasks of a member: the fair share of the remaining tasks."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.share = self._compute()

    def note(self, count: int) -> None:
        """Count a member's tasks; a member with its full share leaves the division of the rest."""
        if count == self.share:
            self._members -= 1
            self._tasks -= count
            self.share = self._compute()

    def _compute(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0


class _Assignment:
    def __init__(self, members: Mapping[str, MemberSpec], active_tasks: int, all_tasks: int) -> None:
        self.process_of = {member_id: members[member_id].process_id for member_id in sorted(members)}
        self.processes: dict[str, _Process] = {}
        for member_id, process_id in self.process_of.items():
            self.processes.setdefault(process_id, _Process()).counts[member_id] = 0
        self.ran: dict[Task, str] = {}
        candidates: dict[Task, list[tuple[bool, int, str]]] = {}
        for member_id in self.process_of:
            _, had, offsets = members[member_id]
            self.ran |= dict.fromkeys(each_task(had.active), member_id)
            copies = set(each_task(had.standby))
            for task in copies | offsets.keys():
                # The order of a sort: real standbys first, then the largest offset.
                candidates.setdefault(task, []).append((task not in copies, -offsets.get(task, 0), member_id))
        self.stood_by = {task: [member_id for *_, member_id in sorted(each)] for task, each in candidates.items()}
        self.active_quota = _Quota(active_tasks, len(members))
        self.quota = _Quota(all_tasks, len(members))
        self.active: dict[str, list[Task]] = {member_id: [] for member_id in self.process_of}
        self.standby: dict[str, list[Task]] = {member_id: [] for member_id in self.process_of}

    # Members and tasks

    def count(self, member_id: str) -> int:
        return self.processes[self.process_of[member_id]].counts[member_id]

    def _give(self, member_id: str, task: Task, role: dict[str, list[Task]]) -> int:
        process = self.processes[self.process_of[member_id]]
        process.counts[member_id] += 1
        process.total += 1
        process.tasks.add(task)
        role[member_id].append(task)
        return process.counts[member_id]

    def run(self, member_id: str, task: Task) -> None:
        count = self._give(member_id, task, self.active)
        self.active_quota.note(count)
        self.quota.note(count)

    def stand_by(self, member_id: str, task: Task) -> None:
        self.quota.note(self._give(member_id, task, self.standby))

    def has(self, member_id: str, task: Task) -> bool:
        """True if the member's process has the task."""
        return task in self.processes[self.process_of[member_id]].tasks

    def _least_loaded(self, member_ids: Iterable[str]) -> str | None:
        """Return one of several members: the first, unless a later one and its process have less load."""
        best: str | None = None
        for member_id in member_ids:
            if best is None or (
                self.processes[self.process_of[member_id]].load < self.processes[self.process_of[best]].load
                and self.count(member_id) < self.count(best)
            ):
                best = member_id
        return best

    # Active tasks

    def assign_active(self, tasks: list[Task]) -> None:
        remaining = self._to_previous(sorted(tasks, key=_by_partition), self.ran.get)
        remaining = self._to_previous(remaining, lambda task: self._least_loaded(self.stood_by.get(task, ())))
        heap = _Heap(self.processes)
        for task in sorted(remaining):
            process_id = heap.pop()
            self.run(self.processes[process_id].idlest(), task)
            heap.push(process_id)

    def _to_previous(self, tasks: list[Task], previous: _Previous) -> list[Task]:
        """Assign tasks to the members that `previous` returns, up to their share; return the other tasks."""
        remaining = []
        for task in tasks:
            member_id = previous(task)
            if member_id is None or self.count(member_id) >= self.active_quota.share:
                remaining.append(task)
            else:
                self.run(member_id, task)
        return remaining

    # Standbys

    def assign_standbys(self, tasks: list[Task], replicas: int) -> None:
        remaining: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=_by_partition, reverse=True):
            for replica in range(replicas):
                member_id = self._previous_standby(task)
                if member_id is None:
                    remaining.append((task, replicas - replica))
                    break
                self.stand_by(member_id, task)
        heap = _Heap(self.processes)
        for task, missing in sorted(remaining, reverse=True):
            for _ in range(missing):
                if not self._to_idlest(task, heap):
                    break

    def _previous_standby(self, task: Task) -> str | None:
        """Return the former active or standby member of a task, if it is below its share and its process lacks the
        task.
        """
        ran = self.ran.get(task)
        if ran is not None and not self.has(ran, task) and self.count(ran) < self.quota.share:
            return ran
        stood_by = [member_id for member_id in self.stood_by.get(task, ()) if not self.has(member_id, task)]
        best = self._least_loaded(stood_by)
        return best if best is not None and self.count(best) < self.quota.share else None

    def _to_idlest(self, task: Task, heap: _Heap) -> bool:
        """Assign a standby to the least loaded process without the task; return False if there is none."""
        passed = []
        is_assigned = False
        while not is_assigned and (process_id := heap.pop_if_any()) is not None:
            passed.append(process_id)
            process = self.processes[process_id]
            if task not in process.tasks:
                self.stand_by(process.idlest(), task)
                is_assigned = True
        for process_id in passed:
            heap.push(process_id)
        return is_assigned

    def result(self) -> dict[str, Tasks]:
        return {
            member_id: Tasks(_as_set(self.active[member_id]), _as_set(self.standby[member_id]))
            for member_id in self.process_of
        }


def _by_partition(task: Task) -> tuple[int, str]:
    return task[1], task[0]


def _as_set(tasks: Iterable[Task]) -> dict[str, frozenset[int]]:
    partitions: dict[str, set[int]] = {}
    for subtopology, partition in tasks:
        partitions.setdefault(subtopology, set()).add(partition)
    return {subtopology: frozenset(partitions[subtopology]) for subtopology in sorted(partitions)}
