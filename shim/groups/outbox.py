"""Outbox: the effects of rules as data.

Replies to parked requests, records to make durable, trace events, effects to run once records are durable, and
computations for other threads. Rules have no other side effects. The server empties the outbox after every request and
every timer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from kafka_shim.groups.interface import Computation
from kafka_shim.trace.templates import Event


class Sharded(Protocol):
    """Object with records in one partition of `__consumer_offsets`."""

    partition: int
    batch: int


class Reply(NamedTuple):
    """Answer to a parked request, sent when batch `required_batch` is durable."""

    exchange: Any
    response: Any
    required_batch: int


class WhenDurable(NamedTuple):
    """Effect to run once a batch is durable; its type selects the handler.

    It is dropped if the batch fails or the partition moves to another node before.
    """

    batch: int
    partition: int
    effect: object


class Failure(NamedTuple):
    """A rule has raised where the request under way is not to blame: an effect. `exchange` waits for an answer, unless
    it is None; `place` is for people."""

    error: Exception
    place: str
    exchange: Any = None


class Outbox:
    """Replies, records and events of the current tick, and effects to run once records are durable.

    `required_batch` is the highest batch whose records the answer of the current request may contain: the server holds
    the answer until that batch is durable. `batch` is the number of the batch under construction. `listening`: trace
    events have a listener; without one rules build none. `tracing`: the listener also wants the events of every
    request: exchanges, timers, accepted commits. `offloads`: other threads run `computations`; otherwise rules compute
    at once.
    """

    __slots__ = (
        "batch",
        "computations",
        "effects",
        "events",
        "listening",
        "offloads",
        "records",
        "replies",
        "required_batch",
        "tracing",
    )

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.records: list[tuple[int, Any, Any]] = []
        self.events: list[Event] = []
        self.effects: list[WhenDurable] = []
        self.computations: list[Computation] = []
        self.required_batch = 0
        self.batch = 1
        self.offloads = False
        self.listening = False
        self.tracing = False

    def reply(self, exchange: object, response: Any, shard: Sharded) -> None:
        """Answer a parked request, once the shard's newest records are durable."""
        self.replies.append(Reply(exchange, response, shard.batch))

    def reply_at_once(self, exchange: object, response: Any) -> None:
        """Answer a parked request at once; the answer depends on no record that is not durable."""
        self.replies.append(Reply(exchange, response, 0))

    def write(self, shard: Sharded, key: Any, value: Any) -> None:
        """Write a record (a tombstone if `value` is None) with the current batch; without a key, the records of a
        commit."""
        self.records.append((shard.partition, key, value))
        shard.batch = self.required_batch = self.batch

    def write_all(self, shard: Sharded, records: Sequence[tuple[Any, Any]]) -> None:
        """Write several records in this order."""
        if records:
            partition = shard.partition
            self.records += [(partition, key, value) for key, value in records]
            shard.batch = self.required_batch = self.batch

    def when_durable(self, shard: Sharded, effect: object) -> None:
        """Run `effect` once the shard's newest records are durable."""
        self.effects.append(WhenDurable(shard.batch, shard.partition, effect))

    def failed(self, error: Exception, place: str, *, exchange: object = None) -> None:
        """A rule has raised while others must go on; see `Failure`."""
        self.effects.append(WhenDurable(0, -1, Failure(error, place, exchange)))

    def touch(self, shard: Sharded) -> None:
        """Mark that the current answer may contain the shard's newest records."""
        if shard.batch > self.required_batch:
            self.required_batch = shard.batch

    def event(self, kind: str, /, **fields: Any) -> None:
        """Add a trace event of the schema in `shim/trace/schema.py`; only if `listening`."""
        self.events.append({"event": kind, **fields})
