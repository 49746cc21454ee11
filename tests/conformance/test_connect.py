"""Two distributed Kafka Connect workers on our coordinator: after one dies, the other runs its tasks.

Connect has its own group protocol (`connect`, `sessioned`), and keeps its configuration, offsets and status in
compacted topics of the broker that coordinates it.
"""

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.conformance.targets import open_target
from kafka_shim.conformance.targets.base import free_port
from kafka_shim.conformance.targets.kafka import cache_folder
from tests.waiting import until

pytestmark = pytest.mark.second_stage("Kafka Connect")

VERSION = "4.2.0"
PATIENCE = 80.0
CONNECTORS = 3
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>conformance</groupId><artifactId>connect</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId><version>VERSION</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>connect-file</artifactId><version>VERSION</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""
SETTINGS = {
    "group.id": "connect-cluster",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.storage.topic": "connect-offsets",
    "offset.storage.replication.factor": "1",
    "offset.storage.partitions": "2",
    "config.storage.topic": "connect-configs",
    "config.storage.replication.factor": "1",
    "status.storage.topic": "connect-status",
    "status.storage.replication.factor": "1",
    "status.storage.partitions": "1",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "rebalance.timeout.ms": "10000",
    "scheduled.rebalance.max.delay.ms": "1000",
    "plugin.discovery": "service_load",
}


@pytest.fixture(scope="module")
def jars() -> str:
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        pytest.skip("Kafka Connect is fetched with Maven and runs on Java, and they are not here")
    folder = cache_folder() / f"connect-{VERSION}"
    remembered = folder / "classpath.txt"
    if not remembered.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(POM.replace("VERSION", VERSION))
        command = [maven, "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={remembered}"]
        fetched = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if fetched.returncode:
            pytest.skip(f"Maven could not fetch Kafka Connect {VERSION}")
    return remembered.read_text().strip()


class Worker:
    """One distributed worker as a separate process."""

    def __init__(self, jars: str, bootstrap: str, folder: Path, name: str) -> None:
        self.port = free_port()
        self.log = folder / f"{name}.log"
        properties = folder / f"{name}.properties"
        settings = SETTINGS | {"bootstrap.servers": bootstrap, "listeners": f"http://127.0.0.1:{self.port}"}
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*java, "org.apache.kafka.connect.cli.ConnectDistributed", str(properties)], stdout=log, stderr=log
            )

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the answer of its REST interface; None without one."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except OSError:
            return None

    def places(self) -> list[tuple[str, str]]:
        """Return state and port of the worker of every connector and every task."""
        states = []
        for number in range(CONNECTORS):
            status = self.ask(f"/connectors/source-{number}/status") or {"connector": {}, "tasks": []}
            for each in (status["connector"], *status["tasks"]):
                states.append((each.get("state", ""), each.get("worker_id", "").rpartition(":")[2]))
        return states


@pytest.fixture
def workers(jars: str, tmp_path: Path) -> Iterator[list[Worker]]:
    target = open_target("shim")
    started: list[Worker] = []
    try:
        instance = target.start("default")
        for name in ("first", "second"):
            started.append(Worker(jars, f"{instance.host}:{instance.port}", tmp_path, name))
        yield started
    finally:
        for worker in started:
            worker.process.kill()
            worker.process.wait()
        target.stop()


def until_workers(holds: Callable[[], object], what: str, workers: list[Worker]) -> None:
    """Poll a program until the condition holds."""

    def in_vain() -> str:
        logs = "\n".join(worker.log.read_text()[-1500:] for worker in workers)
        return f"{what}\n{logs}"

    until(holds, in_vain, PATIENCE)


def test_tasks_of_a_worker_that_dies_move_to_the_other(workers: list[Worker], tmp_path: Path) -> None:
    first, second = workers
    for number in range(CONNECTORS):
        source = tmp_path / f"lines-{number}"
        source.write_text("a line\n")
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": os.fspath(source),
            "topic": "lines",
        }
        connector = {"name": f"source-{number}", "config": config}
        until_workers(
            lambda connector=connector: first.ask("/connectors", connector), f"connector {number} is made", workers
        )

    def on(*ports: int) -> bool:
        places = second.places()
        running = all(state == "RUNNING" for state, _ in places) and len(places) == 2 * CONNECTORS
        return running and {port for _, port in places} == {str(port) for port in ports}

    until_workers(lambda: on(first.port, second.port), "both workers have a share", workers)
    first.process.kill()
    until_workers(lambda: on(second.port), "everything has moved to the second worker", workers)
    assert second.process.poll() is None
