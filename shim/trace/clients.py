"""Client libraries: how each is recognised by its requests, and how it spells the settings that advice names.

A trace has no name of a library. The versions of requests and the shape of a JoinGroup differ enough between libraries;
where they do not, the library is unknown and Kafka's own names of settings are used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

POLL_INTERVAL: Final = "max.poll.interval.ms"
POLL_RECORDS: Final = "max.poll.records"
SESSION: Final = "session.timeout.ms"
HEARTBEAT: Final = "heartbeat.interval.ms"
INSTANCE: Final = "group.instance.id"
ASSIGNORS: Final = "partition.assignment.strategy"
GROUP: Final = "group.id"


class Library(StrEnum):
    """A client library, by the name its users know."""

    JAVA = "Java"
    LIBRDKAFKA = "librdkafka"
    KAFKA_PYTHON = "kafka-python"
    AIOKAFKA = "aiokafka"
    FRANZ_GO = "franz-go"
    SARAMA = "sarama"
    KAFKAJS = "kafkajs"
    KAFKA_GO = "kafka-go"
    UNKNOWN = ""


_DOTTED: Final = (POLL_INTERVAL, POLL_RECORDS, SESSION, HEARTBEAT, INSTANCE, ASSIGNORS, GROUP)
_SPELLINGS: Final[Mapping[Library, Mapping[str, str]]] = {
    Library.UNKNOWN: {name: name for name in _DOTTED},
    Library.JAVA: {name: name for name in _DOTTED},
    # It accepts max.poll.records and ignores it.
    Library.LIBRDKAFKA: {name: name for name in _DOTTED if name != POLL_RECORDS},
    Library.KAFKA_PYTHON: {name: name.replace(".", "_") for name in _DOTTED},
    Library.AIOKAFKA: {name: name.replace(".", "_") for name in _DOTTED},
    Library.FRANZ_GO: {
        POLL_RECORDS: "the argument of PollRecords",
        SESSION: "kgo.SessionTimeout",
        HEARTBEAT: "kgo.HeartbeatInterval",
        INSTANCE: "kgo.InstanceID",
        ASSIGNORS: "kgo.Balancers",
        GROUP: "kgo.ConsumerGroup",
    },
    Library.SARAMA: {
        SESSION: "Consumer.Group.Session.Timeout",
        HEARTBEAT: "Consumer.Group.Heartbeat.Interval",
        INSTANCE: "Consumer.Group.InstanceId",
        ASSIGNORS: "Consumer.Group.Rebalance.GroupStrategies",
        GROUP: "the argument of NewConsumerGroup",
    },
    Library.KAFKAJS: {
        SESSION: "sessionTimeout",
        HEARTBEAT: "heartbeatInterval",
        ASSIGNORS: "partitionAssigners",
        GROUP: "groupId",
    },
    # It sends JoinGroup up to version 2, and static members need version 5.
    Library.KAFKA_GO: {
        SESSION: "SessionTimeout",
        HEARTBEAT: "HeartbeatInterval",
        ASSIGNORS: "GroupBalancers",
        GROUP: "GroupID",
    },
}
_COOPERATIVE: Final = frozenset({Library.JAVA, Library.LIBRDKAFKA, Library.FRANZ_GO, Library.UNKNOWN})
"""Libraries with an assignor cooperative-sticky. kafka-python 2 has none, and no trace shows its version."""
_WITHOUT_POLL_INTERVAL: Final = frozenset(
    {Library.AIOKAFKA, Library.FRANZ_GO, Library.SARAMA, Library.KAFKAJS, Library.KAFKA_GO}
)
"""Libraries with another setting for the rebalance timeout than for the poll interval, or without a poll interval."""


def spelled(setting: str, library: Library) -> str | None:
    """Return the name of a setting of Kafka's consumer in this library; None if the library does not have it."""
    return _SPELLINGS[library].get(setting)


def has_cooperative(library: Library) -> bool:
    """True if the library has the assignor cooperative-sticky."""
    return library in _COOPERATIVE


def shows_poll_interval(library: Library) -> bool:
    """True if the rebalance timeout in its requests is its `max.poll.interval.ms`."""
    return library not in _WITHOUT_POLL_INTERVAL


def library_of(request: Mapping[str, Any], version: int) -> Library:
    """Return the library that sent this JoinGroup, by its version and its fields."""
    reason = request.get("reason")
    names = [each["name"] for each in request.get("protocols") or ()]
    if "RoundRobinAssigner" in names:
        return Library.KAFKAJS
    if version in _OF_KAFKA_GO and names == ["range", "roundrobin"]:
        # librdkafka before 1.4, of 2020, joins in the same way.
        return Library.KAFKA_GO
    if version >= 8:
        # Both send a reason; that of Java is empty at first.
        return Library.FRANZ_GO if isinstance(reason, str) and _FRANZ in reason else Library.JAVA
    if version == 7:
        # sarama has one assignor by default, kafka-python several.
        is_sarama = request["rebalance_timeout_ms"] == _SARAMA_MS and len(names) == 1
        return Library.SARAMA if is_sarama else Library.KAFKA_PYTHON
    if version == 5:
        same = request["rebalance_timeout_ms"] == request["session_timeout_ms"]
        return Library.AIOKAFKA if same else Library.LIBRDKAFKA
    return Library.UNKNOWN


def library_of_consumer(member_id: str) -> Library:
    """Return the library of a consumer of the new protocol: franz-go, or unknown. It makes up its id in base64 with
    padding, the others without.
    """
    return Library.FRANZ_GO if member_id.endswith("==") else Library.UNKNOWN


def library_of_id(client_id: str) -> tuple[Library, str]:
    """Return the library and its version that a client id names: kafka-python's and aiokafka's do by default."""
    for library in (Library.KAFKA_PYTHON, Library.AIOKAFKA):
        name, _, version = client_id.partition(f"{library}-")
        if not name and version[:1].isdigit():
            return library, version
    return Library.UNKNOWN, ""


def library_of_software(software: str) -> tuple[Library, str]:
    """Return the library and its version of the software that a client names in ApiVersions: `sarama 1.31.0`."""
    name, _, version = software.partition(" ")
    wrapped = _WRAPPED.search(version)
    if wrapped is not None:
        return Library.LIBRDKAFKA, wrapped[1]
    library = _SOFTWARE.get(name, Library.UNKNOWN)
    return library, version.removeprefix("v") if library else ""


def refined(library: Library, api: str, version: int) -> Library:
    """Return the library of a member once more of its requests are known: some libraries join in the same way."""
    return _REFINED.get((library, api, version), library)


_WRAPPED: Final = re.compile(r"rdkafka-v?(\d+\.\d+\.\d+)")
"""The version of librdkafka in that of a library around it."""
_SOFTWARE: Final[Mapping[str, Library]] = {
    "apache-kafka-java": Library.JAVA,
    "librdkafka": Library.LIBRDKAFKA,
    "kafka-python": Library.KAFKA_PYTHON,
    "kgo": Library.FRANZ_GO,
    "sarama": Library.SARAMA,
}
_FRANZ: Final = "group lifecycle"
_OF_KAFKA_GO: Final = (1, 2)
_SARAMA_MS: Final = 60_000
"""The default of Consumer.Group.Rebalance.Timeout; kafka-python sends its poll interval, 300 s by default."""
_REFINED: Final = {
    (Library.LIBRDKAFKA, "LeaveGroup", 3): Library.KAFKA_PYTHON,
    (Library.LIBRDKAFKA, "OffsetFetch", 5): Library.KAFKA_PYTHON,
    (Library.KAFKA_PYTHON, "LeaveGroup", 4): Library.SARAMA,
    (Library.KAFKA_PYTHON, "OffsetFetch", 7): Library.SARAMA,
    (Library.SARAMA, "LeaveGroup", 5): Library.KAFKA_PYTHON,
    (Library.SARAMA, "OffsetCommit", 8): Library.KAFKA_PYTHON,
    (Library.LIBRDKAFKA, "Heartbeat", 1): Library.AIOKAFKA,
}
"""kafka-python 2 joins as librdkafka does, and sarama as kafka-python 3; aiokafka may have a rebalance timeout."""
