"""Deadlines: when a rule must run without a request.

Decides only what is due and in which order. A timer carries what it is for: `kind`, one of `ShardTimer` or, for a timer
of a group, one of those that its kind of group declares. Time is monotonic seconds, handed in.

A `Timer` is made once by whom it belongs to and is armed, moved and cancelled any number of times, so there is never
more than one per (kind, group, member). The heap is lazy. An entry says only "look at this timer then": moving a
deadline later, as every heartbeat does, changes one attribute; the old entry, when its time comes, puts the timer back
at the new deadline. `queued` is the time of the one entry that counts, which tells it from older entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

NEVER: Final = inf


class ShardTimer(StrEnum):
    """What timers are for that belong to no group."""

    OFFSET_EXPIRY = "offset-expiry"
    TRANSACTION = "transaction"


class Timer:
    """One deadline, in monotonic seconds; `NEVER` when it is not armed.

    It is fired by the group `group_id`, unless `kind` is a `ShardTimer`. `group_id` and `member_id` are empty for kinds
    that belong to a partition or to a whole group. The timer of a transaction has the transactional id for a group id.
    """

    __slots__ = ("deadline", "group_id", "kind", "member_id", "partition", "queued")

    def __init__(self, kind: StrEnum, partition: int, group_id: str = "", member_id: str = "") -> None:
        self.kind = kind
        self.partition = partition
        self.group_id = group_id
        self.member_id = member_id
        self.deadline = NEVER
        self.queued = NEVER

    def __repr__(self) -> str:
        return f"<Timer {self.kind} {self.group_id!r} {self.member_id!r} at {self.deadline}>"


class Timers:
    """All timers of a node."""

    __slots__ = ("_dead", "_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = 0
        self._dead = 0

    def arm(self, timer: Timer, deadline: float) -> None:
        """Let `timer` fire at `deadline`, whatever it was set to before."""
        timer.deadline = deadline
        if deadline < timer.queued:
            self._abandon(timer)
            self._push(timer, deadline)

    def cancel(self, timer: Timer) -> None:
        """Let `timer` not fire until it is armed again."""
        timer.deadline = NEVER
        self._abandon(timer)

    def pop(self, now: float) -> Timer | None:
        """The timer that is due first, no longer armed; None if none is due at `now`."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            at, _, timer = heappop(heap)
            if at != timer.queued:
                self._dead -= 1
            elif timer.deadline > now:
                self._push(timer, timer.deadline)
            else:
                timer.deadline = timer.queued = NEVER
                return timer
        return None

    def next_deadline(self) -> float:
        """When `pop` is worth calling next; may be early, is never late; `NEVER` if nothing is armed."""
        heap = self._heap
        while heap and heap[0][0] != heap[0][2].queued:
            heappop(heap)
            self._dead -= 1
        return heap[0][0] if heap else NEVER

    def armed(self) -> Iterator[Timer]:
        """Every armed timer, in no particular order."""
        # One that was cancelled and armed again for the same moment has two entries alike.
        return iter({timer for at, _, timer in self._heap if at == timer.queued})

    def _push(self, timer: Timer, at: float) -> None:
        timer.queued = at
        self._order += 1
        heappush(self._heap, (at, self._order, timer))

    def _abandon(self, timer: Timer) -> None:
        """Let the timer's entry, if it has one, count no more; when most entries are dead they are swept out."""
        if timer.queued == NEVER:
            return
        timer.queued = NEVER
        self._dead += 1
        if self._dead > 64 and self._dead * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[0] == entry[2].queued]
            heapify(self._heap)
            self._dead = 0
