"""Kafka's own server-side assignors, in a Java process behind a pipe (`KafkaAssignors.java`)."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from kafka_shim.apis.wire.types import uuid_from_text, uuid_text
from kafka_shim.conformance.targets.kafka import NEWEST, class_path
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, GroupSpec, Partitions
from kafka_shim.groups.streams.assignor import MemberSpec, SubtopologySpec
from kafka_shim.groups.streams.records import Tasks

DRIVER = Path(__file__).with_name("KafkaAssignors.java")


class KafkaAssignors:
    """A running Java process with Kafka's assignors. Raises `TargetError` if Kafka cannot be fetched."""

    def __init__(self) -> None:
        java = shutil.which("java")
        if java is None:
            raise FileNotFoundError("Kafka's assignors need java")
        options = ["-XX:+UseSerialGC", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        command = [java, *options, "-cp", class_path(NEWEST["4.4"]), str(DRIVER)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def assign(self, assignor: str, spec: GroupSpec) -> dict[str, Partitions]:
        """Return Kafka's assignment of the same members in the same order."""
        return _partitions(self._ask(_question(assignor, spec, runs=1, read=False, assignment=True)))

    def share(
        self,
        subscriptions: Mapping[str, AbstractSet[bytes]],
        partitions: Mapping[bytes, Sequence[int]],
        previous: Mapping[str, Partitions],
    ) -> dict[str, Partitions]:
        """Return the assignment of a share group by `simple`; the arguments are those of ours."""
        question = {
            "assignor": "simple",
            "runs": 1,
            "read": False,
            "assignment": True,
            "partitions": {uuid_text(topic): max(numbers) + 1 for topic, numbers in partitions.items()},
            "assignable": {uuid_text(topic): list(numbers) for topic, numbers in partitions.items()},
            "members": [
                _member(member_id, topics, previous.get(member_id, NO_PARTITIONS))
                for member_id, topics in subscriptions.items()
            ],
        }
        return _partitions(self._ask(question))

    def tasks(
        self, members: Mapping[str, MemberSpec], subtopologies: Mapping[str, SubtopologySpec], standby_replicas: int
    ) -> dict[str, Tasks]:
        """Return the tasks of a streams group by `sticky`; the arguments are those of ours."""
        question = {
            "assignor": "sticky",
            "replicas": standby_replicas,
            "subtopologies": {
                name: {"tasks": each.tasks, "stateful": each.is_stateful} for name, each in subtopologies.items()
            },
            "members": [
                {
                    "id": member_id,
                    "process_id": member.process_id,
                    "active": {name: sorted(numbers) for name, numbers in member.tasks.active.items()},
                    "standby": {name: sorted(numbers) for name, numbers in member.tasks.standby.items()},
                    "offsets": [[*task, offset] for task, offset in member.offsets.items()],
                }
                for member_id, member in members.items()
            ],
        }
        return {
            member_id: Tasks(
                *(
                    {name: frozenset(numbers) for name, numbers in assigned[role].items()}
                    for role in ("active", "standby")
                )
            )
            for member_id, assigned in self._ask(question).items()
        }

    def seconds(self, assignor: str, spec: GroupSpec, read: bool, runs: int) -> float:
        """Return the CPU seconds of the thread for several runs, without garbage collector and compiler.

        With `read` the time includes reading all partitions of each answer.
        """
        return float(self._ask(_question(assignor, spec, runs, read, assignment=False))["nanoseconds"]) / 1e9

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def _ask(self, question: Mapping[str, object]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def _question(assignor: str, spec: GroupSpec, runs: int, read: bool, assignment: bool) -> dict[str, object]:
    return {
        "assignor": assignor,
        "runs": runs,
        "read": read,
        "assignment": assignment,
        "partitions": {uuid_text(topic): count for topic, count in spec.partition_counts.items()},
        "members": [
            _member(member_id, member.topics, member.assignment, member.instance_id)
            for member_id, member in spec.members.items()
        ],
    }


def _member(
    member_id: str, topics: AbstractSet[bytes], assignment: Partitions, instance_id: str | None = None
) -> dict[str, object]:
    return {
        "id": member_id,
        "instance_id": instance_id,
        "topics": [uuid_text(topic) for topic in topics],
        "assignment": {uuid_text(topic): sorted(owned) for topic, owned in assignment.items()},
    }


def _partitions(answer: Any) -> dict[str, Partitions]:
    return {
        member_id: {uuid_from_text(topic): frozenset(numbers) for topic, numbers in assignment.items()}
        for member_id, assignment in answer["assignment"].items()
    }
