"""Requests and answers of heartbeats with epochs, of consumer, share and streams groups.

The fields are those of the messages in `apis/`. A field is null if it did not change.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kafka_shim.pipeline.generate.faults import Kind
from kafka_shim.pipeline.generate.trace_events import REBALANCE_TIMEOUT_MS, Member, Partition

INTERVAL_MS: Final = 5_000
JOIN: Final = 0
LEAVE: Final = -1
AWAY: Final = -2
"""Special member epochs: to join, to leave, and to leave for a while as a static member."""

Body = dict[str, Any]


class Api(NamedTuple):
    """The API of a kind, the version in use, and the default assignor."""

    name: str
    version: int
    assignor: str


APIS: Final = {
    Kind.CONSUMER: Api("ConsumerGroupHeartbeat", 1, "uniform"),
    Kind.SHARE: Api("ShareGroupHeartbeat", 1, "simple"),
    Kind.STREAMS: Api("StreamsGroupHeartbeat", 0, "sticky"),
}


@lru_cache
def topic_id(topic: str) -> str:
    """Return the id of a topic as text, the same in every run."""
    return uuid_text(hashlib.blake2b(topic.encode(), digest_size=16).digest())


def uuid_text(uuid: bytes) -> str:
    """Format a UUID as Kafka does."""
    return urlsafe_b64encode(uuid).decode().rstrip("=")


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Sort partition numbers by the name of the topic, or of the subtopology."""
    numbers: dict[str, list[int]] = {}
    for name, number in sorted(partitions):
        numbers.setdefault(name, []).append(number)
    return numbers


def request(
    kind: Kind, group_id: str, member: Member, epoch: int, topics: list[str], owned: list[Partition] | None
) -> Body:
    """Build a heartbeat with this member epoch; the one that joins has all fields. A null `owned` means no change."""
    joins = epoch == JOIN
    body: Body = {"group_id": group_id, "member_id": member.member_id, "member_epoch": epoch}
    if kind is Kind.SHARE:
        return body | {"rack_id": None, "subscribed_topic_names": topics if joins else None}
    body |= {
        "instance_id": member.instance_id, "rack_id": None,
        "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS if joins else -1,
    }  # fmt: skip
    if kind is Kind.CONSUMER:
        return body | {
            "subscribed_topic_names": topics if joins else None, "subscribed_topic_regex": None,
            "server_assignor": APIS[kind].assignor if joins else None,
            "topic_partitions": None if owned is None else _partitions(owned),
        }  # fmt: skip
    says = owned is not None
    return body | {
        "endpoint_information_epoch": 0,
        "topology": {"epoch": 1, "subtopologies": [_subtopology(*each) for each in enumerate(topics)]}
        if joins
        else None,
        "active_tasks": _tasks(owned) if owned is not None else None,
        "standby_tasks": [] if says else None, "warmup_tasks": [] if says else None,
        "process_id": f"{member.client_id}-process" if joins else None, "user_endpoint": None,
        "client_tags": [] if joins else None, "task_offsets": None, "task_end_offsets": None,
        "shutdown_application": False,
    }  # fmt: skip


def answer(kind: Kind, member: Member, epoch: int, assigned: list[Partition] | None = None, error: int = 0) -> Body:
    """Build the answer with this member epoch; a null `assigned` means no change."""
    body: Body = {
        "throttle_time_ms": 0, "error_code": error, "error_message": None,
        "member_id": "" if error else member.member_id, "member_epoch": 0 if error else epoch,
        "heartbeat_interval_ms": 0 if error else INTERVAL_MS,
    }  # fmt: skip
    if kind is not Kind.STREAMS:
        body["member_id"] = body["member_id"] or None
        return body | {"assignment": None if assigned is None else {"topic_partitions": _partitions(assigned)}}
    says = assigned is not None
    return body | {
        "acceptable_recovery_lag_legacy": 0, "acceptable_recovery_lag": -1, "task_offset_interval_ms": 0,
        "topology_description_required": False, "status": None if error else [],
        "active_tasks": _tasks(assigned) if assigned is not None else None,
        "standby_tasks": [] if says else None, "warmup_tasks": [] if says else None, "endpoint_information_epoch": 0,
        "partitions_by_user_endpoint": None,
    }  # fmt: skip


def _partitions(partitions: list[Partition]) -> list[Body]:
    return [{"topic_id": topic_id(topic), "partitions": each} for topic, each in by_topic(partitions).items()]


def _tasks(tasks: list[Partition]) -> list[Body]:
    return [{"subtopology_id": name, "partitions": each} for name, each in by_topic(tasks).items()]


def _subtopology(number: int, topic: str) -> Body:
    nothing: dict[str, list[Body]] = {
        name: []
        for name in (
            *("source_topic_regex", "state_changelog_topics", "repartition_sink_topics"),
            *("repartition_source_topics", "copartition_groups"),
        )
    }
    return {"subtopology_id": str(number), "source_topics": [topic], **nothing}
