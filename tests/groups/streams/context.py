"""A coordinator of streams groups without sockets, its topics, and members that behave as Kafka Streams does.

A `Member` is a thread of an application: it knows its tasks, and runs them until it gives them up.
"""

from __future__ import annotations

from typing import Any

from kafka_shim.apis.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest, group_error
from kafka_shim.apis.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kafka_shim.groups.interface import Client
from kafka_shim.groups.streams.group import StreamsGroup
from kafka_shim.groups.streams.heartbeat import Answer, refused
from tests.groups.consumer.context import HOST
from tests.groups.consumer.context import Cluster as WithTopics
from tests.groups.context import GROUP

Task = tuple[str, int]


def word_count(epoch: int = 0) -> Topology:
    """Lines are split into words in subtopology 0, and counted in subtopology 1."""
    return Topology(
        epoch,
        [
            Subtopology("0", source_topics=["lines"], repartition_sink_topics=["words"]),
            Subtopology(
                "1",
                state_changelog_topics=[TopicInfo("counts", 0, 0, [KeyValue("cleanup.policy", "compact")])],
                repartition_source_topics=[TopicInfo("words", 0, 0, [])],
            ),
        ],
    )


def one_subtopology(*topics: str, stateful: bool = False) -> Topology:
    changelogs = [TopicInfo("changelog", 0, 0, [])] if stateful else []
    return Topology(0, [Subtopology("0", source_topics=list(topics), state_changelog_topics=changelogs)])


class Cluster(WithTopics):
    """One node. Internal topics are created when a heartbeat says that they are missing, as the broker does."""

    creates = True

    def streams_beat(self, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
        """Send one heartbeat; its records are durable then."""
        answer: Answer = self.service.ask(request, refused, Client("c", HOST), self.now)
        self.settle()
        self.advance(0)
        if self.creates:
            for topic in answer.missing_topics:
                self.create(topic.name, topic.partitions)
        return answer.response

    @property
    def streams_group(self) -> StreamsGroup:
        group = self.service.groups[GROUP]
        assert isinstance(group, StreamsGroup)
        return group

    def described_streams(self) -> DescribedGroup:
        (group,) = self.service.ask_each(StreamsGroupDescribeRequest, [GROUP], group_error)
        return group

    def member(self, member_id: str, topology: Topology, **options: Any) -> Member:
        return Member(self, member_id, topology, **options)


class Member:
    """A thread with its epoch and its tasks. `process` is the id of its instance."""

    def __init__(self, cluster: Cluster, member_id: str, topology: Topology, *, process: str | None = None) -> None:
        self.cluster = cluster
        self.member_id = member_id
        self.topology = topology
        self.process = process or member_id
        self.epoch = 0
        self.endpoint_epoch = 0
        self.active: set[Task] = set()
        self.standby: set[Task] = set()
        self.statuses: list[int] = []

    def heartbeat(self, *, lost: bool = False, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """One heartbeat with these fields; the answer is obeyed unless it gets `lost`."""
        request = StreamsGroupHeartbeatRequest(GROUP, self.member_id, self.epoch, self.endpoint_epoch)
        for name, value in fields.items():
            setattr(request, name, value)
        answer = self.cluster.streams_beat(request)
        if not lost and answer.error_code == 0:
            self.epoch = answer.member_epoch
            self.endpoint_epoch = answer.endpoint_information_epoch
            self.statuses = [each.status_code for each in answer.status or ()]
            if answer.active_tasks is not None:
                self.active = _tasks(answer.active_tasks)
                self.standby = _tasks(answer.standby_tasks or [])
        return answer

    def join(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        self.epoch, self.active, self.standby = 0, set(), set()
        known: dict[str, Any] = {
            "rebalance_timeout_ms": 30_000,
            "topology": self.topology,
            "process_id": self.process,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "client_tags": [],
        }
        return self.heartbeat(**known | fields)

    def report(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """A heartbeat that says which tasks it runs."""
        owned = {"active_tasks": _ids(self.active), "standby_tasks": _ids(self.standby), "warmup_tasks": []}
        return self.heartbeat(**owned | fields)

    def leave(self) -> StreamsGroupHeartbeatResponse:
        return self.heartbeat(member_epoch=-1)


class Thread(Member):
    """A member that runs a task until it reports that it gave the task up; `is_in` is its own view."""

    def __init__(self, cluster: Cluster, member_id: str, process: str) -> None:
        super().__init__(cluster, member_id, one_subtopology("t", stateful=True), process=process)
        self.runs: set[Task] = set()
        self.is_in = False

    def beat(self, *, lost: bool, gives_up: bool) -> int:
        """Send a heartbeat and return its error. It gives up and reports the tasks that were taken away, or reports no
        tasks."""
        if gives_up:
            self.runs &= self.active
            answer = self.report(lost=lost)
        else:
            answer = self.heartbeat(lost=lost)
        if not lost:
            self.is_in = answer.error_code == 0
            self.runs = self.runs | self.active if self.is_in else set()
        return answer.error_code

    def come(self, *, lost: bool = False) -> None:
        """Join, with nothing."""
        self.runs = set()
        assert self.join(lost=lost).error_code == 0
        self.is_in = not lost
        self.runs |= self.active


def settle(*members: Member) -> None:
    """Let members send heartbeats until nothing changes any more."""
    for _ in range(20):
        before = [(each.epoch, each.active, each.standby) for each in members]
        for member in members:
            member.report()
        if [(each.epoch, each.active, each.standby) for each in members] == before:
            return
    raise AssertionError("The group does not settle.")


def _tasks(ids: list[TaskIds]) -> set[Task]:
    return {(each.subtopology_id, partition) for each in ids for partition in each.partitions}


def _ids(tasks: set[Task]) -> list[TaskIds]:
    by_subtopology: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks):
        by_subtopology.setdefault(subtopology, []).append(partition)
    return [TaskIds(*each) for each in by_subtopology.items()]
