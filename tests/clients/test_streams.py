"""A Kafka Streams application counts words, by the streams protocol (KIP-1071) and by the classic one.

It grows from one instance to three, one of which is killed, and the counts stay exact. Instances run in two Java
processes, and those of both protocols side by side: Java is built and started once for all of it. Another test has a
plugin of topology descriptions, and the application describes its topology.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_shim.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_shim.apis.streams_group_describe import (
    DescriptionStatus,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from kafka_shim.conformance.targets import open_target
from kafka_shim.conformance.targets.kafka import cache_folder
from kafka_shim.testing import CoordinatorServer
from kafka_shim.testing.coordinator import Coordinator
from tests.server.wire import Client
from tests.waiting import until

from .conftest import TARGET

pytestmark = pytest.mark.second_stage("real clients")

VERSION = "4.4.0"
"""The newest release of Kafka Streams that Maven Central has."""

POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>streams</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId><version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""

PROTOCOLS = ("streams", "classic")
TASKS = {f"{subtopology}_{partition}" for subtopology in (0, 1) for partition in range(3)}
SECONDS = 60.0 if TARGET == "shim" else 150.0
"""Limit of each wait, far above the usual few seconds for the sake of busy machines. A session on Kafka ends after 45 s
at the earliest."""

QUICK = {
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.initial.rebalance.delay.ms": "0",
}


class Instances:
    """A Java process with instances of applications."""

    def __init__(self, class_path: str, bootstrap: str, folder: Path) -> None:
        java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        self.process = subprocess.Popen(
            [*java, quiet, "-cp", class_path, "WordCount", bootstrap, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answers: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._answers.put(line.strip())

    def ask(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self, first: str) -> list[str]:
        """The words of the next answer, which begins with `first`."""
        try:
            words = self._answers.get(timeout=SECONDS).split(" ")
        except Empty:
            raise AssertionError(f"no answer {first!r} came") from None
        assert words[0] == first, words
        return words[1:]

    def tasks(self) -> list[tuple[str, str]]:
        """Instance and task of every active task."""
        self.ask("tasks")
        return [(instance, task) for instance, _, task in (each.partition(":") for each in self.answer("tasks"))]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def word_count(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the application, compiled."""
    if any(shutil.which(each) is None for each in ("java", "javac", "mvn")):
        pytest.skip("Kafka Streams needs a JDK and, to be fetched, mvn")
    folder = cache_folder() / f"kafka-streams-{VERSION}"
    remembered = folder / "classpath.txt"
    if not remembered.exists() or not all(Path(jar).exists() for jar in remembered.read_text().split(":")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(POM)
        fetch = ["mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={remembered}"]
        subprocess.run(fetch, cwd=folder, check=True, capture_output=True)
    jars = remembered.read_text().strip()
    classes = tmp_path_factory.mktemp("classes")
    source = Path(__file__).with_name("WordCount.java")
    subprocess.run(["javac", "-d", classes, "-cp", jars, source], check=True)
    return f"{classes}:{jars}"


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """The address of a server with the topics; its sessions are short unless it is another target."""
    topics = {"lines": 3} | {f"counts-{protocol}": 1 for protocol in PROTOCOLS}
    if TARGET == "shim":
        started = Coordinator(topics=topics, config=QUICK)
        started.start()
        try:
            yield started.bootstrap
        finally:
            started.stop()
        return
    target = open_target(TARGET)
    try:
        instance = target.start("default")
        address = f"{instance.host}:{instance.port}"
        admin = AdminClient({"bootstrap.servers": address})
        for future in admin.create_topics([NewTopic(*each, 1) for each in topics.items()]).values():
            future.result(20)
        yield address
    finally:
        target.stop()


class Counts:
    """The counts that each application has written, newest by word."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([f"counts-{protocol}" for protocol in PROTOCOLS])
        self.by_topic: dict[str, dict[str, int]] = defaultdict(dict)

    def wait(self, **expected: int) -> None:
        """Wait until both applications have these counts."""
        deadline = time.monotonic() + SECONDS
        while any(self.by_topic[f"counts-{protocol}"] != expected for protocol in PROTOCOLS):
            assert time.monotonic() < deadline, (expected, self.by_topic)
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                topic, key, value = message.topic(), message.key(), message.value()
                assert topic is not None
                assert key is not None
                assert value is not None
                self.by_topic[topic][key.decode()] = int(value)

    def close(self) -> None:
        self._consumer.close()


def applications(bootstrap: str) -> dict[str, tuple[str, str]]:
    """The type and the state of the group of each application."""
    with Client(bootstrap) as client:
        groups = client.ask(ListGroupsRequest(), 5, ListGroupsResponse).groups
    return {each.group_id: (each.group_type, each.group_state) for each in groups if each.group_id.startswith("words-")}


def wait_for_tasks(*processes: Instances, instances: set[str]) -> None:
    """Wait until each instance has tasks, and each task of an application has an instance."""
    running: list[tuple[str, str]] = []

    def all_run() -> bool:
        running[:] = [each for process in processes for each in process.tasks()]
        return {instance for instance, _ in running} == instances and all(
            sorted(task for instance, task in running if instance.startswith(protocol)) == sorted(TASKS)
            for protocol in PROTOCOLS
        )

    until(all_run, lambda: running, SECONDS)


def test_word_count_grows_to_three_instances_and_loses_one(word_count: str, bootstrap: str, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})

    def write(*lines: str) -> None:
        for number, line in enumerate(lines):
            producer.produce("lines", line, partition=number)
        producer.flush()

    def start(process: Instances, number: int) -> None:
        for protocol in PROTOCOLS:
            process.ask(f"start {protocol}-{number} words-{protocol} {protocol} lines counts-{protocol}")

    def names(*numbers: int) -> set[str]:
        return {f"{protocol}-{number}" for protocol in PROTOCOLS for number in numbers}

    stays = Instances(word_count, bootstrap, tmp_path / "stays")
    dies = Instances(word_count, bootstrap, tmp_path / "dies")
    counts = Counts(bootstrap)
    try:
        write("a b a", "b c", "a")
        start(stays, 1)
        counts.wait(a=3, b=2, c=1)
        types = {name: kind for name, (kind, _) in applications(bootstrap).items()}
        assert types == {"words-streams": "streams", "words-classic": "classic"}

        start(stays, 2)
        start(dies, 3)
        wait_for_tasks(stays, dies, instances=names(1, 2, 3))
        write("d", "a c", "b")
        counts.wait(a=4, b=3, c=2, d=1)

        dies.process.kill()
        wait_for_tasks(stays, instances=names(1, 2))
        write("a", "d", "b e")
        counts.wait(a=5, b=4, c=2, d=2, e=1)

        for name in sorted(names(1, 2)):
            stays.ask(f"close {name}")
            assert stays.answer("closed") == [name]
        assert applications(bootstrap)["words-streams"] == ("streams", "Empty")
    finally:
        counts.close()
        stays.end()
        dies.end()


@pytest.mark.skipif(TARGET != "shim", reason="the plugin is a setting of the broker")
def test_an_application_describes_its_topology_to_a_broker_with_a_plugin(word_count: str, tmp_path: Path) -> None:
    plugin = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
    config = QUICK | {"group.streams.topology.description.plugin.class": plugin}
    with CoordinatorServer(topics={"lines": 3, "counts-streams": 1}, config=config) as server:
        instances = Instances(word_count, server.bootstrap, tmp_path)
        try:
            instances.ask("start one words-streams streams lines counts-streams")
            api = "StreamsGroupTopologyDescriptionUpdate"
            described = server.group("words-streams").next("exchange", api=api, timeout=SECONDS)
            assert described["error"] == 0
            request = StreamsGroupDescribeRequest(["words-streams"], include_topology_description=True)
            with Client(server.bootstrap) as client:
                (group,) = client.ask(request, 1, StreamsGroupDescribeResponse).groups
        finally:
            instances.end()
    assert group.topology_description_status == DescriptionStatus.AVAILABLE
    description = group.topology_description
    assert description.global_stores == []
    nodes = {part.subtopology_id: part.nodes for part in description.subtopologies}
    repartition = "words-streams-words-repartition"
    assert {
        part: (
            [topic for node in each for topic in node.source_topics],
            [node.sink_topic for node in each if node.sink_topic is not None],
            [store for node in each for store in node.stores],
        )
        for part, each in nodes.items()
    } == {"0": (["lines"], [repartition], []), "1": ([repartition], ["counts-streams"], ["counts"])}
    for each in nodes.values():
        reached = {name for node in each for name in node.successors}
        assert reached < {node.name for node in each}
