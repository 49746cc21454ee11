"""Interface of a store of `__consumer_offsets`, and its errors.

A store is the compacted topic: for each partition the newest value of every key; a tombstone removes the key. The
interface blocks: call it from a worker thread, unless the store is `durable_at_once`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.persistence.leases import View
from kafka_shim.persistence.records import OffsetCommitValues, encode_key, encode_value

Entry: TypeAlias = tuple[int, Any, Any]
"""`(partition, key, value)`: a key and value of `kafka_shim.persistence.records`; value None is a tombstone.

`(partition, None, values)` is all records of one commit: `OffsetCommitValues`.
"""


Documents: TypeAlias = dict[tuple[str, str], str]
"""`(kind, name)` -> text: data that all processes of a shared store must agree on."""


PROBE_BYTES: Final = 64 * 1024
NO_PARTITION: Final = -2
"""The partition of the bytes of a probe, which is never loaded: they stay there if the process is killed."""


class StoreError(Exception):
    """The store failed; the message is one sentence for the operator.

    `error` is the answer to clients as long as it lasts (semantics 2.10): COORDINATOR_NOT_AVAILABLE (15) if the next
    try may succeed, NOT_COORDINATOR (16) if this process can no longer serve the partition. `is_final`: the store is
    unusable for every partition.
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
        """Return a copy, to raise it once more."""
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
    """Yield the records of a batch one by one, including those of whole commits."""
    for entry in batch:
        partition, _, values = entry
        if isinstance(values, OffsetCommitValues):
            for key in values.places:
                yield partition, key, values.of(key)
        else:
            yield entry


def unwritable(batch: Iterable[Entry]) -> list[Entry]:
    """The entries of a batch that have no bytes: no store that keeps bytes can take them."""
    entries = []
    for entry in batch:
        try:
            for _, key, value in records_of([entry]):
                encode_key(key)
                if value is not None:
                    encode_value(key, value)
        except Exception:
            entries.append(entry)
    return entries


class Store(Protocol):
    """Place of the records. Every method may raise `StoreError`.

    `write`, `probe`, `look` and `load` are called from one thread at a time, not always the same one.
    """

    durable_at_once: bool
    """`write` never blocks, and its data is as durable as it can be, so it needs no worker thread."""

    def open(self) -> None:
        """Take ownership and check that the store is usable. Call it once, before all other methods."""

    def write(self, batch: Sequence[Entry]) -> None:
        """Write all of `batch`, in its order, or nothing; it is durable on return."""

    def probe(self) -> None:
        """Write `PROBE_BYTES` and remove them, durably: return if the store can take a batch. No `load` shows them."""

    def look(self) -> None:
        """Return if the store is there still, as far as it shows without a write: a server without clients writes
        nothing. It takes microseconds."""

    def load(self, partition: int) -> Iterator[tuple[Any, Any]]:
        """Yield the live `(key, value)` pairs of a partition, in no particular order."""

    def close(self) -> None:
        """Give up the store. A second call does nothing."""


@runtime_checkable
class SharedStore(Store, Protocol):
    """A store of several processes, which divide the partitions among them by leases.

    Only the process with a partition's lease writes the partition, and every new lease has a greater epoch than the one
    before: `write` raises `FencedError` for partitions with a newer epoch than this process's. `renew` and `release`
    may be called at any time; `claim` only while no `write` is running, because a batch of an old epoch must not pass
    for one of the new epoch.

    Besides records the store has documents, which any process may change that knows their newest version.
    """

    lease_s: float
    """Duration of a lease in seconds."""
    cluster_seed: int
    """A number that all processes of this store share, different in every other store; set once the store is open."""
    epochs: dict[int, int]
    """partition -> epoch, of the leases that this process got and, as far as it knows, still has."""

    def register(self, node_id: int, host: str, port: int, listeners: Mapping[str, tuple[str, int]] = ...) -> None:
        """Announce this process to the others, with its host and port for each listener by name. Raises StoreError if a
        live process has the same id."""

    def renew(self) -> View:
        """Extend this process's place and leases; return the live nodes and the owners of partitions."""

    def claim(self, node_id: int, partitions: Sequence[int]) -> dict[int, int]:
        """Claim those of `partitions` that are free. Returns partition -> epoch."""

    def release(self, partitions: Sequence[int]) -> None:
        """Give up `partitions`. The caller has finished or dropped its writes to them."""

    def documents(self) -> tuple[int, Documents]:
        """Return all documents and their version, which grows with every change."""

    def documents_version(self) -> int:
        """Return the version of the documents."""

    def change_documents(self, version: int, changes: Mapping[tuple[str, str], str | None]) -> bool:
        """Apply these changes (None deletes) and return True; return False, without a change, if `version` is
        outdated.
        """

    def wait(self, seconds: float) -> None:
        """Return when another process started or ended, claimed or released partitions, or changed documents, or after
        `seconds`.
        """
