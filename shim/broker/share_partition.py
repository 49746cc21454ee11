"""One partition as one share group has it: which records are whose, how often each was delivered, and what is done.

Decides what a member acquires, what an acknowledgement does, and what happens when a lock runs out. It does not know
requests, sessions, logs or the clock: `now` is monotonic seconds, and what the log has is handed in. Every record in
flight has a line of its own, so a partition in which many are in flight costs memory for each of them. After Kafka's
`SharePartition` of 4.2 (semantics 4.13).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from math import inf
from typing import Final, NamedTuple

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.share.persister import ShareState


class RecordState(IntEnum):
    """The delivery state of a record; the numbers are those of Kafka's records."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class Acknowledge(IntEnum):
    """What a member says of a record that it acquired."""

    GAP = 0
    """There is no record at this offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """It is still being worked on: the lock begins anew (KIP-1222)."""


_DONE: Final = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
_BECOMES: Final = {
    Acknowledge.GAP: RecordState.ARCHIVED,
    Acknowledge.ACCEPT: RecordState.ACKNOWLEDGED,
    Acknowledge.RELEASE: RecordState.AVAILABLE,
    Acknowledge.REJECT: RecordState.ARCHIVED,
    Acknowledge.RENEW: RecordState.ACQUIRED,
}
NOBODY: Final = ""


class Refused(Exception):
    """An acknowledgement that changes nothing: Kafka's error and its sentence."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Offsets(NamedTuple):
    """Offsets from `first` to `last`, both included."""

    first: int
    last: int


class AcquiredBatch(NamedTuple):
    """Offsets that a member has just acquired, each for the `delivery_count`-th time."""

    first: int
    last: int
    delivery_count: int


class ShareAcknowledgementBatch(NamedTuple):
    """What a member says of offsets: one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class _InFlight:
    """A record from the group's start on that was fetched once. `deadline` is when its lock ends, while acquired."""

    __slots__ = ("count", "deadline", "member_id", "state")

    def __init__(self, state: RecordState, count: int) -> None:
        self.state = state
        self.count = count
        self.member_id = NOBODY
        self.deadline = inf


class SharePartition:
    """`start_offset` is the first offset that is not done, `next_offset` the first that nobody ever fetched; between
    them every offset is in flight. `most_deliveries` and `most_in_flight` are the group's limits.

    The `state` is what outlives this object; whoever reads it next is its holder, and this one is not to be used then.
    """

    def __init__(self, state: ShareState, start_offset: int, *, most_deliveries: int, most_in_flight: int) -> None:
        self.state = state
        state.holder = self
        self.most_deliveries = most_deliveries
        self.most_in_flight = most_in_flight
        self.start_offset = start_offset
        self.next_offset = start_offset
        self._in_flight: dict[int, _InFlight] = {}
        self._completed = 0
        if state.records:
            for offset in range(start_offset, max(state.records) + 1):
                delivery_state, count = state.records.get(offset, (RecordState.AVAILABLE, 0))
                self._in_flight[offset] = record = _InFlight(RecordState(delivery_state), count)
                self._completed += record.state in _DONE
            self.next_offset = start_offset + len(self._in_flight)
            self._advance()

    @property
    def is_current(self) -> bool:
        """Whether nobody else has read the state since."""
        return self.state.holder is self

    def first_to_fetch(self) -> int | None:
        """Where a fetch begins: at the first record that is available again, else at the first new one. None while as
        many are in flight as may be."""
        for offset, record in self._in_flight.items():
            if record.state is RecordState.AVAILABLE:
                return offset
        return self.next_offset if len(self._in_flight) < self.most_in_flight else None

    def acquire(
        self,
        member_id: str,
        batches: Iterable[Offsets],
        deadline: float,
        *,
        max_records: int,
        batch_size: int,
        whole_batches: bool,
        aborted: Sequence[Offsets] = (),
    ) -> list[AcquiredBatch]:
        """Lock what is available of these batches, at most `max_records`, until `deadline`.

        With `whole_batches` the last batch is acquired whole even if that is more. What is acquired is told in parts of
        `batch_size` records or more, cut where batches begin. Records of `aborted` transactions are done at once.
        """
        taken: list[AcquiredBatch] = []
        left, size = max_records, 0
        for batch in batches:
            if left <= 0 or (batch.last >= self.next_offset and len(self._in_flight) >= self.most_in_flight):
                break
            if size >= batch_size:
                size = 0
            for offset in range(max(batch.first, self.start_offset), batch.last + 1):
                if left <= 0 and not whole_batches:
                    break
                if offset == self.next_offset:
                    self._in_flight[offset] = _InFlight(RecordState.AVAILABLE, 0)
                    self.next_offset += 1
                record = self._in_flight[offset]
                if record.state is not RecordState.AVAILABLE:
                    continue
                if any(each.first <= offset <= each.last for each in aborted):
                    self._change(record, RecordState.ARCHIVED)
                    continue
                record.count += 1
                record.member_id, record.deadline = member_id, deadline
                self._change(record, RecordState.ACQUIRED)
                left -= 1
                last = taken[-1] if size else None
                if last is not None and last.last == offset - 1 and last.delivery_count == record.count:
                    taken[-1] = last._replace(last=offset)
                else:
                    taken.append(AcquiredBatch(offset, offset, record.count))
                    size = 0
                size += 1
        if aborted:
            self._advance()
        return taken

    def acknowledge(self, member_id: str, batches: Sequence[ShareAcknowledgementBatch], deadline: float) -> bool:
        """Let a member say what became of records; all of it counts or, when `Refused` is raised, nothing.

        Offsets below the start of the group are past, and not looked at. Whether records are available again. Errors:
        INVALID_REQUEST (42) for offsets that were never fetched, INVALID_RECORD_STATE (121) for records that the member
        has not acquired.
        """
        changes: list[tuple[int, _InFlight, Acknowledge]] = []
        for batch in batches:
            if batch.last < self.start_offset:
                continue
            if batch.first >= self.next_offset:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    "Batch record not found. The first offset in request is past acquired records.",
                )
            if batch.last >= self.next_offset:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    "Batch record not found. The last offset in request is past acquired records.",
                )
            for offset in range(max(batch.first, self.start_offset), batch.last + 1):
                record = self._in_flight[offset]
                if record.state is not RecordState.ACQUIRED:
                    raise Refused(
                        ErrorCode.INVALID_RECORD_STATE,
                        "The offset cannot be acknowledged. The offset is not acquired.",
                    )
                if record.member_id != member_id:
                    raise Refused(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of offset")
                kind = batch.types[0] if len(batch.types) == 1 else batch.types[offset - batch.first]
                changes.append((offset, record, Acknowledge(kind)))
        if len({offset for offset, _, _ in changes}) < len(changes):
            raise Refused(
                ErrorCode.INVALID_RECORD_STATE, "The offset cannot be acknowledged. The offset is not acquired."
            )
        for _, record, kind in changes:
            if kind is Acknowledge.RENEW:
                record.deadline = deadline
            else:
                self._give_up(record, _BECOMES[kind])
        self._save(offset for offset, _, kind in changes if kind is not Acknowledge.RENEW)
        return any(kind is Acknowledge.RELEASE for _, _, kind in changes)

    def release(self, member_id: str) -> bool:
        """The member is gone: what it has acquired is available again, or done if it was delivered often enough.
        Whether it had anything."""
        return self._release(record for record in self._acquired_records() if record[1].member_id == member_id)

    def expire(self, now: float) -> bool:
        """Locks that have run out: their records are available again, or done if they were delivered often enough.
        Whether there were any."""
        return self._release(record for record in self._acquired_records() if record[1].deadline <= now)

    def truncate(self, log_start: int) -> None:
        """The log begins at `log_start` now: what was before is nobody's any more."""
        if log_start <= self.start_offset:
            return
        for offset in range(self.start_offset, min(log_start, self.next_offset)):
            self._completed -= self._in_flight.pop(offset).state in _DONE
        self.start_offset = log_start
        self.next_offset = max(self.next_offset, log_start)
        self._advance()

    @property
    def next_deadline(self) -> float:
        """When the first lock runs out, infinity if nothing is acquired."""
        return min((record.deadline for _, record in self._acquired_records()), default=inf)

    def states(self) -> Iterator[tuple[Offsets, RecordState, int]]:
        """What is in flight, in parts of the same state and delivery count."""
        lines = groupby(self._in_flight.items(), key=lambda line: (line[1].state, line[1].count))
        for (state, count), part in lines:
            offsets = [offset for offset, _ in part]
            yield Offsets(offsets[0], offsets[-1]), state, count

    def _acquired_records(self) -> Iterator[tuple[int, _InFlight]]:
        return (line for line in self._in_flight.items() if line[1].state is RecordState.ACQUIRED)

    def _release(self, records: Iterable[tuple[int, _InFlight]]) -> bool:
        released = list(records)
        for _, record in released:
            self._give_up(record, RecordState.AVAILABLE)
        self._save(offset for offset, _ in released)
        return bool(released)

    def _give_up(self, record: _InFlight, state: RecordState) -> None:
        """A record is nobody's any more. What would be available but was delivered often enough is done."""
        if state is RecordState.AVAILABLE and record.count >= self.most_deliveries:
            state = RecordState.ARCHIVED
        record.member_id, record.deadline = NOBODY, inf
        self._change(record, state)

    def _change(self, record: _InFlight, state: RecordState) -> None:
        record.state = state
        self._completed += state in _DONE

    def _save(self, offsets: Iterable[int]) -> None:
        """Let the state know of these offsets. As in Kafka it has the start offset that was before they were done."""
        changed = {offset: (int(self._in_flight[offset].state), self._in_flight[offset].count) for offset in offsets}
        if changed:
            state = self.state
            for offset in range(max(state.start_offset, 0), self.start_offset):
                state.records.pop(offset, None)
            state.start_offset = self.start_offset
            state.completed = self._completed
            state.records |= changed
        self._advance()

    def _advance(self) -> None:
        """The group begins after what is done."""
        while (record := self._in_flight.get(self.start_offset)) is not None and record.state in _DONE:
            del self._in_flight[self.start_offset]
            self._completed -= 1
            self.start_offset += 1
