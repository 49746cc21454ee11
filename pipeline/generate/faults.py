"""The faults in generated data, and the plan of which group gets which kind and fault.

The file `faults.json` lists them: a JSON array of objects with `kind`, `group` and the fields that identify the fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from random import Random
from typing import Final, NamedTuple


class Kind(StrEnum):
    """Kinds of groups; all but the first have epochs."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    """KIP-848."""
    SHARE = "share"
    """KIP-932."""
    STREAMS = "streams"
    """KIP-1071."""


class Fault(StrEnum):
    """The fault of a group; each happens once in its group."""

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
    """A member restarts: it leaves and returns in seconds, under a new id. A static member would cause no rebalance."""
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
    """A fenced id gets error 0 from Heartbeat."""
    NO_CAUSE = "I9"
    """A round's cause is missing."""
    SILENT_CHANGE = "I11"
    """OffsetFetch answers an offset that was never committed."""
    SLOW_TO_REVOKE = "slow-to-revoke"
    """A member takes twelve seconds or more to give up partitions, and their new owner waits."""
    FENCED_EPOCH = "fenced-epoch"
    """A member heartbeats with an old epoch: it is fenced, gives everything up and joins again."""


_SHARE_OF_FAULTY: Final = 0.25

OF_KIND: Final[Mapping[Kind, tuple[Fault, ...]]] = {
    Kind.CLASSIC: tuple(
        fault for fault in Fault if fault not in (Fault.NONE, Fault.SLOW_TO_REVOKE, Fault.FENCED_EPOCH)
    ),
    Kind.CONSUMER: (
        *(Fault.SLOW_TO_REVOKE, Fault.FENCED_EPOCH, Fault.EXPIRY),
        *(Fault.TWO_OWNERS, Fault.FENCED_ACCEPTED),
    ),
    Kind.SHARE: (Fault.EXPIRY, Fault.NO_CAUSE),
    Kind.STREAMS: (Fault.SLOW_TO_REVOKE, Fault.EXPIRY, Fault.STRANGER_ACCEPTED),
}
"""The faults that groups of a kind can get."""

_EVERY: Final = 8
"""After the first groups, one in so many is of another kind than classic."""
_OTHERS: Final = (Kind.CONSUMER, Kind.SHARE, Kind.STREAMS)


class Role(NamedTuple):
    """The kind and the fault of one group."""

    kind: Kind
    fault: Fault


def plan(groups: int, seed: int) -> list[Role]:
    """Plan the groups: the first ones get every fault of every kind once, classic groups before the others.

    Of the rest, one in eight is of another kind, in turn, and about a quarter get a random fault of their kind.
    """
    rng = Random(f"{seed} faults")
    planned = [Role(kind, fault) for kind, faults in OF_KIND.items() for fault in faults][:groups]
    while len(planned) < groups:
        turn, place = divmod(len(planned), _EVERY)
        kind = _OTHERS[turn % len(_OTHERS)] if place == _EVERY - 1 else Kind.CLASSIC
        fault = rng.choice(OF_KIND[kind]) if rng.random() < _SHARE_OF_FAULTY else Fault.NONE
        planned.append(Role(kind, fault))
    return planned
