"""The sticky task assignor: each task once, fair shares, no task twice in a process, and nothing moved for nothing."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.groups.streams.assignor import MemberSpec, SubtopologySpec, Task, assign
from kafka_shim.groups.streams.records import Tasks, each_task

subtopologies = st.dictionaries(
    st.sampled_from(["0", "1", "2"]), st.builds(SubtopologySpec, st.integers(1, 8), st.booleans()), min_size=1
)
processes = st.lists(st.integers(1, 3), min_size=1, max_size=4)
"""How many members each process has."""


def group(sizes: list[int]) -> dict[str, MemberSpec]:
    return {
        f"m{process}-{each}": MemberSpec(f"p{process}") for process, size in enumerate(sizes) for each in range(size)
    }


def after(members: dict[str, MemberSpec], assigned: dict[str, Tasks]) -> dict[str, MemberSpec]:
    """The members with their assigned tasks."""
    return {member_id: spec._replace(tasks=assigned[member_id]) for member_id, spec in members.items()}


def active_owners(assigned: dict[str, Tasks]) -> dict[Task, str]:
    owners: dict[Task, str] = {}
    for member_id, tasks in assigned.items():
        for task in each_task(tasks.active):
            assert task not in owners, "a task has two owners"
            owners[task] = member_id
    return owners


def check(
    members: dict[str, MemberSpec], tasks: dict[str, SubtopologySpec], replicas: int, assigned: dict[str, Tasks]
) -> None:
    """The invariants of every assignment."""
    assert assigned.keys() == members.keys()
    every = {(name, partition) for name, each in tasks.items() for partition in range(each.tasks)}
    assert active_owners(assigned).keys() == every
    in_process = Counter(
        (members[member_id].process_id, task)
        for member_id, each in assigned.items()
        for role in (each.active, each.standby)
        for task in each_task(role)
    )
    assert set(in_process.values()) <= {1}, "a process has a task twice"
    standbys = Counter(task for each in assigned.values() for task in each_task(each.standby))
    process_count = len({spec.process_id for spec in members.values()})
    for name, partition in every:
        expected = min(replicas, process_count - 1) if tasks[name].is_stateful else 0
        assert standbys[name, partition] == expected


@given(processes, subtopologies, st.integers(0, 3))
def test_each_task_has_one_owner_and_as_many_standbys_as_there_are_processes_for(
    sizes: list[int], tasks: dict[str, SubtopologySpec], replicas: int
) -> None:
    members = group(sizes)
    check(members, tasks, replicas, assign(members, tasks, replicas))


@given(st.integers(1, 6), subtopologies)
def test_members_of_separate_processes_differ_by_at_most_one_task(size: int, tasks: dict[str, SubtopologySpec]) -> None:
    assigned = assign(group([1] * size), tasks, 0)
    counts = [len(list(each_task(each.active))) for each in assigned.values()]
    assert max(counts) - min(counts) <= 1


@given(processes, subtopologies, st.integers(0, 2))
def test_nothing_moves_when_nothing_has_changed(
    sizes: list[int], tasks: dict[str, SubtopologySpec], replicas: int
) -> None:
    members = group(sizes)
    first = assign(members, tasks, replicas)
    second = assign(after(members, first), tasks, replicas)
    assert {each: first[each].active for each in first} == {each: second[each].active for each in second}


@given(st.integers(1, 6), subtopologies)
def test_a_newcomer_gets_its_share_and_nothing_moves_between_others(
    size: int, tasks: dict[str, SubtopologySpec]
) -> None:
    members = after(group([1] * size), assign(group([1] * size), tasks, 0))
    before = active_owners({member_id: spec.tasks for member_id, spec in members.items()})
    assigned = assign({**members, "new": MemberSpec("new")}, tasks, 0)
    moved = {task: owner for task, owner in active_owners(assigned).items() if before[task] != owner}
    assert set(moved.values()) <= {"new"}
    counts = [len(list(each_task(each.active))) for each in assigned.values()]
    assert max(counts) - min(counts) <= 1


@given(st.integers(2, 6), subtopologies)
def test_tasks_of_a_leaver_move_and_other_tasks_stay(size: int, tasks: dict[str, SubtopologySpec]) -> None:
    members = after(group([1] * size), assign(group([1] * size), tasks, 0))
    gone = members.pop("m0-0")
    before = active_owners({member_id: spec.tasks for member_id, spec in members.items()})
    owners = active_owners(assign(members, tasks, 0))
    assert all(owners[task] == owner for task, owner in before.items())
    assert set(each_task(gone.tasks.active)) == owners.keys() - before.keys()


@given(processes, processes, subtopologies, st.integers(0, 2))
def test_successive_assignments_satisfy_all_properties(
    sizes: list[int], later: list[int], tasks: dict[str, SubtopologySpec], replicas: int
) -> None:
    old = after(group(sizes), assign(group(sizes), tasks, replicas))
    members = {member_id: old.get(member_id, spec) for member_id, spec in group(later).items()}
    check(members, tasks, replicas, assign(members, tasks, replicas))


def test_a_standby_takes_over() -> None:
    tasks = {"0": SubtopologySpec(3, True)}
    members = after(group([1, 1, 1]), assign(group([1, 1, 1]), tasks, 1))
    gone = members.pop("m0-0")
    lost = set(each_task(gone.tasks.active))
    stood_by = {
        task: member_id for member_id, spec in members.items() for task in each_task(spec.tasks.standby) if task in lost
    }
    owners = active_owners(assign(members, tasks, 1))
    assert {task: owners[task] for task in lost} == stood_by
    assert lost


def test_an_empty_group_gets_an_empty_assignment() -> None:
    assert assign({}, {"0": SubtopologySpec(1, False)}, 0) == {}
