"""Large computations: another thread does them while requests of the group wait in a queue.

During a computation every request that may change the group waits, in the order of arrival; steady heartbeats do not.
In Kafka 4.2 all requests of a partition wait, since the partition's own thread computes. After the computation the
first request is served as if it had just arrived. If the group changed in between, because a session ended or a topic
changed, the result is stale: it is dropped and a new one computed. Small groups, and shards without such threads
(`Outbox.offloads`), compute at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import Any

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.interface import PARKED
from kafka_shim.groups.shard import Shard


@dataclass(frozen=True, slots=True)
class QueuedRequest(ABC):
    """Request about a group that may have to wait for a computation, with the exchange to reply to."""

    shard: Shard
    request: Any
    exchange: object

    @abstractmethod
    def attempt(self, now: float) -> Any:
        """Return the answer. Raises `Offloaded`, with nothing changed."""

    @abstractmethod
    def refuse(self, code: int) -> Any:
        """Return an answer with this error."""


class Offloaded(Exception):
    """A rule needs a computation of another thread first. It has changed nothing."""

    def __init__(self, computation: BlockingComputation) -> None:
        self.computation = computation


class BlockingComputation(ABC):
    """Computation that requests of a group wait for. Implements `GroupComputation`."""

    def __init__(self, shard: Shard, group_id: str) -> None:
        self.shard = shard
        self.group_id = group_id
        self.queue: deque[QueuedRequest] = deque()
        self.result: Any = None

    @property
    def is_awaited(self) -> bool:
        return self.shard.computations.get(self.group_id) is self

    @abstractmethod
    def compute(self) -> Any: ...

    def finish(self, result: Any, now: float) -> None:
        shard, queue = self.shard, self.queue
        if not self.is_awaited:
            return
        del shard.computations[self.group_id]
        self.result, shard.computed = result, self
        failure: Exception | None = None
        while queue:
            first = queue.popleft()
            try:
                response = serve(first, now)
            except Exception as error:
                response, failure = first.refuse(ErrorCode.UNKNOWN_SERVER_ERROR), error
            shard.computed = None
            if response is not PARKED:
                shard.outbox.reply(first.exchange, response, shard)
            elif queue:
                # This request started another computation: the rest waits for that.
                shard.computations[self.group_id].queue.extend(queue)
                break
        shard.computed = None
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Answer all waiting requests NOT_COORDINATOR (16): the partition has moved."""
        for each in self.queue:
            self.shard.outbox.reply(each.exchange, each.refuse(ErrorCode.NOT_COORDINATOR), self.shard)

    @abstractmethod
    def topic_changed(self, topic: str, now: float) -> None:
        """Note a changed topic, if the group is not in the shard yet; otherwise the group itself is told."""


def serve(queued: QueuedRequest, now: float) -> Any:
    """Answer a request that may change its group, after the earlier ones; PARKED if it has to wait."""
    shard, group_id = queued.shard, queued.request.group_id
    computation = shard.computations.get(group_id)
    if computation is None:
        try:
            return queued.attempt(now)
        except Offloaded as offloaded:
            computation = shard.computations[group_id] = offloaded.computation
            shard.outbox.computations.append(computation)
    computation.queue.append(queued)
    return PARKED
