"""States of a consumer group (KIP-848) and of its members, and the table of reconciliation.

`STEPS` selects the step of a heartbeat by the member's state and its situation; `reconcile.py` carries it out. After
Kafka's `ConsumerGroup.ConsumerGroupState`, `MemberState` and `CurrentAssignmentBuilder` (semantics 4.1, 4.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum, StrEnum
from typing import Final

from kafka_shim.groups.epochs.revoking import Situation


class GroupState(StrEnum):
    """State of a group, derived from its members and epochs and not stored."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """State of a member's reconciliation; the numbers are those of the record."""

    STABLE = 0
    """It has its assignment of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It has to revoke partitions before it gets the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members still own."""
    UNKNOWN = 127
    """A newer coordinator wrote this state."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class Step(Enum):
    """Step of reconciliation."""

    TRIM = "remove partitions of topics that it no longer subscribes to, if its subscription changed"
    ADVANCE = "revoke partitions outside its target assignment, then add free partitions of it"
    FENCE = "FENCED_MEMBER_EPOCH (110): it has to give up all partitions and join again"


STEPS: Final[Mapping[tuple[MemberState, Situation], Step]] = {
    (MemberState.STABLE, Situation.AT_TARGET): Step.TRIM,
    (MemberState.STABLE, Situation.BEHIND): Step.ADVANCE,
    (MemberState.UNREVOKED_PARTITIONS, Situation.HOLDS_ON): Step.TRIM,
    (MemberState.UNREVOKED_PARTITIONS, Situation.GAVE_UP): Step.ADVANCE,
    (MemberState.UNRELEASED_PARTITIONS, Situation.WAITS): Step.ADVANCE,
    (MemberState.UNKNOWN, Situation.OWNS_NOTHING): Step.ADVANCE,
    (MemberState.UNKNOWN, Situation.MAY_OWN): Step.FENCE,
}


class TimerKind(StrEnum):
    """Kind of a timer of a consumer group, beside those of all groups with epochs."""

    JOIN = "join"
    """A classic member has to join again after REBALANCE_IN_PROGRESS (27)."""
    SYNC = "sync"
    """A classic member has to fetch its assignment."""
    REGEX = "regex"
    """Patterns have to be resolved, right after the heartbeat with a new one."""
