"""In-memory store: records live as long as the process, as Python objects.

For tests and experiments. Nothing is encoded, so a record costs one dictionary entry.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from kafka_shim.persistence.recent_commits import RecentCommits
from kafka_shim.persistence.records import OffsetCommitKey
from kafka_shim.persistence.store import Entry


class MemoryStore:
    """A `Store` in memory. A test that keeps the object can restart a coordinator on it, as after a crash."""

    durable_at_once = True

    def __init__(self) -> None:
        self._partitions: defaultdict[int, dict[Any, Any]] = defaultdict(dict)
        self._recent: dict[int, RecentCommits] = {}
        """By partition, commits that are newer than `_partitions`."""

    def open(self) -> None:
        """Do nothing: there is no file."""

    def write(self, batch: Sequence[Entry]) -> None:
        recent = self._recent
        for partition, key, value in batch:
            if key is None:
                commits = recent.get(partition)
                if commits is None:
                    commits = recent[partition] = RecentCommits(self._partitions[partition].__setitem__)
                commits.add(value)
                continue
            if partition in recent and isinstance(key, OffsetCommitKey):
                recent[partition].flush()
            if value is None:
                self._partitions[partition].pop(key, None)
            else:
                self._partitions[partition][key] = value

    def probe(self) -> None:
        """Do nothing: it can always take a batch."""

    def look(self) -> None:
        """Do nothing: it cannot be lost."""

    def load(self, partition: int) -> Iterator[tuple[Any, Any]]:
        # A copy, because replaying may write: it deletes offsets that have expired. A dict takes the least time.
        if partition in self._recent:
            self._recent[partition].flush()
        yield from self._partitions[partition].copy().items()

    def close(self) -> None:
        """Do nothing: the records stay."""
