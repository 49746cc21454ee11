"""States of a share group (KIP-932), and the member epochs with a meaning of their own.

Decides nothing. After Kafka's `ShareGroup.ShareGroupState` (semantics 4.13).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeGuard

JOIN: Final = 0
"""The member epoch of a heartbeat that joins."""
LEAVE: Final = -1
"""The member epoch of a heartbeat that leaves; also that of a member whose current assignment was deleted."""

_LONGEST_ID: Final = 36


def is_member_id(text: str | None) -> TypeGuard[str]:
    """Whether a member of a share group may have this id: as long as a UUID is written, at most, as Java counts.

    After `KafkaApis.isMemberIdValid`.
    """
    return text is not None and 0 < len(text.encode("utf-16-le", "surrogatepass")) <= 2 * _LONGEST_ID


class GroupState(StrEnum):
    """The state of a group. It follows from its members and is stored nowhere."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class TimerKind(StrEnum):
    """What a timer of a share group waits for."""

    SESSION = "session"
