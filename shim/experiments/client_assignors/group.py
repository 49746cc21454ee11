"""State of a consumer group with target assignments that its members may compute; it extends `ConsumerGroup`.

The current delegation is only in memory: after a failover it begins again. The records of the consumer group hold the
members' assignors and the computed assignments (`records.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kafka_shim.experiments.client_assignors.choice import elect
from kafka_shim.experiments.client_assignors.records import AssignedMetadata, metadata_from_bytes
from kafka_shim.groups.consumer.group import ConsumerGroup, ConsumerRules
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer


class TimerKind(StrEnum):
    DELEGATION = "delegation"
    """A member must compute a target assignment."""


class Subject(NamedTuple):
    """A member in the input of a computation. It reads metadata of the `versions`."""

    instance_id: str | None
    topics: frozenset[bytes]
    versions: range


@dataclass(slots=True)
class Delegation:
    """The target assignment for `group_epoch`, which the member must compute with `assignor`.

    `subjects` (by member id) and `partition_counts` (by topic id) are its input, once the member has fetched it;
    before, `subjects` is None.
    """

    member_id: str
    assignor: str
    group_epoch: int
    subjects: Mapping[str, Subject] | None = None
    partition_counts: Mapping[bytes, int] = field(default_factory=dict)


class ClientAssignedGroup(ConsumerGroup):
    """A group with its `delegation`, if any, and the members that did not finish their own in time, `passed_over`."""

    __slots__ = ("delegation", "passed_over", "timer_of_delegation")

    def __init__(self, group_id: str, shard: Shard, rules: ConsumerRules) -> None:
        super().__init__(group_id, shard, rules)
        self.delegation: Delegation | None = None
        self.passed_over: set[str] = set()
        self.timer_of_delegation = Timer(TimerKind.DELEGATION, shard.partition, group_id)

    @property
    def client_assignor(self) -> str | None:
        """The assignor of the members; None if the coordinator assigns."""
        return elect(self.members.values())

    @property
    def protocol(self) -> str:
        return self.client_assignor or super().protocol

    @property
    def leader(self) -> str | None:
        """The member that computes at the moment."""
        return None if self.delegation is None else self.delegation.member_id

    def metadata_of(self, member_id: str) -> AssignedMetadata:
        """Return the output of a client's assignor for a member, without the partitions."""
        return metadata_from_bytes(self.target_extensions.get(member_id, b""))

    def release(self) -> None:
        super().release()
        self.shard.cancel(self.timer_of_delegation)
