"""The stage of a provoked case: one group of real clients, and the acts of a case on it."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer

from kafka_shim.conformance.clients.client_processes import EVERY_CLIENT, Client, ClientProcesses, Member, all_of

PARTITIONS = 6
SESSION_MS = 6_000
HEARTBEAT_MS = 1_000
POLL_MS = 6_500
"""The poll interval of members that will miss it; more than their session timeout, as librdkafka demands."""
_PATIENCE = 60.0
SHARE = "confluent-kafka-2.16-share"
_SHARE_CONSUMER = """
import json, queue, sys, threading
from confluent_kafka import ShareConsumer

config = json.loads(sys.argv[1])
commands = queue.Queue()

def read():
    for line in sys.stdin:
        commands.put(json.loads(line))

threading.Thread(target=read, daemon=True).start()

def emit(**message):
    print(json.dumps(message), flush=True)

consumer = ShareConsumer(
    {"bootstrap.servers": config["bootstrap"], "group.id": config["group"], "client.id": config["client_id"]}
    | ({"max.poll.interval.ms": config["max_poll_ms"]} if config.get("max_poll_ms") else {})
)
consumer.subscribe(config["topics"])
emit(event="started")
is_held, polls = False, 0
while True:
    try:
        command = commands.get(block=is_held)
    except queue.Empty:
        command = None
    if command is not None:
        is_held = command["do"] == "hold"
        if command["do"] == "close":
            consumer.close()
        emit(reply=command["id"], value=None)
        if command["do"] == "close":
            break
    if not is_held:
        try:
            consumer.poll(0.2)
        except Exception as error:
            emit(event="error", text=str(error))
        polls += 1
        if polls == 10:
            emit(event="polled")
"""
"""A consumer of a share group. The client does not tell its application which partitions it has."""
_CLIENTS = EVERY_CLIENT | {
    SHARE: Client(
        SHARE, "", protocol="share", build=lambda adapter, lock: [sys.executable, "-W", "ignore", "-c", _SHARE_CONSUMER]
    )
}


@dataclass
class Stage:
    """The group has the name of its topic, and members of `client`. `short` lists its members by name."""

    bootstrap: str
    group: str
    client: str
    control: str = ""
    """Address of the control server, if the server has one."""

    def __post_init__(self) -> None:
        self.processes = ClientProcesses(self.bootstrap, self.group)
        self.short: dict[str, Member] = {}

    def start(self, name: str, client_name: str = "", **config: Any) -> Member:
        """Start a member, or start one of this name again; of another client, if it is given."""
        settings = {"topics": [self.group], "session_ms": SESSION_MS, "heartbeat_ms": HEARTBEAT_MS, "client_id": name}
        client = _CLIENTS[client_name or self.client]
        if client.protocol == "consumer":
            settings["protocol"] = "consumer"
        member = self.processes.start(client, **(settings | config))
        self.short[name] = member
        return member

    def whole(self, *names: str, topics: dict[str, int] | None = None) -> None:
        """Wait until these members, or all, share all partitions."""
        members = [self.short[name] for name in names or self.short]
        if self.client == SHARE:
            self.processes.wait(
                lambda: all(each.events_of("polled") for each in members), f"{self.group} polls", _PATIENCE
            )
            self.rest(3.0)
            return
        partitions = sorted(all_of(topics or {self.group: PARTITIONS}))
        self.processes.wait(
            lambda: (
                all(member.owns for member in members)
                and sorted(owned for member in members for owned in member.owns) == partitions
            ),
            f"{self.group} is whole",
            _PATIENCE,
        )
        # An application that commits shows the size of its batches; and members need a moment to come to rest.
        self.rest(1.0)

    def started(self, *names: str, **config: Any) -> None:
        """Start several members at once, and wait until they share the partitions."""
        for name in names:
            self.start(name, **config)
        self.whole()

    def produce(self) -> None:
        """Append a record to every partition."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(PARTITIONS):
            producer.produce(self.group, b"record", partition=number)
        producer.flush(20)

    def close(self, *names: str) -> None:
        """Close members in order: each leaves the group."""
        for name in names:
            self.short.pop(name).close()

    def kill(self, name: str) -> None:
        self.short.pop(name).kill()

    def rest(self, seconds: float) -> None:
        """Let time pass, as an application does that works; from when all processes have started."""
        self.processes.all_started()
        time.sleep(seconds)

    def end(self) -> None:
        """Shut down all that run: the last thing that happens to every group."""
        for name in list(self.short):
            member = self.short.pop(name)
            if member.process.poll() is None:
                member.ask("close")
        deadline = time.monotonic() + 15
        for member in self.processes.members:
            try:
                member.process.wait(max(0.1, deadline - time.monotonic()))
            except Exception:
                continue
        self.processes.end()
