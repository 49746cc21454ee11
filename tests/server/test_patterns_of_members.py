"""Patterns of consumer groups on a server with ACLs: the topics of each member."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_shim.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_shim.security.config import PATTERN_TOPICS
from kafka_shim.testing import CoordinatorServer
from tests.server.test_access import CONFIG, As
from tests.waiting import until

USERS = {"alice": "a", "bob": "a"}
TOPICS = {"of-alice": 1, "of-bob": 1, "of-both": 1, "hidden": 1}


@pytest.fixture
def server(request: Any) -> Iterator[CoordinatorServer]:
    config = CONFIG | {"group.consumer.regex.refresh.interval.ms": 30_000} | getattr(request, "param", {})
    with CoordinatorServer(topics=TOPICS, config=config, users=USERS) as server:
        server.clock.freeze()
        for user in USERS:
            server.allow(user, "READ", group="g")
            server.allow(user, "READ", topic=f"of-{user}")
            server.allow(user, "READ", topic="of-both")
        yield server


class Member:
    """A member of group g with the pattern of all topics."""

    def __init__(self, server: CoordinatorServer, user: str, name: str = "", pattern: str = ".*") -> None:
        self.server = server
        self.wire = As(server, user)
        self.id = name or user
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self.beat(rebalance_timeout_ms=60_000, subscribed_topic_names=[], subscribed_topic_regex=pattern,
                  topic_partitions=[])  # fmt: skip

    def beat(self, **fields: Any) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=self.id, member_epoch=self.epoch, **fields)
        answer = self.wire.ask(request, 1, ConsumerGroupHeartbeatResponse)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {each.topic_id: list(each.partitions) for each in answer.assignment.topic_partitions}

    def settle(self) -> None:
        """Send a heartbeat, and report the partitions in the answer."""
        self.beat()
        owned = [(topic, partitions) for topic, partitions in self.owned.items()]
        self.beat(topic_partitions=[TopicPartitions(topic, partitions) for topic, partitions in owned])

    @property
    def topics(self) -> set[str]:
        names = self.server.call(lambda: {i: self.server.server.cluster.topics.topic_name(i) for i in self.owned})
        return set(names.values())


def settle(*members: Member) -> list[set[str]]:
    """Let members send heartbeats until their group has settled; return the topics of each."""
    for _ in range(4):
        for member in members:
            member.settle()
            member.server.clock.advance(1.5)
    return [member.topics for member in members]


def refresh(server: CoordinatorServer) -> None:
    """Let the next heartbeat resolve the patterns."""
    server.clock.advance(31)


def test_a_pattern_leaves_out_topics_that_its_member_may_not_describe(server: CoordinatorServer) -> None:
    alice = Member(server, "alice")
    assert settle(alice) == [{"of-alice", "of-both"}]


def test_each_member_has_topics_of_its_own_principal(server: CoordinatorServer) -> None:
    alice, bob = Member(server, "alice"), Member(server, "bob")
    refresh(server)
    of_alice, of_bob = settle(alice, bob)
    assert of_alice | of_bob == {"of-alice", "of-bob", "of-both"}
    assert "of-alice" in of_alice
    assert "of-bob" in of_bob
    assert not of_alice & of_bob


@pytest.mark.parametrize("order", [("alice", "bob"), ("bob", "alice")])
@pytest.mark.parametrize("server", [{PATTERN_TOPICS: "group"}], indirect=True)
def test_the_topics_of_one_member_count_for_all_as_in_kafka(server: CoordinatorServer, order: tuple[str, str]) -> None:
    members = {user: Member(server, user) for user in order}
    first, second = (members[user] for user in order)
    settle(first, second)
    refresh(server)
    topics = set().union(*settle(second, first))
    assert topics == {f"of-{order[1]}", "of-both"}


def test_a_grant_counts_when_the_pattern_is_resolved_again(server: CoordinatorServer) -> None:
    alice, bob = Member(server, "alice"), Member(server, "bob")
    refresh(server)
    settle(alice, bob)
    server.allow("alice", "READ", topic="hidden")
    assert "hidden" not in set().union(*settle(alice, bob))
    refresh(server)
    of_alice, of_bob = settle(alice, bob)
    assert "hidden" in of_alice
    assert "hidden" not in of_bob


def test_a_grant_of_a_topic_of_others_counts_for_the_member(server: CoordinatorServer) -> None:
    alice, bob = Member(server, "alice"), Member(server, "bob")
    refresh(server)
    settle(alice, bob)
    server.allow("bob", "READ", topic="of-alice")
    server.deny("alice", "READ", topic="of-alice")
    server.deny("alice", "DESCRIBE", topic="of-alice")
    refresh(server)
    of_alice, of_bob = settle(alice, bob)
    assert "of-alice" in of_bob
    assert "of-alice" not in of_alice


def test_a_new_member_has_topics_that_nobody_could_describe_before(server: CoordinatorServer) -> None:
    alice = Member(server, "alice")
    settle(alice)
    refresh(server)
    settle(alice)
    bob = Member(server, "bob")
    refresh(server)
    of_alice, of_bob = settle(alice, bob)
    assert "of-bob" in of_bob
    assert "of-bob" not in of_alice


def test_another_principal_with_the_member_id_has_topics_of_its_own(server: CoordinatorServer) -> None:
    member = Member(server, "alice", "m")
    assert settle(member) == [{"of-alice", "of-both"}]
    member.wire = As(server, "bob")
    refresh(server)
    assert settle(member) == [{"of-bob", "of-both"}]


def test_members_keep_their_topics_when_their_group_is_loaded_again(server: CoordinatorServer) -> None:
    alice, bob = Member(server, "alice"), Member(server, "bob")
    refresh(server)
    before = settle(alice, bob)
    server.call(lambda: server.server.cluster.ownership.reload(set(range(50)), False))
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="bob", member_epoch=bob.epoch)
    until(lambda: bob.wire.ask(beat, 1, ConsumerGroupHeartbeatResponse).error_code == 0)
    carol = Member(server, "bob", "carol")
    topics = settle(alice, bob, carol)
    assert topics[0] >= {"of-alice"}
    assert set().union(*topics) == set().union(*before)
