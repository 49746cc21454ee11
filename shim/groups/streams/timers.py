"""What the timers of a streams group are for. Decides nothing: when each is armed is in `sessions.py`, which rule it
fires in `kind.py`."""

from __future__ import annotations

from enum import StrEnum


class TimerKind(StrEnum):
    """What a timer of a streams group waits for."""

    SESSION = "session"
    REBALANCE = "rebalance"
    """A member to give up tasks, at the epoch it was armed for."""
    INITIAL = "initial"
    """More members to join a group that was empty, before tasks are assigned for the first time."""
