"""The kind of group of a proposal before Kafka 0.9, in which members register.

The rules of its requests and timers, and its reaction when a partition of `__consumer_offsets` is loaded or topics
change.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_shim.experiments.registered.administration import create, delete, info, rewind
from kafka_shim.experiments.registered.group import RegisteredGroup, TimerKind
from kafka_shim.experiments.registered.messages import (
    ControllerCreateGroupRequest,
    ControllerDeleteGroupRequest,
    ControllerHeartbeatRequest,
    ControllerListGroupsRequest,
    RegisterConsumerRequest,
    RewindConsumerRequest,
)
from kafka_shim.experiments.registered.records import RegisteredGroupKey, RegisteredGroupValue
from kafka_shim.experiments.registered.rounds import (
    begin,
    heartbeat,
    register,
    round_timeout,
    session_timeout,
    situation_of,
)
from kafka_shim.experiments.registered.rounds import rewind as begin_rewind
from kafka_shim.experiments.registered.states import ERRORS, RULES, State, Trigger
from kafka_shim.groups import events
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import Row, row
from kafka_shim.groups.shard import Kind
from kafka_shim.groups.timers import Timer
from kafka_shim.trace.causes import Cause


class Registered(RegisteredGroup):
    """Implements `Group`."""

    def activate(self, now: float) -> None:
        """Give the members of a loaded group a whole session to return; they keep their partitions. Begin a round if
        topics have changed.
        """
        if self.shard.outbox.listening:
            events.group(self.shard.outbox, self, "loaded")
        for consumer_id in self.members:
            self.renew_session(consumer_id, now)
        topics = self.shard.topics
        if self.members and self.owned() != {name: set(range(topics.partitions_of(name))) for name in self.topics}:
            begin(self, Cause.TOPIC_METADATA_CHANGED, "", now)
        if self.rewinds:
            begin_rewind(self, now)

    def fire(self, timer: Timer, now: float) -> None:
        if timer.kind is TimerKind.ROUND:
            round_timeout(self, now)
        else:
            session_timeout(self, timer.member_id, now)

    def topic_changed(self, topic: str, now: float) -> None:
        if topic in self.topics and self.members:
            begin(self, Cause.TOPIC_METADATA_CHANGED, "", now)


def _row_of(group: Group | None, request: Any, *, member_id_required: bool) -> Row | None:
    """Return the row of `states.RULES` for a request."""
    trigger = _TRIGGERS.get(type(request))
    if trigger is None:
        return None
    situation = situation_of(group, request)
    rule = RULES[trigger][situation]
    return row("a group whose consumers register", trigger, RULES[trigger], situation, rule.value, int(ERRORS[rule]))


_TRIGGERS: Final[dict[type, Trigger]] = {
    RegisterConsumerRequest: Trigger.REGISTER,
    ControllerHeartbeatRequest: Trigger.HEARTBEAT,
}

KIND: Final = Kind(
    name=RegisteredGroup.type,
    states=State,
    make=Registered,
    own_records={RegisteredGroupKey: RegisteredGroupValue},
    rules={
        ControllerCreateGroupRequest: create,
        ControllerDeleteGroupRequest: delete,
        ControllerHeartbeatRequest: heartbeat,
        ControllerListGroupsRequest: info,
        RegisterConsumerRequest: register,
        RewindConsumerRequest: rewind,
    },
    row_of=_row_of,
)
