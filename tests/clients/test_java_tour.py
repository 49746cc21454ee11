"""The Java client of 4.4.0: transactions in groups of both protocols, and an administrator's round."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kafka_shim.conformance.clients.builds import KAFKA
from kafka_shim.conformance.targets.base import TargetError
from kafka_shim.conformance.targets.kafka import class_path

pytestmark = pytest.mark.second_stage("real clients")

STEPS = [
    "features: {group.version=1, share.version=2, streams.version=1, transaction.version=2}",
    "queue: true",
    "classic read: [v0, v1, v2, v3]",
    "classic abort: {}",
    "classic read: [v0, v1, v2, v3]",
    "classic commit: {0=2, 1=2}",
    "classic zombie: fenced",
    "classic committed: [classic commit v0, classic commit v1, classic commit v2, classic commit v3]",
    "consumer read: [v0, v1, v2, v3]",
    "consumer abort: {}",
    "consumer read: [v0, v1, v2, v3]",
    "consumer commit: {0=2, 1=2}",
    "consumer zombie: fenced",
    "consumer committed: [classic commit v0, classic commit v1, classic commit v2, classic commit v3,"
    " consumer commit v0, consumer commit v1, consumer commit v2, consumer commit v3]",
    "groups: {classic=Classic, consumer=Consumer}",
    "altered: {0=1, 1=2}",
    "deleted: {1=2}",
    "interval: 500",
    "left: false",
]
"""What Kafka 4.4.0 answers too."""


def test_transactions_and_an_administrators_round(bootstrap: str, name: str, tmp_path: Path) -> None:
    if shutil.which("java") is None or shutil.which("javac") is None:
        pytest.skip("the Java client needs a JDK, and there is no java and javac here")
    try:
        jars = class_path(KAFKA)
    except TargetError as error:
        pytest.skip(str(error))
    source = Path(__file__).with_name("Tour.java")
    subprocess.run(["javac", "-d", tmp_path, "-cp", jars, source], check=True)
    options = [
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    ]
    command = ["java", *options, "-cp", f"{tmp_path}{os.pathsep}{jars}", "Tour", bootstrap, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == STEPS, done.stderr
