"""The four moments at which a coordinator may fail in a rebalance, each with real clients.

They are those of "Handling Coordinator Failures" in the proposal that moved assignment to the clients: before everybody
has joined; after the join phase, before everybody knows of it; before the assignment is stored; after that, before
everybody has it. What is stored is what Kafka stores: nothing before the assignment (semantics 5.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_shim.testing import CoordinatorServer
from tests.clients.harness import CLIENTS, Client, Crew, Member, all_of

PARTITIONS = all_of({"t": 4})
GROUP = "g"


@pytest.fixture(params=["kafka-python-3.0", "aiokafka-0.14", "confluent-kafka-2.16"])
def client(request: pytest.FixtureRequest) -> Client:
    return CLIENTS[request.param]


class Coordinators:
    """Two brokers, one of which coordinates the group and will fail; `exchanges` is what the group's clients said."""

    def __init__(self, server: CoordinatorServer) -> None:
        self.server = server
        self.exchanges: list[dict[str, Any]] = []
        self.first = server.coordinator_of(GROUP)
        self.second = 3 - self.first
        cluster = server.server.cluster
        server.call(cluster.events.listen, lambda events, now: self.exchanges.extend(events))

    def fail(self) -> None:
        """The coordinator is gone from one moment to the next."""
        self.server.kill_broker(self.first)
        assert self.server.coordinator_of(GROUP) == self.second

    def senders(self, api: str) -> list[str]:
        """The clients to which the second coordinator has answered this without an error."""
        return [
            event["client_id"]
            for event in self.server.call(lambda: list(self.exchanges))
            if event["event"] == "exchange" and (event["node"], event["api"], event["error"]) == (self.second, api, 0)
        ]


@pytest.fixture
def coordinators() -> Iterator[Coordinators]:
    with CoordinatorServer(brokers=2, topics={"t": 4}) as server:
        yield Coordinators(server)


@pytest.fixture
def crew(coordinators: Coordinators) -> Iterator[Crew]:
    members = Crew(coordinators.server.bootstrap, GROUP)
    yield members
    members.end()


def start(crew: Crew, client: Client) -> Member:
    return crew.start(client, topics=["t"], assignors=["range"])


def alone(crew: Crew, client: Client) -> Member:
    """A member that has everything, in the group's first generation."""
    member = start(crew, client)
    crew.shared([member], PARTITIONS, [4])
    member.do("commit", offsets=[["t", 0, 7]])
    return member


def check_recovered(crew: Crew, members: list[Member]) -> None:
    crew.shared(members, PARTITIONS, [2, 2])
    assert members[0].do("committed", topic="t", partition=0) == 7


def test_before_all_have_joined_everybody_joins_again_at_the_new_coordinator(
    client: Client, coordinators: Coordinators, crew: Crew
) -> None:
    first = alone(crew, client)
    with coordinators.server.barrier("join-arrived", client_id=first.name) as barrier:
        second = start(crew, client)
        barrier.reached()
        coordinators.fail()
    check_recovered(crew, [first, second])
    assert {first.name, second.name} <= set(coordinators.senders("JoinGroup"))


def test_before_all_know_that_the_join_phase_is_over_nobody_is_left_in_the_old_round(
    client: Client, coordinators: Coordinators, crew: Crew
) -> None:
    first = alone(crew, client)
    server = coordinators.server
    with (
        server.barrier("leader-sync-arrived") as leader_syncs,
        server.barrier("join-complete", role="follower") as follower_joins,
    ):
        second = start(crew, client)
        follower_joins.reached()
        leader_syncs.reached()
        coordinators.fail()
    check_recovered(crew, [first, second])
    assert {first.name, second.name} <= set(coordinators.senders("JoinGroup"))


def test_before_the_assignment_is_stored_everybody_synchronises_again(
    client: Client, coordinators: Coordinators, crew: Crew
) -> None:
    first = alone(crew, client)
    with coordinators.server.barrier("leader-sync-arrived") as barrier:
        second = start(crew, client)
        barrier.reached()
        assert coordinators.server.group(GROUP).now.state == "CompletingRebalance"
        coordinators.fail()
    check_recovered(crew, [first, second])
    assert {first.name, second.name} <= set(coordinators.senders("SyncGroup"))


def test_after_the_assignment_is_stored_who_misses_it_gets_it_and_nobody_else_is_disturbed(
    client: Client, coordinators: Coordinators, crew: Crew
) -> None:
    first = alone(crew, client)
    with coordinators.server.barrier("sync-complete", role="follower") as barrier:
        second = start(crew, client)
        barrier.reached()
        crew.wait(lambda: len(first.owns) == 2, "the leader has its assignment")
        generation, rebalances = first.generation, first.rebalances
        coordinators.fail()
    check_recovered(crew, [first, second])
    assert second.generation == generation
    assert first.rebalances == rebalances
    assert first.name not in coordinators.senders("JoinGroup")
