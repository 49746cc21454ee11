"""The cost of durability: `python -m bench.stores [--peers kafka] [--only commits,start,takeover]`.

    commits   500 members commit 10 partitions each to a SQLite file with every batch synced: offsets per second, CPU
              per request, and the time of a commit at 1,000 per second; the same for the peers
    start     from start to ready on a SQLite file with 1,000,000 offsets in 10,000 groups, and memory per offset
    takeover  two processes on PostgreSQL with 100,000 offsets; one is killed: until the other coordinates all groups

Writes `bench/results/stores.json`. It ends by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
import trio
from rich.console import Console

from bench.crash_members import TROUBLE, Address, Wire
from bench.load import Load, Process
from bench.servers import measure, work
from kafka_shim.apis.list_groups import ListGroupsRequest
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance import processes
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.postgres import PostgresStore
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.persistence.store import Entry, Store
from tests.postgres import postgres_server

RESULTS = Path(__file__).with_name("results")
MEMBERS = 500
GROUPS = 10_000
OFFSETS = 1_000_000
TAKEN_OVER = 100_000
LEASE_S = 2.0


class Serve:
    """`kafka-shim serve` until the end of a block. `ready_s` is the time from its start to its ready line."""

    def __init__(self, store: str, *options: str) -> None:
        self._command = [
            sys.executable,
            "-m",
            "kafka_shim",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--store",
            store,
            *options,
        ]

    def __enter__(self) -> Serve:
        began = time.perf_counter()
        self.popen = processes.start(self._command, stderr=subprocess.DEVNULL)
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        self.ready_s = time.perf_counter() - began
        if not line.startswith("ready kafka="):
            raise RuntimeError("kafka-shim serve did not get ready")
        host, _, port = line.split()[1].removeprefix("kafka=").rpartition(":")
        self.address: Address = (host, int(port))
        self.process = Process(self.popen.pid)
        return self

    def __exit__(self, *error: object) -> None:
        self.popen.kill()
        self.popen.wait()
        assert self.popen.stdout is not None
        self.popen.stdout.close()


def commits(peers: list[str], seconds: float) -> dict[str, Any]:
    """Measure durable commits of one group: our figures, and those of peers on the same machine in the same run."""
    with tempfile.TemporaryDirectory(prefix="kafka-shim-stores-") as folder:
        store = f"sqlite:{Path(folder) / 'offsets.db'}"
        config = (
            "--config",
            "group.initial.rebalance.delay.ms=500",
            "--config",
            "group.max.session.timeout.ms=1800000",
        )
        with (
            Serve(store, "--topic", f"bench:{10 * MEMBERS}", *config) as server,
            Load(*server.address, "g", MEMBERS, "bench:10") as load,
        ):
            if not load.tell("form", 60)["formed"]:
                raise RuntimeError("the group did not form")
            figures: dict[str, Any] = {
                "shim": work(load, server.process, "commit", seconds, 1000),
                "shim, each member its own": work(load, server.process, "own", seconds, 1000),
            }
    for peer in peers:
        measured = measure(peer, [MEMBERS], seconds, 1000, 120)
        figures[peer] = measured.get("members", {}).get(MEMBERS, {}).get("commit", measured.get("missing"))
    for each in figures.values():
        if isinstance(each, dict):
            each["offsets_per_second"] = each["per_second"] * 10
    return figures


def fill(store: Store, offsets: int, groups: int) -> None:
    """Write offsets of many groups, as commits of members would have written them."""
    each = offsets // groups
    entries: list[Entry] = []
    for group in range(groups):
        name = f"group-{group}"
        partition = partition_for(name, 50)
        entries += [
            (partition, OffsetCommitKey(name, f"topic-{number // 10}", number % 10), OffsetCommitValue(number * 1000))
            for number in range(each)
        ]
        if len(entries) >= 20_000:
            store.write(entries)
            entries = []
    store.write(entries)


def start() -> dict[str, float]:
    """Measure the time from start to ready on a large file, and the memory per offset beyond an empty server."""
    with tempfile.TemporaryDirectory(prefix="kafka-shim-stores-") as folder:
        with Serve(f"sqlite:{Path(folder) / 'empty.db'}") as server:
            empty, empty_kib = server.ready_s, server.process.resident_kib()
        path = Path(folder) / "offsets.db"
        store = SqliteStore(path, 50)
        store.open()
        fill(store, OFFSETS, GROUPS)
        store.close()
        with Serve(f"sqlite:{path}") as server:
            cpu = server.process.cpu_seconds()
            return {
                "ready_s": round(server.ready_s, 2),
                "ready_cpu_s": round(cpu, 2),
                "empty_ready_s": round(empty, 2),
                "bytes_per_offset": round((server.process.resident_kib() - empty_kib) * 1024 / OFFSETS),
                "file_mib": round(path.stat().st_size / 2**20, 1),
            }


async def _groups_listed(address: Address) -> int:
    """Return the number of groups that a node coordinates; -1 while it is loading or does not answer."""
    try:
        wire = await Wire.open(address)
        try:
            listed = await wire.ask(2, ListGroupsRequest(), 5)
        finally:
            await wire.close()
    except TROUBLE:
        return -1
    return -1 if listed.error_code != ErrorCode.NONE else len(listed.groups)


async def _until_listed(address: Address, groups: int) -> None:
    with trio.fail_after(60):
        while await _groups_listed(address) < groups:
            await trio.sleep(0.02)


def takeover() -> dict[str, float]:
    """Measure the time from the death of a process until its successor coordinates all groups, including the lease."""
    groups = 1000
    with postgres_server() as url:
        writer = PostgresStore(url, 50, lease_s=60)
        writer.open()
        writer.claim(9, range(50))
        fill(writer, TAKEN_OVER, groups)
        writer.close()
        options = ("--lease", str(LEASE_S))
        # The first process takes all partitions before the second starts, and dies before it has released many.
        with Serve(url, "--node-id", "1", *options) as victim, psycopg.connect(url, autocommit=True) as connection:
            trio.run(_until_listed, victim.address, groups)
            with Serve(url, "--node-id", "2", *options) as successor:
                victim.popen.kill()
                died = time.perf_counter()
                trio.run(_until_listed, successor.address, groups)
                took = time.perf_counter() - died
            (partitions,) = connection.execute("SELECT count(*) FROM kafka_shim_leases WHERE epoch > 2").fetchone() or (
                0,
            )
    return {
        "took_s": round(took, 2),
        "lease_s": LEASE_S,
        "beyond_the_lease_s": round(took - LEASE_S, 2),
        "partitions": partitions,
        "offsets": TAKEN_OVER,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="", help="servers to measure beside ours, as in `python -m bench`")
    parser.add_argument("--only", default="commits,start,takeover")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measured phase")
    parser.add_argument("--output", type=Path, default=RESULTS / "stores.json")
    arguments = parser.parse_args()
    peers_to_run = arguments.only.split(",")
    results: dict[str, Any] = {"load_average_before": [round(each, 1) for each in os.getloadavg()]}
    if "commits" in peers_to_run:
        results["commits"] = commits([peer for peer in arguments.peers.split(",") if peer], arguments.seconds)
    if "start" in peers_to_run:
        results["start"] = start()
    if "takeover" in peers_to_run:
        results["takeover"] = takeover()
    results["load_average_after"] = [round(each, 1) for each in os.getloadavg()]
    Console(width=None if sys.stdout.isatty() else 120).print_json(data=results)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
