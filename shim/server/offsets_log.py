"""The logs of `__consumer_offsets` for consumers: the records of groups in batches, at offsets, as in a broker's log.

Most of these logs have no reader, so the log of a partition is empty until a client reads it. Then it begins with the
records in the store, which equal a compacted log, and from then on gets every batch that the store takes. A store that
blocks is read in a worker thread; until then clients get NOT_LEADER_OR_FOLLOWER (6) and try again.

Keys and values are Kafka's bytes. Offsets are local to this process: after a start, and when another process takes a
partition over, a log begins again. Records of an open transaction are not in it; after the commit its offsets are, as
plain records. A large log is compacted like any other, but sooner, and a part of it with every append.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from typing import Any, Final

import trio

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import parse_batch
from kafka_shim.broker.compaction import Dirty, compact
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
_TOMBSTONES_MS: Final = 86_400_000


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
        self._topics = topics
        self._durability = durability
        self._clock = clock
        self._epoch_ms = epoch_ms
        self._failures = failures
        self._open: dict[int, Partition] = {}
        self._compact_at: dict[int, int] = {}
        self._compactions: dict[int, Iterator[int]] = {}
        """The compactions under way."""
        self._loading: set[int] = set()
        self._send, self._receive = trio.open_memory_channel[Partition](inf)

    def topic_changed(self, name: str) -> None:
        """Let the partitions of `__consumer_offsets` create their logs at the first read."""
        topic = self._topics.named(name) if name == OFFSETS_TOPIC else None
        self._offer(topic.partitions if topic is not None else ())

    def _offer(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            if self._open.get(partition.index) is not partition:
                partition.begin_log = partial(self._begin_or_wait, partition)

    def close(self, index: int) -> None:
        """Close the log of a partition that another process writes now. It begins again when the partition comes
        back."""
        partition = self._open.pop(index, None)
        if partition is not None:
            self._offer([partition])
            # A fetch that has found nothing new looks at a log again only after a change.
            partition.log.tell()

    async def run(self) -> None:
        """Read the partitions that clients ask for from a store that blocks, until cancelled."""
        async for partition in self._receive:
            try:
                # No batch may come between the read and the start of the log.
                async with self._durability.nothing_under_way():
                    self._begin(partition, await trio.to_thread.run_sync(self._load, partition.index))
            except StoreError as error:
                log.error("partition %d of __consumer_offsets cannot be read: %s", partition.index, error)
            except Exception as error:
                self._failures.note(Border.LOG, f"the log of partition {partition.index} of __consumer_offsets", error)
            self._loading.discard(partition.index)

    def _begin_or_wait(self, partition: Partition) -> int:
        """Begin the log for a client's read, or queue the load. Return the error for the client."""
        if partition.index not in self._loading:
            if self._durability.store.durable_at_once:
                self._begin(partition, self._load(partition.index))
                if partition.begin_log is None:
                    return ErrorCode.NONE
            else:
                self._loading.add(partition.index)
                self._send.send_nowait(partition)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _load(self, index: int) -> list[Entry]:
        return [(index, key, value) for key, value in self._durability.store.load(index)]

    def _begin(self, partition: Partition, records: list[Entry]) -> None:
        # The records from before the close are out of date.
        partition.log.cut(partition.log.end_offset)
        partition.log.limit = sys.maxsize
        partition.begin_log = None
        self._open[partition.index] = partition
        self._compact_at[partition.index] = COMPACT_BYTES
        self._compactions.pop(partition.index, None)
        self._durability.on_durable = self._durable
        self._durable(records)

    def _durable(self, batch: Sequence[Entry]) -> None:
        """Append records that the store has taken."""
        now = self._clock()
        now_ms = self._epoch_ms(now)
        written: dict[int, list[tuple[Any, Any]]] = {}
        for index, key, value in records_of(batch):
            if index in self._open and key.record_type >= 0:
                written.setdefault(index, []).append((key, value))
        closed = set()
        for index, records in written.items():
            try:
                self._append(self._open[index], records, now, now_ms)
            except Exception as error:
                # A log must not lack records: it begins again, with all that the store has.
                self._failures.note(Border.LOG, f"the log of partition {index} of __consumer_offsets", error)
                self.close(index)
                closed.add(index)
        # A parked fetch that finds its log closed is answered. It must not begin the log, which would wake it again.
        self._loading |= closed
        try:
            self._topics.settle(now)
        finally:
            self._loading -= closed

    def _append(self, partition: Partition, records: list[tuple[Any, Any]], now: float, now_ms: int) -> None:
        pending: list[Record] = []
        size = 0

        def write() -> None:
            data = write_batch(pending)
            partition.log.append(parse_batch(data, max_bytes=len(data)), None, now)

        for key, value in records:
            raw = None if value is None else encode_value(key, value)
            pending.append(Record(len(pending), timestamp_of(value, now_ms), encode_key(key), raw))
            size += len(pending[-1].key or b"") + len(raw or b"")
            if size >= BATCH_BYTES:
                write()
                pending, size = [], 0
        if pending:
            write()
        self._compact(partition, now_ms)

    def _compact(self, partition: Partition, now_ms: int) -> None:
        """Go on with the compaction of a large log: a part of it with every append."""
        index, end = partition.index, partition.log
        steps = self._compactions.get(index)
        if steps is None:
            if end.size <= self._compact_at[index]:
                return
            *older, _ = end.kept()
            dirty = Dirty(end.cleaned_to, older[-1].next_offset, 1.0, now_ms)
            steps = self._compactions[index] = compact(end, dirty, now_ms, _TOMBSTONES_MS)
        done = 0
        for work in steps:
            done += work
            if done >= TURN_BYTES:
                return
        del self._compactions[index]
        self._compact_at[index] = max(COMPACT_BYTES, 2 * end.size)
