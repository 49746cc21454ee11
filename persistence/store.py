"""What a store of `__consumer_offsets` must do, and how it fails.

A store is the compacted topic: for each partition the newest value of every key; a tombstone removes the key. It
decides nothing about groups. The interface blocks: whoever calls it on an event loop uses a worker thread, unless the
store is `durable_at_once`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.persistence.leases import View
from kafka_shim.persistence.records import OffsetCommitValues

Entry: TypeAlias = tuple[int, Any, Any]
"""`(partition, key, value)`: a key and value of `kafka_shim.persistence.records`; value None is a tombstone.

`(partition, None, values)` is all records of one commit: `OffsetCommitValues`.
"""


Documents: TypeAlias = dict[tuple[str, str], str]
"""`(kind, name)` -> text: what all processes of a shared store must know alike."""


class StoreError(Exception):
    """The store has failed; the message is one sentence for the operator.

    `error` is what clients get while it lasts (semantics 2.10): COORDINATOR_NOT_AVAILABLE (15) when the next try may
    succeed, NOT_COORDINATOR (16) when this process can serve the partition no more. `is_final`: nothing can be done
    with the store any more, whatever the partition.
    """

    def __init__(
        self,
        message: str,
        error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE,
        *,
        is_final: bool = False,
    ) -> None:
        super().__init__(message)
        self.error = error
        self.is_final = is_final

    def again(self) -> StoreError:
        """The same error, to be raised once more."""
        return StoreError(str(self), self.error, is_final=self.is_final)


class FencedError(StoreError):
    """Nothing was written: other processes own `partitions` now."""

    def __init__(self, partitions: Iterable[int]) -> None:
        self.partitions = frozenset(partitions)
        super().__init__(
            f"Another process has taken over partitions {sorted(self.partitions)} of __consumer_offsets.",
            ErrorCode.NOT_COORDINATOR,
        )


def records_of(batch: Iterable[Entry]) -> Iterator[Entry]:
    """The records of a batch one by one, those of a commit too."""
    for entry in batch:
        partition, _, values = entry
        if isinstance(values, OffsetCommitValues):
            for key in values.places:
                yield partition, key, values.of(key)
        else:
            yield entry


class Store(Protocol):
    """Where records live. Every method may raise `StoreError`.

    `write` and `load` are called from one thread at a time, not always the same one.
    """

    durable_at_once: bool
    """`write` never blocks, and what it wrote is as durable as it gets: no worker thread needed."""

    def open(self) -> None:
        """Take ownership and check that the store can be served. Call once, before all else."""

    def write(self, batch: Sequence[Entry]) -> None:
        """All of `batch`, in its order, or nothing; durable when it returns."""

    def load(self, partition: int) -> Iterator[tuple[Any, Any]]:
        """The live `(key, value)` pairs of a partition, in no particular order."""

    def close(self) -> None:
        """Give the store up. Calling it again does nothing."""


@runtime_checkable
class SharedStore(Store, Protocol):
    """A store of several processes, which share the partitions among them by leases.

    A partition is written by the one process that holds its lease, and every lease given has an epoch greater than the
    one before: `write` raises `FencedError` for partitions whose epoch is not this process's any more. `renew`, `claim`
    and `release` are called at any time but for `claim`: no `write` may be under way then, because a batch of an
    old epoch must not pass for one of the new.

    Beside records it has documents, which anybody may change who knows their newest version.
    """

    lease_s: float
    """Seconds for which a lease is given."""
    cluster_seed: int
    """A number that all processes of this store see, and no other store has; known once it is open."""
    epochs: dict[int, int]
    """partition -> epoch, of the leases this process was given and has not been seen to lose."""

    def register(self, node_id: int, host: str, port: int) -> None:
        """Tell the other processes who this one is. Raises StoreError when a live process has the id."""

    def renew(self) -> View:
        """Prolong this process's place and leases, and say who lives and who owns what."""

    def claim(self, node_id: int, partitions: Sequence[int]) -> dict[int, int]:
        """Take those of `partitions` that nobody holds. Returns partition -> epoch."""

    def release(self, partitions: Sequence[int]) -> None:
        """Give up `partitions`; whatever was to be written to them has been, or is dropped."""

    def documents(self) -> tuple[int, Documents]:
        """The version of the documents, which every change makes greater, and all of them."""

    def change_documents(self, version: int, changes: Mapping[tuple[str, str], str | None]) -> bool:
        """Make these changes, None deletes, and a new version; False and nothing if `version` is not the newest."""

    def wait(self, seconds: float) -> None:
        """Return when another process came or went, took or gave up partitions, or changed documents, and after
        `seconds` at the latest."""
