"""The newest events of a process, kept for readers that come later.

Decides how much it keeps: a number of bytes of the events of groups and members, and another of those that come with
every request. So the requests of an open page never push out the reasons of a rebalance. It keeps events as JSON,
encodes each once for all its readers, and cuts long group ids, the texts of long events, and very many offsets.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

import orjson

from kafka_shim.server.events import EventFeed, is_of_request
from kafka_shim.server.excerpts import FIRST, MOST, shortened, with_short_texts
from kafka_shim.server.rare import RareExchange

log: Final = logging.getLogger("kafka_shim.server")

MOST_BYTES: Final = 48 * 1024 * 1024
"""Bytes of the events of groups and members that are kept; the oldest events go first."""
MOST_REQUEST_BYTES: Final = 16 * 1024 * 1024
"""The same of the events that come with every request."""
LONG_EVENT: Final = 8 * 1024
"""In a longer event, in bytes, texts are cut."""
_OVERHEAD: Final = 256
"""Bytes of memory of an event beside its line, about."""
PIECE_BYTES: Final = 64 * 1024
"""Bytes of events that one call reads at most."""


class Entry(NamedTuple):
    """An event as it was heard. `number` counts from 1; `now` is seconds of the coordinator's clock."""

    number: int
    now: float
    event: dict[str, Any]


class Record(NamedTuple):
    """An event as it is kept: `line` is its JSON, with `seq`, `mono` and `wall`."""

    number: int
    now: float
    group: str | None
    line: bytes


class _Kept:
    """The newest records of one sort, up to a number of bytes. `forgotten` is the number of the newest dropped one."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.records: deque[Record] = deque()
        self.groups: Counter[str | None] = Counter()
        """The number of records of each group."""
        self.forgotten = 0
        self.dropped = 0
        self._bytes = 0

    def add(self, record: Record) -> None:
        """Keep a record, in place of the oldest ones."""
        self.records.append(record)
        self.groups[record.group] += 1
        self._bytes += len(record.line) + _OVERHEAD
        while self._bytes > self.most_bytes:
            oldest = self.records.popleft()
            self._bytes -= len(oldest.line) + _OVERHEAD
            self.groups[oldest.group] -= 1
            if not self.groups[oldest.group]:
                del self.groups[oldest.group]
            self.forgotten = oldest.number
            self.dropped += 1

    def newer(self, number: int) -> list[Record]:
        """Return the records after `number`, in order."""
        # A copy of all takes a third of a millisecond, a walk over all ten times as long: clients wait meanwhile.
        at = bisect_right(self.records, number, key=itemgetter(0))
        if at < len(self.records) // 2:
            return list(islice(self.records, at, None))
        newer: list[Record] = []
        for record in reversed(self.records):
            if record.number <= number:
                break
            newer.append(record)
        newer.reverse()
        return newer

    def after(self, number: int) -> Iterator[Record]:
        """Yield the records after `number`, in order, as long as none is added."""
        # An index counts blocks of the deque, from the nearer end: a few microseconds at most.
        for at in range(bisect_right(self.records, number, key=itemgetter(0)), len(self.records)):
            yield self.records[at]


class EventHistory:
    """The newest events of a feed, from the first `start` on. `seen` counts all that were heard.

    `wall_offset` is added to the time of an event for its Unix time; both are seconds.
    """

    def __init__(
        self,
        feed: EventFeed,
        wall_offset: float = 0.0,
        most_bytes: int = MOST_BYTES,
        most_request_bytes: int = MOST_REQUEST_BYTES,
    ) -> None:
        self.seen = 0
        self.on_change: list[Callable[[], None]] = []
        """Called after the events of a tick."""
        self._feed = feed
        self._wall_offset = wall_offset
        self._of_groups = _Kept(most_bytes)
        self._of_requests = _Kept(most_request_bytes)
        self._starts = {True: 0, False: 0}

    @property
    def forgotten(self) -> int:
        """The number of the newest forgotten event of groups and members, or 0: after it none is missing."""
        return self._of_groups.forgotten

    @property
    def forgotten_request(self) -> int:
        """The number of the newest forgotten event of a request, or 0."""
        return self._of_requests.forgotten

    def limit(self, most_bytes: int, most_request_bytes: int) -> None:
        """Keep no more than these bytes from now on."""
        self._of_groups.most_bytes, self._of_requests.most_bytes = most_bytes, most_request_bytes

    @property
    def dropped(self) -> tuple[int, int]:
        """How many events are forgotten: of groups and members, and of requests."""
        return self._of_groups.dropped, self._of_requests.dropped

    def start(self, *, requests: bool = True) -> None:
        """Listen from now on, until there was a `stop` for every `start`; see `EventFeed.listen` for `requests`."""
        self._starts[requests] += 1
        self._listen()

    def stop(self, *, requests: bool = True) -> None:
        """Take back one `start`."""
        self._starts[requests] -= 1
        self._listen()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to everything during a block."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def has(self, group: str) -> bool:
        """Return True if an event of this group is kept."""
        name = shortened(group)
        return name in self._of_groups.groups or name in self._of_requests.groups

    def since(self, number: int, group: str | None = None) -> Iterator[Entry]:
        """The events after `number`, of one group or of all."""
        name = None if group is None else shortened(group)
        # Lists, because the caller may let new events come while it iterates.
        newer = merge(self._of_groups.newer(number), self._of_requests.newer(number), key=itemgetter(0))
        return (
            Entry(record.number, record.now, orjson.loads(record.line))
            for record in newer
            if name is None or record.group == name
        )

    def pieces(self, after: int, group: str | None = None, *, others: bool = False) -> Iterator[list[Entry]]:
        """Yield the events after the number `after` until now in pieces; see `piece`.

        New events may come in between, and old ones may be forgotten: a piece is read when it is asked for.
        """
        last = self.seen
        while after < last:
            records, after = self.piece(after, group, others=others)
            yield [Entry(each.number, each.now, orjson.loads(each.line)) for each in records if each.number <= last]

    def piece(self, after: int, group: str | None = None, *, others: bool = False) -> tuple[list[Record], int]:
        """Some of the events after the number `after`, of one group or of all, and the number of the last event
        that it read. With `others` also those that are about no group. All readers get the same records."""
        name = None if group is None else shortened(group)
        records: list[Record] = []
        size = 0
        for record in merge(self._of_groups.after(after), self._of_requests.after(after), key=itemgetter(0)):
            size += len(record.line) + _OVERHEAD
            if name is None or record.group == name or (others and not record.group):
                records.append(record)
            if size > PIECE_BYTES:
                return records, record.number
        return records, self.seen

    def _listen(self) -> None:
        self._feed.unlisten(self._hear)
        if self._starts[True] or self._starts[False]:
            self._feed.listen(self._hear, requests=self._starts[True] > 0)

    def _hear(self, events: list[dict[str, Any]], now: float) -> None:
        for event in events:
            self.seen += 1
            self._keep(event, now)
        for call in self.on_change:
            call()

    def _keep(self, event: dict[str, Any], now: float) -> None:
        of_groups = isinstance(event, RareExchange) or not is_of_request(event)
        event = event | {"seq": self.seen, "mono": now, "wall": now + self._wall_offset}
        group = event.get("group")
        if group:
            # In every event of a group, so that readers take them for one group.
            event["group"] = group = shortened(group)
        offsets = event.get("offsets")
        if offsets is not None and len(offsets) > MOST:
            event |= {"offsets": offsets[:FIRST], "left_out": len(offsets) - FIRST}
        line = orjson.dumps(event)
        if len(line) > LONG_EVENT:
            line = orjson.dumps(with_short_texts(event))
        # orjson cuts its result from a larger block, and no later line fits into the rest. A copy has no rest.
        line = bytes(memoryview(line))
        part = self._of_groups if of_groups else self._of_requests
        was_whole = part.forgotten == 0
        part.add(Record(self.seen, now, group, line))
        if of_groups and was_whole and part.forgotten:
            log.info("the oldest events are forgotten from now on: the newest %d bytes are kept", part.most_bytes)
