"""What rules leave behind: replies to parked requests, records to make durable, trace events, what follows once
records are durable, and what is to be computed elsewhere. All of it is data.

The one effect channel of the rules. It decides nothing; the server empties it after every request and every timer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from kafka_shim.groups.event_templates import Event
from kafka_shim.groups.interface import Computation


class Sharded(Protocol):
    """Something whose records go to one partition of `__consumer_offsets`."""

    partition: int
    batch: int


class Reply(NamedTuple):
    """The answer to a parked request. It leaves when batch `required_batch` is durable."""

    exchange: Any
    response: Any
    required_batch: int


class WhenDurable(NamedTuple):
    """What follows once a batch is durable: a value, which whoever dispatches it knows by its type.

    It is dropped if the batch fails, or the partition goes elsewhere before.
    """

    batch: int
    partition: int
    effect: object


class Outbox:
    """Replies, records and events of the current tick, and what is to follow once records are durable.

    `required_batch` is the highest batch number whose records the answer of the current request may show: the server
    holds the answer until that batch is durable. `batch` is the number of the batch being filled. `listening` says
    whether anybody listens to trace events; rules build none when it is False. `tracing` says whether somebody listens
    to those too that come with every request: exchanges, timers, commits that are accepted. `offloads` says whether
    somebody takes `computations`; otherwise rules compute whatever they need themselves.
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

    def begin(self) -> None:
        """A request is about to be handed to its rule: its answer shows nothing yet."""
        self.required_batch = 0

    def reply(self, exchange: object, response: Any, shard: Sharded) -> None:
        """Answer a parked request; the answer leaves when the shard's newest records are durable."""
        self.replies.append(Reply(exchange, response, shard.batch))

    def reply_at_once(self, exchange: object, response: Any) -> None:
        """Answer a parked request; the answer shows nothing that is not durable."""
        self.replies.append(Reply(exchange, response, 0))

    def write(self, shard: Sharded, key: Any, value: Any) -> None:
        """Make a record (or a tombstone, `value` None) durable with the current batch; without a key, those of a
        commit."""
        self.records.append((shard.partition, key, value))
        shard.batch = self.required_batch = self.batch

    def write_all(self, shard: Sharded, records: Sequence[tuple[Any, Any]]) -> None:
        """The same for several records, which stay in this order."""
        if records:
            partition = shard.partition
            self.records += [(partition, key, value) for key, value in records]
            shard.batch = self.required_batch = self.batch

    def when_durable(self, shard: Sharded, effect: object) -> None:
        """Let `effect` follow when the shard's newest records are durable."""
        self.effects.append(WhenDurable(shard.batch, shard.partition, effect))

    def touch(self, shard: Sharded) -> None:
        """The current answer may show what this shard wrote last."""
        if shard.batch > self.required_batch:
            self.required_batch = shard.batch

    def event(self, kind: str, /, **fields: Any) -> None:
        """Add a trace event of the schema in `shim/groups/trace.py`; call it only when `listening`."""
        self.events.append({"event": kind, **fields})
