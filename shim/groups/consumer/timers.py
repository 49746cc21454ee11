"""What the timers of a consumer group are for. Decides nothing: when each is armed is in `sessions.py`, which rule it
fires in `kind.py`."""

from __future__ import annotations

from enum import StrEnum


class TimerKind(StrEnum):
    """What a timer of a consumer group waits for."""

    SESSION = "session"
    REBALANCE = "rebalance"
    """A member to give up partitions, at the epoch it was armed for."""
    JOIN = "join"
    """A classic member to join again after REBALANCE_IN_PROGRESS (27)."""
    SYNC = "sync"
    """A classic member to fetch its assignment."""
    REGEX = "regex"
    """Patterns to be resolved, right after the heartbeat that brought one."""
