"""Puppets of the consumer protocol (KIP-848): scripted members that get their partitions from the coordinator.

Like Kafka's consumers, a puppet joins with its own id, heartbeats at the coordinator's interval, revokes partitions and
reports it, and joins again when it is fenced. A `ConsumerManner` makes it misbehave. `puppets.py` has the parts shared
with a puppet of the classic protocol, such as the connection to its coordinator.

Source: KIP-848, KIP-1082; semantics 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.profiles import PROFILES
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.lab import arguments
from kafka_shim.lab.puppets import RETRY_SECONDS, Place, Puppet, Script
from kafka_shim.lab.scheduler import Scheduler

_REJOIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_FINAL = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)
_COORDINATOR_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


@dataclass(frozen=True, kw_only=True)
class ConsumerManner:
    """Misbehaviour of a puppet of the consumer protocol.

    - `never_revokes`: it claims to own partitions that it had to revoke.
    - `reports_late`: it reports its revocations this many seconds late.
    - `forgets_epoch`: each heartbeat has the epoch before the newest one.
    """

    never_revokes: bool = False
    reports_late: float = 0.0
    forgets_epoch: bool = False


@dataclass(frozen=True, kw_only=True)
class ConsumerScript:
    """Configuration of a puppet of the consumer protocol. Times are seconds.

    With a `pattern` it also subscribes by a regular expression (RE2). It takes `think` to revoke partitions. The
    coordinator sets its heartbeat interval.
    """

    group: str
    topics: Sequence[str] = ()
    pattern: str | None = None
    client_id: str = "puppet"
    instance_id: str | None = None
    rack_id: str | None = None
    assignor: str | None = None
    rebalance_timeout: float = 300.0
    think: float = 0.0
    manner: ConsumerManner = field(default_factory=ConsumerManner)

    def __post_init__(self) -> None:
        if not isinstance(self.group, str) or not self.group:
            raise ValueError(f"A puppet's group must be a name, not {self.group!r}.")
        arguments.names("A puppet's topics", self.topics)
        arguments.seconds("A puppet's rebalance_timeout", self.rebalance_timeout, positive=True)
        arguments.seconds("The time a puppet takes to think", self.think)
        if not isinstance(self.manner, ConsumerManner):
            raise ValueError(f"A puppet's manner must be a ConsumerManner, not {self.manner!r}.")
        arguments.seconds("reports_late", self.manner.reports_late)


class ConsumerPuppet(Puppet):
    """One member. `owned` are the partitions that it uses, `assigned` its newest assignment, `generation` its member
    epoch, -1 without one.
    """

    kind = "consumer"
    script_class = ConsumerScript
    manner_class = ConsumerManner
    api = "ConsumerGroupHeartbeat"
    key: ClassVar = ApiKey.CONSUMER_GROUP_HEARTBEAT

    def __init__(self, scheduler: Scheduler, script: ConsumerScript) -> None:
        super().__init__(scheduler, Script(group=script.group, topics=script.topics, client_id=script.client_id,
                                           instance_id=script.instance_id))  # fmt: skip
        if self.key not in PROFILES[self._release]:
            raise ValueError(f"Kafka {self._release} has no {self.api}.")
        self.consumer = script
        self.assigned: dict[str, list[int]] = {}
        self._previous_epoch = -1
        self._interval = 5.0
        self._reports_owned = True
        self._turn: object = None

    def take_over(self, place: Place) -> None:
        """See `Puppet.take_over`."""
        self._interval = place.interval
        assigned = place.owned if place.assigned is None else place.assigned
        self.assigned = {topic: sorted(numbers) for topic, numbers in assigned.items()}
        super().take_over(place)

    def _begin_at(self, time: float) -> None:
        if self.owned == self.assigned:
            super()._begin_at(time)
        else:
            self._scheduler.at(time, self._reconcile)

    def leave(self) -> None:
        """Leave; a static member leaves for a while."""
        self._is_active = False
        self._beat += 1
        if self.member_id:
            epoch = -1 if self.consumer.instance_id is None else -2
            request = self._request(epoch)
            self._ask_soon(request, self._on_leave)

    # Heartbeats

    def _join(self, now: float) -> None:
        if not self._is_active or self._is_joining:
            return
        self._is_joining = True
        self._beat += 1
        self.member_id = self.member_id or self._scheduler.new_id()
        self.owned, self.assigned, self.generation, self._previous_epoch = {}, {}, -1, -1
        self._ask(self._joining(), self._heartbeat_answered, now)

    def _joining(self) -> Any:
        """Build the heartbeat that joins, with all fields."""
        script = self.consumer
        request = self._request(0)
        request.rebalance_timeout_ms = int(script.rebalance_timeout * 1000)
        request.subscribed_topic_names = list(script.topics)
        request.subscribed_topic_regex = script.pattern
        request.server_assignor = script.assignor
        request.rack_id = script.rack_id
        request.topic_partitions = []
        return request

    def _request(self, epoch: int) -> Any:
        return ConsumerGroupHeartbeatRequest(self.consumer.group, self.member_id, epoch, self.consumer.instance_id)

    def _beat_on(self, now: float, beat: int) -> None:
        if beat != self._beat or not self._is_active:
            return
        if self.generation < 0:
            self._join(now)
            return
        forgets = self.consumer.manner.forgets_epoch and self._previous_epoch > 0
        request = self._request(self._previous_epoch if forgets else self.generation)
        if self._reports_owned:
            self._set_owned(request)
            self._reports_owned = False
        self._ask(request, self._heartbeat_answered, now)

    def _set_owned(self, request: Any) -> None:
        request.topic_partitions = self._by_topic_id(self.owned)

    def _beat_later(self, now: float) -> None:
        beat = self._beat
        self._scheduler.after(now, self._interval, lambda later: self._beat_on(later, beat))

    def _heartbeat_answered(self, answer: Any, now: float) -> None:
        self._is_joining = False
        if answer.error_code:
            self._on_refusal(ErrorCode(answer.error_code), now)
            return
        if answer.member_epoch != self.generation:
            self._previous_epoch, self.generation = self.generation, answer.member_epoch
        self.member_id = answer.member_id or self.member_id
        self._interval = answer.heartbeat_interval_ms / 1000
        assigned = self._assigned_by(answer)
        if assigned is None:
            self._beat_later(now)
            return
        self.assignments += 1
        self.assigned = assigned
        self._reconcile(now)

    def _assigned_by(self, answer: Any) -> dict[str, list[int]] | None:
        """Return the assignment in the answer; None if it has none."""
        return None if answer.assignment is None else self._by_name(answer.assignment.topic_partitions)

    def _reconcile(self, now: float) -> None:
        """Revoke surplus partitions, take the new ones, and report at once, as Kafka's consumers do."""
        manner = self.consumer.manner
        remaining = {
            topic: [n for n in numbers if n in self.assigned.get(topic, ())] for topic, numbers in self.owned.items()
        }
        gives_up = any(len(remaining[topic]) < len(numbers) for topic, numbers in self.owned.items())
        if gives_up and manner.never_revokes:
            self._reports_owned = True
            self._beat_later(now)
            return
        turn = self._turn = object()

        def done(later: float) -> None:
            if turn is self._turn and self._is_active and self.generation >= 0:
                self.owned = dict(self.assigned)
                self._reports_owned = True
                self._beat += 1
                self._beat_on(later, self._beat)

        # Heartbeats continue in the meantime.
        self._beat_later(now)
        self._scheduler.after(now, self.consumer.think + manner.reports_late if gives_up else 0.0, done)

    def _on_refusal(self, code: ErrorCode, now: float) -> None:
        self.errors.append((self.api, code))
        if not self._is_active:
            return
        self._beat += 1
        beat = self._beat
        if code in _FINAL:
            self.fenced, self._is_active = True, False
            self.owned, self.generation = {}, -1
        elif code in _REJOIN:
            self.generation = -1
            self._scheduler.at(now, self._join)
        elif code in _COORDINATOR_MOVED:
            # It is still a member; only the coordinator has moved.
            self._hang_up(now)
            self._reports_owned = True
            self._scheduler.at(now + RETRY_SECONDS, lambda later: self._beat_on(later, beat))
        else:
            self._scheduler.at(now + RETRY_SECONDS, self._join)

    def _on_leave(self, answer: Any, now: float) -> None:
        if answer.error_code:
            self.errors.append((self.api, ErrorCode(answer.error_code)))
        self.generation, self.owned, self.assigned = -1, {}, {}
        self._hang_up(now)

    # Topics: by name here and by id in messages

    def _by_topic_id(self, partitions: Mapping[str, Sequence[int]]) -> list[TopicPartitions]:
        topics = ((self._cluster.topics.named(name), numbers) for name, numbers in partitions.items() if numbers)
        return [TopicPartitions(topic.id, sorted(numbers)) for topic, numbers in topics if topic is not None]

    def _by_name(self, partitions: Sequence[TopicPartitions]) -> dict[str, list[int]]:
        topics = ((self._cluster.topics.with_id(each.topic_id), each.partitions) for each in partitions)
        return {topic.name: sorted(numbers) for topic, numbers in topics if topic is not None}
