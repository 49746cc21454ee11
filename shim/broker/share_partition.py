"""One partition of one share group: which records members acquire, acknowledge and release, and when they are done.

`share_batches.py` has the records in flight. `now` is monotonic seconds, and the caller passes the batches of the log
in. After Kafka's `SharePartition` of 4.2 (semantics 4.13).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from math import inf
from typing import Any, Final, NamedTuple, Protocol

from kafka_shim.apis.releases import DEFAULT_RULES, Rules
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.share_batches import EXCEEDED, REJECTED, Dead, InFlight, InFlightBatch, Offsets, RecordState, Run
from kafka_shim.groups.share.persister import Place, SharePersister, ShareState, StateBatch

_LEAST_THROTTLE: Final = 2
"""The least number of deliveries after which records come in smaller parts."""


class Acknowledge(IntEnum):
    """A member's answer to a record that it has acquired."""

    GAP = 0
    """There is no record at this offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The member still works on the record: its lock begins again (KIP-1222)."""


_BECOMES: Final = {
    Acknowledge.GAP: RecordState.ARCHIVED,
    Acknowledge.ACCEPT: RecordState.ACKNOWLEDGED,
    Acknowledge.RELEASE: RecordState.AVAILABLE,
    Acknowledge.REJECT: RecordState.ARCHIVED,
}


_NO_BATCH: Final = "The batch cannot be acknowledged. The batch is not in the acquired state."
_NOT_INITIALIZED: Final = "Error in write state RPC. Write operation on uninitialized share partition not allowed."
_FENCED: Final = "Error in write state RPC. The coordinator rejected the request because the state epoch did not match."
_FENCED_BEFORE: Final = (
    "Error in write state RPC. "
    "The share coordinator rejected the request because the share-group state epoch did not match."
)
"""The same before Kafka 4.4."""
_NO_OFFSET: Final = "The offset cannot be acknowledged. The offset is not acquired."


class Refused(Exception):
    """An acknowledgement without effect: Kafka's error and its sentence."""

    def __init__(self, error: int, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class AcquiredBatch(NamedTuple):
    """Offsets that a member has just acquired, each for the `delivery_count`-th time."""

    first: int
    last: int
    delivery_count: int


class ShareAcknowledgementBatch(NamedTuple):
    """A member's answer to offsets: one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class Reader(NamedTuple):
    """A member that acquires records, with the end of their lock and its limit: at most `max_records`, but a batch as a
    whole with `whole_batches`. New records then come in parts of `batch_size` or more, cut at the starts of batches of
    the log."""

    member_id: str
    deadline: float
    max_records: int
    batch_size: int
    whole_batches: bool


class Watcher(Protocol):
    """A share session, as far as it hears of its partitions."""

    def note(self, name: Any) -> None:
        """Hear that a member has acquired records."""

    def changed(self, name: Any) -> None:
        """Hear that records may be available again, or that the share partition was let go."""


class SharePartition:
    """One partition of a share group. `start_offset` is that of the group, or of the log. `most_deliveries` and
    `most_in_flight` are the group's limits, `rules` those of the release.

    The state of `place` outlives this object. Only the object that has read the state last may be used.
    """

    def __init__(
        self,
        persister: SharePersister,
        place: Place,
        state: ShareState,
        start_offset: int,
        *,
        most_deliveries: int,
        most_in_flight: int,
        dead: list[Dead] | None = None,
        rules: Rules = DEFAULT_RULES,
    ) -> None:
        self.place = place
        self.looked_up: int | None = None
        """The fetch offset that a fetch has last looked up in the log."""
        self.watchers: dict[Watcher, None] = {}
        self.next_look = inf
        """The time at which `SharePartitions` looks for locks that have expired."""
        self._persister = persister
        self._epoch = state.epoch
        self._fenced = _FENCED if rules.fenced_text_without_group else _FENCED_BEFORE
        persister.holders[place] = self
        self.limit(most_deliveries, most_in_flight, dead)
        self.in_flight = InFlight(start_offset, state.batches)

    def limit(self, most_deliveries: int, most_in_flight: int, dead: list[Dead] | None = None) -> None:
        """Set the limits of the group, which count from the next acquisition on. `dead` takes the records that the
        group never gets again; None without a queue for them."""
        self._dead = dead
        self.most_deliveries = most_deliveries
        self.most_in_flight = most_in_flight
        self.throttled_from = max(_LEAST_THROTTLE, (most_deliveries + 1) // 2)
        """The delivery count from which records come in smaller parts, so that a bad record is alone in the end."""

    @property
    def is_current(self) -> bool:
        """Return True if this object is the last that has read the state."""
        return self._persister.holders.get(self.place) is self

    def let_go(self) -> None:
        """Give the state up: the next request reads it again."""
        if self.is_current:
            self._persister.let_go(self.place)

    def first_to_fetch(self) -> int | None:
        """Return the first offset to fetch: of the first record that is available again, else of the first new one.
        None while the limit of records in flight is reached."""
        available = self.in_flight.first_available()
        if available is not None:
            return available
        return self.in_flight.next_offset if self.in_flight.size < self.most_in_flight else None

    # Acquiring

    def reach(self, reader: Reader, fetch_offset: int) -> int:
        """Return the number of offsets from `fetch_offset` on among which a member acquires records: those in flight,
        and as many new ones as it may have. `acquire` divides these as if it had all batches of the log, if it has one
        that begins beyond them."""
        flight = self.in_flight
        new = max(0, min(reader.max_records, self.most_in_flight - flight.size))
        return max(0, flight.next_offset - fetch_offset) + new

    def acquire(
        self, reader: Reader, fetch_offset: int, batches: Sequence[Offsets], aborted: Sequence[Offsets] = ()
    ) -> list[AcquiredBatch]:
        """Lock the available records of these batches of the log, read from `fetch_offset` on.

        Available records before the first batch are no longer in the log: they were compacted, and are done. Those of
        `aborted` transactions are done at once.
        """
        flight = self.in_flight
        room, last = min(reader.max_records, self.most_in_flight - flight.size), batches[-1].last
        if room <= 0:
            if fetch_offset >= flight.next_offset:
                return []
            room, last = min(reader.max_records, flight.next_offset - fetch_offset), min(last, flight.next_offset - 1)
        first = batches[0].first
        if fetch_offset < first:
            flight.archive(fetch_offset, first - 1)
        base, known = flight.overlap(first, last)
        acquired_batches, left, is_throttled = self._acquire_known(reader, known, batches, base, first, last, room)
        beyond = known[-1].last + 1 if known else base
        if left > 0 and not is_throttled and beyond <= last:
            acquired_batches += self._acquire_new(reader, batches, beyond, last, left)
        if acquired_batches:
            flight.move_gap(acquired_batches[-1].last + 1)
        return self._without(aborted, acquired_batches) if aborted else acquired_batches

    def _acquire_known(
        self,
        reader: Reader,
        known: Sequence[InFlightBatch],
        batches: Sequence[Offsets],
        gap: int,
        first: int,
        last: int,
        left: int,
    ) -> tuple[list[AcquiredBatch], int, bool]:
        """Acquire the available records of batches in flight. Also return the number that may still be acquired, and
        True if these records are to be delivered alone."""
        acquired_batches: list[AcquiredBatch] = []
        acquired = 0
        for batch in known:
            if acquired >= left:
                break
            if self.in_flight.open_gap is not None:
                if gap < batch.first:
                    new = self._acquire_new(reader, batches, gap, batch.first - 1, left - acquired)
                    acquired_batches += new
                    acquired += _size(new)
                gap = batch.last + 1
                if acquired >= left:
                    break
            is_throttled = self._is_throttled(batch, first, last)
            if is_throttled and acquired:
                return acquired_batches, 0, True
            is_larger = not reader.whole_batches and batch.last - batch.first + 1 > left - acquired
            if not batch.tracked:
                if batch.whole.state is not RecordState.AVAILABLE:
                    continue
                if batch.is_within(first, last) and not is_larger and not is_throttled:
                    acquired_batches.append(self._lock(reader, batch.whole))
                    acquired += len(batch.whole)
                    continue
                batch.tracked = True
            part = self._acquire_part(reader, batch, first, last, left - acquired)
            acquired_batches += part
            acquired += _size(part)
            if is_throttled and part:
                return acquired_batches, 0, True
        return acquired_batches, left - acquired, False

    def _is_throttled(self, batch: InFlightBatch, first: int, last: int) -> bool:
        """Return True if records of a batch were delivered so often that they are to come in smaller parts."""
        if not batch.tracked:
            return batch.whole.count >= self.throttled_from
        return any(
            run.count >= self.throttled_from
            for run in batch.runs
            if run.state is RecordState.AVAILABLE and run.last >= first and run.first <= last
        )

    def _acquire_part(
        self, reader: Reader, batch: InFlightBatch, first: int, last: int, left: int
    ) -> list[AcquiredBatch]:
        """Acquire the available records of a batch: half of it, a quarter and so on if it was delivered often, and a
        single record at its last delivery."""
        acquired_batches: list[AcquiredBatch] = []
        acquired, size = 0, batch.last - batch.first + 1
        most = size if reader.whole_batches else left
        throttled: int | None = None
        for run in batch.between(first, last):
            if run.state is not RecordState.AVAILABLE:
                continue
            is_last_delivery = run.count == self.most_deliveries - 1 and self.most_deliveries > _LEAST_THROTTLE
            if is_last_delivery and acquired:
                break
            if run.count >= self.throttled_from and throttled is None:
                throttled = max(1, size >> (run.count - self.throttled_from + 1))
                if acquired < throttled:
                    most = min(most, throttled)
            count = 1 if is_last_delivery else min(len(run), most - acquired)
            (part,) = batch.between(run.first, run.first + count - 1)
            locked = self._lock(reader, part)
            acquired += len(part)
            previous = acquired_batches[-1] if acquired_batches else None
            if previous and previous.last + 1 == locked.first and previous.delivery_count == locked.delivery_count:
                acquired_batches[-1] = previous._replace(last=locked.last)
            else:
                acquired_batches.append(locked)
            if is_last_delivery or acquired >= most:
                break
        return acquired_batches

    def _acquire_new(
        self, reader: Reader, batches: Sequence[Offsets], first: int, last: int, left: int
    ) -> list[AcquiredBatch]:
        """Acquire new offsets; without whole batches they form one batch in flight."""
        end = last
        if left < last - first + 1:
            index = bisect_right(batches, first + left - 1, key=lambda each: each.first) - 1
            end = batches[max(index, 0)].last
            if self.in_flight.open_gap is not None:
                end = min(end, last)
        bounds = [first]
        if reader.whole_batches:
            bounds += (each.first for each in batches if first < each.first <= end)
        acquired_batches: list[AcquiredBatch] = []
        begin = first
        for bound in bounds[1:]:
            if bound - begin >= reader.batch_size:
                acquired_batches.append(self._begin(reader, begin, bound - 1))
                begin = bound
        acquired_batches.append(self._begin(reader, begin, end))
        self.in_flight.extend(first, end)
        if not reader.whole_batches and end - first + 1 > left:
            batch = self.in_flight.at(first)
            batch.tracked = True
            for rest in batch.between(first + left, end):
                rest.count = 0
                self.in_flight.give_up(rest, RecordState.AVAILABLE)
            acquired_batches = [AcquiredBatch(first, first + left - 1, 1)]
        return acquired_batches

    def _begin(self, reader: Reader, first: int, last: int) -> AcquiredBatch:
        run = Run(first, last, RecordState.AVAILABLE, 0)
        self.in_flight.add(InFlightBatch(run))
        return self._lock(reader, run)

    def _lock(self, reader: Reader, run: Run) -> AcquiredBatch:
        run.state, run.member_id, run.deadline = RecordState.ACQUIRED, reader.member_id, reader.deadline
        run.count += 1
        return AcquiredBatch(run.first, run.last, run.count)

    def _without(self, aborted: Sequence[Offsets], acquired_batches: list[AcquiredBatch]) -> list[AcquiredBatch]:
        """Archive the records of aborted transactions that were just acquired; return the others. Both are in order."""
        if not acquired_batches:
            return []
        begin = bisect_left(aborted, acquired_batches[0].first, key=lambda each: each.last)
        aborted = aborted[begin : bisect_right(aborted, acquired_batches[-1].last, key=lambda each: each.first)]
        rest: list[AcquiredBatch] = []
        at = 0
        for each in acquired_batches:
            begin = each.first
            while at < len(aborted) and aborted[at].first <= each.last:
                if aborted[at].first > begin:
                    rest.append(each._replace(first=begin, last=aborted[at].first - 1))
                begin = max(begin, aborted[at].last + 1)
                if begin > each.last:
                    break
                at += 1
            if begin <= each.last:
                rest.append(each._replace(first=begin))
        for first, last in aborted:
            self.in_flight.archive(first, last, RecordState.ACQUIRED)
        self.in_flight.advance()
        return rest

    # Acknowledging

    def acknowledge(self, member_id: str, batches: Sequence[ShareAcknowledgementBatch], deadline: float) -> bool:
        """Apply a member's acknowledgement: all of it, or nothing if `Refused` is raised. Return True if records are
        available again.

        Offsets below the start of the group are past, and ignored. Errors: INVALID_REQUEST (42) for offsets beyond all
        that were fetched, INVALID_RECORD_STATE (121) for records that the member has not acquired; those of a state
        that was altered or deleted.
        """
        changes: list[tuple[Run, Acknowledge]] = []
        before = -1
        for batch in batches:
            if batch.last < self.in_flight.start_offset:
                continue
            if batch.first <= before:
                raise Refused(ErrorCode.INVALID_RECORD_STATE, _NO_OFFSET)
            before = batch.last
            for part in self._acknowledged(batch):
                changes += self._said_of(member_id, part, batch)
        self._check_state([run for run, kind in changes if kind is not Acknowledge.RENEW])
        for run, kind in changes:
            if kind is Acknowledge.RENEW:
                run.deadline = deadline
            else:
                self._give_up(run, _BECOMES[kind], REJECTED if kind is Acknowledge.REJECT else "")
        self._save([run for run, kind in changes if kind is not Acknowledge.RENEW])
        return any(kind is Acknowledge.RELEASE for _, kind in changes)

    def _acknowledged(self, batch: ShareAcknowledgementBatch) -> list[InFlightBatch]:
        """Return the batches in flight that an acknowledgement is about. Raises `Refused`."""
        parts = self.in_flight.from_before(batch.first, batch.last)
        if not parts:
            raise Refused(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
        for which, offset in (("first", batch.first), ("last", batch.last)):
            if parts[-1].last < offset:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"Batch record not found. The {which} offset in request is past acquired records.",
                )
        return [each for each in parts if each.last >= self.in_flight.start_offset]

    def _said_of(
        self, member_id: str, batch: InFlightBatch, said: ShareAcknowledgementBatch
    ) -> Iterator[tuple[Run, Acknowledge]]:
        """Yield the runs of one batch in flight, with the member's answer to each. Raises `Refused`."""
        if not batch.tracked:
            if batch.whole.state is not RecordState.ACQUIRED:
                raise Refused(ErrorCode.INVALID_RECORD_STATE, _NO_BATCH)
            if batch.whole.member_id != member_id:
                raise Refused(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record")
            if batch.is_within(said.first, said.last) and len(said.types) == 1:
                yield batch.whole, Acknowledge(said.types[0])
                return
            batch.tracked = True
        first, last = max(batch.first, said.first, self.in_flight.start_offset), min(batch.last, said.last)
        for run in batch.between(first, last):
            if run.state is not RecordState.ACQUIRED:
                raise Refused(ErrorCode.INVALID_RECORD_STATE, _NO_OFFSET)
            if run.member_id != member_id:
                raise Refused(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of offset")
        types, base = said.types, said.first
        is_one = len(types) == 1
        starts = () if is_one else [at for at in range(first + 1, last + 1) if types[at - base] != types[at - base - 1]]
        for run in batch.between(first, last, starts):
            yield run, Acknowledge(types[0 if is_one else run.first - base])

    # Letting go

    def release(self, member_id: str) -> bool:
        """Release the records of a member that has left: available again, or done after their last delivery. Return
        True if it had any. Raises `Refused` if the state was altered or deleted."""
        runs = [run for run in self.in_flight.acquired if run.member_id == member_id]
        self._check_state(runs)
        return self._release(runs)

    def expire(self, now: float) -> bool:
        """Release the records whose lock has expired: available again, or done after their last delivery. Return True
        if there were any."""
        return self._release([run for run in self.in_flight.acquired if run.deadline <= now])

    @property
    def next_deadline(self) -> float:
        """Return the time at which the first lock expires, infinity if nothing is acquired."""
        return min((run.deadline for run in self.in_flight.acquired), default=inf)

    def _release(self, runs: list[Run]) -> bool:
        for run in runs:
            self._give_up(run, RecordState.AVAILABLE)
        self._save(runs)
        return bool(runs)

    def _give_up(self, run: Run, state: RecordState, cause: str = "") -> None:
        """Release a run from its member. It is done, not available, after its last delivery, or if it is no longer in
        the log. `cause`, unless empty: it is dead."""
        start_offset = self.in_flight.start_offset
        if state is RecordState.AVAILABLE and (run.count >= self.most_deliveries or run.last < start_offset):
            state, cause = RecordState.ARCHIVED, EXCEEDED
        if cause and self._dead is not None and run.last >= start_offset:
            self._dead.append(Dead(self.place, Offsets(max(run.first, start_offset), run.last), run.count, cause))
        self.in_flight.give_up(run, state)

    # The state

    def _check_state(self, runs: list[Run]) -> None:
        if not runs:
            return
        # A deleted state must not be created here.
        state = self._persister.get(self.place)
        if state is None:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, _NOT_INITIALIZED)
        if state.epoch > self._epoch:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, self._fenced)

    def _save(self, runs: Iterable[Run]) -> None:
        """Write these records into the state, with the start offset from before they were done, as in Kafka."""
        changed = [StateBatch(run.first, run.last, int(run.state), run.count) for run in runs]
        state = self._persister.get(self.place)
        if changed and state is not None and state.epoch <= self._epoch:
            state.write(self.in_flight.start_offset, self.in_flight.completed, sorted(changed))
        self.in_flight.advance()


def _size(batches: Iterable[AcquiredBatch]) -> int:
    return sum(each.last - each.first + 1 for each in batches)
