"""What rules leave behind: replies released, records to make durable, trace events.

The one effect channel of the rules. It decides nothing; the server empties it after every request and every timer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol


class Sharded(Protocol):
    """Something whose records go to one partition of `__consumer_offsets`."""

    partition: int
    batch: int


class Outbox:
    """Replies, records and events of the current tick, and what is to be done once records are durable.

    `required_batch` is the highest batch number whose records the answer of the current request may show: the server
    holds the answer until that batch is durable. `batch` is the number of the batch being filled. `listening` says
    whether anybody listens to trace events; rules build none when it is False. `tracing` says whether somebody listens
    to those too that come with every request: exchanges, timers, commits that are accepted.
    """

    __slots__ = ("replies", "records", "events", "thens", "required_batch", "batch", "listening", "tracing")

    def __init__(self) -> None:
        self.replies: list[tuple[Any, Any, int]] = []
        self.records: list[tuple[int, Any, Any]] = []
        # Dictionaries, and what the server has rendered already.
        self.events: list[Any] = []
        self.thens: list[tuple[int, int, Callable[[float], None]]] = []
        self.required_batch = 0
        self.batch = 1
        self.listening = False
        self.tracing = False

    def begin(self) -> None:
        """A request is about to be handed to its rule: its answer shows nothing yet."""
        self.required_batch = 0

    def reply(self, token: object, response: Any, shard: Sharded) -> None:
        """Answer a parked request; it leaves when the shard's newest records are durable."""
        self.replies.append((token, response, shard.batch))

    def write(self, shard: Sharded, key: Any, value: Any) -> None:
        """Make a record (or a tombstone, `value` None) durable with the current batch."""
        self.records.append((shard.partition, key, value))
        shard.batch = self.required_batch = self.batch

    def write_all(self, shard: Sharded, records: Iterable[tuple[int, Any, Any]]) -> None:
        """Make several records, each with the partition of `shard`, durable with the current batch."""
        self.records += records
        shard.batch = self.required_batch = self.batch

    def then(self, shard: Sharded, action: Callable[[float], None]) -> None:
        """Call `action(now)` when the shard's newest records are durable; never if they do not become so, or the shard
        goes elsewhere before."""
        self.thens.append((shard.batch, shard.partition, action))

    def touch(self, shard: Sharded) -> None:
        """The current answer may show what this shard wrote last."""
        if shard.batch > self.required_batch:
            self.required_batch = shard.batch

    def event(self, kind: str, /, **fields: Any) -> None:
        """Add a trace event of the schema in `shim/groups/trace.py`; call it only when `listening`."""
        self.events.append({"event": kind, **fields})
