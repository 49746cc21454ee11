"""Target assignments that take too long for the event loop: they are computed elsewhere, and requests wait in line.

Decides which ones these are, who waits, and when a result counts. While something is computed for a group, every
request that may change the group waits, in the order of arrival, as all requests of a partition wait in Kafka 4.2,
which computes in the partition's own thread; steady heartbeats do not wait. Then the first in line is served as if it
had come just now. If the group is another one by then, because a session ended or a topic changed, the result is that
of a question nobody asks any more: it is dropped, and the new question computed. What a large result makes of the group
is made there too, so that it takes effect at once (`ConsumerGroup.install`). Where nobody computes elsewhere
(`Outbox.offloads`), and for small groups, the rule computes itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import AssignorError
from kafka_shim.groups.consumer.draft import Draft
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.target import Question, Target, answer, ask, with_ahead
from kafka_shim.groups.interface import PARKED
from kafka_shim.groups.shard import Shard

LARGE: Final = 10_000
"""The size of a question from which on it is computed elsewhere. Up to it the built-in assignors take 1 to 15 ms."""


class Waiting(NamedTuple):
    """A request in line. `attempt(now)` answers it or raises `Offloaded`; `refuse(code)` answers it with an error."""

    exchange: object
    attempt: Callable[[float], Any]
    refuse: Callable[[int], Any]


class Offloaded(Exception):
    """A rule cannot go on: what it needs is to be computed elsewhere first. It has changed nothing."""

    def __init__(self, computation: LineComputation) -> None:
        self.computation = computation


class LineComputation(ABC):
    """Implements `GroupComputation`; requests wait for it in line."""

    def __init__(self, shard: Shard, group_id: str) -> None:
        self.shard = shard
        self.group_id = group_id
        self.line: deque[Waiting] = deque()
        self.result: Any = None

    @property
    @abstractmethod
    def draft(self) -> Draft | None:
        """The group that this is about, if it is not in the shard yet, and is made already."""

    @abstractmethod
    def compute(self) -> Any: ...

    def finish(self, result: Any, now: float) -> None:
        shard, line = self.shard, self.line
        if shard.computations.get(self.group_id) is not self:
            return
        del shard.computations[self.group_id]
        self.result, shard.computed = result, self
        failure: Exception | None = None
        while line:
            first = line.popleft()
            try:
                response = serve(shard, self.group_id, first, now)
            except Exception as error:
                response, failure = first.refuse(ErrorCode.UNKNOWN_SERVER_ERROR), error
            shard.computed = None
            if response is not PARKED:
                shard.outbox.reply(first.exchange, response, shard)
            elif line:
                # Somebody has another question: the others wait on.
                shard.computations[self.group_id].line.extend(line)
                break
        shard.computed = None
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """The partition is not coordinated here any more: those in line are answered NOT_COORDINATOR (16)."""
        for each in self.line:
            self.shard.outbox.reply(each.exchange, each.refuse(ErrorCode.NOT_COORDINATOR), self.shard)

    def topic_changed(self, topic: str, now: float) -> None:
        """A group that is in the shard hears of it by itself."""
        if self.draft is not None:
            self.draft.topic_changed(topic, now)


class TargetComputation(LineComputation):
    """The target assignment of a group at its `revision`."""

    def __init__(self, group: ConsumerGroup, question: Question) -> None:
        super().__init__(group.shard, group.group_id)
        self.group = group
        self.question = question.kept()
        self._assignors = group.shard.assignors
        self._revision = group.revision
        self._names: dict[bytes, str] | None = None
        if group.shard.outbox.listening:
            topics = group.shard.topics
            self._names = {topic: topics.topic_name(topic) or "" for topic in question.spec.partition_counts}

    @property
    def draft(self) -> Draft | None:
        draft: Draft | None = self.group.draft
        return draft

    def compute(self) -> Target:
        return with_ahead(answer(self._assignors, self.question), self.question, self._names)

    def is_of(self, group: ConsumerGroup, updated: Member, epoch: int) -> bool:
        """Whether the result is what is asked now."""
        question = self.question
        return (
            self.group is group
            and self._revision == group.revision
            and question.epoch == epoch
            and question.updated == updated
        )

    def target(self) -> Target:
        """The result. Raises `AssignorError`."""
        if isinstance(self.result, Exception):
            raise AssignorError(str(self.result)) from self.result
        target: Target = self.result
        return target


def serve(shard: Shard, group_id: str, request: Waiting, now: float) -> Any:
    """The answer to a request that may change the group; PARKED if it has to wait."""
    computation = shard.computations.get(group_id)
    if computation is not None:
        computation.line.append(request)
        return PARKED
    try:
        return request.attempt(now)
    except Offloaded as offloaded:
        computation = shard.computations[group_id] = offloaded.computation
        computation.line.append(request)
        shard.outbox.computations.append(computation)
        return PARKED


def target_of(group: ConsumerGroup, updated: Member, epoch: int) -> Target:
    """The target assignment at `epoch` with `updated` as one of the members.

    Raises `AssignorError`; `Offloaded`, if that takes too long here.
    """
    shard = group.shard
    computed = shard.computed
    if isinstance(computed, TargetComputation) and computed.is_of(group, updated, epoch):
        return computed.target()
    question = ask(group, group.specs, shard.assignors, updated, epoch)
    if shard.outbox.offloads and question.size >= LARGE:
        raise Offloaded(TargetComputation(group, question))
    return answer(shard.assignors, question)
