"""Share consumers of real clients: the Java client's and confluent-kafka's, in one group.

One Java process has all Java consumers of this module, each moved by a line. A consumer that crashes is a Python
one, in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kafka_shim.conformance.clients.builds import KAFKA
from kafka_shim.conformance.targets.base import TargetError
from kafka_shim.conformance.targets.kafka import class_path

pytestmark = pytest.mark.second_stage("real clients")

PATIENCE = 40.0
"""Seconds a client may take on a machine that is busy."""

CRASHING = """
import sys
from confluent_kafka import ShareConsumer
consumer = ShareConsumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2],
                          "share.acknowledgement.mode": "explicit"})
consumer.subscribe([sys.argv[3]])
while True:
    for message in consumer.poll(1):
        if message.error() is None:
            print(message.offset(), message.value().decode(), flush=True)
"""


class Java:
    """The Java process: `say` hands it a line and returns its answer, in words."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, line: str) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        for answer in self._process.stdout:
            if answer.startswith("> "):
                words = answer[2:].split()
                assert words[0] != "failed", answer
                return words
        raise AssertionError("the Java process has ended")

    def poll(self, name: str, milliseconds: int = 500) -> list[str]:
        """Records as `offset:value:delivery count`."""
        return self.say(f"poll {name} {milliseconds}")[1:]

    def poll_until(self, name: str, count: int = 1) -> list[str]:
        """Poll until so many records came."""
        ends, records = time.monotonic() + PATIENCE, []
        while len(records) < count:
            assert time.monotonic() < ends, records
            records += self.poll(name)
        return records

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def java(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    if shutil.which("java") is None or shutil.which("javac") is None:
        pytest.skip("the Java client needs a JDK, and there is no java and javac here")
    try:
        jars = class_path(KAFKA)
    except TargetError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("share-script")
    subprocess.run(["javac", "-d", folder, "-cp", jars, Path(__file__).parent / "ShareScript.java"], check=True)
    options = [
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    ]
    process = Java(["java", *options, "-cp", f"{folder}{os.pathsep}{jars}", "ShareScript", bootstrap])
    yield process
    process.end()


@pytest.fixture
def group(admin: AdminClient, name: str) -> str:
    """A share group that begins at the start of its topics."""
    resource = ConfigResource(
        ConfigResource.Type.GROUP,
        f"{name}-shared",
        incremental_configs=[
            ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(20)
    return resource.name


def produce(bootstrap: str, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value)
        producer.flush(20)


def test_records_are_accepted_released_and_rejected(
    java: Java, bootstrap: str, group: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(1)
    produce(bootstrap, topic, "a", "b", "c")
    java.say(f"new {topic}-1 {group} {topic} explicit")
    records = java.poll_until(f"{topic}-1", 3)
    assert records == ["0:a:1", "1:b:1", "2:c:1"]
    for offset, kind in enumerate(["ACCEPT", "RELEASE", "REJECT"]):
        java.say(f"acknowledge {topic}-1 {offset} {kind}")
    assert "Optional.empty" in " ".join(java.say(f"commit {topic}-1")), "the commit of each partition succeeded"
    assert java.poll_until(f"{topic}-1") == ["1:b:2"]
    java.say(f"acknowledge {topic}-1 1 RENEW")
    java.say(f"commit {topic}-1")
    assert java.poll_until(f"{topic}-1") == ["1:b:2"], "the client polls again what it has renewed"
    java.say(f"acknowledge {topic}-1 1 ACCEPT")
    java.say(f"commit {topic}-1")
    produce(bootstrap, topic, "d")
    assert java.poll_until(f"{topic}-1") == ["3:d:1"]
    java.say(f"new {topic}-2 {group} {topic} implicit")
    java.say(f"acknowledge {topic}-1 3 RELEASE")
    java.say(f"close {topic}-1")
    assert java.poll_until(f"{topic}-2") == ["3:d:2"], "what was released on closing is another consumer's"
    java.say(f"commit {topic}-2")
    java.say(f"close {topic}-2")
    java.say(f"new {topic}-3 {group} {topic} implicit")
    produce(bootstrap, topic, "e")
    assert java.poll_until(f"{topic}-3") == ["4:e:1"], "what another has committed is done"
    java.say(f"close {topic}-3")


def test_records_of_a_consumer_that_crashed_are_delivered_again(
    java: Java, bootstrap: str, group: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(1)
    produce(bootstrap, topic, "a", "b")
    crashing = subprocess.Popen(
        [sys.executable, "-c", CRASHING, bootstrap, group, topic], stdout=subprocess.PIPE, text=True
    )
    assert crashing.stdout is not None
    assert [crashing.stdout.readline() for _ in range(2)] == ["0 a\n", "1 b\n"]
    java.say(f"new {topic}-1 {group} {topic} implicit")
    crashing.kill()
    crashing.wait()
    assert java.poll_until(f"{topic}-1", 2) == ["0:a:2", "1:b:2"]
    java.say(f"close {topic}-1")


def test_two_clients_share_a_topic(
    java: Java, bootstrap: str, group: str, admin: AdminClient, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(2)
    java.say(f"new {topic}-1 {group} {topic} implicit")
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([topic])
    values = {f"v{number}" for number in range(40)}
    produce(bootstrap, topic, *sorted(values))
    ends, mine, theirs = time.monotonic() + PATIENCE, [], []
    while len(mine) + len(theirs) < len(values):
        assert time.monotonic() < ends, (mine, theirs)
        mine += [message.value().decode() for message in consumer.poll(0.2) if message.error() is None]
        theirs += [each.split(":")[1] for each in java.poll(f"{topic}-1", 200)]
    assert sorted(mine + theirs) == sorted(values), "each record was delivered once"
    consumer.close()
    java.say(f"close {topic}-1")
