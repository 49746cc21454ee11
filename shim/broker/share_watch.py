"""The partitions of a share session, counted one by one: neither a change of one nor a request looks at all of them.

A `ShareWatch` hears of each change of a log or of a share partition, looks at that partition again before the next
answer, and so knows the partitions with records to acquire. `share_fetches.py` makes the answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.share_partition import SharePartition
from kafka_shim.broker.share_partitions import PartitionError, SharePartitions
from kafka_shim.broker.share_sessions import ShareSession, Spot


class ShareWatch:
    """The partitions of one share session. `errors` has those that cannot be read, `readable` those with records to
    acquire and the bytes of these, `full` those with as many records in flight as there may be. `waiting` has the
    parked fetches of the session; `wake` is called after a change while there is one."""

    __slots__ = (
        "_changed",
        "_committed",
        "_limits",
        "_late",
        "_looked_at",
        "_partitions",
        "_session",
        "_wake",
        "_watched",
        "errors",
        "full",
        "is_ended",
        "readable",
        "readable_bytes",
        "waiting",
    )

    def __init__(self, session: ShareSession, partitions: SharePartitions, wake: Callable[[ShareWatch], None]) -> None:
        self.errors: dict[Spot, PartitionError] = {}
        self.readable: dict[Spot, int] = {}
        self.readable_bytes = 0
        self.full: set[Spot] = set()
        self.waiting: list[Any] = []
        self.is_ended = False
        self._session = session
        self._wake = wake
        self._partitions = partitions
        self._limits: dict[str, Any] = {}
        self._committed = False
        self._changed: dict[Spot, None] = {}
        self._late: dict[Spot, None] = {}
        self._looked_at: dict[Spot, None] = {}
        self._watched: dict[Spot, tuple[PartitionLog, SharePartition]] = {}

    # Changes

    def note(self, name: Spot) -> None:
        """Note that a member has acquired records of a partition, or that the partition is new in the session."""
        self._changed[name] = None

    def changed(self, name: Spot) -> None:
        """Note that there may be more records of a partition, or an error."""
        self._changed[name] = None
        if self.waiting:
            self._wake(self)

    def forget(self, spot: Spot) -> None:
        """Forget a partition that is no longer in the session."""
        self._unwatch(spot)
        for partitions in (self._changed, self._late, self._looked_at, self.errors):
            partitions.pop(spot, None)

    def end(self) -> None:
        """End with the session, or after its last parked fetch."""
        self.is_ended = True
        if not self.waiting:
            for spot in list(self._watched):
                self._unwatch(spot)

    # Looks

    def look(self, now: float) -> None:
        """Look at the partitions that have changed or cannot be read; at all of them once the group's settings have
        changed."""
        self._look_at_changes(now)
        for spot in list(self.errors):
            self._look_at(spot, now)

    def is_ready(self, min_bytes: int, now: float) -> bool:
        """Return True if there are at least so many bytes, or an error."""
        self._look_at_changes(now)
        for spot in list(self.errors):
            self._look_at(spot, now)
            if spot in self.errors:
                return True
        return 0 < self.readable_bytes >= min_bytes

    def _look_at_changes(self, now: float) -> None:
        group_id = self._session.group_id
        limits, committed = self._partitions.limits(group_id), self._partitions.reads_committed(group_id)
        if (self._limits, self._committed) != (limits, committed):
            self._limits, self._committed = limits, committed
            self._changed = dict.fromkeys(self._session.topics)
        for spot in list(self._changed):
            self._look_at(spot, now)
            self._changed.pop(spot, None)
        if not self._changed:
            # An empty dict keeps the memory of its largest size.
            self._changed.clear()
        while self._late and self._partitions.may_search:
            self._look_at(self._late.popitem()[0], now)

    @property
    def is_behind(self) -> bool:
        """Return True if a look at more partitions is due at once: each look searches the log of one of them."""
        return bool(self._late)

    def mark(self) -> None:
        """Note that a fetch has looked up the first offset of each partition."""
        for spot in self._looked_at:
            if spot in self._watched:
                shared = self._watched[spot][1]
                shared.looked_up = shared.first_to_fetch()
        self._looked_at.clear()

    def find(self, spot: Spot) -> tuple[PartitionLog, SharePartition]:
        """Return a partition that can be read: its log and its share partition."""
        return self._watched[spot]

    @property
    def acquirable(self) -> int:
        """Return the number of partitions without error and with room for more records in flight."""
        return len(self._session.topics) - len(self.errors) - len(self.full)

    def candidates(self, epoch: int) -> Sequence[Spot]:
        """Return the partitions that may be part of an answer, in its order: each epoch begins with another one."""
        topics, place = self._session.topics, self._session.places.__getitem__
        in_order = sorted(self.errors.keys() | self.readable.keys(), key=place)
        if not in_order:
            return in_order
        first = place(next(islice(topics, epoch % len(topics), None)))
        at = bisect_left(in_order, first, key=place)
        return in_order[at:] + in_order[:at]

    def _look_at(self, spot: Spot, now: float) -> None:
        """Look at a partition, or later, if a search in its log has to wait."""
        if self.is_ended and not self.waiting:
            return
        partition, shared = self._partitions.find(self._session, spot, self._limits, now)
        if shared is None:
            self.errors.pop(spot, None)
            self._unwatch(spot)
            self._late[spot] = None
            return
        if partition is None or isinstance(shared, PartitionError):
            if spot in self._watched:
                self._unwatch(spot)
            if isinstance(shared, PartitionError):
                self.errors[spot] = shared
            return
        self.errors.pop(spot, None)
        watched = partition.log, shared
        if self._watched.get(spot) != watched:
            self._unwatch(spot)
            self._watched[spot] = watched
            partition.log.watchers[self] = spot
            shared.watchers[self] = None
        self._looked_at[spot] = None
        offset = shared.first_to_fetch()
        readable = 0 if offset is None else partition.log.readable(offset, committed=self._committed)
        self.readable_bytes += readable - self.readable.pop(spot, 0)
        if readable:
            self.readable[spot] = readable
        if offset is None:
            self.full.add(spot)
        else:
            self.full.discard(spot)

    def _unwatch(self, spot: Spot) -> None:
        self.readable_bytes -= self.readable.pop(spot, 0)
        self.full.discard(spot)
        watched = self._watched.pop(spot, None)
        if watched is not None:
            log, shared = watched
            log.watchers.pop(self, None)
            shared.watchers.pop(self, None)
