"""Kafka's own command line tools, unmodified: records, groups and their offsets, topics, logs, transactions."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kafka_shim.conformance.targets.kafka import cache_folder

pytestmark = pytest.mark.second_stage("real clients")

VERSION = "4.4.0"
"""The newest release of the tools that Maven Central has."""

POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>tools</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"

Tool = Callable[..., str]


@pytest.fixture(scope="session")
def tools_class_path() -> str:
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None or maven is None:
        pytest.skip("Kafka's tools need java and, to be fetched, mvn")
    folder = cache_folder() / f"kafka-tools-{VERSION}"
    remembered = folder / "classpath.txt"
    if not remembered.exists() or not all(Path(jar).exists() for jar in remembered.read_text().split(":")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(POM)
        fetch = [maven, "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={remembered}"]
        subprocess.run(fetch, cwd=folder, check=True, capture_output=True)
    return remembered.read_text().strip()


def run_tool(class_path: str, bootstrap: str, name: str, *arguments: str, text: str = "") -> str:
    """Run a tool by its class, and return its output."""
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", class_path]
    command = [*java, name, "--bootstrap-server", bootstrap, *arguments]
    ended = subprocess.run(command, input=text, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture
def tool(tools_class_path: str, bootstrap: str) -> Tool:
    """Return a function that runs a tool by its class against the server and returns its output."""

    def run(name: str, *arguments: str, text: str = "") -> str:
        return run_tool(tools_class_path, bootstrap, name, *arguments, text=text)

    return run


def rows(output: str) -> list[list[str]]:
    """A table's lines, in columns."""
    return [line.split() for line in output.splitlines() if line.strip()]


def test_kafkas_tools_administer_a_group(tool: Tool, make_topic: Callable[..., str], name: str) -> None:
    topic, group = make_topic(2), f"{name}-group"
    tool("org.apache.kafka.tools.ConsoleProducer", "--topic", topic, text="one\ntwo\nthree\n")
    options = ["--topic", topic, "--group", group, "--from-beginning", "--max-messages", "3", "--timeout-ms", "30000"]
    consumed = tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *options)
    assert sorted(consumed.split()) == ["one", "three", "two"]

    described = rows(tool(GROUPS, "--describe", "--group", group))
    committed = {int(row[2]): (int(row[3]), int(row[4]), int(row[5])) for row in described if row[:2] == [group, topic]}
    assert sorted(committed) == [0, 1]
    assert sum(offset for offset, _, _ in committed.values()) == 3
    assert all(offset == end and lag == 0 for offset, end, lag in committed.values())
    assert [group, "Empty"] in rows(tool(GROUPS, "--list", "--state"))

    reset = rows(tool(GROUPS, "--group", group, "--reset-offsets", "--to-earliest", "--topic", topic, "--execute"))
    assert [[group, topic, str(number), "0"] for number in (0, 1)] == sorted(row for row in reset if row[0] == group)

    deleted = rows(tool(GROUPS, "--group", group, "--delete-offsets", "--topic", f"{topic}:1"))
    assert [topic, "1", "Successful"] in deleted
    tool(GROUPS, "--group", group, "--delete")
    assert group not in tool(GROUPS, "--list")


def test_kafkas_tools_grow_and_delete_a_topic(tool: Tool, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    tool(TOPICS, "--alter", "--topic", topic, "--partitions", "5")
    ends = tool("org.apache.kafka.tools.GetOffsetShell", "--topic", topic)
    assert sorted(ends.split()) == [f"{topic}:{number}:0" for number in range(5)]
    tool(TOPICS, "--delete", "--topic", topic)
    assert topic not in tool(TOPICS, "--list")


def test_kafkas_tools_show_logs_and_transactions(
    tool: Tool, make_topic: Callable[..., str], admin: AdminClient, bootstrap: str, name: str, tmp_path: Path
) -> None:
    topic = make_topic(2)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    producer.flush(20)
    transactions = rows(tool("org.apache.kafka.tools.TransactionsCommand", "list"))
    assert [row[3] for row in transactions if row[0] == name] == ["Ongoing"]
    producer.commit_transaction(20)

    described = tool(TOPICS, "--describe", "--topic", topic)
    assert described.count("Leader: 1") == 2
    assert topic in tool("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", topic)
    quorum = tool("org.apache.kafka.tools.MetadataQuorumCommand", "describe", "--status")
    assert "LeaderId:               1" in quorum

    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 1}], "version": 1}))
    deleted = tool("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(offsets))
    assert f"partition: {topic}-0\tlow_watermark: 1" in deleted
    (earliest,) = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()}).values()
    assert earliest.result(20).offset == 1
