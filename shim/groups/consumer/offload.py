"""Target assignments that take too long for the event loop: they are computed elsewhere, and requests wait in line.

Decides which ones these are, who waits, and when a result counts. While a target assignment is computed, every request
that may change the group waits, in the order of arrival, as all requests of a partition wait in Kafka 4.2, which
computes in the partition's own thread; steady heartbeats do not wait. Then the first in line is served as if it had
come just now. If the group is another one by then, because a session ended or a topic changed, the result is that of a
question nobody asks any more: it is dropped, and the new question computed. Where nobody computes elsewhere
(`Outbox.offloads`), for small groups, and for a group that is not there before its first record, the rule computes
itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import AssignorError
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.target import Question, Target, answer, ask
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

    def __init__(self, group: ConsumerGroup, question: Question) -> None:
        self.computation = TargetComputation(group, question)


class TargetComputation:
    """Implements `Computation` for the target assignment of a group at its `revision`; requests wait for it in line."""

    def __init__(self, group: ConsumerGroup, question: Question) -> None:
        self.question = question.kept()
        self.line: deque[Waiting] = deque()
        self.group = group
        self._result: Target | Exception
        self._revision = group.revision
        self._assignors = group.shard.assignors

    def compute(self) -> Target:
        return answer(self._assignors, self.question)

    def finish(self, result: Target | Exception, now: float) -> None:
        group = self.group
        if group.computation is not self:
            return
        self._result = result
        group.computation, group.computed = None, self
        shard, line = group.shard, self.line
        failure: Exception | None = None
        while line:
            first = line.popleft()
            try:
                response = serve(shard, group.group_id, first, now)
            except Exception as error:
                response, failure = first.refuse(ErrorCode.UNKNOWN_SERVER_ERROR), error
            group.computed = None
            if response is not PARKED:
                shard.outbox.reply(first.exchange, response, shard)
            elif line:
                # Somebody has another question: the others wait on.
                waits_on = shard.groups[group.group_id]
                assert isinstance(waits_on, ConsumerGroup)
                assert waits_on.computation is not None
                waits_on.computation.line.extend(line)
                break
        if failure is not None:
            raise failure

    def is_of(self, updated: Member, epoch: int) -> bool:
        """Whether the result is what is asked now."""
        question = self.question
        return self._revision == self.group.revision and question.epoch == epoch and question.updated == updated

    def target(self) -> Target:
        """The result. Raises `AssignorError`."""
        if isinstance(self._result, Exception):
            raise AssignorError(str(self._result)) from self._result
        return self._result


def serve(shard: Shard, group_id: str, request: Waiting, now: float) -> Any:
    """The answer to a request that may change the group; PARKED if it has to wait."""
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup) and group.computation is not None:
        group.computation.line.append(request)
        return PARKED
    try:
        return request.attempt(now)
    except Offloaded as offloaded:
        computation = offloaded.computation
        computation.group.computation = computation
        computation.line.append(request)
        shard.outbox.computations.append(computation)
        return PARKED


def target_of(group: ConsumerGroup, updated: Member, epoch: int) -> Target:
    """The target assignment at `epoch` with `updated` as one of the members.

    Raises `AssignorError`; `Offloaded`, if that takes too long here.
    """
    computed: TargetComputation | None = group.computed
    if computed is not None and computed.is_of(updated, epoch):
        return computed.target()
    shard = group.shard
    question = ask(group, group.specs, shard.assignors, updated, epoch)
    if shard.outbox.offloads and question.size >= LARGE and group.is_in_shard:
        raise Offloaded(group, question)
    return answer(shard.assignors, question)


def abandon(group: ConsumerGroup) -> None:
    """The group is not coordinated here any more: those in line are answered NOT_COORDINATOR (16)."""
    computation, group.computation = group.computation, None
    if computation is not None:
        for each in computation.line:
            group.shard.outbox.reply(each.exchange, each.refuse(ErrorCode.NOT_COORDINATOR), group.shard)
