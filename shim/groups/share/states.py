"""States of a share group (KIP-932), and the member epochs with a meaning of their own.

Decides nothing. After Kafka's `ShareGroup.ShareGroupState` (semantics 4.13).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

JOIN: Final = 0
"""The member epoch of a heartbeat that joins."""
LEAVE: Final = -1
"""The member epoch of a heartbeat that leaves; also that of a member whose current assignment was deleted."""


class GroupState(StrEnum):
    """The state of a group. It follows from its members and is stored nowhere."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class TimerKind(StrEnum):
    """What a timer of a share group waits for."""

    SESSION = "session"
