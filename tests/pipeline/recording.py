"""The recorder of `tests/pipeline/recordings`: `python -m tests.pipeline.recording OUT` runs a real Kafka and
consumers.

Three groups of three kinds of clients connect through `kafka-shim trace record`: some members are killed, some are
restarted one by one, some are static. OUT gets the trace of the relay, the segments of `__consumer_offsets` of the same
run, and `story.json`, the list of steps that the trace must confirm. Every step waits until the group is stable again,
so that each is a rebalance of its own.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_shim.conformance.clients.client_processes import (
    CLIENTS,
    OTHER_LANGUAGES,
    Client,
    ClientProcesses,
    Member,
    all_of,
)
from tests.persistence.real_kafka import RealKafka
from tests.relay.recording import recording

PYTHON = CLIENTS["kafka-python-3.0"]
CONFLUENT = CLIENTS["confluent-kafka-2.16"]
JAVA = next(iter(OTHER_LANGUAGES.values()))

TOPICS = {"orders": 6, "shipments": 6, "payments": 4}
RECORDS = 600
SESSION_MS = 6_000
HEARTBEAT_MS = 500


class Group:
    """The members of one group, and the steps with them."""

    def __init__(self, bootstrap: str, name: str, topic: str, client: Client, story: list[dict[str, Any]]) -> None:
        self.processes = ClientProcesses(bootstrap, name)
        self.name = name
        self.topic = topic
        self.client = client
        self.story = story
        self.members: list[Member] = []

    def start(self, **config: Any) -> Member:
        """Start one more member; the group shares its partitions among all."""
        member = self.processes.start(
            self.client, topics=[self.topic], session_ms=SESSION_MS, heartbeat_ms=HEARTBEAT_MS, **config
        )
        self.members.append(member)
        self.whole(patience=60)
        self.note("started", member, rounds=1)
        return member

    def whole(self, patience: float = 30) -> None:
        partitions = all_of({self.topic: TOPICS[self.topic]})
        self.processes.wait(
            lambda: (
                sorted(owned for member in self.members for owned in member.owns) == sorted(partitions)
                and len({member.generation for member in self.members}) == 1
            ),
            f"{self.name} is whole",
            patience,
        )

    def close(self, member: Member) -> None:
        """Close a member, which leaves the group."""
        self.members.remove(member)
        self.note("closed", member, rounds=1 if self.members else 0)
        member.close()
        if self.members:
            self.whole()

    def kill(self, member: Member, *, again: dict[str, Any] | None = None) -> None:
        """Kill a member; restart it at once with the settings `again`, or wait for its session to expire."""
        self.members.remove(member)
        self.note("killed", member, rounds=0 if again else 1)
        member.kill()
        if again is not None:
            self.start(**again)
            self.story[-1]["rounds"] = 0
        else:
            self.whole()

    def commit(self) -> None:
        """Let all members commit their positions."""
        with self.processes.changed:
            ends = {
                (self.topic, partition): offset + 1
                for member in self.processes.members
                for partition, offset, *_ in sorted(member.records(self.topic))
            }
            owned = [(member, sorted(member.owns)) for member in self.members]
        for member, partitions in owned:
            member.do("commit", offsets=[[*each, ends[each]] for each in partitions])

    def note(self, what: str, member: Member, rounds: int) -> None:
        self.story.append(
            {
                "group": self.name,
                "what": what,
                "client_id": member.name,
                "member_id": member.member_id,
                "rounds": rounds,
                "at": time.time(),
            }
        )


def produce(bootstrap: str, each: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for topic, partitions in TOPICS.items():
        for number in range(each):
            producer.produce(topic, f"{number}", partition=number % partitions)
    assert producer.flush(30) == 0


def work(bootstrap: str) -> list[dict[str, Any]]:
    """Carry out all steps; return the story."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for creation in admin.create_topics([NewTopic(topic, count, 1) for topic, count in TOPICS.items()]).values():
        creation.result(30)
    story: list[dict[str, Any]] = []
    billing = Group(bootstrap, "billing", "orders", PYTHON, story)
    shipping = Group(bootstrap, "shipping", "shipments", CONFLUENT, story)
    audit = Group(bootstrap, "audit", "payments", JAVA, story)
    groups = [billing, shipping, audit]
    try:
        produce(bootstrap, RECORDS)
        for _ in range(3):
            billing.start(assignors=["range"])
            shipping.start(assignors=["cooperative-sticky"])
        for number in (1, 2):
            audit.start(assignors=["range"], instance=f"audit-{number}")
        for group in groups:
            group.processes.consumed(group.members, group.topic, RECORDS)
            group.commit()
        # Crashes: of a member without a replacement, of a static member that returns within its session, of a leader.
        billing.kill(billing.members[1])
        audit.kill(audit.members[0], again={"assignors": ["range"], "instance": "audit-1"})
        # A rolling restart.
        for member in list(shipping.members):
            shipping.close(member)
            shipping.start(assignors=["cooperative-sticky"])
        produce(bootstrap, RECORDS)
        billing.start(assignors=["range"])
        for group in groups:
            group.commit()
        audit.kill(audit.members[0])
        for group in (billing, shipping):
            group.kill(group.members[0])
            group.commit()
    finally:
        for group in groups:
            group.processes.end()
    return story


def record(
    out: Path, work: Callable[[str, str], list[dict[str, Any]]], settings: Mapping[str, str] | None = None
) -> None:
    """Record into a new folder. `work` gets the addresses of the relay and of the Kafka behind it, and returns the
    story.
    """
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        kafka = RealKafka(folder, settings)
        with kafka.running() as upstream, recording(upstream, folder / "trace.jsonl") as bootstrap:
            story = work(bootstrap, upstream)
        (out / "trace").mkdir()
        with (folder / "trace.jsonl").open("rb") as plain, gzip.open(out / "trace" / "trace.jsonl.gz", "wb") as packed:
            shutil.copyfileobj(plain, packed)
        for log in sorted(kafka.data.glob("__consumer_offsets-*/*.log")):
            if log.stat().st_size:
                folder_of_log = out / "segments" / log.parent.name
                folder_of_log.mkdir(parents=True)
                shutil.copy(log, folder_of_log)
    (out / "story.json").write_text(json.dumps(story, indent=1) + "\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]), lambda bootstrap, upstream: work(bootstrap))
