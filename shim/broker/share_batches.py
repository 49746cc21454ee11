"""Records in flight, as batches: each batch was acquired together and consists of runs of equal records.

A batch is divided when a part of it gets another state. It costs memory for its runs, however many records it has.
After Kafka's `InFlightBatch` of 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
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

    def between(self, first: int, last: int) -> Iterator[Run]:
        """Yield the runs of these offsets alone; a run that reaches beyond is divided."""
        self._divide(first)
        self._divide(last + 1)
        for run in list(self.runs):
            if first <= run.first and run.last <= last:
                yield run

    def _divide(self, offset: int) -> None:
        for index, run in enumerate(self.runs):
            if run.first < offset <= run.last:
                rest = Run(offset, run.last, run.state, run.count, run.member_id, run.deadline)
                run.last = offset - 1
                self.runs.insert(index + 1, rest)
                return
