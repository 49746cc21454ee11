"""The recorder of `tests/pipeline/recordings/kafka-4.2-epochs`: `python -m tests.pipeline.recording_epochs OUT`.

It runs a real Kafka with real members of consumer, share and streams groups, which connect through `kafka-shim trace
record`, join, leave, are killed, and whose topics grow. After every step it waits until Kafka itself, described without
the relay, reports the group as stable. `story.json` has the steps, the group epochs before and after each, and the
assignments of all members after it.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_shim.apis.share_group_describe import ShareGroupDescribeRequest
from kafka_shim.apis.streams_group_describe import StreamsGroupDescribeRequest
from kafka_shim.conformance.clients.client_processes import CONSUMER_PROTOCOL, Client, ClientProcesses, Member
from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.targets.kafka import SLF4J, jars_of
from kafka_shim.conformance.wire import Connection, Tape
from tests.pipeline.recording import record

CONFLUENT = CONSUMER_PROTOCOL["confluent-kafka-2.16-consumer"]
JAVA = next(client for name, client in CONSUMER_PROTOCOL.items() if name.startswith("java-"))
STREAMS = "4.2.1"
"""The newest 4.2 release of Kafka Streams that Maven Central has."""

TOPICS = {"orders": 4, "payments": 4, "refunds": 2, "alerts": 3, "lines": 3, "marks": 2, "copies": 1}
RECORDS = 240
HEARTBEAT_MS = 1_000
SESSION_MS = 9_000
"""Long enough for a static member to return in time on a busy machine."""
PATIENCE_S = 90.0

SETTINGS = {
    f"group.{kind}.{least}{name}": str(value)
    for kind in ("consumer", "share", "streams")
    for least in ("min.", "")
    for name, value in (("heartbeat.interval.ms", HEARTBEAT_MS), ("session.timeout.ms", SESSION_MS))
}

_DESCRIBE = {
    "consumer": (ConsumerGroupDescribeRequest, 1),
    "share": (ShareGroupDescribeRequest, 1),
    "streams": (StreamsGroupDescribeRequest, 0),
}


class Kafka:
    """A client that describes groups by Kafka itself."""

    def __init__(self, upstream: str) -> None:
        host, port = upstream.rsplit(":", 1)
        self._connection = Connection(
            Endpoint(host, int(port)), patience=10, deadline=time.monotonic() + 1_000, tape=Tape(), label="describe"
        )

    def describe(self, kind: str, group_id: str) -> Any:
        request, version = _DESCRIBE[kind]
        (group,) = self._connection.call(request(group_ids=[group_id]), version).groups
        return group


def assigned(assignment: Any) -> dict[str, list[int]]:
    """Return the assignment by topic, or the active tasks by subtopology."""
    if hasattr(assignment, "active_tasks"):
        parts = {each.subtopology_id: sorted(each.partitions) for each in assignment.active_tasks}
    else:
        parts = {each.topic_name: sorted(each.partitions) for each in assignment.topic_partitions}
    return {name: parts[name] for name in sorted(parts) if parts[name]}


class Group:
    """One group and the steps of its life; a subclass for each kind carries them out."""

    kind = ""

    def __init__(self, kafka: Kafka, bootstrap: str, name: str, story: list[dict[str, Any]]) -> None:
        self.kafka = kafka
        self.bootstrap = bootstrap
        self.name = name
        self.story = story
        self.epoch = 0
        self.members: dict[str, dict[str, Any]] = {}
        self.size = 0

    def step(self, what: str, do: Callable[[], object], joining: int = 0, *, who: str = "") -> None:
        """Carry out one step; wait until the group has this many members more and all have their assignments."""
        at = time.time()
        do()
        self.size += joining
        before, members = self.epoch, self.members
        self._rest(changes=what != "back")
        came, went = self.members.keys() - members.keys(), members.keys() - self.members.keys()
        subject = (went if joining < 0 else came) or {who}
        self.story.append(
            {
                "group": self.name,
                "kind": self.kind,
                "what": what,
                "member_id": next(iter(subject)),
                "gone": sorted(went),
                "at": at,
                "epochs": [before, self.epoch],
                "members": self.members,
            }
        )
        # Let all members learn of this epoch, so that the next step is an epoch of its own.
        time.sleep(2.5 * HEARTBEAT_MS / 1000)

    def _rest(self, *, changes: bool) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            description = self.kafka.describe(self.kind, self.name)
            state = "Stable" if self.size else "Empty"
            if (
                (description.group_state, len(description.members)) == (state, self.size)
                and (description.group_epoch > self.epoch or not changes)
                and all(each.member_epoch == description.group_epoch for each in description.members)
                and all(
                    assigned(each.assignment) == assigned(each.target_assignment)
                    for each in description.members
                    if hasattr(each, "target_assignment")
                )
            ):
                break
            assert time.monotonic() < deadline, (self.name, self.size, self.epoch, description)
            time.sleep(0.05)
        self.epoch = description.group_epoch
        self.members = {
            each.member_id: {"client_id": each.client_id, "assigned": assigned(each.assignment)}
            for each in description.members
        }


class Consumers(Group):
    """A consumer group of one kind of client."""

    kind = "consumer"

    def __init__(self, kafka: Kafka, bootstrap: str, name: str, story: list[dict[str, Any]], client: Client) -> None:
        super().__init__(kafka, bootstrap, name, story)
        self.processes = ClientProcesses(bootstrap, name)
        self.client = client

    def start(self, topic: str, *, what: str = "started", joining: int = 1, **config: Any) -> Member:
        started: list[Member] = []
        self.step(
            what,
            lambda: started.append(self.processes.start(self.client, topics=[topic], protocol="consumer", **config)),
            joining,
        )
        return started[0]

    def close(self, member: Member) -> None:
        self.step("closed", member.close, -1)

    def kill(self, member: Member) -> None:
        self.step("killed", member.kill, -1)

    def commit(self, *members: Member) -> None:
        """Let each of these members commit its positions."""
        for member in members:
            with self.processes.changed:
                ends = {(found["topic"], found["partition"]): found["records"][-1][0] + 1
                        for each in self.processes.members for found in each.events_of("records")}  # fmt: skip
                offsets = [[*each, ends[each]] for each in sorted(member.owns) if each in ends]
            member.do("commit", offsets=offsets)

    def consumed(self, topic: str, count: int) -> None:
        self.processes.consumed(self.processes.members, topic, count)


class JavaGroup(Group):
    """A share group or a streams group, of members in Java processes."""

    def __init__(self, command: list[str], kind: str, *others: Any) -> None:
        super().__init__(*others)
        self.kind = kind
        self.command = command
        self.processes: list[subprocess.Popen[str]] = []
        self._numbers = itertools.count(1)

    def process(self) -> subprocess.Popen[str]:
        started = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes.append(started)
        return started

    def start(self, process: subprocess.Popen[str], topics: str) -> str:
        name = f"{self.name}-{next(self._numbers)}"
        self.step("started", lambda: say(process, f"{self.kind} {name} {self.name} {topics}"), 1)
        return name

    def close(self, process: subprocess.Popen[str], name: str) -> None:
        self.step("closed", lambda: say(process, f"close {name}"), -1)

    def kill(self, process: subprocess.Popen[str]) -> None:
        self.step("killed", process.kill, -1)


def say(process: subprocess.Popen[str], line: str) -> None:
    """Send one line to a Java process and wait until it has carried it out."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n", line


def work(bootstrap: str, upstream: str) -> list[dict[str, Any]]:
    """Carry out all steps; return the story."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for creation in admin.create_topics([NewTopic(topic, count, 1) for topic, count in TOPICS.items()]).values():
        creation.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})

    def produce() -> None:
        for topic, partitions in TOPICS.items():
            for number in range(RECORDS if topic != "copies" else 0):
                producer.produce(topic, f"{number}", partition=number % partitions)
        assert producer.flush(30) == 0

    def grow(topic: str) -> None:
        admin.create_partitions([NewPartitions(topic, TOPICS[topic] + 2)])[topic].result(30)

    story: list[dict[str, Any]] = []
    kafka = Kafka(upstream)
    with members_program() as command:
        dispatch = Consumers(kafka, bootstrap, "dispatch", story, CONFLUENT)
        audit = Consumers(kafka, bootstrap, "audit", story, JAVA)
        fanout = JavaGroup([*command, bootstrap], "share", kafka, bootstrap, "fanout", story)
        copier = JavaGroup([*command, bootstrap], "streams", kafka, bootstrap, "copier", story)
        try:
            produce()
            _dispatch(dispatch, grow)
            _audit(audit, grow)
            _come_and_go(fanout, "alerts", lambda: grow("alerts"))
            _come_and_go(copier, "lines,marks copies", lambda: grow("lines"))
        finally:
            dispatch.processes.end()
            audit.processes.end()
            for process in (*fanout.processes, *copier.processes):
                process.kill()
                process.wait()
    return story


def _dispatch(group: Consumers, grow: Callable[[str], None]) -> None:
    """Run members of confluent-kafka; the first takes three seconds to give partitions up."""
    slow = group.start("orders", assignors=["uniform"], revoke_s=3)
    group.consumed("orders", RECORDS)
    group.commit(slow)
    second = group.start("orders", assignors=["uniform"])
    third = group.start("orders", assignors=["uniform"])
    group.commit(slow, third)
    group.step("grew", lambda: grow("orders"))
    group.kill(second)
    group.commit(third)
    group.close(slow)
    group.commit(third)


def _audit(group: Consumers, grow: Callable[[str], None]) -> None:
    """Run static Java members."""
    first = group.start("payments", assignors=["range"], instance="audit-1")
    second = group.start("payments", assignors=["range"], instance="audit-2")
    group.consumed("payments", RECORDS)
    group.commit(first, second)

    def restart() -> None:
        nonlocal first
        first.close()
        first = group.processes.start(group.client, topics=["payments"], protocol="consumer", assignors=["range"],
                                 instance="audit-1")  # fmt: skip
        group.processes.wait(lambda: first.owns, "the static member is back", PATIENCE_S)

    group.step("back", restart)
    group.step("subscribed", lambda: second.do("subscribe", topics=["payments", "refunds"]), who=second.member_id)
    group.step("grew", lambda: grow("payments"))
    group.commit(first, second)
    group.kill(first)
    group.commit(second)


def _come_and_go(group: JavaGroup, topics: str, grow: Callable[[], None]) -> None:
    """Run three members; the last is killed and the second leaves."""
    stays, dies = group.process(), group.process()
    group.start(stays, topics)
    second = group.start(stays, topics)
    group.start(dies, topics)
    group.step("grew", grow)
    group.kill(dies)
    group.close(stays, second)


@contextmanager
def members_program() -> Iterator[list[str]]:
    """Compile `Members.java`; yield its command with a state folder, to which the bootstrap address is added."""
    jars = jars_of(f"kafka-streams-{STREAMS}", f"org.apache.kafka:kafka-streams:{STREAMS}", SLF4J)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(__file__).with_name("Members.java")
        subprocess.run(["javac", "-d", folder, "-cp", jars, source], check=True)
        java = shutil.which("java")
        assert java is not None
        small = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        yield [java, *small, quiet, f"-Dstate={folder}/state", "-cp", f"{folder}{os.pathsep}{jars}", "Members"]


if __name__ == "__main__":
    record(Path(sys.argv[1]), work, SETTINGS)
