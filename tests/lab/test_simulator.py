"""Simulated clusters: the same seed gives the same story, and groups settle on any bad network."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_shim.lab.client_assignors import Owned, cooperative_assignor, range_assignor, round_robin_assignor
from kafka_shim.lab.narration import story as narrated
from kafka_shim.testing import Manner, Network, Simulation


def story(seed: int) -> list[str]:
    simulation = Simulation(
        seed=seed, topics={"orders": 12}, network=Network(least=0.001, most=0.2, loss=0.01), watched=True
    )
    members = [simulation.puppet("billing", ["orders"], client_id=f"m{number}") for number in range(6)]
    simulation.run(60)
    members[2].crash()
    simulation.run(120)
    return narrated(simulation.history, "billing")


def test_the_same_seed_gives_the_same_events() -> None:
    lines = story(5)
    assert lines == story(5)
    assert lines != story(6)
    assert any("SESSION_EXPIRED" in line for line in lines)


def owners(simulation: Simulation) -> list[int]:
    return sorted(p for member in simulation.group("billing").members for p in member.owned.get("orders", ()))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("protocols", [["range"], ["roundrobin"], ["cooperative-sticky"]])
def test_every_partition_has_one_owner_after_faults(seed: int, protocols: list[str]) -> None:
    simulation = Simulation(
        seed=seed, brokers=3, topics={"orders": 17}, network=Network(least=0.001, most=0.5, loss=0.02), load_seconds=0.5
    )
    script: dict[str, Any] = {"protocols": protocols, "session_timeout": 10.0, "rebalance_timeout": 30.0}
    members = [simulation.puppet("billing", ["orders"], **script) for _ in range(7)]
    for number, trouble in enumerate((members[0].crash, members[1].leave, members[0].join)):
        simulation.run(20)
        trouble()
        if number == 1:
            simulation.cluster.kill_broker(simulation.cluster.ownership.owner_of("billing").id)
    simulation.scheduler.network = Network()
    simulation.run(200)
    group = simulation.group("billing")
    assert group.is_stable
    assert len(group.members) == 6
    assert owners(simulation) == list(range(17))
    by_id = {puppet.member_id: puppet for puppet in members if puppet.member_id}
    assert {member.member_id: member.owned for member in group.members} == {
        member_id: puppet.owned for member_id, puppet in by_id.items() if puppet.generation == group.generation
    }


def test_ill_behaved_members_do_not_keep_the_others_from_working() -> None:
    simulation = Simulation(seed=1, topics={"orders": 8})
    good = [simulation.puppet("billing", ["orders"], rebalance_timeout=20.0) for _ in range(3)]
    for manner in (
        Manner(never_syncs=True),
        Manner(never_rejoins=True),
        Manner(heartbeat_late=100),
        Manner(joins_twice=True),
    ):
        simulation.puppet("billing", ["orders"], manner=manner, session_timeout=30.0, rebalance_timeout=20.0)
    simulation.run(600)
    assert all(puppet.assignments for puppet in good)
    assert max(puppet.generation for puppet in good) == simulation.group("billing").generation


@pytest.mark.second_stage("its time")
def test_a_thousand_members_for_an_hour() -> None:
    simulation = Simulation(seed=1, topics={"orders": 1000}, network=Network(least=0.001, most=0.05))
    members = [simulation.puppet("billing", ["orders"], heartbeat_interval=15.0) for _ in range(1000)]
    simulation.run(3600)
    assert simulation.group("billing").is_stable
    assert {len(member.owned["orders"]) for member in members} == {1}


# Assignors


def test_range_gives_the_first_members_one_more() -> None:
    topics = {"b": ["t", "u"], "a": ["t"], "c": ["t"]}
    assert range_assignor(topics, {"t": 5, "u": 1}, {}) == {
        "a": {"t": [0, 1]},
        "b": {"t": [2, 3], "u": [0]},
        "c": {"t": [4]},
    }


def test_round_robin_skips_members_without_the_subscription() -> None:
    topics = {"a": ["t"], "b": ["t", "u"]}
    assert round_robin_assignor(topics, {"t": 3, "u": 2}, {}) == {"a": {"t": [0, 2]}, "b": {"t": [1], "u": [0, 1]}}


def test_cooperative_assigns_no_partition_with_another_owner() -> None:
    owned = {"a": {"t": [0, 1, 2, 3]}}
    topics = {"a": ["t"], "b": ["t"]}
    first = cooperative_assignor(topics, {"t": 4}, owned)
    assert first == {"a": {"t": [0, 1]}, "b": {}}
    assert cooperative_assignor(topics, {"t": 4}, first) == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}


@pytest.mark.parametrize("assignor", [range_assignor, round_robin_assignor, cooperative_assignor])
def test_an_assignor_drops_the_partitions_of_a_deleted_topic(assignor: Callable[..., Owned]) -> None:
    owned = {"a": {"t": [0, 1], "deleted": [0]}}
    assert assignor({"a": ["t", "deleted"]}, {"t": 2}, owned) == {"a": {"t": [0, 1]}}
