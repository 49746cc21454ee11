"""Random histories of a streams group: members join, report late, lose answers, leave and crash, the coordinator too.

No active task is ever run by two members, no process is ever given a task twice, and in the end everybody settles.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from kafka_shim.groups.streams.live import StreamsGroup
from tests.examples import examples
from tests.groups.context import GROUP

from .context import Cluster, Thread, settle


class Group(RuleBasedStateMachine):
    threads = Bundle("threads")

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(
            "group.streams.initial.rebalance.delay.ms=0", "group.streams.num.standby.replicas=1", t=4, changelog=4
        )
        self.cluster.creates = False
        self.threads_of: dict[str, Thread] = {}

    @rule(target=threads, name=st.sampled_from("abcd"))
    def join(self, name: str) -> str:
        thread = self.threads_of.setdefault(name, Thread(self.cluster, name, "p" if name in "ab" else name))
        thread.come()
        return name

    @rule(name=threads, lost=st.booleans(), gives_up=st.booleans())
    def beat(self, name: str, lost: bool, gives_up: bool) -> None:
        if self.threads_of[name].is_in:
            self.threads_of[name].beat(lost=lost, gives_up=gives_up)

    @rule(name=threads)
    def leave(self, name: str) -> None:
        thread = self.threads_of[name]
        if thread.is_in:
            thread.runs, thread.is_in = set(), False
            assert thread.leave().error_code == 0

    @rule()
    def crash(self) -> None:
        self.cluster.crash()

    @rule(partitions=st.integers(4, 6))
    def grow(self, partitions: int) -> None:
        if partitions > self.cluster.topics.partitions_of("t"):
            for topic in ("t", "changelog"):
                self.cluster.create(topic, partitions)

    @invariant()
    def nobody_shares_a_task(self) -> None:
        running = [task for thread in self.threads_of.values() if thread.is_in for task in thread.runs]
        assert len(running) == len(set(running)), running

    @invariant()
    def no_process_has_a_task_twice(self) -> None:
        group = self.cluster.service.groups.get(GROUP)
        if isinstance(group, StreamsGroup):
            for task, processes in group.copies.items():
                assert len(set(processes)) == len(processes)
                assert group.running.get(task) not in processes

    def teardown(self) -> None:
        # Who was fenced joins again as well: the coordinator has it still.
        group = self.cluster.service.groups.get(GROUP)
        known = group.members if isinstance(group, StreamsGroup) else {}
        present = [thread for thread in self.threads_of.values() if thread.member_id in known]
        for thread in present:
            thread.come()
        if present:
            settle(*present)
            tasks = {("0", partition) for partition in range(self.cluster.topics.partitions_of("t"))}
            active = [task for thread in present for task in thread.active]
            assert sorted(active) == sorted(tasks)
            assert self.cluster.streams_group.state == "Stable"


TestGroup = Group.TestCase
TestGroup.settings = settings(max_examples=examples(300, fuzz=10_000), stateful_step_count=25, deadline=None)
