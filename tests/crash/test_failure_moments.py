"""The four moments at which a coordinator may fail within a rebalance, each with real clients.

They are those of "Handling Coordinator Failures" in the proposal that moved assignment to the clients: before all
members have joined; after the join phase, before all members know its result; before the assignment is stored; after
that, before all members have it. As in Kafka, nothing is stored before the assignment (semantics 5.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_shim.testing import CoordinatorServer
from tests.clients.harness import CLIENTS, Client, ClientProcesses, Member, all_of

pytestmark = pytest.mark.second_stage("servers killed under load")

PARTITIONS = all_of({"t": 4})
GROUP = "g"


@pytest.fixture(params=["kafka-python-3.0", "aiokafka-0.14", "confluent-kafka-2.16"])
def client(request: pytest.FixtureRequest) -> Client:
    return CLIENTS[request.param]


class Coordinators:
    """Two brokers, one of which coordinates the group and will fail; `exchanges` are the requests of the group's
    clients."""

    def __init__(self, server: CoordinatorServer) -> None:
        self.server = server
        self.exchanges: list[dict[str, Any]] = []
        self.first = server.coordinator_of(GROUP)
        self.second = 3 - self.first
        cluster = server.server.cluster
        server.call(cluster.events.listen, lambda events, now: self.exchanges.extend(events))

    def fail(self) -> None:
        """Kill the coordinator without warning."""
        self.server.kill_broker(self.first)
        assert self.server.coordinator_of(GROUP) == self.second

    def senders(self, api: str) -> list[str]:
        """Return the clients whose request to the second coordinator succeeded."""
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
def processes(coordinators: Coordinators) -> Iterator[ClientProcesses]:
    members = ClientProcesses(coordinators.server.bootstrap, GROUP)
    yield members
    members.end()


def start(processes: ClientProcesses, client: Client) -> Member:
    return processes.start(client, topics=["t"], assignors=["range"])


def alone(processes: ClientProcesses, client: Client) -> Member:
    """Start a member that owns all partitions, in the group's first generation."""
    member = start(processes, client)
    processes.shared([member], PARTITIONS, [4])
    member.do("commit", offsets=[["t", 0, 7]])
    return member


def check_recovered(processes: ClientProcesses, members: list[Member]) -> None:
    processes.shared(members, PARTITIONS, [2, 2])
    assert members[0].do("committed", topic="t", partition=0) == 7


def test_a_failure_before_all_have_joined_makes_all_join_again(
    client: Client, coordinators: Coordinators, processes: ClientProcesses
) -> None:
    first = alone(processes, client)
    with coordinators.server.barrier("join-arrived", client_id=first.name) as barrier:
        second = start(processes, client)
        barrier.reached()
        coordinators.fail()
    check_recovered(processes, [first, second])
    assert {first.name, second.name} <= set(coordinators.senders("JoinGroup"))


def test_a_failure_after_the_join_phase_starts_a_new_round(
    client: Client, coordinators: Coordinators, processes: ClientProcesses
) -> None:
    first = alone(processes, client)
    server = coordinators.server
    with (
        server.barrier("leader-sync-arrived") as leader_syncs,
        server.barrier("join-complete", role="follower") as follower_joins,
    ):
        second = start(processes, client)
        follower_joins.reached()
        leader_syncs.reached()
        coordinators.fail()
    check_recovered(processes, [first, second])
    assert {first.name, second.name} <= set(coordinators.senders("JoinGroup"))


def test_a_failure_before_the_assignment_is_stored_makes_all_sync_again(
    client: Client, coordinators: Coordinators, processes: ClientProcesses
) -> None:
    first = alone(processes, client)
    with coordinators.server.barrier("leader-sync-arrived") as barrier:
        second = start(processes, client)
        barrier.reached()
        assert coordinators.server.group(GROUP).now.state == "CompletingRebalance"
        coordinators.fail()
    check_recovered(processes, [first, second])
    assert {first.name, second.name} <= set(coordinators.senders("SyncGroup"))


def test_a_failure_after_the_assignment_is_stored_disturbs_no_other_member(
    client: Client, coordinators: Coordinators, processes: ClientProcesses
) -> None:
    first = alone(processes, client)
    with coordinators.server.barrier("sync-complete", role="follower") as barrier:
        second = start(processes, client)
        barrier.reached()
        processes.wait(lambda: len(first.owns) == 2, "the leader has its assignment")
        generation, rebalances = first.generation, first.rebalances
        coordinators.fail()
    check_recovered(processes, [first, second])
    assert second.generation == generation
    assert first.rebalances == rebalances
    assert first.name not in coordinators.senders("JoinGroup")
