"""Records in flight, as batches: each batch was acquired together and consists of runs of equal records.

A batch is divided when a part of it gets another state. It costs memory for its runs, however many records it has.
`InFlight` has the batches of a partition in order. After Kafka's `InFlightBatch` and `SharePartition` of 4.2.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import chain
from math import inf
from typing import Final, NamedTuple

from kafka_shim.groups.share.persister import Place

NOBODY: Final = ""


class RecordState(IntEnum):
    """The delivery state of a record; the numbers are those of Kafka's records."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


DONE: Final = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Offsets(NamedTuple):
    """Offsets from `first` to `last`, both included."""

    first: int
    last: int


REJECTED: Final = "Offset rejected by client."
EXCEEDED: Final = "Offset delivery count exceeded the threshold."


class Dead(NamedTuple):
    """Records of a share partition that are never delivered again, and the cause in Kafka's words."""

    place: Place
    offsets: Offsets
    delivery_count: int
    cause: str


class Run:
    """Records from `first` to `last` in the same state. `deadline` is the end of their lock while they are acquired."""

    __slots__ = ("count", "deadline", "first", "last", "member_id", "state")

    def __init__(
        self, first: int, last: int, state: RecordState, count: int, member_id: str = NOBODY, deadline: float = inf
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        self.member_id = member_id
        self.deadline = deadline

    def __len__(self) -> int:
        return self.last - self.first + 1


class InFlightBatch:
    """Records from `first` to `last` that were acquired together. `tracked`: parts of it once had different states, so
    that they are looked at one by one, as in Kafka even when they are equal again."""

    __slots__ = ("first", "last", "runs", "tracked")

    def __init__(self, run: Run) -> None:
        self.first = run.first
        self.last = run.last
        self.runs = [run]
        self.tracked = False

    @property
    def whole(self) -> Run:
        """Return the only run of a batch that is not tracked."""
        return self.runs[0]

    def is_within(self, first: int, last: int) -> bool:
        return self.first >= first and self.last <= last

    def between(self, first: int, last: int, starts: Iterable[int] = ()) -> list[Run]:
        """Return the runs of these offsets alone; a run that reaches beyond is divided. Further runs begin at `starts`,
        offsets of them in order."""
        begin = max(0, bisect_right(self.runs, first, key=_first_of) - 1)
        end = bisect_right(self.runs, last, key=_first_of)
        parts: list[Run] = []
        bounds = chain((first,), starts, (last + 1,))
        bound = next(bounds)
        for run in self.runs[begin:end]:
            while bound <= run.last:
                if run.first < bound:
                    parts.append(run)
                    rest = Run(bound, run.last, run.state, run.count, run.member_id, run.deadline)
                    run.last, run = rest.first - 1, rest
                bound = next(bounds, run.last + 1)
            parts.append(run)
        self.runs[begin:end] = parts
        return [run for run in parts if first <= run.first and run.last <= last]


def _first_of(run: Run) -> int:
    return run.first


class InFlight:
    """The records of a share partition from `start_offset`, the first offset that is not done, to `next_offset`, the
    first that no member has ever fetched. `batches` are those of its stored state: first and last offset, delivery
    state and delivery count of each, in order.
    """

    def __init__(self, start_offset: int, batches: Iterable[tuple[int, int, int, int]]) -> None:
        self.start_offset = start_offset
        self.completed = 0
        """The number of these records that are done."""
        self._firsts: list[int] = []
        self._batches: list[InFlightBatch] = []
        self._gap: int | None = None
        """The first offset that is not in the state but may be in the log; None once acquisition has passed all offsets
        of the state."""
        expected = start_offset
        for first, last, delivery_state, count in batches:
            if last < start_offset:
                continue
            first = max(first, start_offset)
            if self._gap is None and first > expected:
                self._gap = expected
            expected = last + 1
            self.add(InFlightBatch(Run(first, last, RecordState(delivery_state), count)))
            if delivery_state in DONE:
                self.completed += last - first + 1
        self.next_offset = expected
        self._gap_end = expected - 1
        self._has_available = bool(self._batches)
        self.advance()

    def __iter__(self) -> Iterator[Run]:
        return (run for batch in self._batches for run in batch.runs)

    @property
    def size(self) -> int:
        """Return the number of offsets in flight."""
        return max(0, self.next_offset - self.start_offset) if self._batches else 0

    @property
    def acquired(self) -> Iterator[Run]:
        """Return the runs that members have acquired."""
        return (run for run in self if run.state is RecordState.ACQUIRED)

    @property
    def open_gap(self) -> int | None:
        """Return the first offset that the state lacks and the log may have, while no offset beyond it was fetched."""
        return self._gap if self._gap_end == self.next_offset - 1 else None

    def move_gap(self, offset: int) -> None:
        """Note that acquisition has come to this offset."""
        if self._gap is not None:
            self._gap = offset if self._gap_end == self.next_offset - 1 and offset <= self._gap_end else None

    def first_available(self) -> int | None:
        """Return the first offset that is available again, or that the state lacks; None if there is none."""
        if not self._has_available:
            return None
        gap = self.open_gap
        for batch in self._batches:
            if gap is not None:
                if batch.first > gap:
                    return gap
                gap = max(batch.last + 1, gap)
            for run in batch.runs:
                if run.state is RecordState.AVAILABLE:
                    return run.first
        self._has_available = False
        return None

    def overlap(self, first: int, last: int) -> tuple[int, list[InFlightBatch]]:
        """Return the batches of these offsets of the log, and the offset at which they, or new records, begin."""
        base = max(first, self.start_offset)
        at = bisect_right(self._firsts, base) - 1
        if at >= 0 and self._batches[at].last >= base:
            base = self._firsts[at]
        return base, self._batches[bisect_left(self._firsts, base) : bisect_right(self._firsts, last)]

    def from_before(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches from the last that begins at `first` or before, to the last that begins at `last` or
        before; none if all begin later."""
        at = bisect_right(self._firsts, first) - 1
        if at < 0 and first < self.start_offset:
            at = bisect_right(self._firsts, self.start_offset) - 1
        return self._batches[at : bisect_right(self._firsts, last)] if at >= 0 else []

    def at(self, first: int) -> InFlightBatch:
        """Return the batch that begins at this offset."""
        return self._batches[bisect_left(self._firsts, first)]

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch in its place."""
        at = bisect_left(self._firsts, batch.first)
        self._firsts.insert(at, batch.first)
        self._batches.insert(at, batch)

    def extend(self, first: int, last: int) -> None:
        """Note that new offsets, in batches that were just added, have been fetched."""
        if self._batches[0].first == first:
            self.start_offset = first
        self.next_offset = max(self.next_offset, last + 1)

    def give_up(self, run: Run, state: RecordState) -> None:
        """Take a run from its member; it is available or done."""
        run.state, run.member_id, run.deadline = state, NOBODY, inf
        if state is RecordState.AVAILABLE:
            self._has_available = True
        elif state in DONE:
            self.completed += max(0, run.last - max(run.first, self.start_offset) + 1)

    def archive(self, first: int, last: int, state: RecordState = RecordState.AVAILABLE) -> None:
        """Archive the records of these offsets that are in this state."""
        at = max(0, bisect_right(self._firsts, first) - 1)
        for batch in self._batches[at : bisect_right(self._firsts, last)]:
            if batch.last < first or not (batch.tracked or batch.whole.state is state):
                continue
            batch.tracked |= not batch.is_within(first, last)
            for run in batch.between(max(first, batch.first), min(last, batch.last)):
                if run.state is state:
                    self.give_up(run, RecordState.ARCHIVED)

    def truncate(self, log_start: int) -> None:
        """Follow the start of the log to `log_start`: available records before it are done, acquired ones stay
        locked."""
        if log_start <= self.start_offset:
            return
        self.completed -= self._done_between(self.start_offset, log_start - 1)
        start, self.start_offset = self.start_offset, log_start
        self.archive(start, log_start - 1)
        if self._gap is not None and self._gap < log_start:
            self.move_gap(log_start)
        for batch in self._batches:
            if batch.first < log_start <= batch.last:
                # The two parts of the batch have different states from now on.
                batch.tracked = True
                batch.between(log_start, batch.last)
        self.next_offset = max(self.next_offset, log_start)

    def advance(self) -> None:
        """Move the start beyond the records that are done."""
        passed, start = 0, self.start_offset
        for batch in self._batches:
            if self.open_gap is not None and batch.last >= self.open_gap:
                break
            pending = next((run.first for run in batch.runs if run.state not in DONE), None)
            if pending is not None:
                if passed or pending > batch.first:
                    start = pending
                break
            passed, start = passed + 1, batch.last + 1
        if start > self.start_offset:
            self.completed -= self._done_between(self.start_offset, start - 1)
            self.start_offset = start
            self.next_offset = max(self.next_offset, start)
        if passed:
            del self._batches[:passed], self._firsts[:passed]

    def _done_between(self, first: int, last: int) -> int:
        runs = (run for run in self if run.state in DONE)
        return sum(max(0, min(run.last, last) - max(run.first, first) + 1) for run in runs)
