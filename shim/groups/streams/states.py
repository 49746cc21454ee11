"""States of a streams group (KIP-1071) and of its members, what members are told, and the table of reconciliation.

Decides what a heartbeat does to what a member has: `STEPS`, by the member's state and its situation. How each step is
carried out is in `reconcile.py`. After Kafka's `StreamsGroup.StreamsGroupState`, `MemberState` and
`CurrentAssignmentBuilder` of 4.2 (semantics 4.12).
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
"""The member epoch of a static member that leaves for a while; streams groups have no static members yet."""
FIRST_EPOCH: Final = 2
"""The first epoch of a group: 1 is what members have while its first assignment is delayed."""


class GroupState(StrEnum):
    """The state of a group. It follows from its members, topology and epochs and is stored nowhere."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment; the numbers are those of the record."""

    STABLE = 1
    """It has what it is to have at its epoch."""
    UNREVOKED_TASKS = 2
    """It still owns tasks that it is to give up before it may have the next epoch."""
    UNRELEASED_TASKS = 3
    """It waits for tasks that others have not given up."""
    UNKNOWN = 127
    """It was written by a newer coordinator."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class StatusCode(IntEnum):
    """What an answer tells a member besides its tasks."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Situation(Enum):
    """What a heartbeat finds."""

    AT_TARGET = "its epoch is that of the target assignment"
    BEHIND = "its epoch is another"
    HOLDS_ON = "it owns tasks it is to give up, or does not say what it owns"
    GAVE_UP = "it owns none of the tasks it was to give up"
    WAITS = "it waits for tasks of others"
    OWNS_NOTHING = "it says that it owns nothing"
    MAY_OWN = "it owns something, or does not say"


class Step(Enum):
    """What is done then."""

    STAY = "nothing"
    ADVANCE = "bring it as near to its target assignment as others let it"
    ADVANCE_NEXT = "the same, and if it has more to give up, at the epoch after its own"
    FENCE = "FENCED_MEMBER_EPOCH (110): it is to give up everything and join again"


STEPS: Final[Mapping[tuple[MemberState, Situation], Step]] = {
    (MemberState.STABLE, Situation.AT_TARGET): Step.STAY,
    (MemberState.STABLE, Situation.BEHIND): Step.ADVANCE,
    (MemberState.UNREVOKED_TASKS, Situation.HOLDS_ON): Step.STAY,
    (MemberState.UNREVOKED_TASKS, Situation.GAVE_UP): Step.ADVANCE_NEXT,
    (MemberState.UNRELEASED_TASKS, Situation.WAITS): Step.ADVANCE,
    (MemberState.UNKNOWN, Situation.OWNS_NOTHING): Step.ADVANCE,
    (MemberState.UNKNOWN, Situation.MAY_OWN): Step.FENCE,
}
