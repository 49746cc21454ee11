"""Share states: progress of share groups in partitions, stored beside the partition leaders.

Holds the data that Kafka's share coordinator stores in `__share_group_state`, in memory alone like the logs, for all
brokers of a process. A group keeps the starts that requests have set among its own records. The locks on records are in
`shim/broker/share_partition.py`. After Kafka's `ShareCoordinatorShard` (semantics 4.13).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

UNINITIALIZED: Final = -1
"""Start offset before the first acknowledgement or release."""

MOST_IDLE: Final = 10_000
"""States that their first use created, kept without a reader."""


class Place(NamedTuple):
    """Share partition: a partition of a topic in a share group."""

    group_id: str
    topic_id: bytes
    partition: int


class StateBatch(NamedTuple):
    """Offsets from `first` to `last` with a delivery state, numbered as in Kafka's records, and a delivery count."""

    first: int
    last: int
    state: int
    delivery_count: int


class ShareState:
    """State of one share partition.

    `epoch` is the group epoch at which the state was created or altered; a reader of an older one may not write.
    `completed` counts the offsets from `start_offset` on that are not delivered again. `batches`, in order, are the
    records that were delivered before.
    """

    __slots__ = ("batches", "completed", "epoch", "start_offset")

    def __init__(self, epoch: int = 0, start_offset: int = UNINITIALIZED) -> None:
        self.epoch = epoch
        self.start_offset = start_offset
        self.completed = 0
        self.batches: list[StateBatch] = []

    def write(self, start_offset: int, completed: int, batches: Sequence[StateBatch]) -> None:
        """Store the progress. `batches`, in order, replace older ones at the same offsets."""
        self.start_offset = start_offset
        self.completed = completed
        merged_batches = _overlay([each for each in self.batches if each.last >= start_offset], batches)
        self.batches = []
        for each in merged_batches:
            last = self.batches[-1] if self.batches else None
            if last is not None and (last.last + 1, last.state, last.delivery_count) == (
                each.first,
                each.state,
                each.delivery_count,
            ):
                self.batches[-1] = last._replace(last=each.last)
            else:
                self.batches.append(each)


def _overlay(old: list[StateBatch], new: Sequence[StateBatch]) -> list[StateBatch]:
    """Return the new batches and the parts of old ones outside them."""
    result: list[StateBatch] = []
    at = 0
    for each in new:
        while at < len(old) and old[at].last < each.first:
            result.append(old[at])
            at += 1
        if at < len(old) and old[at].first < each.first:
            result.append(old[at]._replace(last=each.first - 1))
        result.append(each)
        while at < len(old) and old[at].last <= each.last:
            at += 1
        if at < len(old) and old[at].first <= each.last:
            old[at] = old[at]._replace(first=each.last + 1)
    return result + old[at:]


class SharePersister:
    """Share states of a process.

    `on_demand`: groups live in other processes too, which cannot announce their partitions, so that a state is created
    at its first use. There may be no group to delete it: without a reader it stays only with progress, and of many the
    oldest goes.
    """

    def __init__(self, *, on_demand: bool = False) -> None:
        self.on_demand = on_demand
        self.on_reset: Callable[[Place, int, int], None] = _ignore_reset
        """Called when a group of this process sets a state, with its epoch and start offset."""
        self.on_delete: Callable[[Place], None] = _ignore_delete
        """Called when a group of this process deletes a state."""
        self.on_drop: list[Callable[[Place], None]] = []
        """Called when a state is gone, whoever deleted it: one for each broker of the process."""
        self.holders: dict[Place, object] = {}
        """Last reader of each state; only that may write it."""
        self._states: dict[Place, ShareState] = {}
        self._unannounced: set[Place] = set()
        """States that their first use created."""
        self._idle: dict[Place, None] = {}
        """Those of them without a reader, the oldest first."""

    def find(self, place: Place) -> ShareState | None:
        """Return the state, or None if the group has none in the partition."""
        state = self._states.get(place)
        if state is None and self.on_demand:
            state = self._states[place] = ShareState()
            self._unannounced.add(place)
        self._idle.pop(place, None)
        return state

    def let_go(self, place: Place) -> None:
        """Note that the last reader of a state has gone."""
        del self.holders[place]
        state = self._states.get(place)
        if state is None or place not in self._unannounced:
            return
        self._idle[place] = None
        if state.start_offset == UNINITIALIZED:
            self._forget(place)
        elif len(self._idle) > MOST_IDLE:
            self._forget(next(iter(self._idle)))

    def get(self, place: Place) -> ShareState | None:
        """Return the state as `find` does, but never create it."""
        return self._states.get(place)

    def initialize(self, place: Place, epoch: int, start_offset: int = UNINITIALIZED) -> None:
        """Create the state unless it exists."""
        self._announced(place)
        self._states.setdefault(place, ShareState(epoch, start_offset))

    def reset(self, place: Place, epoch: int, start_offset: int) -> None:
        """Restart the group at `start_offset`, at this group epoch."""
        self.set(place, epoch, start_offset)
        self.on_reset(place, epoch, start_offset)

    def delete(self, place: Place) -> None:
        """Delete the state."""
        self.drop(place)
        self.on_delete(place)

    def set(self, place: Place, epoch: int, start_offset: int) -> None:
        """Restart a group of another process; see `reset`."""
        self._announced(place)
        self._states[place] = ShareState(epoch, start_offset)

    def drop(self, place: Place) -> None:
        """Delete the state of a group of another process."""
        self._forget(place)
        for forget in self.on_drop:
            forget(place)

    def _announced(self, place: Place) -> None:
        """Note that a state belongs to a group, which deletes it."""
        self._unannounced.discard(place)
        self._idle.pop(place, None)

    def _forget(self, place: Place) -> None:
        self._announced(place)
        self._states.pop(place, None)


def _ignore_reset(place: Place, epoch: int, start_offset: int) -> None: ...


def _ignore_delete(place: Place) -> None: ...
