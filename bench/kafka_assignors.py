"""Kafka's own server-side assignors, in a Java process behind a pipe (`KafkaAssignors.java`)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from kafka_shim.apis.wire.types import uuid_from_text, uuid_text
from kafka_shim.conformance.targets.kafka import NEWEST, class_path
from kafka_shim.groups.assignors.spec import GroupSpec, Partitions

DRIVER = Path(__file__).with_name("KafkaAssignors.java")


class KafkaAssignors:
    """A running Java process with Kafka's assignors. Raises `TargetError` if Kafka cannot be fetched."""

    def __init__(self) -> None:
        java = shutil.which("java")
        if java is None:
            raise FileNotFoundError("Kafka's assignors need java")
        command = [java, "-XX:+UseSerialGC", "-Xmx1g", "-cp", class_path(NEWEST["4.2"]), str(DRIVER)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def assign(self, assignor: str, spec: GroupSpec) -> dict[str, Partitions]:
        """Return Kafka's assignment of the same members in the same order."""
        assigned = self._ask(assignor, spec, runs=1, read=False, assignment=True)["assignment"]
        return {
            member_id: {uuid_from_text(topic): frozenset(partitions) for topic, partitions in assignment.items()}
            for member_id, assignment in assigned.items()
        }

    def seconds(self, assignor: str, spec: GroupSpec, read: bool, runs: int) -> float:
        """Return the CPU seconds of the thread for several runs, without garbage collector and compiler.

        With `read` the time includes reading all partitions of each answer.
        """
        return float(self._ask(assignor, spec, runs, read, assignment=False)["nanoseconds"]) / 1e9

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def _ask(self, assignor: str, spec: GroupSpec, runs: int, read: bool, assignment: bool) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        question = {
            "assignor": assignor,
            "runs": runs,
            "read": read,
            "assignment": assignment,
            "partitions": {uuid_text(topic): count for topic, count in spec.partition_counts.items()},
            "members": [
                {
                    "id": member_id,
                    "instance_id": member.instance_id,
                    "topics": [uuid_text(topic) for topic in member.topics],
                    "assignment": {uuid_text(topic): sorted(owned) for topic, owned in member.assignment.items()},
                }
                for member_id, member in spec.members.items()
            ],
        }
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())
