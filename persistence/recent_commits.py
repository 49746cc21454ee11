"""`RecentCommits`: whole commits in order of arrival, until an offset is read.

A member commits the same partitions again and again. To store each offset costs work per partition. Here a repeated
commit replaces the one before it, which costs work per commit. The number of such commits is bounded, and a commit of
other partitions each time is stored offset by offset.
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
            if len(commits) > MAX_COMMITS:
                self._merge()
        else:
            if commits:
                self._merge()
            self._by_key.update(dict.fromkeys(values.places, values))

    def take(self) -> dict[OffsetCommitKey, OffsetCommitValues]:
        """Return for each key the newest commit that has it, and become empty."""
        self._merge()
        commits, self._by_key = self._by_key, {}
        return commits

    def _merge(self) -> None:
        by_key = self._by_key
        for values in self._by_places.values():
            by_key.update(dict.fromkeys(values.places, values))
        self._by_places.clear()
