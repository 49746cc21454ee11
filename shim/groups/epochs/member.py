"""Member of a group with epochs, its special epochs, and partitions in records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, Self

from kafka_shim.apis.wire.types import uuid_text
from kafka_shim.groups.assignors.spec import Partitions
from kafka_shim.groups.shard import TopicCatalogue
from kafka_shim.persistence.records import TopicPartitions

JOIN: Final = 0
"""Member epoch of a heartbeat that joins."""
LEAVE: Final = -1
"""Member epoch of a heartbeat that leaves, and of a member after the tombstone of its current assignment."""
LEAVE_STATIC: Final = -2
"""Member epoch of a static member that leaves for a while, in its heartbeat and after it."""


@dataclass(frozen=True, slots=True)
class EpochMember:
    """One member, built from its records. Immutable; timers and flags belong to the group.

    `epoch` is 0 before its first assignment, -1 after the tombstone of that, -2 while a static member is away.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""

    @property
    def is_revoking(self) -> bool:
        """True if it has to revoke a part of its assignment before it gets the next epoch."""
        return False

    @property
    def is_classic(self) -> bool:
        """True if it uses the classic protocol, in which its epoch is its generation."""
        return False

    def merge(self, **sent: Any) -> Self:
        """Return the member after a heartbeat with these fields; the same object if nothing changes.

        A field that is None is not in the heartbeat, and keeps its value.
        """
        changes = {name: value for name, value in sent.items() if value is not None and value != getattr(self, name)}
        return replace(self, **changes) if changes else self

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Return True if it has its whole target assignment."""
        return self.epoch == target_epoch


def to_records(partitions: Partitions) -> list[TopicPartitions]:
    # Most members have one partition of a topic, so there is nothing to sort.
    return [
        TopicPartitions(topic, sorted(owned) if len(owned) > 1 else [*owned]) for topic, owned in partitions.items()
    ]


class _OfTopic(Protocol):
    topic_id: bytes
    partitions: list[int]


def from_records(topics: Iterable[_OfTopic]) -> Partitions:
    """Return partitions by topic id, from a record or from the same structure in a request."""
    return {each.topic_id: frozenset(each.partitions) for each in topics}


def count(partitions: Mapping[Any, Collection[int]]) -> int:
    """Return the number of partitions, or of tasks, of all topics or subtopologies."""
    return sum(map(len, partitions.values()))


def by_topic_name(catalogue: TopicCatalogue, partitions: Partitions) -> dict[str, list[int]]:
    """Return partitions by topic name; by topic id if the topic is deleted."""
    return {catalogue.topic_name(topic) or uuid_text(topic): sorted(owned) for topic, owned in partitions.items()}


def existing(catalogue: TopicCatalogue, partitions: Partitions) -> list[tuple[bytes, str, list[int]]]:
    """Return the id, the name and the partitions of each topic that is not deleted."""
    names = ((topic, catalogue.topic_name(topic), owned) for topic, owned in partitions.items())
    return [(topic, name, sorted(owned)) for topic, name, owned in names if name is not None]
