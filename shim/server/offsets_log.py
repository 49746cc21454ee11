"""The logs of `__consumer_offsets` for consumers: the records of groups in batches, at offsets, as in a broker's log.

Most of these logs have no reader, so the log of a partition is empty until a client reads it. Then it begins with the
records in the store, which equal a compacted log, and from then on gets every batch that the store takes. A store that
blocks is read in a worker thread. Many records are appended in turns, and other clients are served in between; until a
log has begun, clients get NOT_LEADER_OR_FOLLOWER (6) and try again. A log that is behind gets the newest value of each
key alone, as after a compaction.

Keys and values are Kafka's bytes. Offsets are local to this process: after a start, and when another process takes a
partition over, a log begins again. Records of an open transaction are not in it; after the commit its offsets are, as
plain records. A large log is compacted like any other, but sooner, and a part of it with every append.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import Any, Final, TypeAlias

import trio

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import parse_batch
from kafka_shim.broker.compaction import Dirty, compact
from kafka_shim.broker.fetches import Turns
from kafka_shim.broker.topics import OFFSETS_TOPIC, Partition, Topics
from kafka_shim.broker.upkeep import TURN_BYTES
from kafka_shim.persistence.batch import Record, write_batch
from kafka_shim.persistence.interchange import BATCH_BYTES, timestamp_of
from kafka_shim.persistence.keys import encode_key
from kafka_shim.persistence.records import encode_value
from kafka_shim.persistence.store import Entry, StoreError, records_of
from kafka_shim.server.durability import Durability
from kafka_shim.server.failures import Border, Failures

log: Final = logging.getLogger("kafka_shim.server")

COMPACT_BYTES: Final = 8 << 20
"""Compact a log of this size in bytes, and again when it has doubled."""
AT_ONCE: Final = 1000
"""Records to append without a pause, in each `PAUSE`: 7 to 8 ms."""
PAUSE: Final = 0.05
"""Seconds."""
PAGE: Final = 10_000
"""Records to read at once from a store that blocks: the next batch waits for 23 ms."""
IN_A_TURN: Final = 200
"""Records to append before the time is read."""
_TOMBSTONES_MS: Final = 86_400_000

_Records: TypeAlias = Iterable[tuple[Any, Any]]


class _OffsetsLog:
    """The log of a partition that a client has read, and the records that it lacks: first those of `_missing`, in their
    order, then the newest ones by key. `has_begun`: it has had all of the store's."""

    __slots__ = ("_missing", "_newest", "has_begun", "compact_at", "compaction", "partition")

    def __init__(self, partition: Partition, records: _Records) -> None:
        self.partition = partition
        self.has_begun = False
        self.compact_at = 0
        self.compaction: Iterator[int] | None = None
        """The compaction under way."""
        self._missing: Iterator[tuple[Any, Any]] | None = iter(records)
        self._newest: dict[Any, Any] = {}

    @property
    def is_behind(self) -> bool:
        return self._missing is not None

    def add(self, records: _Records) -> None:
        """Note records that the store has taken."""
        if self._missing is None:
            self._missing = iter(records)
            return
        for key, value in records:
            # As in a compacted log the key has the place of its newest record.
            self._newest.pop(key, None)
            self._newest[key] = value

    def take(self, most: int) -> list[tuple[Any, Any]]:
        """Return the next records to append, at most so many."""
        records = list(islice(self._missing or (), most))
        if len(records) < most:
            self.has_begun = True
            self._missing = iter(self._newest.items()) if self._newest else None
            self._newest = {}
        return records


class _Behind:
    """The turns of a log that is behind."""

    __slots__ = ("_log", "_logs")

    def __init__(self, logs: OffsetsLogs, log: _OffsetsLog) -> None:
        self._logs = logs
        self._log = log

    def go_on(self, now: float) -> bool:
        return self._logs.go_on(self._log, now)

    def broken(self, error: Exception) -> None:
        self._logs.broken(self._log, error)


class OffsetsLogs:
    """The logs of the partitions of `__consumer_offsets` that this process leads.

    `epoch_ms` turns monotonic seconds into ms since the epoch.
    """

    def __init__(
        self,
        topics: Topics,
        durability: Durability,
        clock: Callable[[], float],
        epoch_ms: Callable[[float], int],
        failures: Failures,
    ) -> None:
        self.take_turns: Callable[[Turns], None] | None = None
        """Takes work that is to be done in turns; None where all is done at once."""
        self._topics = topics
        self._durability = durability
        self._clock = clock
        self._epoch_ms = epoch_ms
        self._failures = failures
        self._open: dict[int, _OffsetsLog] = {}
        self._loading: set[int] = set()
        self._since = -inf
        self._room = 0
        """The records that may be appended at once, until `PAUSE` after `_since`."""
        self._send, self._receive = trio.open_memory_channel[Partition](inf)

    def topic_changed(self, name: str) -> None:
        """Let the partitions of `__consumer_offsets` create their logs at the first read, and forget those that are
        gone."""
        if name != OFFSETS_TOPIC:
            return
        for index, each in list(self._open.items()):
            if not self._is_there(each.partition):
                self._forget(index)
        topic = self._topics.named(OFFSETS_TOPIC)
        self._offer(topic.partitions if topic is not None else ())

    def topic_deleted(self, name: str, topic_id: bytes) -> None:
        """See `topic_changed`."""
        self.topic_changed(name)

    def _is_there(self, partition: Partition) -> bool:
        topic = self._topics.named(OFFSETS_TOPIC)
        return topic is not None and topic.partition(partition.index) is partition

    def _offer(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            if partition.index not in self._open:
                partition.begin_log = partial(self._begin_or_wait, partition)

    def _forget(self, index: int) -> _OffsetsLog | None:
        each = self._open.pop(index, None)
        if not self._open:
            # Without a reader no commit pays for a log.
            self._durability.on_durable = None
        return each

    def close(self, index: int) -> None:
        """Close the log of a partition that another process writes now. It begins again when the partition comes
        back."""
        each = self._forget(index)
        if each is not None:
            self._offer([each.partition])
            # A fetch that has found nothing new looks at a log again only after a change.
            each.partition.log.tell()

    async def run(self) -> None:
        """Read the partitions that clients ask for from a store that blocks, until cancelled."""
        async for partition in self._receive:
            if self._is_there(partition):
                begins = self._opened(partition, ())
                try:
                    await self._read(begins)
                except StoreError as error:
                    log.error("partition %d of __consumer_offsets cannot be read: %s", partition.index, error)
                    self._close(begins)
                except Exception as error:
                    self.broken(begins, error)
            self._loading.discard(partition.index)

    async def _read(self, begins: _OffsetsLog) -> None:
        """Append all records of the store. Batches may come between two pages: the log gets their records last."""
        index = begins.partition.index
        records = self._durability.store.load(index)
        while True:
            async with self._durability.nothing_under_way():
                page = await trio.to_thread.run_sync(lambda: list(islice(records, PAGE)))
            for at in range(0, len(page), IN_A_TURN):
                if self._open.get(index) is not begins:
                    return
                self._append(begins, page[at : at + IN_A_TURN], self._clock())
                await trio.lowlevel.checkpoint()
            if len(page) < PAGE:
                break
        if self._open.get(index) is begins:
            self._catch_up([begins])

    def _begin_or_wait(self, partition: Partition) -> int:
        """Begin the log for a client's read, or queue the load. Return the error for the client."""
        if partition.index not in self._loading and partition.index not in self._open:
            if self._durability.store.durable_at_once:
                self._catch_up([self._opened(partition, self._durability.store.load(partition.index))])
                if partition.begin_log is None:
                    return ErrorCode.NONE
            else:
                self._loading.add(partition.index)
                self._send.send_nowait(partition)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _opened(self, partition: Partition, records: _Records) -> _OffsetsLog:
        # The records from before the close are out of date.
        partition.log.cut(partition.log.end_offset)
        begins = self._open[partition.index] = _OffsetsLog(partition, records)
        self._durability.on_durable = self._durable
        return begins

    def _durable(self, batch: Sequence[Entry]) -> None:
        """Append records that the store has taken."""
        written: dict[int, list[tuple[Any, Any]]] = {}
        for index, key, value in records_of(entry for entry in batch if entry[0] in self._open):
            written.setdefault(index, []).append((key, value))
        behind = []
        for index, records in written.items():
            each = self._open[index]
            if not each.is_behind:
                behind.append(each)
            each.add(records)
        self._catch_up(behind)

    def _catch_up(self, behind: Iterable[_OffsetsLog]) -> None:
        """Append the records that these logs lack, or the first of them, and the others in turns."""
        now = self._clock()
        if now - self._since >= PAUSE:
            self._since, self._room = now, AT_ONCE
        for each in behind:
            try:
                if self.take_turns is None:
                    while self._fill(each, AT_ONCE, now):
                        pass
                elif self._fill(each, self._room, now):
                    self.take_turns(_Behind(self, each))
            except Exception as error:
                self.broken(each, error)
        self._topics.settle(now)

    def go_on(self, behind: _OffsetsLog, now: float) -> bool:
        """Append more records that a log lacks; return False once it has all."""
        if self._open.get(behind.partition.index) is not behind:
            return False
        is_behind = self._fill(behind, IN_A_TURN, now)
        self._topics.settle(now)
        return is_behind

    def broken(self, behind: _OffsetsLog, error: Exception) -> None:
        """Close a log that lacks records for good. It begins again, with all that the store has."""
        index = behind.partition.index
        self._failures.note(Border.LOG, f"the log of partition {index} of __consumer_offsets", error)
        self._close(behind)

    def _close(self, behind: _OffsetsLog) -> None:
        index = behind.partition.index
        if self._open.get(index) is behind:
            self.close(index)
            self._topics.settle(self._clock())

    def _fill(self, behind: _OffsetsLog, most: int, now: float) -> bool:
        """Append at most so many records; return False if the log lacks none any more."""
        records = behind.take(most)
        self._room = max(self._room - len(records), 0)
        self._append(behind, records, now)
        if behind.has_begun:
            behind.partition.begin_log = None
            self._compact(behind, self._epoch_ms(now))
        return behind.is_behind

    def _append(self, to: _OffsetsLog, records: list[tuple[Any, Any]], now: float) -> None:
        now_ms = self._epoch_ms(now)
        pending: list[Record] = []
        size = 0

        def write() -> None:
            data = write_batch(pending)
            to.partition.log.append(parse_batch(data, max_bytes=len(data)), None, now)

        for key, value in records:
            if key.record_type < 0:
                continue
            raw = None if value is None else encode_value(key, value)
            pending.append(Record(len(pending), timestamp_of(value, now_ms), encode_key(key), raw))
            size += len(pending[-1].key or b"") + len(raw or b"")
            if size >= BATCH_BYTES:
                write()
                pending, size = [], 0
        if pending:
            write()

    def _compact(self, large: _OffsetsLog, now_ms: int) -> None:
        """Go on with the compaction of a large log: a part of it with every append."""
        end = large.partition.log
        if large.compaction is None:
            # With the records of the store alone it is compacted.
            large.compact_at = large.compact_at or max(COMPACT_BYTES, 2 * end.size)
            if end.size <= large.compact_at:
                return
            dirty = Dirty(end.cleaned_to, end.newest_offset, 1.0, now_ms)
            large.compaction = compact(end, dirty, now_ms, _TOMBSTONES_MS)
        done = 0
        for work in large.compaction:
            done += work
            if done >= TURN_BYTES:
                return
        large.compaction, large.compact_at = None, 0
