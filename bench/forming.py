"""The time for a KIP-848 group to form: all members join at once, then heartbeat until everything is assigned.

    python -m bench.forming [--servers shim,kafka,kfake] [--members 2000] [--topics 100] [--partitions 100]

One process plays all members, each on its own connection. A member joins, owns its assignment at once, and confirms it
by its next heartbeat. `joined` is the time until every join is answered; `formed` until all partitions have an owner
and the numbers of partitions differ by at most one. `client` is the CPU time of the members, `server` that of the
server. A member that waits for others sends a heartbeat every five seconds.
"""

from __future__ import annotations

import argparse
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.load import Process
from bench.servers import serving
from kafka_shim.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.frames import FrameSplitter, frame
from kafka_shim.apis.wire.headers import decode_response_header, encode_request_header
from kafka_shim.conformance.targets import open_target
from kafka_shim.conformance.targets.base import TargetError

GROUP = "forming"
NOT_READY = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
INTERVAL = 5.0
"""Seconds between heartbeats without news."""


def encoded(message: Message, version: int) -> bytes:
    assert message.api_key is not None
    return frame(encode_request_header(message.api_key, version, 1, "bench") + message.encode(version))


def ask(address: tuple[str, int], message: Message, version: int) -> Any:
    """Send one request on its own connection; return the answer."""
    with socket.create_connection(address, timeout=300) as connection:
        connection.sendall(encoded(message, version))
        splitter = FrameSplitter()
        while not (frames := splitter.feed(connection.recv(1 << 16))):
            pass
        return decoded(frames[0], message, version)


def decoded(payload: bytes, message: Message, version: int) -> Any:
    api = APIS[message.api_key or 0]
    return api.response.decode(payload[decode_response_header(payload, api.key, version)[1] :], version)


class Member:
    """One member; it owns its assignment at once."""

    def __init__(self, number: int, address: tuple[str, int], topics: list[str]) -> None:
        self.id = f"member-{number:029}"
        self.topics = topics
        self.epoch = 0
        self.owned: list[TopicPartitions] = []
        self.splitter = FrameSplitter()
        self.socket = socket.create_connection(address)
        self.request = ConsumerGroupHeartbeatRequest(GROUP, self.id)
        self.sent = 0.0

    @property
    def partitions(self) -> int:
        return sum(len(each.partitions) for each in self.owned)

    def beat(self) -> None:
        self.request = ConsumerGroupHeartbeatRequest(GROUP, self.id, self.epoch, topic_partitions=self.owned)
        if self.epoch == 0:
            self.request.rebalance_timeout_ms = 300_000
            self.request.subscribed_topic_names = self.topics
        self.socket.sendall(encoded(self.request, 1))
        self.sent = time.monotonic()

    def hear(self) -> bool:
        """Receive bytes; return true if a complete answer has arrived and was handled."""
        frames = self.splitter.feed(self.socket.recv(1 << 16))
        if not frames:
            return False
        answer: ConsumerGroupHeartbeatResponse = decoded(frames[0], self.request, 1)
        if answer.error_code:
            raise RuntimeError(f"{self.id} was answered {answer.error_code}: {answer.error_message}")
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = [
                TopicPartitions(each.topic_id, each.partitions) for each in answer.assignment.topic_partitions
            ]
        return True


def all_beat(members: list[Member]) -> None:
    """Send a heartbeat of every member and wait for all answers; members that wait for others send one now and then."""
    selector = selectors.DefaultSelector()
    waiting = set(members)
    look = time.monotonic() + 1
    for member in members:
        member.beat()
        selector.register(member.socket, selectors.EVENT_READ, member)
    while waiting:
        for key, _ in selector.select(1.0):
            if key.data.hear():
                waiting.discard(key.data)
        now = time.monotonic()
        if now >= look:
            look = now + 1
            for member in members:
                if member not in waiting and now - member.sent > INTERVAL:
                    member.beat()
                    waiting.add(member)
    selector.close()


class Formed(NamedTuple):
    """The cost of forming a group.

    Seconds until all joined and until all was assigned, CPU seconds of the members and of the server, growth of the
    server in KiB, and rounds of heartbeats.
    """

    joined: float
    formed: float
    client: float
    server: float
    grown_kib: int
    rounds: int


def measure(name: str, members: int, topics: int, partitions: int, at_once: int | None = None) -> Formed:
    """Form a group on a new server; `at_once` members join together, all of them if None."""
    with _server(name) as address:
        names = [f"topic-{number}" for number in range(topics)]
        for each in names:
            # One topic per request: Kafka refuses all of them in one.
            answer = ask(
                address, CreateTopicsRequest(topics=[CreatableTopic(each, partitions, 1)], timeout_ms=60_000), 5
            )
            if answer.topics[0].error_code:
                raise TargetError(f"{each} was not made: {answer.topics[0].error_message}")
        limit = time.monotonic() + 120
        coming = FindCoordinatorRequest(coordinator_keys=[GROUP])
        while ask(address, coming, 4).coordinators[0].error_code and time.monotonic() < limit:
            time.sleep(0.2)
        # The coordinator may be found before it has loaded its partition.
        stranger = ConsumerGroupHeartbeatRequest(GROUP, "stranger", 1)
        while ask(address, stranger, 1).error_code in NOT_READY and time.monotonic() < limit:
            time.sleep(0.2)
        process = Process.listening_on(address[1])
        resident = process.resident_kib()
        everybody = [Member(number, address, names) for number in range(members)]
        began, used, served = time.perf_counter(), time.process_time(), process.cpu_seconds()
        for some in range(0, members, at_once or members):
            all_beat(everybody[some : some + (at_once or members)])
        joined = time.perf_counter() - began
        rounds = 0
        while not formed(everybody, topics * partitions):
            rounds += 1
            all_beat(everybody)
        return Formed(
            joined,
            time.perf_counter() - began,
            time.process_time() - used,
            process.cpu_seconds() - served,
            process.resident_kib() - resident,
            rounds,
        )


@contextmanager
def _server(name: str) -> Iterator[tuple[str, int]]:
    """Start a server and yield its address; ours runs without its control server, because the others have none."""
    if name == "shim":
        with serving() as (_, port):
            yield "127.0.0.1", port
        return
    target = open_target(name)
    try:
        instance = target.start("default")
        yield instance.host, instance.port
    finally:
        target.stop()


def formed(members: list[Member], partitions: int) -> bool:
    counts = [member.partitions for member in members]
    return sum(counts) == partitions and max(counts) - min(counts) <= 1 and len({each.epoch for each in members}) == 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="shim,kafka,kfake")
    parser.add_argument("--members", type=int, default=2000)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100)
    arguments = parser.parse_args()
    show: Callable[[float], str] = "{:.2f}".format
    table = Table(title=f"{arguments.members} members, {arguments.topics} topics of {arguments.partitions} partitions")
    for column in ("server", "joined s", "formed s", "client s", "server s", "grown KiB", "rounds"):
        table.add_column(column, justify="left" if column == "server" else "right")
    for name in arguments.servers.split(","):
        try:
            result = measure(name, arguments.members, arguments.topics, arguments.partitions)
            table.add_row(name, *map(show, result[:4]), f"{result.grown_kib:,}", str(result.rounds))
        except (TargetError, RuntimeError, OSError) as error:
            table.add_row(name, str(error))
        Console(width=100).print(table)


if __name__ == "__main__":
    main()
