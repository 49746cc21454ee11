"""Share states: how far a share group has come in a partition, kept beside the partition's leader.

Decides what is kept of a share partition when its leader moves, and what a group is told of it: what Kafka's share
coordinator keeps in `__share_group_state`. Like the logs it is about, it is in memory alone, one for all brokers of a
process. It does not know who fetches, nor for how long records are locked. After Kafka's `ShareCoordinatorShard`
(semantics 4.13).
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNINITIALIZED: Final = -1
"""The start offset while nothing was acknowledged or released yet."""


class Place(NamedTuple):
    """A partition as a group shares it."""

    group_id: str
    topic_id: bytes
    partition: int


class ShareState:
    """The state of one share partition.

    `epoch` grows when the state is set anew, which fences whoever has read it before; `holder` is who has read it last.
    `completed` counts the offsets from `start_offset` on that nobody is to get any more. `records` has, by offset, what
    is known of records that are not new: a delivery state as Kafka's records have it and a delivery count.
    """

    __slots__ = ("completed", "epoch", "holder", "records", "start_offset")

    def __init__(self, epoch: int = 0, start_offset: int = UNINITIALIZED) -> None:
        self.epoch = epoch
        self.start_offset = start_offset
        self.completed = 0
        self.records: dict[int, tuple[int, int]] = {}
        self.holder: object = None


class SharePersister:
    """The share states of a process. `on_demand`: groups live in other processes too, which cannot tell this one of
    their partitions: a state is made when it is first asked for."""

    def __init__(self, *, on_demand: bool = False) -> None:
        self.on_demand = on_demand
        self._states: dict[Place, ShareState] = {}

    def find(self, place: Place) -> ShareState | None:
        """The state, or None if the group has none in the partition."""
        state = self._states.get(place)
        if state is None and self.on_demand:
            state = self._states[place] = ShareState()
        return state

    def get(self, place: Place) -> ShareState | None:
        """As `find`, but never makes one."""
        return self._states.get(place)

    def initialize(self, place: Place) -> None:
        """The group is to have a state in the partition; nothing happens if it has."""
        self._states.setdefault(place, ShareState())

    def reset(self, place: Place, start_offset: int) -> None:
        """The group is to go on from `start_offset`, whatever it had."""
        old = self._states.get(place)
        self._states[place] = ShareState(0 if old is None else old.epoch + 1, start_offset)

    def delete(self, place: Place) -> None:
        """The group has no state in the partition any more."""
        self._states.pop(place, None)
