"""A run is replayed from its journal exactly: the same answers, the same records, the same trace, byte by byte."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import orjson
import pytest
import trio

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.broker.topics import Node as Address
from kafka_shim.groups.consumer.offload import LARGE
from kafka_shim.lab.puppets import Puppet
from kafka_shim.lab.replay import Diverged, Replay, UnreadableJournal
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.server.cluster import Cluster, ClusterConfig, make_cluster
from kafka_shim.server.journal import Journal
from kafka_shim.server.trace_file import TraceFile
from kafka_shim.testing import Network, Simulation
from tests.server.wire import request

RUNS = 50 if "FUZZ_SECONDS" in os.environ else 10
PROTOCOLS = (["range"], ["roundrobin", "range"], ["cooperative-sticky"])


def record(seed: int, folder: Path) -> Simulation:
    """A run over a bad network in which members of every kind of group come, go and die, brokers too; journal and trace
    are in `folder`."""
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


@pytest.mark.parametrize("seed", range(RUNS))
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
    with pytest.raises(Diverged, match=f"After input {answered['seq']}, connection .* has another answer than was rec"):
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


def test_what_is_no_journal_is_refused() -> None:
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
        self.cluster = to
        self.session = to.open(to.nodes[1], self, "/127.0.0.1")

    def send(self, data: bytes) -> bool:
        self.answered.set()
        return True

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...

    def join(self, member_id: str, topics: list[str]) -> None:
        asked = ConsumerGroupHeartbeatRequest(
            "billing", member_id, 0, rebalance_timeout_ms=9000, server_assignor="range"
        )
        asked.subscribed_topic_names, asked.topic_partitions = topics, []
        now = self.cluster.clock()
        self.session.receive(request(asked, 1), now)
        self.cluster.settle(now)


def test_what_was_computed_in_another_thread_is_replayed_too(tmp_path: Path) -> None:
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
    replay = Replay(path.read_bytes().splitlines(keepends=True), tmp_path / "again.jsonl")
    replay.run()
    replay.close()
    assert replay.answers == 3
    assert trace_of(tmp_path, "again.jsonl") == trace_of(tmp_path, "trace.jsonl")
    assert records_of(replay.store) == records_of(store)
