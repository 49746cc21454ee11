"""A run is replayed from its journal exactly: the same answers, the same records, the same trace, byte by byte."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
import trio
import trio.testing

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.list_groups import ListGroupsRequest
from kafka_shim.apis.list_transactions import ListTransactionsRequest
from kafka_shim.broker.topics import Node as Address
from kafka_shim.groups import regex
from kafka_shim.groups.consumer.target import LARGE
from kafka_shim.lab.barriers import Barriers
from kafka_shim.lab.faults import CLOSE_MOMENTS
from kafka_shim.lab.puppets import Puppet
from kafka_shim.lab.replay import Diverged, Replay, UnreadableJournal
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.server import loading
from kafka_shim.server.cluster import Cluster, ClusterConfig
from kafka_shim.server.compose import make_cluster
from kafka_shim.server.journal import Journal
from kafka_shim.server.trace_file import TraceFile
from kafka_shim.testing import Network, Simulation
from kafka_shim.trace.events import FAULT_ACTIONS
from tests.server.test_failures import once
from tests.server.wire import request

SEED = int(os.environ.get("FUZZ_SEED", 0))
RUNS = range(SEED, SEED + (50 if "FUZZ_SECONDS" in os.environ else 10))
DISTURBED = ("JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "OffsetCommit")
PROTOCOLS = (["range"], ["roundrobin", "range"], ["cooperative-sticky"])


def record(seed: int, folder: Path) -> Simulation:
    """A run over a bad network in which members of every kind of group come, go and die, brokers too, with faults and
    barriers; journal and trace are in `folder`."""
    chance = Random(seed)
    pick, below = chance.choice, chance.randrange
    simulation = Simulation(
        seed=seed,
        brokers=1 + below(3),
        topics={"orders": 7, "payments": 2},
        network=Network(least=0.001, most=0.3, loss=0.01),
        journal=folder / "journal.jsonl",
    )
    cluster, members = simulation.cluster, list[Puppet]()
    faults, barriers = simulation.faults, Barriers(simulation.interception)

    def disturb() -> None:
        action = pick(FAULT_ACTIONS)
        fields: dict[str, Any] = {
            "error": {"error": pick(["NOT_COORDINATOR", "REBALANCE_IN_PROGRESS"]), "applied": pick([True, False])},
            "delay": {"seconds": pick([0.5, 12.0]), "applied": pick([True, False])},
            "close": {"when": pick(CLOSE_MOMENTS)},
            "slow": {"bytes_per_second": 200.0},
        }.get(action, {})
        often: dict[str, Any] = pick([{"times": 2}, {"nth": 3}, {"probability": 0.3, "for_s": 20.0}])
        faults.declare({"action": action, "api": pick(DISTURBED), **fields, **often})
        if len(list(faults)) > 2:
            faults.remove(pick(list(faults)))

    def hold() -> None:
        if barriers.barriers:
            barrier = pick(list(barriers.barriers.values()))
            pick([barrier.remove, lambda: barrier.release(1)])()
        else:
            barriers.at(pick(["join-arrived", "sync-complete", "heartbeat-arrived", "commit-applied"]))

    def join() -> None:
        topics, name = ["orders", "payments"], f"m{len(members)}"
        others: dict[str, Callable[..., Puppet]] = {
            "fleet": simulation.consumer_puppet,
            "work": simulation.share_puppet,
            "words": simulation.streams_puppet,
        }
        group = pick(["billing", "billing", "audit", *others])
        if group in others:
            members.append(others[group](group, topics, client_id=name))
            return
        members.append(
            simulation.puppet(
                group,
                topics,
                client_id=name,
                protocols=pick(PROTOCOLS),
                session_timeout=10.0,
                rebalance_timeout=20.0,
                instance_id=pick([None, None, "i1", "i2"]),
            )
        )

    assert simulation.journal is not None
    with simulation.journal, TraceFile(folder / "trace.jsonl", cluster, 200_000) as trace:
        for number in range(30):
            does: list[Callable[[], object]] = [
                lambda: pick(members).crash(),
                lambda: pick(members).leave(),
                disturb,
                hold,
                lambda: pick(members).commit({("orders", below(7)): below(99)}),
                trace.flush,
                trace.tell_ends,
                lambda number=number: cluster.create_topic(f"t{number}", 3),
                lambda number=number: cluster.create_group(f"g{number}", True, None),
            ]
            up = [node.id for node in cluster.nodes.values() if node.up]
            if len(up) > 1:
                does.append(lambda up=up: cluster.kill_broker(pick(up)))
            does += [
                lambda node=node: cluster.restart_broker(node.id) for node in cluster.nodes.values() if not node.up
            ]
            if number < 4 or below(2):
                join()
            else:
                pick(does)()
            cluster.settle(simulation.now)
            simulation.run(pick([0.01, 1.0, 15.0]))
    return simulation


def trace_of(folder: Path, name: str) -> dict[str, bytes]:
    return {path.name.removeprefix(name): path.read_bytes() for path in folder.glob(f"{name}*")}


def records_of(store: MemoryStore) -> dict[int, list[tuple[object, object]]]:
    return {partition: sorted(store.load(partition), key=repr) for partition in range(50)}


@pytest.mark.parametrize("seed", RUNS)
def test_a_run_is_replayed_exactly(seed: int, tmp_path: Path) -> None:
    recorded = record(seed, tmp_path)
    with (tmp_path / "journal.jsonl").open("rb") as lines:
        replay = Replay(lines, tmp_path / "again.jsonl")
        replay.run()
        replay.close()
    assert replay.answers > 20
    assert trace_of(tmp_path, "again.jsonl") == trace_of(tmp_path, "trace.jsonl")
    assert records_of(replay.store) == records_of(recorded.store)


def test_a_replay_stops_after_any_input(tmp_path: Path) -> None:
    record(3, tmp_path)
    journal = (tmp_path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    whole = Replay(journal)
    whole.run()
    part = Replay(journal)
    part.run(until_seq=whole.seq // 2)
    assert part.seq == whole.seq // 2
    assert part.now < whole.now
    in_time = Replay(journal)
    in_time.run(until_wall=part.wall)
    assert in_time.seq >= part.seq
    assert in_time.now == part.now
    part.run()
    assert part.groups() == whole.groups()


def test_an_answer_that_differs_ends_the_replay(tmp_path: Path) -> None:
    record(4, tmp_path)
    lines = [orjson.loads(line) for line in (tmp_path / "journal.jsonl").read_bytes().splitlines()]
    answered = [line for line in lines if line.get("out")][10]
    answered["out"][0][2] += 1
    replay = Replay([orjson.dumps(line) for line in lines])
    with pytest.raises(Diverged, match=f"After input {answered['seq']}, connection .* has an answer unlike the rec"):
        replay.run()


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    record(5, tmp_path)
    first, *rest = (tmp_path / "journal.jsonl").read_bytes().splitlines()
    other = orjson.dumps(orjson.loads(first) | {"seed": "1"})
    with pytest.raises(Diverged):
        Replay([other, *rest]).run()


def test_a_journal_ends_where_the_process_was_killed(tmp_path: Path) -> None:
    record(6, tmp_path)
    data = (tmp_path / "journal.jsonl").read_bytes()
    cut = data[: len(data) // 2]
    replay = Replay(cut.splitlines(keepends=True))
    replay.run()
    assert replay.seq in (cut.count(b"\n") - 1, cut.count(b"\n"))


def test_other_files_are_refused() -> None:
    with pytest.raises(UnreadableJournal, match="not that of a journal"):
        Replay([b'{"event":"trace"}\n'])
    with pytest.raises(UnreadableJournal, match="not JSON"):
        Replay([b"hello\n"])


class Line:
    """A connection of a member without a socket."""

    def __init__(self, to: Cluster) -> None:
        self.peer = "127.0.0.1:1"
        self.paused = False
        self.answered = trio.Event()
        self.closed = trio.Event()
        self.cluster = to
        self.session = to.open(to.nodes[1], self, "/127.0.0.1")

    def send(self, data: bytes) -> bool:
        self.answered.set()
        return True

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None:
        self.closed.set()
        self.session.lost()

    def join(self, member_id: str, topics: list[str]) -> None:
        heartbeat = ConsumerGroupHeartbeatRequest(
            "billing", member_id, 0, rebalance_timeout_ms=9000, server_assignor="range"
        )
        heartbeat.subscribed_topic_names, heartbeat.topic_partitions = topics, []
        now = self.cluster.clock()
        self.session.receive(request(heartbeat, 1), now)
        self.cluster.settle(now)


def test_computations_of_worker_threads_are_replayed(tmp_path: Path) -> None:
    path, store = tmp_path / "journal.jsonl", MemoryStore()

    async def main() -> None:
        with Journal(path) as journal:
            config = ClusterConfig(topics={"orders": LARGE // 2, "payments": LARGE // 2}, journal=journal)
            cluster = make_cluster([Address(1, "localhost", 9092)], config, store)
            async with trio.open_nursery() as nursery:
                await nursery.start(cluster.run)
                with TraceFile(tmp_path / "trace.jsonl", cluster, 1 << 20):
                    lines = [Line(cluster) for _ in range(3)]
                    for number, line in enumerate(lines):
                        line.join(f"member-{number}", ["orders", "payments"])
                    assert not any(line.answered.is_set() for line in lines)
                    with trio.fail_after(60):
                        for line in lines:
                            await line.answered.wait()
                nursery.cancel_scope.cancel()

    trio.run(main)
    replay = replayed(path)
    assert replay.answers == 3
    assert trace_of(tmp_path, "again.jsonl") == trace_of(tmp_path, "trace.jsonl")
    assert records_of(replay.store) == records_of(store)


def test_a_client_that_closes_its_side_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"

    async def main() -> None:
        with Journal(path) as journal:
            config = ClusterConfig(settings={"group.initial.rebalance.delay.ms": "1000"}, journal=journal)
            cluster = make_cluster([Address(1, "localhost", 9092)], config, MemoryStore())
            async with trio.open_nursery() as nursery:
                await nursery.start(cluster.run)
                await cluster.loaded.wait()
                with TraceFile(tmp_path / "trace.jsonl", cluster, 1 << 20):
                    line, now = Line(cluster), cluster.clock()
                    join = JoinGroupRequest(
                        "billing", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
                    )
                    line.session.receive(request(join, 2) + request(ListGroupsRequest(), 0), now)
                    line.session.end()
                    cluster.settle(now)
                    with trio.fail_after(60):
                        await line.closed.wait()
                nursery.cancel_scope.cancel()

    trio.run(main)
    replay = replayed(path)
    assert replay.answers == 2
    assert trace_of(tmp_path, "again.jsonl") == trace_of(tmp_path, "trace.jsonl")


def replayed(journal: Path) -> Replay:
    """Play a journal again, with the trace `again.jsonl` beside it."""
    replay = Replay(journal.read_bytes().splitlines(keepends=True), journal.with_name("again.jsonl"))
    replay.run()
    replay.close()
    return replay


def test_a_listing_that_waits_for_a_worker_thread_is_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "LARGE", 0)
    path = tmp_path / "journal.jsonl"

    async def main() -> None:
        with Journal(path) as journal:
            cluster = make_cluster([Address(1, "localhost", 9092)], ClusterConfig(journal=journal), MemoryStore())
            async with trio.open_nursery() as nursery:
                await nursery.start(cluster.run)
                with TraceFile(tmp_path / "trace.jsonl", cluster, 1 << 20):
                    line, now = Line(cluster), cluster.clock()
                    line.session.receive(request(ListTransactionsRequest([], [], -1, "a.*"), 2), now)
                    cluster.settle(now)
                    assert not line.answered.is_set()
                    with trio.fail_after(60):
                        await line.answered.wait()
                nursery.cancel_scope.cancel()

    trio.run(main)
    replay = replayed(path)
    assert replay.answers == 1
    assert trace_of(tmp_path, "again.jsonl") == trace_of(tmp_path, "trace.jsonl")


def test_partition_that_raised_is_loaded_again_in_the_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "RAISED_SECONDS", (0.0,))
    path, store = tmp_path / "journal.jsonl", MemoryStore()

    async def main() -> None:
        with Journal(path) as journal:
            nodes = [Address(1, "localhost", 9092), Address(2, "localhost", 9093)]
            cluster = make_cluster(nodes, ClusterConfig(journal=journal), store)
            async with trio.open_nursery() as nursery:
                await nursery.start(cluster.run)
                monkeypatch.setattr(store, "load", once(store.load))
                cluster.move_partition(0, 2)
                with trio.fail_after(60):
                    while cluster.nodes[2].groups.partitions().get(0) != "active":
                        await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()

    trio.run(main)
    lines = path.read_bytes().splitlines(keepends=True)
    assert [each["in"] for each in map(orjson.loads, lines[1:]) if each.get("partition") == 0] == [
        "unloadable",
        "again",
        "loaded",
    ]
    replay = Replay(lines)
    replay.run()
    assert replay.cluster.nodes[2].groups.partitions()[0] == "active"


def test_a_journal_says_at_once_that_a_function_of_a_test_is_not_replayed(tmp_path: Path) -> None:
    simulation = Simulation(topics={"orders": 1}, journal=tmp_path / "journal.jsonl")
    assert simulation.journal is not None
    with simulation.journal:
        simulation.faults.declare({"action": "drop", "api": "Heartbeat"})
        assert not simulation.journal.ended
        simulation.faults.declare({"action": "drop", "where": lambda request: True})
        last = orjson.loads((tmp_path / "journal.jsonl").read_bytes().splitlines()[-1])
    assert (last["in"], last["reason"]) == ("end", "a function of the test chooses the requests of a fault")


def test_a_replay_has_the_times_of_events_that_the_run_did_not_make(tmp_path: Path) -> None:
    """No listener made the run note that a rebalance had begun; a page of the replay shows when it did."""
    simulation = Simulation(
        topics={"orders": 6},
        config={"group.initial.rebalance.delay.ms": "0"},
        network=Network(least=0.01, most=0.02),
        journal=tmp_path / "journal.jsonl",
    )
    assert simulation.journal is not None
    with simulation.journal:
        simulation.puppet("billing", ["orders"], client_id="one")
        simulation.run(4)
        simulation.puppet("billing", ["orders"], client_id="two")
        simulation.run(10)
    with (tmp_path / "journal.jsonl").open("rb") as lines:
        replay = Replay(lines)
        begun: list[float] = []
        ended: list[float] = []

        def take(events: list[dict[str, Any]], now: float) -> None:
            begun.extend(now for each in events if each.get("to") == "PreparingRebalance")
            ended.extend(each["started"] for each in events if each["event"] == "round")

        replay.cluster.events.listen(take)
        replay.run()
    assert begun == pytest.approx(ended, abs=0.001)
    assert len(begun) == 2
