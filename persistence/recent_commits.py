"""`RecentCommits`: whole commits in order of arrival, until an offset is read.

A member commits the same partitions again and again. To store each offset costs work per partition. Here a repeated
commit replaces the one before it, which costs work per commit. But one offset that lives keeps its whole commit in
memory, and a reader waits until all offsets are stored one by one. So there are not many of them at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue, OffsetCommitValues

RECORD: Final = 128
"""Bytes of a record of an offset, beside its texts."""
MOST: Final = 32_768 * RECORD
"""The limit of bytes: a reader stores all of them in 25 ms."""


class RecentCommits:
    """The newest commits of a partition of `__consumer_offsets`. `store` takes the offsets one by one."""

    __slots__ = ("_by_key", "_by_places", "_store", "size")

    def __init__(self, store: Callable[[OffsetCommitKey, OffsetCommitValue], None]) -> None:
        self._store = store
        self.size = 0
        """Bytes of all commits since the last `flush`, without those that replaced one of the same `places`."""
        self._by_places: dict[int, OffsetCommitValues] = {}
        """By identity of their `places`, which the values keep alive; the oldest first."""
        self._by_key: dict[OffsetCommitKey, OffsetCommitValues] = {}
        """Older offsets, by key."""

    def __bool__(self) -> bool:
        return bool(self._by_places or self._by_key)

    def add(self, values: OffsetCommitValues) -> None:
        """Add the newest commit."""
        commits = self._by_places
        if values.repeats:
            places = id(values.places)
            if places in commits:
                # Move it to the end: other members may have committed the same partitions since.
                del commits[places]
                commits[places] = values
                return
            commits[places] = values
        else:
            if commits:
                self._merge()
            self._by_key.update(dict.fromkeys(values.places, values))
        self.size += values.size
        if self.size > MOST:
            self.flush()

    def flush(self) -> None:
        """Store the newest offset of each key, and become empty."""
        self._merge()
        commits, self._by_key, self.size = self._by_key, {}, 0
        store = self._store
        for key, values in commits.items():
            store(key, values.of(key))

    def _merge(self) -> None:
        by_key = self._by_key
        for values in self._by_places.values():
            by_key.update(dict.fromkeys(values.places, values))
        self._by_places.clear()
