"""The history of committed offsets of one partition of `__consumer_offsets`, made while its log is read.

All commits of a group lie in one partition of `__consumer_offsets`, in the order in which they count. So what differs
from the commit before is known by reading the log once from its beginning: no commit has to be brought together with
any other. Decides when an offset counts (one of a transaction once it is committed, from its marker on; without one,
never) and what it replaces. Rows are those of table `offset_history`, less those columns that are the same for all. It
does not know files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafka_shim.pipeline.decode.records import Commits, Keys, Masks
from kafka_shim.pipeline.decode.varints import Ints

ROWS: Final = 1 << 20
"""About how many commits are looked at together."""

_DAY_MS: Final = 86_400_000


class Marker(NamedTuple):
    """The end of a transaction."""

    record_offset: int
    timestamp: int
    producer_id: int
    committed: bool


class Changes(NamedTuple):
    """Changes of committed offsets, those of a partition of a topic side by side and in order."""

    key: Ints
    at: Ints
    offset: Ints
    tombstone: Masks
    record_offset: Ints
    previous: Ints
    had_previous: Masks
    before: Ints
    had_before: Masks

    def in_order(self, rows: Ints) -> Changes:
        """These rows."""
        columns: list[Any] = [column[rows] for column in self]
        return Changes(*columns)


class History:
    """Takes the commits of a log in order, gives their history."""

    def __init__(self) -> None:
        self.keys = Keys()
        self._waiting: list[Commits] = []
        self._count = 0
        self._pending: dict[int, list[Commits]] = {}
        # The last change of each key: when, the offset, whether there is one.
        self._last_at: Ints = np.zeros(0, np.int64)
        self._last: Ints = np.zeros(0, np.int64)
        self._has_last: Masks = np.zeros(0, bool)
        self._seen: Masks = np.zeros(0, bool)

    def add(self, found: list[Commits], markers: list[Marker]) -> Iterator[Changes]:
        """What was read next of the log, in any order within itself; gives the history when there is much of it."""
        plain: list[Commits] = []
        for each in found:
            outside = each.producer_id == -1
            if outside.all():
                # Nearly always; and so there is nothing to copy.
                plain.append(each)
                continue
            plain.append(_chosen(each, outside))
            for producer in np.unique(each.producer_id[~outside]).tolist():
                self._pending.setdefault(producer, []).append(_chosen(each, each.producer_id == producer))
        effects = [each.record_offset for each in plain]
        for marker in sorted(markers):
            waiting = self._pending.pop(marker.producer_id, [])
            for each in waiting:
                ended = each.record_offset < marker.record_offset
                later = _chosen(each, ~ended)
                if later.key.size:
                    self._pending.setdefault(marker.producer_id, []).append(later)
                if marker.committed:
                    now = _chosen(each, ended)
                    count = now.key.size
                    plain.append(now._replace(timestamp=np.full(count, marker.timestamp, np.int64)))
                    effects.append(np.full(count, marker.record_offset, np.int64))
        if not plain:
            return
        joined = Commits(*map(np.concatenate, zip(*plain, strict=True))) if len(plain) > 1 else plain[0]
        if markers:
            order = np.lexsort((joined.record_offset, np.concatenate(effects)))
        else:
            order = np.argsort(joined.record_offset, kind="stable")
        self._waiting.append(_chosen(joined, order))
        self._count += order.size
        if self._count >= ROWS:
            yield self._changes()

    def rest(self) -> Iterator[Changes]:
        """The history of what has not been given; the log has ended, and with it transactions that did not."""
        if self._count:
            yield self._changes()

    def _changes(self) -> Changes:
        commits = Commits(*map(np.concatenate, zip(*self._waiting, strict=True)))
        self._waiting.clear()
        self._count = 0
        self._make_room()
        # numpy sorts short numbers by radix.
        narrow = commits.key.astype(np.uint16) if len(self.keys.groups) <= 1 << 16 else commits.key
        commits = _chosen(commits, np.argsort(narrow, kind="stable"))
        key = commits.key
        first = np.ones(key.size, bool)
        first[1:] = key[1:] != key[:-1]
        last = np.flatnonzero(np.append(first[1:], True))
        had = ~commits.tombstone

        def before(column: NDArray[Any], known: NDArray[Any]) -> NDArray[Any]:
            shifted = np.empty_like(column)
            shifted[1:] = column[:-1]
            shifted[first] = known[key[first]]
            return shifted

        found = Changes(
            key,
            commits.timestamp,
            commits.offset,
            commits.tombstone,
            commits.record_offset,
            before(commits.offset, self._last),
            before(had, self._has_last),
            before(commits.timestamp, self._last_at),
            before(np.ones(key.size, bool), self._seen),
        )
        of = key[last]
        self._last[of], self._has_last[of] = commits.offset[last], had[last]
        self._last_at[of], self._seen[of] = commits.timestamp[last], True
        return found

    def _make_room(self) -> None:
        more = len(self.keys.groups) - self._last.size
        self._last = np.append(self._last, np.zeros(more, np.int64))
        self._last_at = np.append(self._last_at, np.zeros(more, np.int64))
        self._has_last = np.append(self._has_last, np.zeros(more, bool))
        self._seen = np.append(self._seen, np.zeros(more, bool))


def _chosen(commits: Commits, rows: NDArray[Any]) -> Commits:
    return Commits(*(column[rows] for column in commits))


class Names:
    """The keys of a history as Arrow has them: group, topic and partition of a key by its number."""

    def __init__(self, keys: Keys) -> None:
        self._group = pa.array(keys.groups, pa.string()).dictionary_encode()
        self._topic = pa.array(keys.topics, pa.string()).dictionary_encode()
        self._partition = np.array(keys.partitions, np.int32)
        self.groups: list[str] = self._group.dictionary.to_pylist()
        self._group_of: Ints = self._group.indices.to_numpy().astype(np.int64)

    def group_of(self, key: Ints) -> Ints:
        """The places of the keys' groups in `groups`."""
        return self._group_of[key]

    def columns(self, key: Ints) -> dict[str, pa.Array]:
        """Group, topic and partition; strings are given once, and then by number."""
        return {
            "group": pa.DictionaryArray.from_arrays(self._group.indices.take(pa.array(key)), self._group.dictionary),
            "topic": pa.DictionaryArray.from_arrays(self._topic.indices.take(pa.array(key)), self._topic.dictionary),
            "partition": pa.array(self._partition[key]),
        }


def day_of(at: Ints) -> Ints:
    """Days since 1970, UTC."""
    return at // _DAY_MS


def columns(changes: Changes, names: Names) -> dict[str, pa.Array]:
    """Columns of table `offset_history`: those that differ from row to row."""
    compared = changes.had_previous & ~changes.tombstone
    what = pa.DictionaryArray.from_arrays(
        pa.array(changes.tombstone.astype(np.int8)), pa.array(["commit", "tombstone"])
    )
    return {
        **names.columns(changes.key),
        "at": pa.array(changes.at * 1000, pa.timestamp("us", "UTC")),
        "what": what,
        "offset": pa.array(changes.offset, mask=changes.tombstone),
        "previous": pa.array(changes.previous, mask=~changes.had_previous),
        "delta": pa.array(changes.offset - changes.previous, mask=~compared),
        "gap_ms": pa.array((changes.at - changes.before).astype(np.float64), mask=~changes.had_before),
        "position": pa.array(changes.record_offset),
    }
