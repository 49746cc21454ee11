"""A consumer group whose members may compute its target assignment: what is kept of it beyond a consumer group.

Decides nothing. Who computes is in memory alone: after a failover somebody is asked anew. What members said of their
assignors, and what was computed, is in records, by `consumer/group.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kafka_shim.groups.client_assignors.choice import elect
from kafka_shim.groups.consumer.kind import Consumer
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer


class TimerKind(StrEnum):
    DELEGATION = "delegation"
    """A member to compute a target assignment."""


class Subject(NamedTuple):
    """A member that a target assignment is computed for, as it was when that was prepared. It reads metadata of the
    `versions`."""

    instance_id: str | None
    topics: frozenset[bytes]
    versions: range


@dataclass(slots=True)
class Delegation:
    """The target assignment for `group_epoch`, which the member is to compute with `assignor`.

    Once it is prepared, `subjects` (by member id) and `partition_counts` (by topic id) are what the member computes
    with; before, `subjects` is None.
    """

    member_id: str
    assignor: str
    group_epoch: int
    subjects: Mapping[str, Subject] | None = None
    partition_counts: Mapping[bytes, int] = field(default_factory=dict)


class ClientAssignedGroup(Consumer):
    """`delegation` is the one in flight, if any. `passed_over` are members that did not finish theirs in time."""

    __slots__ = ("delegation", "passed_over", "timer_of_delegation")

    def __init__(self, group_id: str, shard: Shard) -> None:
        super().__init__(group_id, shard)
        self.delegation: Delegation | None = None
        self.passed_over: set[str] = set()
        self.timer_of_delegation = Timer(TimerKind.DELEGATION, shard.partition, group_id)

    @property
    def client_assignor(self) -> str | None:
        """The assignor that members compute with; None where the coordinator assigns."""
        return elect(self.members.values())

    @property
    def protocol(self) -> str:
        return self.client_assignor or super().protocol

    @property
    def leader(self) -> str | None:
        """The member that computes at the moment."""
        return None if self.delegation is None else self.delegation.member_id

    def release(self) -> None:
        super().release()
        self.shard.cancel(self.timer_of_delegation)
