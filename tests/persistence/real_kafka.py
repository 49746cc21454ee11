"""Apache Kafka on a data folder of the test, which can be stopped and restarted."""

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.processes import end
from kafka_shim.conformance.targets.base import NO_INTERVALS, TargetError, free_port, wait_until_listening
from kafka_shim.conformance.targets.kafka import DEFAULT_VERSION, NEWEST, class_path

PARTITIONS = 4
"""Number of partitions of `__consumer_offsets`."""

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "log.cleaner.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": str(PARTITIONS),
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "group.streams.initial.rebalance.delay.ms": "0",
    **NO_INTERVALS,
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
}


class RealKafka:
    """A broker with its logs in `data`; `extra` are additional settings."""

    def __init__(self, folder: Path, extra: Mapping[str, str] | None = None) -> None:
        java = shutil.which("java")
        if java is None:
            pytest.skip("Apache Kafka needs Java, and there is no java here")
        try:
            jars = class_path(NEWEST[DEFAULT_VERSION])
        except TargetError as error:
            pytest.skip(str(error))
        self._command = [java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
                         "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", jars]  # fmt: skip
        self._folder = folder
        self.data = folder / "data"
        controller = free_port()
        self._port = free_port()
        settings = _SETTINGS | {
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "log.dirs": str(self.data),
            **(extra or {}),
        }
        self._properties = folder / "server.properties"
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        format_ = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(self._properties)]
        subprocess.run([*self._command, *format_], check=True, capture_output=True)

    @contextmanager
    def running(self) -> Iterator[str]:
        """Run the broker; yield its bootstrap servers; shut it down cleanly."""
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [*self._command, "kafka.Kafka", str(self._properties)], stdout=log, stderr=log, start_new_session=True
            )
        try:
            wait_until_listening(Endpoint("127.0.0.1", self._port), process, 90)
            yield f"127.0.0.1:{self._port}"
        finally:
            end(process, 30)
