"""Streams groups (KIP-1071): threads of one or two processes that run tasks, with standbys, and one topic that grows.

Checked in every state: no active task is had by two members, no process has a task twice, and no thread that is in runs
what the coordinator does not know it to have (I1); epochs are in order (I2); the records give the same group (I5); no
timer of a member that is gone (I10). Left alone, the threads run every task.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.groups.streams.live import StreamsGroup
from kafka_shim.groups.streams.states import MemberState
from kafka_shim.groups.streams.tasks import Tasks, each_task
from tests.groups.context import GROUP
from tests.groups.exhaustive.world import TOPIC, Epochs, QuietCluster, World
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


class StreamsWorld(World):
    """Clients `a` and `b` are of one process, any other has its own."""

    settings = ("group.streams.initial.rebalance.delay.ms=0", "group.streams.num.standby.replicas=1")
    node: Node

    def __init__(self, names: str, partitions: int) -> None:
        super().__init__(names, partitions)
        self.node.topics.create("changelog", partitions)

    def make_node(self) -> Node:
        return Node("offsets.topic.num.partitions=1", *self.settings)

    def make_client(self, name: str) -> Client:
        return Client(self.node, name, "p" if name in "ab" else name)

    @property
    def group(self) -> StreamsGroup | None:
        group = self.node.service.groups.get(GROUP)
        assert group is None or isinstance(group, StreamsGroup)
        return group

    def key(self) -> object:
        group = self.group
        clients: list[Client] = self.clients
        if group is None:
            return [(each.member_id, each.epoch, each.is_in) for each in clients], self.shared_key()
        members = group.members.values()
        epochs = Epochs(
            group.group_epoch, {epoch for member in members for epoch in (member.epoch, member.previous_epoch)}
        )
        return (
            [
                (
                    epochs.of_client(each.epoch),
                    each.is_in,
                    sorted(each.runs),
                    sorted(each.active),
                    sorted(each.standby),
                )
                for each in clients
            ],
            sorted(
                (
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
                for member in members
            ),
            sorted((member_id, _plain(target)) for member_id, target in group.targets.items()),
            epochs.of(group.target_epoch),
            group.metadata_stale,
            group.metadata_hash,
            group.validated_epoch,
            group.configured is not None,
            [(timer.kind.value, timer.member_id) for timer in self.timers()],
            self.shared_key(),
        )

    def steps_of(self, client: Client) -> Iterable[str]:
        yield "join"
        yield "join, answer lost"
        if client.is_in:
            yield "obey"
            yield "obey, answer lost"
            yield "heartbeat"
            yield "heartbeat, answer lost"
            yield "leave"

    def act(self, client: Client, what: str) -> None:
        client.act(what)

    def change_topic(self, what: str) -> None:
        count = self.node.topics.partitions_of(TOPIC) + 1
        for topic in (TOPIC, "changelog"):
            self.node.create(topic, count)

    def check(self) -> None:
        group = self.group
        if group is None:
            return
        owners: dict[tuple[str, int], str] = {}
        places: set[tuple[str, tuple[str, int]]] = set()
        for member in group.members.values():
            for tasks in (member.assigned, member.pending_revocation):
                for task in each_task(tasks.active):
                    other = owners.setdefault(task, member.member_id)
                    assert other == member.member_id, f"I1: {task} is had by {other} and {member.member_id}"
                for task in (*each_task(tasks.active), *each_task(tasks.standby)):
                    place = member.process_id, task
                    assert place not in places, f"process {place[0]} has {task} twice"
                    places.add(place)
            assert member.epoch <= group.group_epoch, "I2"
            assert group.target_epoch <= group.group_epoch, "I2"
            assert member.state is MemberState.UNREVOKED_TASKS or member.pending_revocation.is_empty
        assert group.running == {task: group.members[owner].process_id for task, owner in owners.items()}
        for client in self.clients:
            found = group.members.get(client.member_id)
            if client.is_in and found is not None:
                known = {*each_task(found.assigned.active), *each_task(found.pending_revocation.active)}
                assert client.runs <= known, f"I1: {client.member_id} runs {client.runs - known}, which others may get"
        for timer in self.timers():
            assert not timer.member_id or timer.member_id in group.members, "I10"
        self.check_records(group)

    def check_records(self, group: StreamsGroup) -> None:
        again = self.reloaded()
        assert isinstance(again, StreamsGroup), "I5"
        for name in (
            "members",
            "targets",
            "group_epoch",
            "target_epoch",
            "metadata_hash",
            "validated_epoch",
            "configs",
            "topology",
            "running",
        ):
            assert getattr(again, name) == getattr(group, name), f"I5: {name}"
        for task in {*again.copies, *group.copies}:
            assert sorted(again.copies[task]) == sorted(group.copies[task]), "I5: copies"

    def settle(self) -> None:
        group = self.group
        if group is None or not group.members:
            return
        present: list[Client] = [each for each in self.clients if each.member_id in group.members]

        def go_on() -> None:
            for client in present:
                client.act("obey" if client.is_in else "join")

        for client in present:
            client.act("join")
        self.until_quiet(lambda: [(each.epoch, sorted(each.runs), sorted(each.standby)) for each in present], go_on)
        runs = sorted(task for client in present for task in client.runs)
        assert runs == [("0", number) for number in range(self.node.topics.partitions_of(TOPIC))]


def _plain(target: Tasks) -> object:
    return [sorted(each_task(tasks)) for tasks in target]
