"""Puppets of streams groups (KIP-1071): scripted threads of a Kafka Streams application.

Like Kafka's, such a member joins with its topology, heartbeats at the coordinator's interval, revokes tasks and reports
it, takes new tasks, joins again when it is fenced, and leaves when a member has requested a shutdown of all. It
processes nothing, and commits only on command.

Source: KIP-1071; semantics 4.12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    Topology,
)
from kafka_shim.lab.consumer_puppets import ConsumerPuppet, ConsumerScript
from kafka_shim.lab.puppets import Place
from kafka_shim.lab.scheduler import Scheduler

_SHUTDOWN_APPLICATION: Final = 4
Tasks = Mapping[str, Sequence[int]]
"""Partitions by subtopology."""


@dataclass(frozen=True, kw_only=True)
class StreamsScript(ConsumerScript):
    """Configuration of a puppet of a streams group. Without a `topology`, one subtopology reads its topics.

    Threads of one instance of the application share a `process_id`; without one the puppet is a separate process.
    Pattern, instance id and assignor are ignored.
    """

    topology: Topology | None = None
    process_id: str | None = None
    endpoint: tuple[str, int] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


class StreamsPuppet(ConsumerPuppet):
    """One thread. `owned` are its active tasks, by subtopology, `standby` and `warmup` its others, `statuses` the codes
    of the group's last status.
    """

    kind = "streams"
    script_class = StreamsScript
    api = "StreamsGroupHeartbeat"
    key = ApiKey.STREAMS_GROUP_HEARTBEAT

    def __init__(self, scheduler: Scheduler, script: StreamsScript) -> None:
        super().__init__(scheduler, script)
        self.streams = script
        self.standby: dict[str, list[int]] = {}
        self.warmup: dict[str, list[int]] = {}
        self.statuses: list[int] = []
        self._process_id = script.process_id or self._scheduler.new_id()
        self._topology = script.topology or Topology(0, [Subtopology("0", source_topics=list(script.topics))])
        self._endpoint_epoch = 0

    def take_over(self, place: Place, *, standby: Tasks | None = None, warmup: Tasks | None = None) -> None:
        """See `Puppet.take_over`."""
        self.standby = {each: sorted(numbers) for each, numbers in (standby or {}).items()}
        self.warmup = {each: sorted(numbers) for each, numbers in (warmup or {}).items()}
        super().take_over(place)

    def leave(self) -> None:
        """Leave the group."""
        self._is_active = False
        self._beat += 1
        if self.member_id:
            self._ask_soon(self._request(-1), self._on_leave)

    # Heartbeats

    def _joining(self) -> StreamsGroupHeartbeatRequest:
        self.standby, self.warmup = {}, {}
        script = self.streams
        request = self._request(0)
        request.rack_id = script.rack_id
        request.rebalance_timeout_ms = int(script.rebalance_timeout * 1000)
        request.topology = self._topology
        request.process_id = self._process_id
        request.user_endpoint = None if script.endpoint is None else Endpoint(*script.endpoint)
        request.client_tags = [KeyValue(key, value) for key, value in script.tags.items()]
        request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
        return request

    def _request(self, epoch: int) -> StreamsGroupHeartbeatRequest:
        return StreamsGroupHeartbeatRequest(self.streams.group, self.member_id, epoch, self._endpoint_epoch)

    def _set_owned(self, request: Any) -> None:
        request.active_tasks, request.standby_tasks = _ids(self.owned), _ids(self.standby)
        request.warmup_tasks = _ids(self.warmup)

    def _heartbeat_answered(self, answer: Any, now: float) -> None:
        if not answer.error_code:
            self._endpoint_epoch = answer.endpoint_information_epoch
            self.statuses = [each.status_code for each in answer.status or ()]
        super()._heartbeat_answered(answer, now)
        if _SHUTDOWN_APPLICATION in self.statuses and self._is_active:
            self.leave()

    def _assigned_by(self, answer: StreamsGroupHeartbeatResponse) -> dict[str, list[int]] | None:
        if answer.active_tasks is None:
            return None
        self.standby, self.warmup = _tasks(answer.standby_tasks or ()), _tasks(answer.warmup_tasks or ())
        return _tasks(answer.active_tasks)


def _ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology, sorted(numbers)) for subtopology, numbers in sorted(tasks.items()) if numbers]


def _tasks(ids: Sequence[TaskIds]) -> dict[str, list[int]]:
    return {each.subtopology_id: sorted(each.partitions) for each in ids}
