"""The delay that a large consumer group causes to other clients while its assignment is computed.

    python -m bench.large_groups [--members 10000] [--topics 100] [--checkout ../before]

A server loads from a SQLite file a stable group with ten partitions per member, and stable classic groups of
`CLASSIC_MEMBERS`. One client sends ApiVersions again and again. At the same time members join, one after the other: the
group, a new group, and one of the classic groups, which this turns into a consumer group. `answered` is the time until
the member's answer, `longest` the longest wait of the other client. Times are medians of `RUNS` joins, in milliseconds.
"""

from __future__ import annotations

import argparse
import itertools
import socket
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.consumer_rules import GROUP, Bench, classic_records
from bench.forming import ask, encoded
from bench.servers import serving
from kafka_shim.apis.api_versions import ApiVersionsRequest
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.server.placement import id_of

OFFSETS_PARTITIONS = 50
RUNS = 5
CLASSIC_MEMBERS = 2_000
CLASSIC = "classic"


class Bystander:
    """A client in a thread that sends a request as soon as it has an answer, and records the longest wait."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.longest = 0.0
        self._over = False
        self._connection = socket.create_connection(address)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        data = encoded(ApiVersionsRequest(), 0)
        while not self._over:
            began = time.perf_counter()
            self._connection.sendall(data)
            size = int.from_bytes(self._connection.recv(4, socket.MSG_WAITALL))
            self._connection.recv(size, socket.MSG_WAITALL)
            self.longest = max(self.longest, time.perf_counter() - began)

    def end(self) -> float:
        self._over = True
        self._thread.join()
        self._connection.close()
        return self.longest * 1000


def joins(
    address: tuple[str, int], numbers: itertools.count[int], group_id: str = GROUP, **fields: Any
) -> tuple[float, float]:
    """Let one member join; return the ms until its answer, and the longest wait of another client."""
    bystander = Bystander(address)
    time.sleep(0.2)
    # A low id: with `range`, it changes the ranges of all members with higher ids.
    request = ConsumerGroupHeartbeatRequest(group_id, f"{next(numbers):022}n", 0, rebalance_timeout_ms=300_000)
    request.topic_partitions = []
    for name, value in fields.items():
        setattr(request, name, value)
    began = time.perf_counter()
    answer = ask(address, request, 1)
    took = time.perf_counter() - began
    time.sleep(0.1)
    assert answer.error_code == 0, answer
    return took * 1000, bystander.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--checkout", type=Path, help="measure the server of another checkout")
    arguments = parser.parse_args()
    bench = Bench(arguments.members, arguments.topics, lambda name: id_of(0, name))
    names = bench.topics.names()
    options = [f"--topic={name}:{bench.topics.partitions_of(name)}" for name in names]
    table = Table(title=f"{arguments.members:,} members, {len(names)} topics")
    for column in ("who joins", "answered, ms", "longest, ms"):
        table.add_column(column, justify="left" if column == "who joins" else "right")
    with tempfile.TemporaryDirectory(prefix="kafka-shim-large-") as folder:
        path = Path(folder) / "offsets.db"
        store = SqliteStore(path, OFFSETS_PARTITIONS)
        partition = partition_for(GROUP, OFFSETS_PARTITIONS)
        store.open()
        store.write([(partition, key, value) for key, value in bench.written()])
        classic = Bench(CLASSIC_MEMBERS, arguments.topics)
        for number in range(RUNS):
            group_id = f"{CLASSIC}-{number}"
            place = partition_for(group_id, OFFSETS_PARTITIONS)
            store.write([(place, key, value) for key, value in classic_records(classic, group_id)])
        store.close()
        with serving("--store", f"sqlite:{path}", *options, checkout=arguments.checkout) as (_, port):
            address = "127.0.0.1", port
            bystander = Bystander(address)
            time.sleep(1)
            table.add_row("nobody", "", f"{bystander.end():.1f}")
            numbers = itertools.count()
            for who, fields in {
                "a member like the others": {"subscribed_topic_names": names},
                "a member of half of the topics": {"subscribed_topic_names": names[::2]},
                "a member that asks for range": {"subscribed_topic_names": names, "server_assignor": "range"},
            }.items():
                answered, longest = zip(*(joins(address, numbers, **fields) for _ in range(RUNS)), strict=True)
                table.add_row(who, f"{statistics.median(answered):.0f}", f"{statistics.median(longest):.0f}")
            for who, prefix in {
                "the first of a group": "new",
                f"one of KIP-848 in a classic group of {CLASSIC_MEMBERS:,}": CLASSIC,
            }.items():
                took = [
                    joins(address, numbers, f"{prefix}-{number}", subscribed_topic_names=names)
                    for number in range(RUNS)
                ]
                answered, longest = zip(*took, strict=True)
                table.add_row(who, f"{statistics.median(answered):.0f}", f"{statistics.median(longest):.0f}")
            Console(width=100).print(table)


if __name__ == "__main__":
    main()
