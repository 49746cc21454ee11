"""A run with real clients is recorded, and replayed by another process exactly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
import trio

from bench.replaying import record, replay
from kafka_shim.lab.replay import Replay
from kafka_shim.lab.snapshots import snapshot
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.testing.sandbox import Sandbox

from .harness import CLIENTS, SHORT_SESSION_MS, ClientProcesses, all_of

pytestmark = pytest.mark.second_stage("real clients")

OF_THREE_LIBRARIES = [CLIENTS[name] for name in ("kafka-python-3.0", "aiokafka-0.14", "confluent-kafka-2.16")]


def shim(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "kafka_shim", *map(str, arguments)]


async def goes_on(journal: Path) -> None:
    """Continue from the moment the three shared the partitions: a puppet plays each, and nothing more happens."""
    with journal.open("rb") as lines:
        replay = Replay(lines)
        sandbox = Sandbox(replay)
        while not (group := snapshot(replay.cluster, "billing")).is_stable or len(group.members) < 3:
            assert replay.step()
    async with trio.open_nursery() as nursery:
        kit, continuation = await sandbox.serve(("127.0.0.1", 0), nursery)
        kit.advance(600)
        assert snapshot(kit.cluster, "billing") == group
        assert [puppet.errors for puppet in continuation.puppets] == [[], [], []]
        continuation.puppets[0].leave()
        kit.advance(30)
        after = snapshot(kit.cluster, "billing")
        assert (after.is_stable, after.generation > group.generation, len(after.members)) == (True, True, 2)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_run_of_real_clients_is_replayed_exactly(store: str, tmp_path: Path) -> None:
    url = "memory:" if store == "memory" else f"sqlite:{tmp_path / 'groups.db'}"
    journal, trace, again = (tmp_path / name for name in ("journal.jsonl", "trace.jsonl", "again.jsonl"))
    settings = ["group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1"]
    options = [word for setting in settings for word in ("--config", setting)]
    command = shim("serve", "--listen", "127.0.0.1:0", "--store", url, "--topic", "orders:6", "--brokers", "2")
    command += [*options, "--journal", str(journal), "--trace", str(trace), "--log-level", "error"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        bootstrap = server.stdout.readline().partition("kafka=")[2].split()[0]
        processes = ClientProcesses(bootstrap, "billing")
        try:
            # The first dies.
            first, *others = OF_THREE_LIBRARIES
            members = [processes.start(first, topics=["orders"], session_ms=SHORT_SESSION_MS)]
            members += [processes.start(client, topics=["orders"]) for client in others]
            partitions = all_of({"orders": 6})
            processes.shared(members, partitions, [2] * 3)
            processes.start(OF_THREE_LIBRARIES[0]).do(
                "produce", topic="orders", records=[[p, None, f"{p}-{n}", []] for p in range(6) for n in range(5)]
            )
            processes.consumed(members, "orders", 30)
            for member in members:
                member.do("commit", offsets=[[*partition, 5] for partition in sorted(member.owns)])
            members[0].kill()
            processes.shared(members[1:], partitions, [3, 3])
            members[1].close()
            processes.shared(members[2:], partitions, [6])
        finally:
            processes.end()
            server.send_signal(signal.SIGTERM)
    assert server.returncode == 0

    # Another process has another hash seed: no order of a set may decide anything.
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    played = subprocess.run(
        shim("replay", journal, "--trace", again, "--json"), capture_output=True, text=True, env=environment
    )
    assert played.returncode == 0, played.stderr
    inputs = journal.read_bytes().splitlines()[1:]
    answers = sum(len(orjson.loads(line).get("out", ())) for line in inputs)
    assert answers > 100
    result = orjson.loads(played.stdout)
    assert (result["seq"], result["answers"]) == (len(inputs), answers)
    assert again.read_bytes() == trace.read_bytes()

    with journal.open("rb") as lines:
        replay = Replay(lines)
        replay.run()
    trio.run(goes_on, journal)
    if store == "sqlite":
        on_disk = SqliteStore(tmp_path / "groups.db", 50)
        on_disk.open()
        for partition in range(50):
            assert dict(on_disk.load(partition)) == dict(replay.store.load(partition))
        on_disk.close()


def test_a_run_of_ten_groups_with_transactions_and_share_consumers_is_replayed(tmp_path: Path) -> None:
    """Many parked fetches wait for the same records. `python -m bench.replaying` does the same for ten minutes."""
    result = replay(record(tmp_path, seconds=3, groups=10, members=4, seed=1))
    assert result["error"] == ""
    assert result["end_reason"] == ""
    assert result["answers"] > 300
