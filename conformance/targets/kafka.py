"""Apache Kafka, the oracle: KRaft nodes as Java processes; before 3.3 with a ZooKeeper beside them.

The machine's `mvn` fetches the jars. The cache folder keeps the class path, and the formatted storage of each node.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kafka_shim.apis.releases import rules_of
from kafka_shim.conformance import processes
from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.targets.base import (
    NO_INTERVALS,
    PROFILES,
    READY_SECONDS,
    Children,
    Instance,
    Limits,
    TargetError,
    free_port,
    wait_until_listening,
)
from kafka_shim.conformance.targets.secured import LISTENERS, SECURITY, settings

NEWEST: Final[Mapping[str, str]] = {
    "4.4": "4.4.0",
    "4.3": "4.3.1",
    "4.2": "4.2.2",
    "4.1": "4.1.1",
    "4.0": "4.0.1",
    "3.9": "3.9.2",
    "3.6": "3.6.2",
    "3.3": "3.3.2",
    "2.8": "2.8.2",
}
"""The newest patch release of a line, so that a run is repeatable."""

_WITHOUT_ZOOKEEPER: Final = (3, 3)
"""The first release with KRaft for production."""
_WITH_TOKENS: Final = (3, 6)
"""The first release that has delegation tokens without ZooKeeper; an older one does not start with their settings."""

DEFAULT_VERSION: Final = "4.4"

CLUSTER_ID: Final = "a2Fma2EtZ3JvdXAtc2hpbQ"
"""The id of all clusters here; only their addresses differ."""

_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>conformance</groupId>
  <artifactId>target</artifactId>
  <version>1</version>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""

_DEPENDENCY: Final = """
    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"""

SLF4J: Final = "org.slf4j:slf4j-simple:1.7.36"

_SMALL: Final[Mapping[str, str]] = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.backoff.ms": "100",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    # The interval of the search for expired transactions; 10 s by default.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
}

_KRAFT: Final = ("controller.listener.names", "listener.security.protocol.map")

_JAVA: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def cache_folder() -> Path:
    """Return the folder in which targets keep downloads and builds between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "kafka-shim"


def class_path(version: str) -> str:
    """Return the class path of a Kafka release; Maven fetches it the first time. Raises `TargetError` on failure."""
    return jars_of(f"kafka-{version}", f"org.apache.kafka:kafka_2.13:{version}", SLF4J)


def jars_of(name: str, *artifacts: str) -> str:
    """Return the class path of artifacts, `group:artifact:version`; Maven fetches them the first time.

    The cache folder keeps it under `name`. Raises `TargetError` on failure.
    """
    folder = cache_folder() / name
    remembered = folder / "classpath.txt"
    if remembered.exists():
        jars = remembered.read_text().strip()
        if all(Path(jar).exists() for jar in jars.split(os.pathsep)):
            return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise TargetError(f"{artifacts[0]} is fetched with Maven, and mvn is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    dependencies = "".join(_DEPENDENCY.format(*artifact.split(":")) for artifact in artifacts)
    (folder / "pom.xml").write_text(_POM.format(dependencies=dependencies))
    fetched = processes.run(
        [maven, "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={remembered}"], cwd=folder
    )
    if fetched.returncode != 0 or not remembered.exists():
        errors = (line for line in fetched.stdout.splitlines() if line.startswith("[ERROR] Failed"))
        error = next(errors, fetched.stdout[-500:])
        raise TargetError(f"Maven could not fetch {artifacts[0]}: {error}")
    return remembered.read_text().strip()


class KafkaTarget:
    """`kafka`, `kafka:VERSION` or `kafka:VERSIONxBROKERS`; a line such as 3.9 means its newest release."""

    def __init__(self, spec: str = DEFAULT_VERSION, settings: Mapping[str, str] | None = None) -> None:
        """`settings` of all its brokers, by Kafka's names, overrule those of a profile."""
        version, x, brokers = spec.partition("x")
        self.version = NEWEST.get(version, version)
        if not re.fullmatch(r"\d+\.\d+\.\d+", self.version) or (x and not re.fullmatch(r"[1-9]", brokers)):
            raise TargetError(f"not a Kafka release, or release and number of brokers: {spec}")
        self.brokers = int(brokers or 1)
        self.name = f"kafka:{self.version}" + (f"x{brokers}" if self.brokers > 1 else "")
        secured = {SECURITY} if self.brokers == 1 and not self._needs_zookeeper else set()
        self.profiles = frozenset(PROFILES) | secured
        self.violations: list[str] = []
        self._settings = dict(settings or {})
        self._children = Children()
        self._lock = threading.Lock()
        self._zookeeper_endpoint: Endpoint | None = None

    def start(self, profile: str) -> Instance:
        java = shutil.which("java")
        if java is None:
            raise TargetError("Apache Kafka needs Java, which is not installed")
        with self._lock:
            command = [java, *_JAVA, *self.logging_options()]
        folder = self._children.folder("conformance-kafka-")
        controller = self._zookeeper(command) if self._needs_zookeeper else Endpoint("127.0.0.1", free_port())
        endpoints = [Endpoint("127.0.0.1", free_port()) for _ in range(self.brokers)]
        secured = {name: Endpoint("127.0.0.1", free_port()) for name in LISTENERS} if profile == SECURITY else {}
        started = []
        for node_id, endpoint in enumerate(endpoints, 1):
            properties = folder / f"server-{node_id}.properties"
            config = _config(node_id, endpoint, controller, folder, zookeeper=self._needs_zookeeper)
            intervals = NO_INTERVALS if rules_of(self.version).batched_assignments else {}
            own = _with_listeners(config, settings(endpoint, secured)) if secured else PROFILES[profile]
            if self._is_before(_WITH_TOKENS):
                own = {name: value for name, value in own.items() if not name.startswith("delegation.token.")}
            properties.write_text(_lines(config | dict(intervals) | dict(own) | self._settings))
            if not self._needs_zookeeper:
                shutil.copytree(self._formatted(command, node_id), folder / f"data-{node_id}")
            with open(folder / f"log-{node_id}", "wb") as log:
                started.append(self._children.start([*command, "kafka.Kafka", properties], stdout=log, stderr=log))
        for endpoint, process in zip(endpoints, started, strict=True):
            wait_until_listening(endpoint, process, READY_SECONDS)
        several = f", {self.brokers} brokers" if self.brokers > 1 else ""
        return Instance(
            endpoints[0].host,
            endpoints[0].port,
            profile,
            Limits().configured(own),
            description=f"Apache Kafka {self.version}{several}",
            process=started[0],
            others=tuple(endpoints[1:]),
            secured=secured,
        )

    def stop(self) -> None:
        # No clean shutdown: its data is temporary, and a release may take 20 s per broker.
        self._children.end(at_once=True)
        self._zookeeper_endpoint = None

    def logging_options(self) -> list[str]:
        """Return Java's options for a log of warnings on standard error, with the class path."""
        return ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path(self.version)]

    @property
    def _needs_zookeeper(self) -> bool:
        return self._is_before(_WITHOUT_ZOOKEEPER)

    def _is_before(self, line: tuple[int, int]) -> bool:
        return tuple(map(int, self.version.split(".")[:2])) < line

    def _formatted(self, command: list[str], node_id: int) -> Path:
        """Return the formatted storage of a new node, created once per release: that too takes a Java process."""
        formatted = cache_folder() / f"kafka-{self.version}" / f"formatted-{node_id}"
        with self._lock:
            if not formatted.exists():
                folder = self._children.folder("conformance-format-")
                nowhere = (Endpoint("127.0.0.1", free_port()), Endpoint("127.0.0.1", free_port()))
                properties = folder / "server.properties"
                properties.write_text(_lines(_config(node_id, *nowhere, folder, zookeeper=False)))
                storage_tool = [*command, "kafka.tools.StorageTool", "format", f"--cluster-id={CLUSTER_ID}", "-c"]
                done = processes.run([*storage_tool, properties])
                if done.returncode != 0:
                    raise TargetError(f"Kafka {self.version} could not format its storage: {done.stderr[-800:]}")
                # A rename is atomic for concurrent runs.
                beside = formatted.with_name(f"{formatted.name}-{uuid.uuid4().hex}")
                shutil.copytree(folder / f"data-{node_id}", beside)
                with suppress(OSError):
                    beside.rename(formatted)
                shutil.rmtree(beside, ignore_errors=True)
        return formatted

    def _zookeeper(self, command: list[str]) -> Endpoint:
        """Return the one ZooKeeper of all instances; each instance has its own path in it."""
        with self._lock:
            if self._zookeeper_endpoint is None:
                endpoint = Endpoint("127.0.0.1", free_port())
                self._start_zookeeper(command, endpoint, self._children.folder("conformance-zookeeper-"))
                self._zookeeper_endpoint = endpoint
            return self._zookeeper_endpoint

    def _start_zookeeper(self, command: list[str], endpoint: Endpoint, folder: Path) -> None:
        properties = folder / "zookeeper.properties"
        properties.write_text(
            _lines(
                {
                    "dataDir": str(folder / "zookeeper"),
                    "clientPort": str(endpoint.port),
                    "clientPortAddress": endpoint.host,
                    "admin.enableServer": "false",
                }
            )
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        with open(folder / "log-zookeeper", "wb") as log:
            process = self._children.start([*command, main, properties], stdout=log, stderr=log)
        wait_until_listening(endpoint, process, READY_SECONDS)


def _config(node_id: int, endpoint: Endpoint, controller: Endpoint, folder: Path, *, zookeeper: bool) -> dict[str, str]:
    """Return the settings of a broker. The first broker is the controller too, unless ZooKeeper is used."""
    common = {"advertised.listeners": f"PLAINTEXT://{endpoint}", "log.dirs": str(folder / f"data-{node_id}")}
    if zookeeper:
        small = {name: value for name, value in _SMALL.items() if name not in _KRAFT}
        others = {
            "broker.id": str(node_id),
            "zookeeper.connect": f"{controller}/{folder.name}",
            "listeners": f"PLAINTEXT://{endpoint}",
        }
        return small | common | others
    listeners = {"PLAINTEXT": str(endpoint)} | ({"CONTROLLER": str(controller)} if node_id == 1 else {})
    return (
        dict(_SMALL)
        | common
        | {
            "process.roles": "broker,controller" if node_id == 1 else "broker",
            "node.id": str(node_id),
            "controller.quorum.voters": f"1@{controller}",
            "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
        }
    )


def _with_listeners(config: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the settings `own` with the listener of the controller among the others."""
    controller = next(part for part in config["listeners"].split(",") if part.startswith("CONTROLLER:"))
    protocols = f"{own['listener.security.protocol.map']},CONTROLLER:PLAINTEXT"
    listeners = {"listeners": f"{own['listeners']},{controller}", "advertised.listeners": own["listeners"]}
    return dict(own) | listeners | {"listener.security.protocol.map": protocols}


def _lines(config: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in config.items())
