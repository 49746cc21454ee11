"""Share groups (KIP-932): members that join, lose answers, leave and fall silent, one topic that grows or is deleted.

Checked in every state: epochs are in order; a member at the target epoch has its target assignment; a client that heard
its epoch knows its assignment; an assigned partition has a share state; the records give the same group. Without
further events, all members come to one epoch, and every partition has a member.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_shim.groups.assignors.spec import Partitions
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.persister import Place
from kafka_shim.groups.share.records import Member
from tests.groups.context import GROUP
from tests.groups.exhaustive.epochs import EpochWorld
from tests.groups.exhaustive.world import TOPIC, Epochs, QuietCluster, ordered
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
            # A client that joins has given everything up.
            self.epoch, self.assigned = (0, set()) if what.startswith("join") else before
            self.unsure = True
        elif answer.error_code or what == "leave":
            self.epoch, self.assigned, self.unsure = 0, set(), False
        else:
            self.unsure = False


class ShareWorld(EpochWorld[ShareGroup]):
    made = ShareGroup
    of_records = (
        "members",
        "targets",
        "group_epoch",
        "target_epoch",
        "metadata_hash",
        "initialized",
        "topic_names",
    )
    node: Node

    def make_node(self) -> Node:
        return Node("offsets.topic.num.partitions=1")

    def make_client(self, name: str) -> Client:
        return Client(self.node, name, [TOPIC])

    # States

    def absent_key(self, client: Client) -> tuple[Any, ...]:
        return client.member_id, client.epoch, client.unsure

    def client_key(self, client: Client, epochs: Epochs) -> tuple[Any, ...]:
        return epochs.of_client(client.epoch), sorted(client.assigned), client.unsure

    def member_key(self, group: ShareGroup, member: Member, epochs: Epochs) -> tuple[Any, ...]:
        return (
            member.member_id,
            epochs.of(member.epoch),
            epochs.of(member.previous_epoch),
            ordered(member.assigned),
        )

    def target_key(self, target: Partitions) -> object:
        return ordered(target)

    def other_key(self, group: ShareGroup) -> object:
        return sorted((topic, sorted(each.partitions)) for topic, each in group.initialized.items())

    # Steps

    def steps_of(self, client: Client) -> Iterable[str]:
        yield "join"
        yield "join, answer lost"
        if client.epoch > 0:
            yield "heartbeat"
            yield "heartbeat, answer lost"
            yield "leave"

    def topic_changes(self) -> Iterable[str]:
        return ("topic grows", "topic deleted") if TOPIC in self.node.topics.by_name else ("topic grows",)

    def change_topic(self, what: str) -> None:
        super().change_topic(what)
        if what == "topic deleted":
            # Another topic may come to have the name.
            for client in self.clients:
                client.assigned = set()

    # Invariants

    def check_group(self, group: ShareGroup) -> None:
        for member in group.members.values():
            assert member.epoch <= group.target_epoch, "I2"
            if member.epoch == group.target_epoch:
                assert member.assigned == group.targets.get(member.member_id, {})
        topics = self.node.topics
        for client in self.clients:
            found = group.members.get(client.member_id)
            if found is not None and found.epoch == client.epoch and not client.unsure:
                assigned = {
                    (topics.topic_name(topic), number) for topic in found.assigned for number in found.assigned[topic]
                }
                assert {each for each in client.assigned if each[0] in topics.by_name} == {
                    each for each in assigned if each[0] is not None
                }, f"{client.member_id} does not know what it was assigned"
        for topic_id, topic in group.initialized.items():
            for number in topic.partitions:
                assert group.share_states.get(Place(GROUP, topic_id, number)) is not None
        assert {timer.member_id for timer in self.timers()} == set(group.members), "I10"

    def go_on(self, client: Client) -> None:
        client.act("heartbeat" if client.epoch > 0 else "join")

    def view(self, client: Client) -> object:
        return client.epoch, sorted(client.assigned)

    def check_rest(self, present: list[Client]) -> None:
        there = {(TOPIC, number) for number in range(self.node.topics.partitions_of(TOPIC))}
        assert set().union(*(each.assigned for each in present)) >= there, "a partition is nobody's"
        assert len({each.epoch for each in present}) == 1
