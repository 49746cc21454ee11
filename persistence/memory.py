"""The store that forgets: records live as long as the process, as the objects they are.

For tests and for trying things out. Nothing is encoded, so a record costs one dictionary entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kafka_shim.persistence.records import OffsetCommitValues
from kafka_shim.persistence.store import Entry


class MemoryStore:
    """A `Store` in memory. Kept by whoever opened it, it survives a simulated crash of the coordinator."""

    durable_at_once = True

    def __init__(self) -> None:
        self._partitions: dict[int, dict[Any, Any]] = {}

    def open(self) -> None:
        """Nothing to open."""

    def write(self, batch: Sequence[Entry]) -> None:
        partitions = self._partitions
        last: int | None = None
        records: dict[Any, Any] = {}
        for partition, key, value in batch:
            # Records of one commit come together.
            if partition != last:
                last = partition
                records = partitions.setdefault(partition, {})
            if key is None:
                # Each key has its value made when it is loaded.
                records.update(dict.fromkeys(value.places, value))
            elif value is None:
                records.pop(key, None)
            else:
                records[key] = value

    def load(self, partition: int) -> Iterator[tuple[Any, Any]]:
        # A copy: replaying may write, to delete what expired while nobody looked.
        for key, value in list(self._partitions.get(partition, {}).items()):
            yield key, value.of(key) if isinstance(value, OffsetCommitValues) else value

    def close(self) -> None:
        """Nothing to close; the records stay."""
