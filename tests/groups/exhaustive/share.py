"""Share groups (KIP-932): members that join, lose answers, leave and fall silent, one topic that grows or is deleted.

Checked in every state: epochs are in order; who has the target epoch has its target assignment; a client that heard its
epoch knows its assignment; an assigned partition has a share state; the records give the same group. Left alone, all
members come to one epoch, and every partition is somebody's.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.persister import Place
from tests.groups.context import GROUP
from tests.groups.exhaustive.world import TOPIC, Epochs, QuietCluster, World, ordered
from tests.groups.share.context import Cluster, Sharer


class Node(QuietCluster, Cluster):
    pass


class Client(Sharer):
    """It says everything again after an answer that got lost, as Kafka's client does."""

    unsure = False

    def act(self, what: str) -> None:
        lost = what.endswith("lost")
        before = self.epoch, self.assigned
        if what.startswith("join"):
            answer = self.join()
        elif what == "leave":
            answer = self.leave()
        else:
            answer = self.heartbeat(topics=self.topics if self.unsure else None)
        if lost:
            # Whoever joins has given everything up.
            self.epoch, self.assigned = (0, set()) if what.startswith("join") else before
            self.unsure = True
        elif answer.error_code or what == "leave":
            self.epoch, self.assigned, self.unsure = 0, set(), False
        else:
            self.unsure = False


class ShareWorld(World):
    node: Node

    def make_node(self) -> Node:
        return Node("offsets.topic.num.partitions=1")

    def make_client(self, name: str) -> Client:
        return Client(self.node, name, [TOPIC])

    @property
    def group(self) -> ShareGroup | None:
        group = self.node.service.groups.get(GROUP)
        assert group is None or isinstance(group, ShareGroup)
        return group

    def key(self) -> object:
        group = self.group
        clients: list[Client] = self.clients
        if group is None:
            return [(each.member_id, each.epoch, each.unsure) for each in clients], self.shared_key()
        members = group.members.values()
        epochs = Epochs(
            group.group_epoch, {epoch for member in members for epoch in (member.epoch, member.previous_epoch)}
        )
        return (
            [(epochs.of_client(each.epoch), sorted(each.assigned), each.unsure) for each in clients],
            sorted(
                (member.member_id, epochs.of(member.epoch), epochs.of(member.previous_epoch), ordered(member.assigned))
                for member in members
            ),
            sorted((member_id, ordered(target)) for member_id, target in group.targets.items()),
            epochs.of(group.target_epoch),
            sorted((topic, sorted(each.partitions)) for topic, each in group.initialized.items()),
            group.metadata_stale,
            group.metadata_hash,
            [(timer.kind.value, timer.member_id) for timer in self.timers()],
            self.shared_key(),
        )

    def steps_of(self, client: Client) -> Iterable[str]:
        yield "join"
        yield "join, answer lost"
        if client.epoch > 0:
            yield "heartbeat"
            yield "heartbeat, answer lost"
            yield "leave"

    def topic_changes(self) -> Iterable[str]:
        return "topic grows", "topic deleted"

    def act(self, client: Client, what: str) -> None:
        client.act(what)

    def check(self) -> None:
        group = self.group
        if group is None:
            return
        for member in group.members.values():
            assert member.epoch <= group.target_epoch <= group.group_epoch
            if member.epoch == group.target_epoch:
                assert member.assigned == group.targets.get(member.member_id, {})
        for client in self.clients:
            found = group.members.get(client.member_id)
            if found is not None and found.epoch == client.epoch and not client.unsure:
                topics = self.node.topics
                assigned = {
                    (topics.topic_name(topic), number) for topic in found.assigned for number in found.assigned[topic]
                }
                assert {each for each in client.assigned if each[0] in topics.by_name} == {
                    each for each in assigned if each[0] is not None
                }, f"{client.member_id} does not know what it was assigned"
        for topic_id, topic in group.initialized.items():
            for number in topic.partitions:
                assert self.shard.share_states.get(Place(GROUP, topic_id, number)) is not None
        assert {timer.member_id for timer in self.timers()} == set(group.members), "I10"
        self.check_records()

    def check_records(self) -> None:
        again, group = self.reloaded(), self.group
        assert isinstance(group, ShareGroup)
        assert isinstance(again, ShareGroup), "I5"
        for name in (
            "members",
            "targets",
            "group_epoch",
            "target_epoch",
            "metadata_hash",
            "initialized",
            "topic_names",
        ):
            assert getattr(again, name) == getattr(group, name), f"I5: {name}"

    def settle(self) -> None:
        group = self.group
        if group is None or not group.members:
            return
        present: list[Client] = [each for each in self.clients if each.member_id in group.members]

        def go_on() -> None:
            for client in present:
                client.act("heartbeat" if client.epoch > 0 else "join")

        self.until_quiet(lambda: [(each.epoch, sorted(each.assigned)) for each in present], go_on)
        there = {(TOPIC, number) for number in range(self.node.topics.partitions_of(TOPIC))}
        assert set().union(*(each.assigned for each in present)) >= there, "a partition is nobody's"
        assert len({each.epoch for each in present}) == 1
