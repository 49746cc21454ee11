"""Apache Kafka itself, the oracle: a single KRaft node in a Java process of its own.

Its jars come from Maven, through the machine's `mvn`; the class path is remembered in the cache folder. It does not
know what the cases ask of it.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafka_shim.conformance import processes
from kafka_shim.conformance.targets.base import (
    PROFILES,
    Children,
    Instance,
    Limits,
    TargetError,
    free_port,
    wait_until_listening,
)

NEWEST: Final[Mapping[str, str]] = {"4.2": "4.2.2", "4.1": "4.1.1", "4.0": "4.0.1", "3.9": "3.9.2"}
"""The newest patch release of a line, so that a run is repeatable."""

DEFAULT_VERSION: Final = "4.2"

_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>conformance</groupId>
  <artifactId>kafka-target</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""

_SMALL: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.enable": "false",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
}

_JAVA: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def cache_folder() -> Path:
    """Where targets keep what they fetched or built, between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "kafka-shim"


def class_path(version: str) -> str:
    """The class path of a Kafka release, fetched by Maven the first time; `TargetError` if it cannot be had."""
    folder = cache_folder() / f"kafka-{version}"
    remembered = folder / "classpath.txt"
    if remembered.exists():
        jars = remembered.read_text().strip()
        if all(Path(jar).exists() for jar in jars.split(os.pathsep)):
            return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise TargetError("Apache Kafka is fetched with Maven, and there is no mvn here")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(_POM.format(version=version))
    fetched = processes.run(
        [maven, "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={remembered}"], cwd=folder
    )
    if fetched.returncode != 0 or not remembered.exists():
        errors = (line for line in fetched.stdout.splitlines() if line.startswith("[ERROR] Failed"))
        told = next(errors, fetched.stdout[-500:])
        raise TargetError(f"Maven could not fetch Kafka {version}: {told}")
    return remembered.read_text().strip()


class KafkaTarget:
    """`kafka` or `kafka:VERSION`; a line such as 3.9 means its newest release."""

    def __init__(self, version: str = DEFAULT_VERSION) -> None:
        self.version = NEWEST.get(version, version)
        if not re.fullmatch(r"\d+\.\d+\.\d+", self.version):
            raise TargetError(f"not a Kafka release: {version}")
        self.name = f"kafka:{self.version}"
        self.profiles = frozenset(PROFILES)
        self.violations: list[str] = []
        self._children = Children()
        self._lock = threading.Lock()

    def start(self, profile: str) -> Instance:
        java = shutil.which("java")
        if java is None:
            raise TargetError("Apache Kafka needs Java, and there is no java here")
        with self._lock:
            jars = class_path(self.version)
        folder = self._children.folder("conformance-kafka-")
        port, controller = free_port(), free_port()
        config = dict(_SMALL) | dict(PROFILES[profile])
        config |= {
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(folder / "data"),
        }
        properties = folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        command = [java, *_JAVA, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", jars]
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        formatted = processes.run(
            [*command, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties)]
        )
        if formatted.returncode != 0:
            raise TargetError(f"Kafka {self.version} could not format its storage: {formatted.stderr[-800:]}")
        with open(folder / "log", "wb") as log:
            process = self._children.start([*command, "kafka.Kafka", str(properties)], stdout=log, stderr=log)
        wait_until_listening(port, process, 90)
        return Instance(
            "127.0.0.1",
            port,
            profile,
            Limits().configured(config),
            frozenset({"short-sessions", "configurable"}),
            f"Apache Kafka {self.version}",
            process,
        )

    def stop(self) -> None:
        self._children.end()
