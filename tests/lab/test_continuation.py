"""Continuations of a recorded run from any moment: puppets take the places of its clients."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
import trio

from kafka_shim.apis.streams_group_heartbeat import KeyValue, Subtopology, TopicInfo, Topology
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.lab.continuation import Continuation
from kafka_shim.lab.puppets import Puppet
from kafka_shim.lab.replay import Replay, TooEarly
from kafka_shim.lab.snapshots import snapshot
from kafka_shim.server.journal import Journal
from kafka_shim.testing import Network, Simulation
from kafka_shim.testing.kit import Kit
from kafka_shim.testing.sandbox import Sandbox
from tests.lab.test_replay import record

SEED = int(os.environ.get("FUZZ_SEED", 0))
RUNS = range(SEED, SEED + (40 if "FUZZ_SECONDS" in os.environ else 3))


def recorded(path: Path, **simulation: Any) -> tuple[Simulation, Journal]:
    run = Simulation(topics={"orders": 6}, journal=path, **simulation)
    assert run.journal is not None
    return run, run.journal


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()[1:]]


@asynccontextmanager
async def continued(path: Path, until: int) -> AsyncIterator[tuple[Kit, Continuation]]:
    """Continue the run of a journal after an input."""
    with path.open("rb") as lines:
        replay = Replay(lines)
        sandbox = Sandbox(replay)
        replay.run(until_seq=until)
    async with trio.open_nursery() as nursery:
        kit, continuation = await sandbox.serve(("127.0.0.1", 0), nursery)
        yield kit, continuation
        kit.server.stop()
        await kit.server.gone.wait()
        nursery.cancel_scope.cancel()


def with_a_kill(path: Path) -> int:
    """Record two members, one of which dies and expires; return the input before its death."""
    simulation, journal = recorded(path)
    with journal:
        first, _ = (
            simulation.puppet("billing", ["orders"], client_id=name, session_timeout=10.0) for name in ("a", "b")
        )
        simulation.run(20)
        first.crash()
        simulation.run(60)
        assert simulation.group("billing").generation == 2
    return next(line["seq"] for line in lines_of(path) if line["in"] == "lost") - 1


async def test_a_continuation_without_the_kill_keeps_the_group(tmp_path: Path) -> None:
    before = with_a_kill(tmp_path / "journal")
    async with continued(tmp_path / "journal", before) as (kit, continuation):
        assert [puppet.script.client_id for puppet in continuation.puppets] == ["a", "b"]
        then = snapshot(kit.cluster, "billing")
        seen = kit.history.seen
        kit.advance(3600)
        assert snapshot(kit.cluster, "billing") == then
        assert (then.state, then.generation, len(then.members)) == ("Stable", 1, 2)
        assert {event.event["event"] for event in kit.history.since(seen, "billing")} <= {"exchange"}
        assert [puppet.errors for puppet in continuation.puppets] == [[], []]


async def test_a_continuation_rebalances_for_one_member_more_or_less(tmp_path: Path) -> None:
    before = with_a_kill(tmp_path / "journal")
    async with continued(tmp_path / "journal", before) as (kit, continuation):
        kit.puppet("billing", ["orders"], client_id="c")
        kit.advance(10)
        group = snapshot(kit.cluster, "billing")
        assert (group.is_stable, group.generation, sorted(member.client_id for member in group.members)) == (
            True,
            2,
            ["a", "b", "c"],
        )
        assert [len(member.owned["orders"]) for member in group.members] == [2, 2, 2]
        continuation.puppets[0].crash()
        kit.advance(20)
        group = snapshot(kit.cluster, "billing")
        assert (group.is_stable, group.generation, len(group.members)) == (True, 3, 2)
        causes = [each.event["cause"] for each in kit.history.since(0, "billing") if each.event["event"] == "round"]
        assert causes == ["NEW_MEMBER", "NEW_MEMBER", "SESSION_EXPIRED"]


async def test_a_repeated_kill_ends_the_session_at_the_same_time(tmp_path: Path) -> None:
    before = with_a_kill(tmp_path / "journal")
    with (tmp_path / "journal").open("rb") as lines:
        whole = Replay(lines)
        while whole.cluster.ownership.owner_of("billing").groups.groups.get("billing") is None or (
            snapshot(whole.cluster, "billing").generation < 2
        ):
            assert whole.step()
        missed = whole.now
    async with continued(tmp_path / "journal", before) as (kit, continuation):
        continuation.puppets[0].crash()
        kit.advance(missed - kit.clock() - 0.1)
        assert snapshot(kit.cluster, "billing").generation == 1
        kit.advance(0.2)
        # Its session ran out then, and the other joins again at its next heartbeat.
        assert snapshot(kit.cluster, "billing").generation == 2


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "static", "consumer", "consumer static"])
async def test_members_of_every_protocol_are_played(protocol: str, tmp_path: Path) -> None:
    simulation, journal = recorded(tmp_path / "journal")
    with journal:
        for number in range(3):
            instance = f"i{number}" if "static" in protocol else None
            if protocol.startswith("consumer"):
                simulation.consumer_puppet("billing", ["orders"], instance_id=instance)
            else:
                offered = ["range"] if protocol == "static" else [protocol]
                simulation.puppet("billing", ["orders"], protocols=offered, instance_id=instance)
            simulation.run(20)
    last = lines_of(tmp_path / "journal")[-1]["seq"]
    async with continued(tmp_path / "journal", last) as (kit, continuation):
        then = snapshot(kit.cluster, "billing")
        kit.advance(600)
        assert snapshot(kit.cluster, "billing") == then
        assert then.is_stable
        assert sorted(partition for puppet in continuation.puppets for partition in puppet.owned["orders"]) == [
            *range(6)
        ]
        assert [puppet.errors for puppet in continuation.puppets] == [[], [], []]
        continuation.puppets[0].leave()
        kit.advance(100)
        group = snapshot(kit.cluster, "billing")
        # A static member of the classic protocol says that it leaves, of the consumer protocol that it comes back.
        assert (group.is_stable, group.generation > then.generation, len(group.members)) == (True, True, 2)


async def test_a_continuation_completes_a_reconciliation(tmp_path: Path) -> None:
    """Stop while a member must give up partitions for another."""
    simulation, journal = recorded(tmp_path / "journal")
    with journal:
        simulation.consumer_puppet("billing", ["orders"], client_id="a", think=100.0)
        simulation.run(20)
        simulation.consumer_puppet("billing", ["orders"], client_id="b")
        simulation.run(20)
        assert simulation.group("billing").state == "Reconciling"
    last = lines_of(tmp_path / "journal")[-1]["seq"]
    async with continued(tmp_path / "journal", last) as (kit, continuation):
        assert [len(puppet.owned.get("orders", ())) for puppet in continuation.puppets] == [6, 0]
        kit.advance(30)
        assert snapshot(kit.cluster, "billing").is_stable
        assert [len(puppet.owned["orders"]) for puppet in continuation.puppets] == [3, 3]


async def test_a_group_that_migrates_is_played_by_both_protocols(tmp_path: Path) -> None:
    simulation, journal = recorded(tmp_path / "journal", config={"group.consumer.migration.policy": "bidirectional"})
    with journal:
        for _ in range(2):
            simulation.puppet("billing", ["orders"], protocols=["range"])
        simulation.run(20)
        simulation.consumer_puppet("billing", ["orders"])
        simulation.run(60)
    last = lines_of(tmp_path / "journal")[-1]["seq"]
    async with continued(tmp_path / "journal", last) as (kit, continuation):
        then = snapshot(kit.cluster, "billing")
        kit.advance(300)
        assert snapshot(kit.cluster, "billing") == then
        assert (then.is_stable, len(continuation.puppets)) == (True, 3)
        assert [puppet.errors for puppet in continuation.puppets] == [[], [], []]


async def test_members_of_a_share_group_are_played(tmp_path: Path) -> None:
    simulation, journal = recorded(tmp_path / "journal")
    with journal:
        for name in "ab":
            simulation.share_puppet("work", ["orders"], client_id=name)
            simulation.run(20)
    async with continued(tmp_path / "journal", lines_of(tmp_path / "journal")[-1]["seq"]) as (kit, continuation):
        then = snapshot(kit.cluster, "work")
        assert (then.state, len(then.members), continuation.unplayed) == ("Stable", 2, [])
        had = [puppet.owned for puppet in continuation.puppets]
        assert sorted({number for owned in had for number in owned["orders"]}) == [*range(6)]
        kit.advance(600)
        assert snapshot(kit.cluster, "work") == then
        assert [(puppet.owned, puppet.errors) for puppet in continuation.puppets] == [(owned, []) for owned in had]
        continuation.puppets[0].crash()
        kit.advance(60)
        assert len(snapshot(kit.cluster, "work").members) == 1
        assert continuation.puppets[1].owned == {"orders": [*range(6)]}


WORD_COUNT = Topology(
    0,
    [
        Subtopology("0", source_topics=["orders"], repartition_sink_topics=["words"]),
        Subtopology(
            "1",
            state_changelog_topics=[TopicInfo("counts", 0, 0, [KeyValue("cleanup.policy", "compact")])],
            repartition_source_topics=[TopicInfo("words", 0, 0, [])],
        ),
    ],
)
TASKS = [(subtopology, number) for subtopology in "01" for number in range(6)]


def tasks_of(puppets: Sequence[Puppet]) -> list[tuple[str, int]]:
    return sorted((name, number) for puppet in puppets for name, numbers in puppet.owned.items() for number in numbers)


async def test_threads_of_a_streams_group_are_played(tmp_path: Path) -> None:
    simulation, journal = recorded(tmp_path / "journal", config={"group.streams.num.standby.replicas": "1"})
    with journal:
        for name in "abc":
            simulation.streams_puppet(
                "words", [], client_id=name, topology=WORD_COUNT, endpoint=(name, 80), tags={"zone": name}
            )
        simulation.run(60)
    async with continued(tmp_path / "journal", lines_of(tmp_path / "journal")[-1]["seq"]) as (kit, continuation):
        then = snapshot(kit.cluster, "words")
        assert (then.state, len(then.members), continuation.unplayed) == ("Stable", 3, [])
        assert tasks_of(continuation.puppets) == TASKS
        assert sum(len(each) for puppet in continuation.puppets for each in puppet.standby.values()) == 6  # type: ignore[attr-defined]
        kit.advance(600)
        assert snapshot(kit.cluster, "words") == then
        assert [puppet.errors for puppet in continuation.puppets] == [[], [], []]
        # Its tasks go to the others without a loss, and a returning member gets tasks again.
        continuation.puppets[0].crash()
        kit.advance(120)
        assert tasks_of(continuation.puppets[1:]) == TASKS
        continuation.puppets[0].join()
        kit.advance(120)
        assert snapshot(kit.cluster, "words").is_stable
        assert [sum(map(len, puppet.owned.values())) for puppet in continuation.puppets] == [4, 4, 4]
        continuation.puppets[1].leave()
        kit.advance(120)
        assert tasks_of([continuation.puppets[0], continuation.puppets[2]]) == TASKS


@pytest.mark.parametrize(("seconds", "state"), [(1, "Assigning"), (25, "Reconciling")])
async def test_a_streams_group_continues_within_an_assignment_or_a_reconciliation(
    seconds: int, state: str, tmp_path: Path
) -> None:
    simulation, journal = recorded(tmp_path / "journal")
    with journal:
        simulation.streams_puppet("words", ["orders"], client_id="a", think=100.0)
        simulation.run(min(seconds, 20))
        if seconds > 20:
            simulation.streams_puppet("words", ["orders"], client_id="b")
            simulation.run(seconds - 20)
        assert simulation.group("words").state == state
    async with continued(tmp_path / "journal", lines_of(tmp_path / "journal")[-1]["seq"]) as (kit, continuation):
        kit.advance(60)
        assert snapshot(kit.cluster, "words").is_stable
        assert tasks_of(continuation.puppets) == TASKS[:6]
        assert [puppet.errors for puppet in continuation.puppets] == [[]] * len(continuation.puppets)


def stops(path: Path, chance: Random, number: int) -> Sequence[int]:
    """Return moments in order, without those at which a broker still loads partitions: they are refused."""
    lines = lines_of(path)
    first = next(line["seq"] for line in lines if line["in"] == "bytes")
    moments = list[int]()
    with path.open("rb") as journal:
        replay = Replay(journal)
        for seq in sorted(chance.sample(range(first, lines[-1]["seq"]), number)):
            replay.run(until_seq=seq)
            if replay.loader.all_known(replay.store):
                moments.append(seq)
    return moments


@pytest.mark.parametrize("seed", RUNS)
async def test_a_continuation_from_any_moment_becomes_stable(seed: int, tmp_path: Path) -> None:
    """Stop a run with dying members and brokers on a bad network anywhere, within rebalances too.

    Every puppet ends with its share, and no partition has two owners.
    """
    record(seed, tmp_path)
    for until in stops(tmp_path / "journal.jsonl", Random(seed), 6):
        async with continued(tmp_path / "journal.jsonl", until) as (kit, continuation):
            kit.advance(120)
            for name in ("billing", "audit", "fleet", "words"):
                group = snapshot(kit.cluster, name)
                played = [each for each in continuation.puppets if each.script.group == name]
                if not played:
                    assert group.state in ("Empty", "Dead"), (until, group)
                    continue
                assert group.is_stable, (until, group)
                assert {member.member_id for member in group.members} == {puppet.member_id for puppet in played}
                shared = [
                    (topic, number) for each in played for topic, numbers in each.owned.items() for number in numbers
                ]
                # A task of the one subtopology reads both topics.
                everything = [("0", number) for number in range(7)]
                if name != "words":
                    everything = [("orders", number) for number in range(7)] + [("payments", 0), ("payments", 1)]
                assert sorted(shared) == everything
            work = snapshot(kit.cluster, "work")
            sharers = [each for each in continuation.puppets if each.script.group == "work"]
            assert {member.member_id for member in work.members} == {puppet.member_id for puppet in sharers}
            assert all(
                error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
                for puppet in continuation.puppets
                for _, error in puppet.errors
            )


async def test_brokers_of_the_run_can_be_killed_and_started(tmp_path: Path) -> None:
    simulation, journal = recorded(tmp_path / "journal", brokers=2, network=Network(least=0.001, most=0.01))
    with journal:
        for _ in range(2):
            simulation.puppet("billing", ["orders"])
        simulation.run(20)
        simulation.cluster.kill_broker(1)
        simulation.cluster.settle(simulation.now)
        simulation.run(1)
    last = lines_of(tmp_path / "journal")[-1]["seq"]
    async with continued(tmp_path / "journal", last) as (kit, continuation):
        kit.advance(10)
        kit.cluster.restart_broker(1)
        kit.cluster.kill_broker(2)
        kit.settle()
        with trio.fail_after(10):
            while kit.cluster.nodes[1].groups.groups.get("billing") is None:
                await kit.cluster.loader.idle.wait()
                await trio.lowlevel.checkpoint()
        kit.advance(60)
        assert snapshot(kit.cluster, "billing").is_stable
        assert [len(puppet.owned["orders"]) for puppet in continuation.puppets] == [3, 3]


def test_a_moment_before_the_groups_were_loaded_is_refused(tmp_path: Path) -> None:
    with_a_kill(tmp_path / "journal")
    with (tmp_path / "journal").open("rb") as lines:
        replay = Replay(lines)
        replay.run(until_seq=0)
        with pytest.raises(TooEarly, match="choose a later one"):
            replay.go_on()


async def test_members_without_a_puppet_are_listed(tmp_path: Path) -> None:
    simulation, journal = recorded(tmp_path / "journal")
    with journal:
        simulation.puppet("billing", ["orders"])
        simulation.run(10)
    path = tmp_path / "journal"
    last = lines_of(path)[-1]["seq"]
    with path.open("rb") as lines:
        replay = Replay(lines)
        sandbox = Sandbox(replay)
        replay.run(until_seq=last)
    group: Any = replay.cluster.ownership.owner_of("billing").groups.groups["billing"]
    group.protocol = "of-our-own"
    async with trio.open_nursery() as nursery:
        kit, continuation = await sandbox.serve(("127.0.0.1", 0), nursery)
        (unplayed,) = continuation.unplayed
        assert (unplayed.group, unplayed.why) == ("billing", "no puppet can assign by of-our-own")
        kit.advance(60)
        assert snapshot(kit.cluster, "billing").state == "Empty"
        nursery.cancel_scope.cancel()
