"""Members that compute the assignment of their group, over the wire: on the simulator and on a running server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.experiments.client_assignors.puppets import (
    ClientAssignorPuppet,
    ClientAssignorScript,
    MemberView,
    PuppetAssignor,
    Share,
)
from kafka_shim.lab.replay import Replay
from kafka_shim.lab.scheduler import Network
from kafka_shim.lab.simulator import Simulation
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.testing import CoordinatorServer
from kafka_shim.trace.causes import Cause
from kafka_shim.why.narration import Narrator

EXPERIMENT = ["client-assignors"]
EVERYTHING = sorted(("orders", number) for number in range(12))


def simulation(**options: Any) -> Simulation:
    network = Network(least=0.001, most=0.05)
    return Simulation(topics={"orders": 12}, network=network, seed=7, watched=True, experimental=EXPERIMENT, **options)


def owned(*puppets: ClientAssignorPuppet) -> list[tuple[str, int]]:
    return sorted((topic, number) for each in puppets for topic, numbers in each.owned.items() for number in numbers)


def by_weight(members: Mapping[str, MemberView], partitions: Mapping[str, int]) -> Mapping[str, Share]:
    """Each member gets as many partitions as its metadata says, as far as there are any."""
    free = list(range(partitions["orders"]))
    shares = {}
    for member_id, view in sorted(members.items()):
        numbers, free = free[: int(view.metadata)], free[int(view.metadata) :]
        shares[member_id] = Share({"orders": numbers}, metadata=b"%d members" % len(members))
    return shares


def weighing(weight: int) -> list[PuppetAssignor]:
    return [PuppetAssignor(name="weight", assign=by_weight, metadata=b"%d" % weight)]


def test_members_share_leave_and_die() -> None:
    simulated = simulation()
    first, second, third = (simulated.client_assignor_puppet("billing", ["orders"], client_id=name) for name in "abc")
    simulated.run(40)
    assert owned(first, second, third) == EVERYTHING
    assert [sum(map(len, each.owned.values())) for each in (first, second, third)] == [4, 4, 4]
    third.leave()
    simulated.run(30)
    assert owned(first, second) == EVERYTHING
    second.crash()
    simulated.run(80)
    assert owned(first) == EVERYTHING
    assert simulated.group("billing").is_stable
    assert [each.errors for each in (first, second, third)] == [[], [], []]


def test_a_members_assignor_and_its_metadata_reach_all_members() -> None:
    simulated = simulation()
    first = simulated.client_assignor_puppet("billing", ["orders"], assignors=weighing(8))
    second = simulated.client_assignor_puppet("billing", ["orders"], assignors=weighing(4))
    simulated.run(40)
    assert sorted(sum(map(len, each.owned.values())) for each in (first, second)) == [4, 8]
    assert (first.metadata, second.metadata) == (b"2 members", b"2 members")
    assert simulated.group("billing").protocol == "weight"
    first.say(*weighing(2))
    second.say(*weighing(10))
    simulated.run(40)
    assert [sum(map(len, each.owned.values())) for each in (first, second)] == [2, 10]
    causes = [event["cause"] for _, _, event in simulated.history.since(0, "billing") if event["event"] == "epoch"]
    assert causes[-1] == Cause.SUBSCRIPTION_CHANGED


def test_another_member_computes_after_the_first_dies() -> None:
    simulated, narrator = simulation(), Narrator()
    doomed = simulated.client_assignor_puppet("billing", ["orders"], client_id="doomed", computes=100.0)
    simulated.run(1)
    other = simulated.client_assignor_puppet("billing", ["orders"], client_id="other")
    simulated.run(10)
    assert simulated.group("billing").leader == doomed.member_id
    doomed.crash()
    simulated.run(60)
    assert owned(other) == EVERYTHING
    changes = [e["change"] for _, _, e in simulated.history.since(0, "billing") if e["event"] == "delegation"]
    assert changes == ["requested", "prepared", "member gone", "requested", "prepared", "installed"]
    story = [
        line.text for _, now, event in simulated.history.since(0, "billing") for line in narrator.lines(event, now)
    ]
    assert "doomed is requested to compute the target assignment, epoch 2" in story
    assert "doomed has left the group and no longer computes, epoch 2" in story


def test_a_slow_member_is_skipped_and_its_late_result_refused() -> None:
    simulated = simulation()
    slow = simulated.client_assignor_puppet("billing", ["orders"], computes=50.0, rebalance_timeout=20.0)
    simulated.run(1)
    quick = simulated.client_assignor_puppet("billing", ["orders"])
    simulated.run(60)
    assert owned(slow, quick) == EVERYTHING
    assert (slow.installed, len(quick.installed)) == ([], 1)
    assert ("ConsumerGroupInstallAssignment", ErrorCode.UNKNOWN_MEMBER_ID) in slow.errors


def test_a_topic_is_deleted_before_the_computation_and_during_it() -> None:
    simulated = simulation()
    member = simulated.client_assignor_puppet("billing", ["orders"], computes=2.0)
    simulated.run(1)
    simulated.cluster.delete_topic("orders")
    simulated.run(5)
    simulated.cluster.create_topic("orders", 12)
    simulated.run(3)
    simulated.cluster.delete_topic("orders")
    simulated.run(30)
    assert simulated.group("billing").is_stable
    assert member.owned == {}


def test_a_failing_assignor_changes_no_assignment() -> None:
    def fails(members: Mapping[str, MemberView], partitions: Mapping[str, int]) -> Mapping[str, Share]:
        raise ZeroDivisionError

    simulated = simulation()
    member = simulated.client_assignor_puppet("billing", ["orders"], assignors=[PuppetAssignor(assign=fails)])
    simulated.run(20)
    assert (member.assignor_error, member.owned) == (-1, {})
    assert simulated.group("billing").is_stable


def test_a_group_survives_its_coordinator_before_during_and_after_a_computation() -> None:
    simulated = simulation(brokers=3)
    members = [simulated.client_assignor_puppet("billing", ["orders"], computes=2.0) for _ in range(3)]
    for wait in (1, 2, 9, 30):
        simulated.run(wait)
        node = simulated.cluster.ownership.owner_of("billing").id
        simulated.cluster.kill_broker(node)
        simulated.run(1)
        simulated.cluster.restart_broker(node)
    simulated.run(60)
    assert owned(*members) == EVERYTHING
    assert simulated.group("billing").is_stable


def test_a_static_member_gets_its_partitions_back() -> None:
    simulated = simulation()
    first = simulated.client_assignor_puppet("billing", ["orders"])
    static = simulated.client_assignor_puppet("billing", ["orders"], instance_id="one")
    simulated.run(30)
    had, epoch = dict(static.owned), first.generation
    static.leave()
    simulated.run(5)
    again = simulated.client_assignor_puppet("billing", ["orders"], instance_id="one")
    simulated.run(5)
    assert (again.owned, first.generation) == (had, epoch)


def test_a_journal_of_an_experiment_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    simulated = simulation(journal=path)
    assert simulated.journal is not None
    with simulated.journal:
        member = simulated.client_assignor_puppet("billing", ["orders"])
        simulated.run(20)
    assert owned(member) == EVERYTHING
    with path.open("rb") as lines:
        replay = Replay(lines)
        while replay.step():
            pass
    assert replay.answers > 3


def test_a_second_server_continues_from_the_store_of_the_first() -> None:
    store = MemoryStore()
    settings = {"group.consumer.heartbeat.interval.ms": 100, "group.consumer.min.heartbeat.interval.ms": 100}
    with CoordinatorServer(topics={"orders": 4}, store=store, experimental=EXPERIMENT, config=settings) as server:
        members = [server.client_assignor_puppet("billing", ["orders"], client_id=name) for name in "ab"]
        stable = server.group("billing").stable(members=2)
        assert stable.protocol == "evenly"
        assert [len(member.owned["orders"]) for member in stable.members] == [2, 2]
        assert [member.errors for member in members] == [[], []]
        assert members[0].installed or members[1].installed
        assert [(member.metadata, member.assignor_error) for member in members] == [(b"", 0), (b"", 0)]
        members[0].say(PuppetAssignor(metadata=b"new"))
        stable = server.group("billing").stable(members=2, generation=stable.generation + 1)
    # The records have the computed assignment.
    with CoordinatorServer(topics={"orders": 4}, store=store, experimental=EXPERIMENT, config=settings) as server:
        now = server.group("billing").now
        assert (now.generation, now.leader) == (stable.generation, None)


def test_a_puppet_needs_the_experiment_and_an_assignor() -> None:
    with (
        CoordinatorServer(topics={"orders": 4}) as server,
        pytest.raises(ValueError, match="does not serve client-assignors"),
    ):
        server.client_assignor_puppet("billing", ["orders"])
    with pytest.raises(ValueError, match="assignors must be one or more PuppetAssignor"):
        ClientAssignorScript(group="billing", assignors=[])
    with pytest.raises(ValueError, match="assign must be a function"):
        PuppetAssignor(assign="evenly")  # type: ignore[arg-type]
