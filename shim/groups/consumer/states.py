"""States of a consumer group (KIP-848) and of its members, and the table of reconciliation.

Decides what a heartbeat does to what a member has: `STEPS`, by the member's state and its situation. How each step is
carried out is in `reconcile.py`. After Kafka's `ConsumerGroup.ConsumerGroupState`, `MemberState` and
`CurrentAssignmentBuilder` (semantics 4.1, 4.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum, StrEnum
from typing import Final

JOIN: Final = 0
"""The member epoch of a heartbeat that joins."""
LEAVE: Final = -1
"""The member epoch of a heartbeat that leaves; also that of a member whose current assignment was deleted."""
LEAVE_STATIC: Final = -2
"""The member epoch of a static member that leaves for a while, in its heartbeat and after it."""


class GroupState(StrEnum):
    """The state of a group. It follows from its members and epochs and is stored nowhere."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment; the numbers are those of the record."""

    STABLE = 0
    """It has what it is to have at its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It still owns partitions that it is to give up before it may have the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others still own."""
    UNKNOWN = 127
    """It was written by a newer coordinator."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class Situation(Enum):
    """What a heartbeat finds."""

    AT_TARGET = "its epoch is that of the target assignment"
    BEHIND = "its epoch is another"
    HOLDS_ON = "it owns partitions it is to give up, or does not say what it owns"
    GAVE_UP = "it owns none of the partitions it was to give up"
    WAITS = "it waits for partitions of others"
    OWNS_NOTHING = "it says that it owns nothing"
    MAY_OWN = "it owns something, or does not say"


class Step(Enum):
    """What is done then."""

    TRIM = "take away partitions of topics it no longer subscribes to, if its subscription changed"
    ADVANCE = "bring it as near to its target assignment as others let it"
    FENCE = "FENCED_MEMBER_EPOCH (110): it is to give up everything and join again"


STEPS: Final[Mapping[tuple[MemberState, Situation], Step]] = {
    (MemberState.STABLE, Situation.AT_TARGET): Step.TRIM,
    (MemberState.STABLE, Situation.BEHIND): Step.ADVANCE,
    (MemberState.UNREVOKED_PARTITIONS, Situation.HOLDS_ON): Step.TRIM,
    (MemberState.UNREVOKED_PARTITIONS, Situation.GAVE_UP): Step.ADVANCE,
    (MemberState.UNRELEASED_PARTITIONS, Situation.WAITS): Step.ADVANCE,
    (MemberState.UNKNOWN, Situation.OWNS_NOTHING): Step.ADVANCE,
    (MemberState.UNKNOWN, Situation.MAY_OWN): Step.FENCE,
}
