"""The work that a classic group shares out: partitions of consumers, tasks of Kafka Connect, or work that is unknown.

A group has a protocol type. Only consumers have partitions that the coordinator can read, a poll, and static members;
so for other types a text names no partitions, and a remedy no setting that only a consumer has.

Sources: KIP-415 (Kafka Connect); `WorkerCoordinator` and `GroupRebalanceConfig` of Kafka: static members are consumers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_shim.trace import clients
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.clients import Library, spelled
from kafka_shim.why.diagnoses import Diagnosis

CONSUMER: Final = "consumer"
CONNECT: Final = "connect"

_OF_CONNECT: Final = {
    clients.SESSION: clients.SESSION,
    clients.HEARTBEAT: clients.HEARTBEAT,
    # A worker must be done with the old assignment by then, and leaves if it is not.
    clients.POLL_INTERVAL: "rebalance.timeout.ms",
    clients.ASSIGNORS: "connect.protocol",
}
"""The settings of a worker of Kafka Connect, by those of a consumer."""

CLAUSES: Final[dict[str, str]] = {
    Cause.REBALANCE_TIMEOUT: "{who} did not join again in time",
    Cause.POLL_TIMEOUT_REASON: "{who} left because it did not take part in the group in time",
    Cause.SUBSCRIPTION_CHANGED: "{who} joined again with other metadata or other protocols",
    Cause.LEADER_REJOINED: "{who} joined again with the same metadata",
    Diagnosis.TOPICS_CHANGED: "the leader joined again",
}
"""Clauses of causes and findings in groups of other types, where those of consumers speak of partitions or polls."""


def has_partitions(protocol_type: str) -> bool:
    """Return True if a group of this type has partitions; True if no type shows."""
    return protocol_type in ("", CONSUMER)


def work_of(protocol_type: str) -> str:
    """Return the noun for the work of a member."""
    if has_partitions(protocol_type):
        return "partitions"
    return "tasks" if protocol_type == CONNECT else "work"


def setting_of(name: str, library: Library, protocol_type: str) -> str | None:
    """Return the name of a consumer's setting in the client of a group of this type; None if it has none, or the name
    is unknown.
    """
    if has_partitions(protocol_type):
        return spelled(name, library)
    return _OF_CONNECT.get(name) if protocol_type == CONNECT else None


def settings_of(name: str, libraries: Iterable[Library], protocol_type: str) -> str:
    """Return the names of a consumer's setting in all these libraries, `a or b`; empty if none of them has it."""
    names = (setting_of(name, each, protocol_type) for each in libraries)
    return " or ".join(sorted({each for each in names if each is not None}))
