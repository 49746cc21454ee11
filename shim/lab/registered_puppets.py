"""Puppets that register with the controller of their group, as consumers were to before Kafka 0.9.

Decides what such a member does of its own accord: create its group, look for the controller, register, send heartbeats,
stop when it is called and register again. It never says that it leaves, for there is no such message. The coordinator
must serve it: `--experimental designs`.

Source: the Client Rewrite; docs/designs.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_shim.apis.experimental.controller_create_group import (
    ControllerCreateGroupRequest,
    ControllerCreateGroupResponse,
)
from kafka_shim.apis.experimental.controller_heartbeat import ControllerHeartbeatRequest, ControllerHeartbeatResponse
from kafka_shim.apis.experimental.controller_list_groups import (
    ControllerListGroupsRequest,
    ControllerListGroupsResponse,
)
from kafka_shim.apis.experimental.register_consumer import (
    PartitionToOwn,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
)
from kafka_shim.apis.experimental.rewind_consumer import RewindConsumerRequest, RewindConsumerResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.lab import arguments
from kafka_shim.lab.puppets import RETRY_SECONDS, Puppet, Script
from kafka_shim.lab.scheduler import Scheduler

_ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@dataclass(frozen=True, kw_only=True)
class RegisteredScript:
    """What a puppet that registers says of itself. Times are seconds. It creates its group, with these topics and this
    session timeout, unless the group is there; an `ephemeral` one goes with its last member."""

    group: str
    topics: Sequence[str]
    client_id: str = "puppet"
    session_timeout: float = 10.0
    heartbeat_interval: float = 1.0
    ephemeral: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.group, str) or not self.group:
            raise ValueError(f"A puppet's group is a name, not {self.group!r}.")
        arguments.names("A puppet's topics", self.topics)
        for name in ("session_timeout", "heartbeat_interval"):
            arguments.seconds(f"A puppet's {name}", getattr(self, name), positive=True)


class RegisteredPuppet(Puppet):
    """One member. `positions` are the offsets that it began from, by topic and partition, -1 where none was committed.
    `controller` is the broker it was told of. `rewound` are the offsets of the last rewind that was answered."""

    def __init__(self, scheduler: Scheduler, script: RegisteredScript) -> None:
        super().__init__(scheduler, Script(group=script.group, topics=script.topics, client_id=script.client_id))
        self.registered = script
        self.positions: dict[tuple[str, int], int] = {}
        self.controller = -1
        self.rewound: dict[tuple[str, int], int] = {}
        self._has_created = False

    def leave(self) -> None:
        """There is no message for it: it is gone when its session is over."""
        self.crash()

    def rewind(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Let the group go on from these offsets, by topic and partition."""
        new = [PartitionToOwn(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        self._ask_soon(RewindConsumerRequest(self.registered.group, new), self._rewind_answered)

    def _rewind_answered(self, answer: RewindConsumerResponse, now: float) -> None:
        if answer.error_code:
            self.errors.append(("RewindConsumer", ErrorCode(answer.error_code)))
        else:
            self.rewound = {(each.topic, each.partition): each.offset for each in answer.offsets}

    # Registering

    def _join(self, now: float) -> None:
        if not self._plays or self._is_joining:
            return
        self._is_joining = True
        self._beat += 1
        # It stops fetching until it is answered.
        self.owned = {}
        script = self.registered
        self.member_id = self.member_id or f"{script.client_id}-{self._scheduler.new_id()}"
        if self._has_created:
            self._look(now)
            return
        request = ControllerCreateGroupRequest(
            script.group, int(script.session_timeout * 1000), list(script.topics), script.ephemeral
        )
        self._ask(request, self._create_answered, now)

    def _create_answered(self, answer: ControllerCreateGroupResponse, now: float) -> None:
        if answer.error_code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_RESOURCE):
            self._again("ControllerCreateGroup", answer.error_code, now)
            return
        self._has_created = True
        self._look(now)

    def _look(self, now: float) -> None:
        self._ask(ControllerListGroupsRequest([self.registered.group]), self._list_answered, now)

    def _list_answered(self, answer: ControllerListGroupsResponse, now: float) -> None:
        if answer.error_code:
            self._again("ControllerListGroups", answer.error_code, now)
            return
        self.controller = answer.groups[0].broker_id
        request = RegisterConsumerRequest(self.registered.group, self.member_id)
        self._ask(request, self._register_answered, now)

    def _register_answered(self, answer: RegisterConsumerResponse, now: float) -> None:
        if answer.error_code:
            self._again("RegisterConsumer", answer.error_code, now)
            return
        self._is_joining = False
        self.generation = answer.generation_id
        self.assignments += 1
        self.positions = {(each.topic, each.partition): each.offset for each in answer.partitions}
        for topic, partition in sorted(self.positions):
            self.owned.setdefault(topic, []).append(partition)
        self._beat_later(now)

    def _again(self, api: str, error: int, now: float) -> None:
        """Begin anew after an error."""
        code = ErrorCode(error)
        self.errors.append((api, code))
        self._is_joining = False
        self._beat += 1
        self.owned = {}
        if code is ErrorCode.GROUP_ID_NOT_FOUND:
            self._has_created, self.generation = False, -1
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.generation = -1
        elif code in _ELSEWHERE:
            self._hang_up(now)
        if self._plays:
            self._scheduler.at(now + RETRY_SECONDS, self._join)

    # Heartbeats

    def _beat_later(self, now: float) -> None:
        beat = self._beat
        self._scheduler.after(now, self.registered.heartbeat_interval, lambda later: self._beat_on(later, beat))

    def _beat_on(self, now: float, beat: int) -> None:
        if beat != self._beat or not self._plays:
            return
        script = self.registered
        request = ControllerHeartbeatRequest(
            script.group, self.member_id, self.generation, int(script.session_timeout * 1000)
        )
        self._ask(request, self._heartbeat_answered, now)

    def _heartbeat_answered(self, answer: ControllerHeartbeatResponse, now: float) -> None:
        if not answer.error_code:
            self._beat_later(now)
        elif answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._join(now)
        else:
            self._again("ControllerHeartbeat", answer.error_code, now)
