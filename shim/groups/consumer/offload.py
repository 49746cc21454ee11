"""Large computations: another thread does them while requests of the group wait in a queue.

During a computation every request that may change the group waits, in the order of arrival; steady heartbeats do not.
In Kafka 4.2 all requests of a partition wait, since the partition's own thread computes. After the computation the
first request is served as if it had just arrived. If the group changed in between, because a session ended or a topic
changed, the result is stale: it is dropped and a new one computed. The other thread also builds the new state of the
group, so that `target.install` can apply it at once. Small groups, and shards without such threads
(`Outbox.offloads`), compute at once.

A `Draft` is a group that is not in the shard yet: the group of a first member, or a converted classic group. While
another thread computes its first target assignment, another request may create the group or change the classic group;
`Draft.stands` checks that neither happened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import AssignorError, Partitions
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.target import (
    AssignmentRequest,
    PrecomputedTarget,
    assignment_request,
    compute_target,
    with_precomputed,
)
from kafka_shim.groups.epochs.records import Record
from kafka_shim.groups.epochs.target import Target
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import PARKED
from kafka_shim.groups.shard import Shard

LARGE: Final = 10_000
"""Size of a request from which on another thread computes it. Below, the built-in assignors take 1 to 15 ms."""


class Snapshot(Protocol):
    """State of a group at the time of its draft."""

    def holds(self) -> bool:
        """True while the group is still in that state."""


@dataclass(slots=True, eq=False)
class Draft:
    """Consumer group that `Change.write` puts into the shard, in place of the group `replaces` if that is not None.

    `records` add its members; they are already replayed to `group`. `group.draft` is this draft.
    """

    group: ConsumerGroup
    replaces: Group | None = None
    snapshot: Snapshot | None = None
    records: Sequence[Record] = ()

    def stands(self) -> bool:
        """Return True if neither the shard nor the replaced group has changed since."""
        present: object = self.group.shard.groups.get(self.group.group_id)
        return present is self.replaces and (self.snapshot is None or self.snapshot.holds())

    def topic_changed(self, topic: str, now: float) -> None:
        """Make a computation under way stale, and have the topics checked again."""
        self.group.topic_changed(topic, now)
        self.group.revision += 1


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
    @abstractmethod
    def draft(self) -> Draft | None:
        """Draft that this computes, if it exists already and is not in the shard yet."""

    @abstractmethod
    def compute(self) -> Any: ...

    def stop(self) -> None:
        return  # A thread in Python code can be left when the process ends.

    def finish(self, result: Any, now: float) -> None:
        shard, queue = self.shard, self.queue
        if shard.computations.get(self.group_id) is not self:
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

    def topic_changed(self, topic: str, now: float) -> None:
        """Tell the draft, if there is one. A group in the shard is told directly."""
        if self.draft is not None:
            self.draft.topic_changed(topic, now)


class TargetComputation(BlockingComputation):
    """Target assignment of a group at its current `revision`."""

    def __init__(self, group: ConsumerGroup, request: AssignmentRequest) -> None:
        super().__init__(group.shard, group.group_id)
        self.group = group
        self.request = request.snapshot()
        self._assignors = group.shard.assignors
        self._revision = group.revision
        self._names: dict[bytes, str] | None = None
        if group.shard.outbox.listening:
            topics = group.shard.topics
            self._names = {topic: topics.topic_name(topic) or "" for topic in request.spec.partition_counts}

    @property
    def draft(self) -> Draft | None:
        draft: Draft | None = self.group.draft
        return draft

    def compute(self) -> PrecomputedTarget:
        return with_precomputed(compute_target(self._assignors, self.request), self.request, self._names)

    def is_of(self, group: ConsumerGroup, updated: Member, epoch: int) -> bool:
        """Return True if the result is for this group in its current state."""
        request = self.request
        return (
            self.group is group
            and self._revision == group.revision
            and request.epoch == epoch
            and request.updated == updated
        )

    def target(self) -> PrecomputedTarget:
        """Return the result. Raises `AssignorError`."""
        if isinstance(self.result, Exception):
            raise AssignorError(str(self.result)) from self.result
        target: PrecomputedTarget = self.result
        return target


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


def target_of(group: ConsumerGroup, updated: Member, epoch: int) -> Target[Partitions]:
    """Return the target assignment at `epoch` with `updated` as one of the members.

    Raises `AssignorError`; `Offloaded` if another thread has to compute it.
    """
    shard = group.shard
    computed = shard.computed
    if isinstance(computed, TargetComputation) and computed.is_of(group, updated, epoch):
        return computed.target()
    request = assignment_request(group, updated, epoch)
    if shard.outbox.offloads and request.size >= LARGE:
        raise Offloaded(TargetComputation(group, request))
    return compute_target(shard.assignors, request)
