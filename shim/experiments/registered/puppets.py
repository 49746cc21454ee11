"""Scripted members that register with the coordinator of their group, as in a proposal before Kafka 0.9, which calls
the coordinator a controller.

Such a member creates its group, looks for the controller, registers, sends heartbeats, and stops and registers again
when it must. It never leaves: the protocol has no such message. The coordinator must serve the experiment:
`--experimental designs`.

Source: the Client Rewrite; docs/designs.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.experiments.registered.messages import (
    ControllerCreateGroupRequest,
    ControllerCreateGroupResponse,
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
    ControllerListGroupsRequest,
    ControllerListGroupsResponse,
    PartitionToOwn,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    RewindConsumerRequest,
    RewindConsumerResponse,
)
from kafka_shim.lab import arguments
from kafka_shim.lab.puppets import RETRY_SECONDS, Puppet, Script
from kafka_shim.lab.scheduler import Scheduler

_COORDINATOR_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


@dataclass(frozen=True, kw_only=True)
class RegisteredScript:
    """Configuration of a puppet that registers. Times are seconds. It creates its group, with these topics and this
    session timeout, unless the group exists; an `ephemeral` group is deleted with its last member.
    """

    group: str
    topics: Sequence[str]
    client_id: str = "puppet"
    session_timeout: float = 10.0
    heartbeat_interval: float = 1.0
    ephemeral: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.group, str) or not self.group:
            raise ValueError(f"A puppet's group must be a name, not {self.group!r}.")
        arguments.names("A puppet's topics", self.topics)
        for name in ("session_timeout", "heartbeat_interval"):
            arguments.seconds(f"A puppet's {name}", getattr(self, name), positive=True)


class RegisteredPuppet(Puppet):
    """One member. `positions` are its first offsets, by topic and partition, -1 without a committed offset;
    `controller` is the broker of its group's controller; `rewound` are the offsets of its last accepted rewind.
    """

    kind = "registered"
    script_class = RegisteredScript

    def __init__(self, scheduler: Scheduler, script: RegisteredScript) -> None:
        super().__init__(scheduler, Script(group=script.group, topics=script.topics, client_id=script.client_id))
        self.registered = script
        self.positions: dict[tuple[str, int], int] = {}
        self.controller = -1
        self.rewound: dict[tuple[str, int], int] = {}
        self._has_created = False

    def leave(self) -> None:
        """Crash: there is no request to leave, so it is removed when its session ends."""
        self.crash()

    def rewind(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set the offsets from which the group continues, by topic and partition."""
        new = [PartitionToOwn(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        self._ask_soon(RewindConsumerRequest(self.registered.group, new), self._rewind_answered)

    def _rewind_answered(self, answer: RewindConsumerResponse, now: float) -> None:
        if answer.error_code:
            self.errors.append(("RewindConsumer", ErrorCode(answer.error_code)))
        else:
            self.rewound = {(each.topic, each.partition): each.offset for each in answer.offsets}

    # Registration

    def _join(self, now: float) -> None:
        if not self._is_active or self._is_joining:
            return
        self._is_joining = True
        self._beat += 1
        # It stops fetching until the answer comes.
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
            self._retry("ControllerCreateGroup", answer.error_code, now)
            return
        self._has_created = True
        self._look(now)

    def _look(self, now: float) -> None:
        self._ask(ControllerListGroupsRequest([self.registered.group]), self._list_answered, now)

    def _list_answered(self, answer: ControllerListGroupsResponse, now: float) -> None:
        if answer.error_code:
            self._retry("ControllerListGroups", answer.error_code, now)
            return
        self.controller = answer.groups[0].broker_id
        request = RegisterConsumerRequest(self.registered.group, self.member_id)
        self._ask(request, self._register_answered, now)

    def _register_answered(self, answer: RegisterConsumerResponse, now: float) -> None:
        if answer.error_code:
            self._retry("RegisterConsumer", answer.error_code, now)
            return
        self._is_joining = False
        self.generation = answer.generation_id
        self.assignments += 1
        self.positions = {(each.topic, each.partition): each.offset for each in answer.partitions}
        for topic, partition in sorted(self.positions):
            self.owned.setdefault(topic, []).append(partition)
        self._beat_later(now)

    def _retry(self, api: str, error: int, now: float) -> None:
        """Register again after an error."""
        code = ErrorCode(error)
        self.errors.append((api, code))
        self._is_joining = False
        self._beat += 1
        self.owned = {}
        if code is ErrorCode.GROUP_ID_NOT_FOUND:
            self._has_created, self.generation = False, -1
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.generation = -1
        elif code in _COORDINATOR_MOVED:
            self._hang_up(now)
        if self._is_active:
            self._scheduler.at(now + RETRY_SECONDS, self._join)

    # Heartbeats

    def _beat_later(self, now: float) -> None:
        beat = self._beat
        self._scheduler.after(now, self.registered.heartbeat_interval, lambda later: self._beat_on(later, beat))

    def _beat_on(self, now: float, beat: int) -> None:
        if beat != self._beat or not self._is_active:
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
            self._retry("ControllerHeartbeat", answer.error_code, now)
