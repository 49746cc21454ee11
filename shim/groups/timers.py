"""Timers of a node: deadlines of rules, in a lazy heap.

The `kind` of a timer is a `ShardTimer`, or a kind declared by the group's kind. Time is monotonic seconds, passed in.

Its owner creates a `Timer` once and arms, moves and cancels it any number of times, so there is never more than one per
(kind, group, member). An entry of the heap only says "check this timer then": a later deadline, as after every
heartbeat, changes one attribute; when the time of the old entry comes, the timer is put back at the new deadline.
`queued` is the time of the one valid entry; older entries are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import Final

from kafka_shim.groups.outbox import Outbox

NEVER: Final = inf


class ShardTimer(StrEnum):
    """Kind of a timer that belongs to no group."""

    OFFSET_EXPIRY = "offset-expiry"
    TRANSACTION = "transaction"


@dataclass(slots=True, eq=False, repr=False)
class Timer:
    """Deadline in monotonic seconds; `NEVER` while it is not armed.

    The group `group_id` fires it, unless `kind` is a `ShardTimer`. `group_id` and `member_id` are empty for kinds that
    belong to a partition or to a whole group. The timer of a transaction has the transactional id as its group id.
    """

    kind: StrEnum
    partition: int
    group_id: str = ""
    member_id: str = ""
    deadline: float = NEVER
    queued: float = NEVER

    def __repr__(self) -> str:
        return f"<Timer {self.kind} {self.group_id!r} {self.member_id!r} at {self.deadline}>"


class TimerFailed(Exception):
    """Failure of a timer's rule; its cause is the error. The timer is disarmed."""

    def __init__(self, timer: Timer) -> None:
        super().__init__(f"the rule of {timer!r} has raised")
        self.timer = timer


class Timers:
    """Timers of a node. Arming, cancelling and firing are events for a trace of every request."""

    __slots__ = ("_dead", "_heap", "_order", "_outbox")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = 0
        self._dead = 0

    def arm(self, timer: Timer, deadline: float) -> None:
        """Arm `timer` at `deadline`, in place of any earlier deadline."""
        timer.deadline = deadline
        if deadline < timer.queued:
            if timer.queued != NEVER:
                self._dead += 1
            timer.queued = deadline
            self._order += 1
            heappush(self._heap, (deadline, self._order, timer))
            if self._dead > 64 and self._dead * 2 > len(self._heap):
                self._remove_invalid()
        if self._outbox.tracing:
            self._report(timer, "armed", deadline)

    def cancel(self, timer: Timer) -> None:
        """Cancel `timer` until it is armed again; does nothing if it is not armed."""
        if timer.deadline == NEVER:
            return
        if self._outbox.tracing:
            self._report(timer, "cancelled", timer.deadline)
        timer.deadline = timer.queued = NEVER
        self._dead += 1

    def pop(self, now: float) -> Timer | None:
        """Return the first due timer and disarm it; None if none is due at `now`."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            at, _, timer = heap[0]
            if at != timer.queued:
                heappop(heap)
                self._dead -= 1
            elif timer.deadline > now:
                timer.queued = timer.deadline
                self._order += 1
                heapreplace(heap, (timer.deadline, self._order, timer))
            else:
                heappop(heap)
                timer.deadline = timer.queued = NEVER
                if self._outbox.tracing:
                    self._report(timer, "fired", None)
                return timer
        return None

    def next_deadline(self) -> float:
        """Return a time not later than the next deadline; `NEVER` if no timer is armed."""
        heap = self._heap
        while heap and heap[0][0] != heap[0][2].queued:
            heappop(heap)
            self._dead -= 1
        return heap[0][0] if heap else NEVER

    def armed(self) -> Iterator[Timer]:
        """Return all armed timers, in no particular order."""
        # A timer that was cancelled and armed again for the same moment has two equal entries.
        return iter({timer for at, _, timer in self._heap if at == timer.queued})

    def _remove_invalid(self) -> None:
        """Remove the invalid entries, which are most of the heap."""
        self._heap = [entry for entry in self._heap if entry[0] == entry[2].queued]
        heapify(self._heap)
        self._dead = 0

    def _report(self, timer: Timer, change: str, deadline: float | None) -> None:
        """Report a timer that was armed or fired, or is about to be cancelled."""
        self._outbox.event(
            "timer",
            change=change,
            kind=timer.kind.value,
            partition=timer.partition,
            group=timer.group_id,
            member_id=timer.member_id,
            deadline=deadline,
        )
