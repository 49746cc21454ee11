"""The store that forgets: records live as long as the process, as the objects they are.

For tests and for trying things out. Nothing is encoded, so a record costs one dictionary entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kafka_shim.persistence.recent_commits import RecentCommits
from kafka_shim.persistence.records import OffsetCommitValues
from kafka_shim.persistence.store import Entry


class MemoryStore:
    """A `Store` in memory. Kept by whoever opened it, it survives a simulated crash of the coordinator."""

    durable_at_once = True

    def __init__(self) -> None:
        self._partitions: dict[int, dict[Any, Any]] = {}
        self._recent: dict[int, RecentCommits] = {}
        """By partition, commits that came after what is in `_partitions`."""

    def open(self) -> None:
        """Nothing to open."""

    def write(self, batch: Sequence[Entry]) -> None:
        recent = self._recent
        for partition, key, value in batch:
            if key is None:
                # Each key has its value made when it is loaded.
                commits = recent.get(partition)
                if commits is None:
                    commits = recent[partition] = RecentCommits()
                commits.add(value)
            elif value is None:
                self._records(partition).pop(key, None)
            else:
                self._records(partition)[key] = value

    def load(self, partition: int) -> Iterator[tuple[Any, Any]]:
        # A copy: replaying may write, to delete what expired while nobody looked.
        for key, value in list(self._records(partition).items()):
            yield key, value.of(key) if isinstance(value, OffsetCommitValues) else value

    def _records(self, partition: int) -> dict[Any, Any]:
        """Those of a partition, the newest commits too."""
        records = self._partitions.get(partition)
        if records is None:
            records = self._partitions[partition] = {}
        commits = self._recent.pop(partition, None)
        if commits is not None:
            records.update(commits.take())
        return records

    def close(self) -> None:
        """Nothing to close; the records stay."""
