"""What goes wrong in generated data, and how it is listed.

Decides which groups get which faults. Every fault is listed in `faults.json`, a JSON array of objects with `kind` and
`group` and what else it takes to find it again.
"""

from __future__ import annotations

from enum import StrEnum
from random import Random
from typing import Final


class Fault(StrEnum):
    """A fault a group is given; each happens once in its group."""

    NONE = "none"
    STORM = "storm"
    """A member leaves and comes back every half minute for some minutes."""
    SLOW_MEMBER = "slow-member"
    """A member takes ten seconds or more to join a round."""
    SLOW_LEADER = "slow-leader"
    """The leader takes five seconds or more to assign."""
    EXPIRY = "expiry"
    """A member falls silent until its session ends."""
    POLL_TIMEOUT = "poll-timeout"
    """A member leaves because its application does not poll."""
    BOUNCE = "bounce"
    """A member restarts: it leaves and is back in seconds, under a new id. A static member would not be noticed."""
    NEAR_MISS = "near-miss"
    """A member falls silent for most of its session timeout, and is not expired."""
    COMMIT_REGRESSION = "commit-regression"
    """A commit goes back."""
    COMMIT_GAP = "commit-gap"
    """A member goes on heartbeating but commits nothing for long."""
    TWO_OWNERS = "I1"
    """An assignment gives one partition to two members."""
    GENERATION_BACK = "I2"
    """A round's generation is lower than the one before."""
    STRANGER_ACCEPTED = "I6"
    """A member that has left gets error 0 from Heartbeat."""
    TWO_LEADERS = "I7"
    """A follower is told that it leads, and gets the members."""
    FENCED_ACCEPTED = "I8"
    """An id that was fenced gets error 0 from Heartbeat."""
    NO_CAUSE = "I9"
    """A round has no cause of the closed set."""
    SILENT_CHANGE = "I11"
    """OffsetFetch answers an offset that nobody committed."""


VIOLATIONS: Final = tuple(fault for fault in Fault if fault.value.startswith("I"))
"""The faults that break an invariant; the value is its name."""

_SHARE_OF_FAULTY: Final = 0.25


def plan(groups: int, seed: int) -> list[Fault]:
    """A fault for each group: the first ones get one of every kind, of the rest about a quarter get any."""
    rng = Random(f"{seed} faults")
    kinds: list[Fault] = [fault for fault in Fault if fault is not Fault.NONE]
    planned: list[Fault] = kinds[:groups]
    while len(planned) < groups:
        planned.append(rng.choice(kinds) if rng.random() < _SHARE_OF_FAULTY else Fault.NONE)
    return planned
