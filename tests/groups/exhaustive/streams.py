"""Streams groups (KIP-1071): threads of one or two processes that run tasks, with standbys, and one topic that grows.

Checked in every state: an active task has one member at most, no two threads of a process have the same task, and a
thread in the group runs only tasks that the coordinator counts as its own (I1); epochs are in order (I2); the records
give the same group (I5); each timer's member is present (I10). Without further events, the threads run every task, and
no process has a task twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.groups.streams.group import StreamsGroup
from kafka_shim.groups.streams.records import Member, Tasks, each_task
from kafka_shim.groups.streams.states import MemberState
from tests.groups.exhaustive.epochs import EpochWorld
from tests.groups.exhaustive.world import TOPIC, Epochs, QuietCluster
from tests.groups.streams.context import Cluster, Thread

LEGAL = {E.NONE, E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND}


class Node(QuietCluster, Cluster):
    creates = False


class Client(Thread):
    def act(self, what: str) -> None:
        lost = what.endswith("lost")
        if what.startswith("join"):
            self.come(lost=lost)
        elif what == "leave":
            self.leave()
            self.runs, self.is_in, self.epoch = set(), False, 0
        else:
            error = self.beat(lost=lost, gives_up=what.startswith("obey"))
            assert error in LEGAL, error


class StreamsWorld(EpochWorld[StreamsGroup]):
    """Clients `a` and `b` are of one process, any other has its own."""

    made = StreamsGroup
    of_records = (
        "members",
        "targets",
        "group_epoch",
        "target_epoch",
        "metadata_hash",
        "validated_epoch",
        "configs",
        "topology",
        "running",
    )
    settings = ("group.streams.initial.rebalance.delay.ms=0", "group.streams.num.standby.replicas=1")
    node: Node

    def __init__(self, names: str, partitions: int) -> None:
        super().__init__(names, partitions)
        self.node.topics.create("changelog", partitions)

    def make_node(self) -> Node:
        return Node("offsets.topic.num.partitions=1", *self.settings)

    def make_client(self, name: str) -> Client:
        return Client(self.node, name, "p" if name in "ab" else name)

    # States

    def absent_key(self, client: Client) -> tuple[Any, ...]:
        return client.member_id, client.epoch, client.is_in

    def client_key(self, client: Client, epochs: Epochs) -> tuple[Any, ...]:
        return (
            epochs.of_client(client.epoch),
            client.is_in,
            sorted(client.runs),
            sorted(client.active),
            sorted(client.standby),
        )

    def member_key(self, group: StreamsGroup, member: Member, epochs: Epochs) -> tuple[Any, ...]:
        return (
            member.member_id,
            epochs.of(member.epoch),
            epochs.of(member.previous_epoch),
            member.state.value,
            sorted(each_task(member.assigned.active)),
            sorted(each_task(member.assigned.standby)),
            sorted(each_task(member.pending_revocation.active)),
            sorted(each_task(member.pending_revocation.standby)),
            epochs.of(group.rebalance_epochs.get(member.member_id, 0)),
        )

    def target_key(self, target: Tasks) -> object:
        return [sorted(each_task(tasks)) for tasks in target]

    def other_key(self, group: StreamsGroup) -> object:
        return group.validated_epoch, group.configured is not None

    # Steps

    def steps_of(self, client: Client) -> Iterable[str]:
        yield "join"
        yield "join, answer lost"
        if client.is_in:
            yield "obey"
            yield "obey, answer lost"
            yield "heartbeat"
            yield "heartbeat, answer lost"
            yield "leave"

    def change_topic(self, what: str) -> None:
        count = self.node.topics.partitions_of(TOPIC) + 1
        for topic in (TOPIC, "changelog"):
            self.node.create(topic, count)

    # Invariants

    def check_group(self, group: StreamsGroup) -> None:
        owners: dict[tuple[str, int], str] = {}
        places: dict[tuple[str, tuple[str, int]], str] = {}
        for member in group.members.values():
            for tasks in (member.assigned, member.pending_revocation):
                for task in each_task(tasks.active):
                    other = owners.setdefault(task, member.member_id)
                    assert other == member.member_id, f"I1: {task} is had by {other} and {member.member_id}"
                for task in (*each_task(tasks.active), *each_task(tasks.standby)):
                    place = member.process_id, task
                    other = places.setdefault(place, member.member_id)
                    assert other == member.member_id, f"process {place[0]} has {task} twice"
            assert member.state is MemberState.UNREVOKED_TASKS or member.pending_revocation.is_empty
        assert group.running == {task: group.members[owner].process_id for task, owner in owners.items()}
        for client in self.clients:
            found = group.members.get(client.member_id)
            if client.is_in and found is not None:
                known = {*each_task(found.assigned.active), *each_task(found.pending_revocation.active)}
                assert client.runs <= known, f"I1: {client.member_id} runs {client.runs - known}, which others may get"
        again = self.reloaded()
        assert isinstance(again, StreamsGroup), "I5"
        for task in {*again.copies, *group.copies}:
            assert sorted(again.copies[task]) == sorted(group.copies[task]), "I5: copies"

    def begin_rest(self, present: list[Client]) -> None:
        for client in present:
            client.act("join")

    def go_on(self, client: Client) -> None:
        client.act("obey" if client.is_in else "join")

    def view(self, client: Client) -> object:
        return client.epoch, sorted(client.runs), sorted(client.standby)

    def check_rest(self, present: list[Client]) -> None:
        runs = sorted(task for client in present for task in client.runs)
        assert runs == [("0", number) for number in range(self.node.topics.partitions_of(TOPIC))]
        group = self.group
        assert group is not None
        for member in group.members.values():
            twice = {*each_task(member.assigned.active)} & {*each_task(member.assigned.standby)}
            assert not twice, f"{member.member_id} runs {twice}, and has a standby"
