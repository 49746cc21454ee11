"""Servers killed and paused under load: `python -m bench.crash --rounds 200 [--stores sqlite,postgresql]`.

Twenty members of one group commit growing offsets and remember the acknowledged ones. In every round the server that
coordinates the group is killed at a random moment, half of the time within a rebalance; with PostgreSQL, three
processes run, and some rounds pause the server instead. A round takes from the signal until the group is stable again.
In the end no acknowledged offset may be lost, no offset may have gone back, and no server may have answered for the
group outside its lease. Writes `bench/results/crash.json`. It ends by itself: every round has a time limit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import trio
from rich.console import Console
from rich.table import Table

from bench.crash_members import GROUP, TOPIC, Address, Judge, Member, Prober
from kafka_shim.conformance import processes
from kafka_shim.conformance.targets.base import free_port
from kafka_shim.persistence.partition import partition_for
from tests.postgres import postgres_server

RESULTS = Path(__file__).with_name("results")
MEMBERS = 20
PARTITIONS = 40
LEASE_S = 1.5
QUIET_S = 0.3
ROUND_S = 60.0
"""Time limit for a group to become stable."""

_HISTORY = """
CREATE TABLE crash_history (partition int, epoch bigint, node_id int, at timestamptz);
CREATE FUNCTION crash_note() RETURNS trigger AS $$ BEGIN
    IF NEW.epoch <> OLD.epoch THEN
        INSERT INTO crash_history VALUES (NEW.partition, NEW.epoch, NEW.node_id, clock_timestamp());
    END IF; RETURN NEW; END $$ LANGUAGE plpgsql;
CREATE TRIGGER crash_note AFTER UPDATE ON kafka_shim_leases FOR EACH ROW EXECUTE FUNCTION crash_note();
"""


class Process:
    """`kafka-shim serve` on a port that it keeps over restarts."""

    def __init__(self, store: str, log: Path, node_id: int = 1) -> None:
        self.node_id = node_id
        self.address: Address = ("127.0.0.1", free_port())
        self._store = store
        self._log = log
        self._popen: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", f"127.0.0.1:{self.address[1]}"]
        command += ["--store", self._store, "--node-id", str(self.node_id), "--lease", str(LEASE_S)]
        command += ["--topic", f"{TOPIC}:{PARTITIONS}", "--config", "group.initial.rebalance.delay.ms=300"]
        with self._log.open("a") as log:
            self._popen = processes.start(command, stderr=log)

    async def ready(self) -> None:
        """Wait for the ready line."""
        assert self._popen is not None
        assert self._popen.stdout is not None
        line = await trio.to_thread.run_sync(self._popen.stdout.readline, abandon_on_cancel=True)
        if not line.startswith("ready "):
            raise RuntimeError(f"a server did not get ready:\n{self._log.read_text()[-2000:]}")

    def send(self, number: signal.Signals) -> None:
        assert self._popen is not None
        self._popen.send_signal(number)
        if number is signal.SIGKILL:
            self._popen.wait()
            assert self._popen.stdout is not None
            self._popen.stdout.close()

    def end(self) -> None:
        if self._popen is not None and self._popen.poll() is None:
            self.send(signal.SIGKILL)


@dataclass
class Outcome:
    """The result of a run. Times are seconds from the signal until the group was stable again, by kind of round."""

    store: str
    times: dict[str, list[float]] = field(default_factory=dict)
    commits: int = 0
    lost_commits: list[str] = field(default_factory=list)
    went_back: list[str] = field(default_factory=list)
    two_owners: list[str] = field(default_factory=list)
    load: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Run:
    """The members and servers of one run."""

    def __init__(self, processes: Sequence[Process], members: int) -> None:
        self.processes = processes
        self.judge = Judge(PARTITIONS)
        addresses = [process.address for process in processes]
        self.members = [Member(self.judge, addresses, number) for number in range(members)]
        self.probers = [Prober(self.judge, process.address) for process in processes]
        self.times: dict[str, list[float]] = {}
        self.owner: Callable[[], int | None] = lambda: None
        """Returns the node with the lease of the group's partition, by the store."""

    @asynccontextmanager
    async def under_load(self) -> AsyncIterator[None]:
        for process in self.processes:
            process.start()
        try:
            for process in self.processes:
                await process.ready()
            async with trio.open_nursery() as nursery:
                for each in (*self.members, *self.probers):
                    nursery.start_soon(each.run)
                await self.stable(time.monotonic())
                yield
                nursery.cancel_scope.cancel()
        finally:
            for process in self.processes:
                process.end()

    def is_stable(self, since: float) -> bool:
        """Return true if all members are in one generation, own all partitions once, and each had a commit since
        `since`."""
        owned = sorted(partition for member in self.members for partition in member.owned)
        return (
            len({member.generation for member in self.members}) == 1
            and all(member.settled > since and member.generation >= 0 for member in self.members)
            and owned == list(range(PARTITIONS))
        )

    async def stable(self, since: float) -> float:
        """Wait until the group is stable; return the seconds since `since`."""
        with trio.fail_after(ROUND_S):
            while not self.is_stable(since):
                await self.judge.changed.wait()
        return time.monotonic() - since

    async def answering(self, prober: Prober, since: float) -> None:
        """Wait until a node has answered a request since `since`."""
        with trio.fail_after(ROUND_S):
            while prober.answered <= since:
                await self.judge.changed.wait()

    async def wait_for_a_moment(self) -> None:
        """Wait for a random time, and in half of the cases start a rebalance."""
        await trio.sleep(random.uniform(0, 0.4))
        if random.random() < 0.5:
            random.choice(self.members).wants_rejoin = True
            await trio.sleep(random.uniform(0, 0.25))

    async def round(self, kind: str, victim: Process) -> None:
        """Run one round and record its time."""
        await self.wait_for_a_moment()
        took = await (self.kill(victim) if kind == "kill" else self.pause(victim))
        self.times.setdefault(kind, []).append(took)

    async def kill(self, victim: Process) -> float:
        began = time.monotonic()
        victim.send(signal.SIGKILL)
        victim.start()
        took = await self.stable(began)
        await victim.ready()
        return took

    async def pause(self, victim: Process) -> float:
        """Pause a server; wake it when the group is stable without it or, in some rounds, before.

        In half of the rounds, members are silent from before the pause until another server has taken over. Otherwise
        the server fences their late writes when it wakes, which hides its answers to clients that only read.
        """
        silent = random.random() < 0.5
        self.judge.quiet = silent
        await trio.sleep(QUIET_S if silent else 0)
        began = time.monotonic()
        victim.send(signal.SIGSTOP)
        try:
            if silent:
                with trio.fail_after(ROUND_S):
                    while self.owner() == victim.node_id:
                        await trio.sleep(0.05)
                self.judge.quiet = False
                self.judge.tell()
            if silent or random.random() < 0.5:
                await self.stable(began)
            else:
                await trio.sleep(LEASE_S * random.uniform(0.2, 1.5))
        finally:
            woken = time.monotonic()
            victim.send(signal.SIGCONT)
        took = await self.stable(began)
        await self.answering(self.probers[self.processes.index(victim)], woken)
        return took

    def outcome(self, store: str, two_owners: list[str]) -> Outcome:
        judge = self.judge
        return Outcome(
            store,
            self.times,
            judge.commits,
            judge.lost_commits,
            judge.went_back,
            [*two_owners, *judge.stale, *judge.twice],
            os.getloadavg(),
        )


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kafka-shim-crash-") as path:
        yield Path(path)


async def sqlite(rounds: int, members: int = MEMBERS) -> Outcome:
    """Run one process on a SQLite file, and kill it in every round."""
    with folder() as path:
        run = Run([Process(f"sqlite:{path / 'offsets.db'}", path / "log")], members)
        async with run.under_load():
            for _ in range(rounds):
                await run.round("kill", run.processes[0])
        return run.outcome("sqlite", [])


async def postgresql(rounds: int, url: str, members: int = MEMBERS) -> Outcome:
    """Run three processes on one database; kill and pause the owner of the group's partition in turn."""
    partition = partition_for(GROUP, 50)
    with folder() as path:
        run = Run([Process(url, path / f"log-{n}", n) for n in (1, 2, 3)], members)
        with psycopg.connect(url, autocommit=True) as connection:
            async with run.under_load():
                connection.execute(_HISTORY)
                since = time.time()
                run.owner = lambda: owner_in(connection, partition)
                for number in range(rounds):
                    victim = run.processes[(run.owner() or 1) - 1]
                    await run.round(("kill", "pause")[number % 2], victim)
            history = connection.execute(
                "SELECT extract(epoch FROM at)::float8, node_id FROM crash_history WHERE partition = %s ORDER BY epoch",
                (partition,),
            ).fetchall()
        return run.outcome("postgresql", out_of_lease(run, history, since))


def owner_in(connection: psycopg.Connection[Any], partition: int) -> int | None:
    row = connection.execute("SELECT node_id FROM kafka_shim_leases WHERE partition = %s", (partition,)).fetchone()
    return row[0] if row else None


def out_of_lease(run: Run, history: list[Any], since: float) -> list[str]:
    """Return the answers to requests sent after another node got the partition and before it came back."""
    node_at = {process.address: process.node_id for process in run.processes}
    violations = []
    for answer in run.judge.answers:
        if answer.sent_at < since:
            continue
        node = node_at[answer.address]
        holders = [owner for at, owner in history if answer.sent_at <= at <= answer.answered]
        before = [owner for at, owner in history if at < answer.sent_at]
        if before and before[-1] != node and node not in holders:
            violations.append(f"node {node} answered at {answer.answered:.3f}, node {before[-1]} was the owner")
    return violations


def summary(times: Sequence[float]) -> dict[str, float]:
    """Summarise the times of the rounds, in seconds."""
    ordered = sorted(times)
    return {
        "rounds": len(ordered),
        "p50": round(statistics.median(ordered), 2),
        "p90": round(ordered[int(len(ordered) * 0.9)], 2),
        "p99": round(ordered[int(len(ordered) * 0.99)], 2),
        "max": round(ordered[-1], 2),
    }


def report(outcome: Outcome) -> dict[str, Any]:
    return {
        "store": outcome.store,
        "acknowledged_offsets": outcome.commits,
        "lost": len(outcome.lost_commits),
        "went_back": len(outcome.went_back),
        "two_owners": len(outcome.two_owners),
        "stable_again_s": {kind: summary(times) for kind, times in outcome.times.items()},
        "load_average": [round(each, 1) for each in outcome.load],
        "violations": (outcome.lost_commits + outcome.went_back + outcome.two_owners)[:20],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--stores", default="sqlite,postgresql")
    parser.add_argument("--output", type=Path, default=RESULTS / "crash.json")
    arguments = parser.parse_args()
    reports = []
    for store in arguments.stores.split(","):
        if store == "sqlite":
            reports.append(report(trio.run(sqlite, arguments.rounds)))
        else:
            with postgres_server() as url:
                reports.append(report(trio.run(postgresql, arguments.rounds, url)))
    table = Table(title=f"{arguments.rounds} rounds, {MEMBERS} members")
    for column in ("store", "round", "lost", "went back", "two owners", "stable again p50 s", "p90", "p99", "max"):
        table.add_column(column)
    for each in reports:
        for kind, times in each["stable_again_s"].items():
            counts = [str(each[name]) for name in ("lost", "went_back", "two_owners")]
            table.add_row(each["store"], kind, *counts, *(str(times[key]) for key in ("p50", "p90", "p99", "max")))
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(reports, indent=1) + "\n")
    sys.exit(any(each["violations"] for each in reports))


if __name__ == "__main__":
    main()
