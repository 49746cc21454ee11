"""States of a streams group (KIP-1071) and of its members, and the table of reconciliation.

`STEPS` has the step of a heartbeat for each state and situation; `reconcile.py` implements them. Source: Kafka's
`StreamsGroup.StreamsGroupState`, `MemberState` and `CurrentAssignmentBuilder` of 4.2 (semantics 4.12).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum, StrEnum
from typing import Final

from kafka_shim.groups.epochs.revoking import Situation

FIRST_EPOCH: Final = 2
"""The first epoch of a group: members have epoch 1 while its first assignment is delayed."""


class GroupState(StrEnum):
    """The state of a group. It follows from its members, topology and epochs and is not stored."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """Progress of a member towards its target assignment; the numbers are those of the record."""

    STABLE = 1
    """It has its whole assignment of its epoch."""
    UNREVOKED_TASKS = 2
    """It still owns tasks that it must revoke before it gets the next epoch."""
    UNRELEASED_TASKS = 3
    """It waits for tasks that others have not revoked."""
    UNKNOWN = 127
    """A newer coordinator wrote it."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class Step(Enum):
    """The effect of a heartbeat."""

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


class TimerKind(StrEnum):
    """Kind of a timer of a streams group, beside those of all groups with epochs."""

    INITIAL = "initial"
    """Time for more members to join a group that was empty, before its first assignment."""
