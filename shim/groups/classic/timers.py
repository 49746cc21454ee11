"""What the timers of a classic group are for. Decides nothing: which rule a timer fires is in `kind.py`."""

from __future__ import annotations

from enum import StrEnum


class TimerKind(StrEnum):
    """What a timer of a classic group waits for."""

    SESSION = "session"
    PENDING_MEMBER = "pending-member"
    JOIN = "join"
    SYNC = "sync"
