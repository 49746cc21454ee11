"""Consumers that register with a controller, over the wire: rounds, offsets, rewinds, deaths and failovers."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.experiments.registered.messages import (
    ControllerCreateGroupRequest,
    ControllerCreateGroupResponse,
    ControllerDeleteGroupRequest,
    ControllerDeleteGroupResponse,
    ControllerListGroupsRequest,
    ControllerListGroupsResponse,
)
from kafka_shim.experiments.registered.puppets import RegisteredPuppet, RegisteredScript
from kafka_shim.lab.scheduler import Network
from kafka_shim.lab.simulator import Simulation
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.testing import CoordinatorServer
from kafka_shim.trace.causes import Cause
from kafka_shim.why.narration import Narrator
from tests.server.wire import Client

EXPERIMENT = ["designs"]
EVERYTHING = sorted(("orders", number) for number in range(6))


def simulation(**options: Any) -> Simulation:
    network = Network(least=0.001, most=0.02)
    return Simulation(topics={"orders": 6}, network=network, seed=7, watched=True, experimental=EXPERIMENT, **options)


def owned(*puppets: RegisteredPuppet) -> list[tuple[str, int]]:
    return sorted((topic, number) for each in puppets for topic, numbers in each.owned.items() for number in numbers)


def causes(simulated: Simulation) -> list[str]:
    events = [event for _, _, event in simulated.history.since(0, "billing") if event["event"] == "state"]
    return [event["cause"] for event in events if event["to"] == "Registering"]


def test_all_members_register_again_after_a_join_or_a_death() -> None:
    simulated = simulation()
    first = simulated.registered_puppet("billing", ["orders"], client_id="a", heartbeat_interval=4.0)
    simulated.run(2)
    assert owned(first) == EVERYTHING
    assert set(first.positions.values()) == {-1}
    second = simulated.registered_puppet("billing", ["orders"], client_id="b")
    simulated.run(0.5)
    # The newcomer waits, and the first member has not been called yet.
    assert (owned(first), owned(second)) == (EVERYTHING, [])
    simulated.run(3)
    assert owned(first, second) == EVERYTHING
    assert len(owned(first)) == len(owned(second)) == 3
    assert first.generation == second.generation == 2
    second.leave()
    simulated.run(20)
    assert owned(first) == EVERYTHING
    assert causes(simulated) == [Cause.NEW_MEMBER, Cause.NEW_MEMBER, Cause.SESSION_EXPIRED]


def test_offsets_come_with_the_partitions() -> None:
    simulated = simulation()
    first = simulated.registered_puppet("billing", ["orders"], client_id="a")
    simulated.run(2)
    first.commit({("orders", 0): 7, ("orders", 4): 40})
    simulated.run(1)
    second = simulated.registered_puppet("billing", ["orders"], client_id="b")
    simulated.run(3)
    assert first.positions | second.positions == dict.fromkeys(EVERYTHING, 0) | {("orders", 0): 7, ("orders", 4): 40}
    stale = first.generation - 1
    first.commit({("orders", 0): 1}, generation=stale)
    simulated.run(1)
    assert ("OffsetCommit", E.ILLEGAL_GENERATION) in first.errors


def test_a_growing_topic_makes_all_members_register_again() -> None:
    simulated = simulation()
    members = [simulated.registered_puppet("billing", ["orders"]) for _ in range(2)]
    simulated.run(5)
    topic = simulated.cluster.topics.named("orders")
    assert topic is not None
    simulated.cluster.topics.grow(topic, [[1], [1]])
    simulated.run(5)
    assert len(owned(*members)) == 8
    assert causes(simulated)[-1] == Cause.TOPIC_METADATA_CHANGED


def test_a_rewind_calls_the_owners_alone_and_they_begin_there() -> None:
    simulated = simulation()
    first = simulated.registered_puppet("billing", ["orders"], client_id="a")
    second = simulated.registered_puppet("billing", ["orders"], client_id="b")
    simulated.run(5)
    (affected,) = [each for each in (first, second) if ("orders", 5) in owned(each)]
    (other,) = {first, second} - {affected}
    assignments = other.assignments
    other.rewind({("orders", 5): 123})
    simulated.run(3)
    assert other.rewound == {("orders", 5): 123}
    assert affected.positions["orders", 5] == 123
    assert other.assignments == assignments
    assert affected.generation == other.generation
    narrator = Narrator()
    story = [
        line.text for _, now, event in simulated.history.since(0, "billing") for line in narrator.lines(event, now)
    ]
    assert story[-2:] == ["the owners of rewound partitions must register", "generation 2 is stable"]
    assert "all members must register, cause NEW_MEMBER: b is new" in "\n".join(story)
    other.rewind({("orders", 6): 1})
    other.rewind({("orders", 5): -1})
    simulated.run(1)
    assert other.errors == [("RewindConsumer", E.UNKNOWN_TOPIC_OR_PARTITION), ("RewindConsumer", E.OFFSET_OUT_OF_RANGE)]


def test_a_rewind_counts_after_its_owner_died_and_after_a_failover() -> None:
    simulated = simulation(brokers=2)
    first = simulated.registered_puppet("billing", ["orders"], client_id="a")
    simulated.run(3)
    first.rewind({("orders", 1): 11})
    simulated.run(0.1)
    assert simulated.group("billing").state == "Registering"
    first.crash()
    owner = simulated.cluster.ownership.owner_of("billing").id
    simulated.cluster.kill_broker(owner)
    second = simulated.registered_puppet("billing", ["orders"], client_id="b")
    simulated.run(30)
    assert second.positions["orders", 1] == 11
    assert owned(second) == EVERYTHING


def test_a_member_that_never_registers_is_removed() -> None:
    simulated = simulation()
    deaf = simulated.registered_puppet("billing", ["orders"], client_id="deaf")
    simulated.run(2)
    # It does not hear that it is called.
    deaf._heartbeat_answered = lambda answer, now: deaf._beat_later(now)  # type: ignore[method-assign]
    other = simulated.registered_puppet("billing", ["orders"], client_id="other")
    simulated.run(9)
    assert owned(other) == []
    simulated.run(5)
    assert owned(other) == EVERYTHING
    changes = [(e["member_id"], e["change"]) for _, _, e in simulated.history.since(0) if e["event"] == "member"]
    assert (deaf.member_id, "removed") in changes


def test_members_survive_failovers_and_a_bad_network() -> None:
    simulated = Simulation(
        topics={"orders": 6},
        network=Network(least=0.001, most=0.3, loss=0.01),
        brokers=3,
        seed=5,
        experimental=EXPERIMENT,
    )
    members = [simulated.registered_puppet("billing", ["orders"]) for _ in range(3)]
    for _ in range(4):
        simulated.run(7)
        owner = simulated.cluster.ownership.owner_of("billing").id
        simulated.cluster.kill_broker(owner)
        simulated.run(2)
        simulated.cluster.restart_broker(owner)
    simulated.scheduler.network = Network()
    simulated.run(60)
    assert owned(*members) == EVERYTHING
    assert len({each.generation for each in members}) == 1


def test_an_ephemeral_group_goes_with_its_last_member() -> None:
    store = MemoryStore()
    simulated = simulation(store=store)
    member = simulated.registered_puppet("billing", ["orders"], ephemeral=True)
    simulated.run(2)
    member.commit({("orders", 0): 7})
    simulated.run(1)
    member.crash()
    simulated.run(20)
    assert simulated.group("billing").state == "Dead"
    assert not any(list(store.load(partition)) for partition in range(50))


def ask(client: Client, request: Any, response: type[Any]) -> Any:
    return client.ask(request, 0, response)


def create(client: Client, name: str, timeout: int = 10_000, topics: list[str] | None = None) -> int:
    request = ControllerCreateGroupRequest(name, timeout, ["orders"] if topics is None else topics)
    return int(ask(client, request, ControllerCreateGroupResponse).error_code)


def delete(client: Client, *names: str) -> tuple[list[str], int]:
    answer = ask(client, ControllerDeleteGroupRequest(list(names)), ControllerDeleteGroupResponse)
    return answer.deleted, answer.error_code


def test_groups_are_created_listed_and_deleted_by_request() -> None:
    with CoordinatorServer(topics={"orders": 4}, experimental=EXPERIMENT) as server, Client(server.bootstrap) as client:
        assert create(client, "billing") == 0
        assert create(client, "billing") == E.DUPLICATE_RESOURCE
        assert create(client, "") == E.INVALID_GROUP_ID
        assert create(client, "none", topics=[]) == E.INVALID_REQUEST
        assert create(client, "none", timeout=0) == E.INVALID_SESSION_TIMEOUT
        member = server.registered_puppet("billing", ["orders"], client_id="a")
        server.group("billing").stable(owners={"a": {"orders": range(4)}})
        assert member.positions["orders", 2] == -1
        member.rewind({("orders", 2): 5})
        assert server.group("billing").committed("orders", 2) == 5
        create(client, "idle")
        listed = ask(client, ControllerListGroupsRequest(), ControllerListGroupsResponse)
        assert {(each.group, len(each.members), each.session_timeout) for each in listed.groups} == {
            ("billing", 1, 10_000),
            ("idle", 0, 10_000),
        }
        (group,) = ask(client, ControllerListGroupsRequest(["billing"]), ControllerListGroupsResponse).groups
        assert (f"{group.host}:{group.port}", group.topics) == (server.bootstrap, ["orders"])
        unknown = ask(client, ControllerListGroupsRequest(["nobody", "idle"]), ControllerListGroupsResponse)
        assert (unknown.error_code, [each.group for each in unknown.groups]) == (E.GROUP_ID_NOT_FOUND, ["idle"])
        assert delete(client, "billing", "idle", "nobody") == (["idle"], E.NON_EMPTY_GROUP)


def test_a_server_names_the_controller_on_another_broker() -> None:
    with CoordinatorServer(topics={"orders": 4}, brokers=2, experimental=EXPERIMENT) as server:
        broker = server.coordinator_of("billing")
        here, there = server.bootstrap.split(",") if broker == 1 else reversed(server.bootstrap.split(","))
        with Client(here) as client, Client(there) as other:
            assert create(other, "billing") == E.NOT_COORDINATOR
            assert create(client, "billing") == 0
            (group,) = ask(other, ControllerListGroupsRequest(["billing"]), ControllerListGroupsResponse).groups
            assert (group.broker_id, f"{group.host}:{group.port}", group.topics) == (broker, here, [])
            assert ask(other, ControllerListGroupsRequest(), ControllerListGroupsResponse).groups == []


def test_a_puppet_needs_the_experiment() -> None:
    with (
        CoordinatorServer(topics={"orders": 4}) as server,
        pytest.raises(ValueError, match="does not serve designs"),
    ):
        server.registered_puppet("billing", ["orders"])
    with pytest.raises(ValueError, match="session_timeout must be longer"):
        RegisteredScript(group="billing", topics=["orders"], session_timeout=0)
