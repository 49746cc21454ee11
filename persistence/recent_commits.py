"""Commits as they came, in their order, until somebody looks at single offsets.

A member commits the same partitions again and again. To keep each offset would be work per partition; here a commit
that repeats takes the place of the one before, which is work per commit. Decides how many are kept so, and that one of
other partitions each time is not: there would be ever more.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValues

MAX_COMMITS: Final = 1024


class RecentCommits:
    """The newest commits of a partition of `__consumer_offsets`."""

    __slots__ = ("_by_places", "_by_key")

    def __init__(self) -> None:
        self._by_places: dict[int, OffsetCommitValues] = {}
        """By identity of their `places`, which the values keep alive; the oldest first."""
        self._by_key: dict[OffsetCommitKey, OffsetCommitValues] = {}
        """What was written before those."""

    def __bool__(self) -> bool:
        return bool(self._by_places or self._by_key)

    def add(self, values: OffsetCommitValues) -> None:
        """The newest commit."""
        commits = self._by_places
        if values.repeats:
            places = id(values.places)
            if places in commits:
                # At its old place it would be older than what others have committed to the same partitions since.
                del commits[places]
            commits[places] = values
            if len(commits) > MAX_COMMITS:
                self._merge()
        else:
            if commits:
                self._merge()
            self._by_key.update(dict.fromkeys(values.places, values))

    def take(self) -> dict[OffsetCommitKey, OffsetCommitValues]:
        """For each key the newest commit that has it; nothing is here any more."""
        self._merge()
        taken, self._by_key = self._by_key, {}
        return taken

    def _merge(self) -> None:
        by_key = self._by_key
        for values in self._by_places.values():
            by_key.update(dict.fromkeys(values.places, values))
        self._by_places.clear()
