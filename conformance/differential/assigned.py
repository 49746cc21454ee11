"""Builds the requests of a script to groups with a server-side assignor: consumer, share and streams groups.

The `variant` of a step selects the contents of its request; the enums here name the variants.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from kafka_shim.apis.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kafka_shim.apis.alter_share_group_offsets import RequestPartition as AlteredPartition
from kafka_shim.apis.alter_share_group_offsets import RequestTopic as AlteredTopic
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kafka_shim.apis.delete_share_group_offsets import RequestTopic as DeletedTopic
from kafka_shim.apis.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, RequestGroup, RequestTopic
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_shim.apis.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    Topology,
)
from kafka_shim.apis.wire import Message
from kafka_shim.conformance.differential.actor import Actor
from kafka_shim.conformance.differential.script import ACTORS, Step

TOPIC: Final = "conformance-60"
"""Up to five members divide its 60 partitions evenly; a remainder would follow the order of a hash table."""
OTHER_TOPIC: Final = "conformance-8"
MISSING_TOPIC: Final = "conformance-missing"
LONG_MS: Final = 60_000


class ConsumerJoin(IntEnum):
    """The variants of a heartbeat that joins a consumer group."""

    ONE_TOPIC = 0
    TWO_TOPICS = 1
    INVALID_REGEX = 2
    RANGE_ASSIGNOR = 3
    NO_SUBSCRIPTION = 4
    UNKNOWN_ASSIGNOR = 5


class ConsumerBeat(IntEnum):
    """The variants of a later heartbeat.

    OWN_ASSIGNED owns and reports the assignment; OWN_SAME repeats the last report.
    """

    EMPTY = 0
    OWN_ASSIGNED = 1
    OWN_ASSIGNED_AND_SUBSCRIBE = 2
    OTHER_TOPIC = 3
    OWN_SAME = 4
    RANGE_ASSIGNOR = 5


class StreamsJoin(IntEnum):
    """The variants of a heartbeat that joins a streams group. SHARED_PROCESS sends the process id of other members."""

    ONE_TOPIC = 0
    TWO_TOPICS = 1
    MISSING_TOPIC = 2
    SHARED_PROCESS = 3
    NEWER_TOPOLOGY = 4
    NO_TOPOLOGY = 5


class StreamsBeat(IntEnum):
    """The variants of a later heartbeat.

    RUN_ASSIGNED runs and reports the assigned tasks; RUN_SAME repeats the last report.
    """

    EMPTY = 0
    RUN_ASSIGNED = 1
    RUN_ASSIGNED_TOO = 2
    RUN_UNKNOWN_TASK = 3
    RUN_SAME = 4
    SHUT_DOWN = 5


_LEAVE_AS_STATIC: Final = 5
"""The variant of a share or streams heartbeat that leaves with epoch -2."""

_OFFSETS: Final = 2
"""The least `extra` of a step with offsets of tasks."""

_SUBSCRIBED: Final[dict[str, Any]] = {"rebalance_timeout_ms": LONG_MS, "subscribed_topic_names": [TOPIC]}
_CONSUMER_JOINS: Final[dict[ConsumerJoin, dict[str, Any]]] = {
    ConsumerJoin.ONE_TOPIC: _SUBSCRIBED,
    ConsumerJoin.TWO_TOPICS: _SUBSCRIBED | {"subscribed_topic_names": [TOPIC, OTHER_TOPIC]},
    ConsumerJoin.INVALID_REGEX: _SUBSCRIBED | {"subscribed_topic_regex": "("},
    ConsumerJoin.RANGE_ASSIGNOR: _SUBSCRIBED | {"server_assignor": "range"},
    ConsumerJoin.NO_SUBSCRIPTION: {"rebalance_timeout_ms": LONG_MS},
    ConsumerJoin.UNKNOWN_ASSIGNOR: _SUBSCRIBED | {"server_assignor": "nobody's"},
}
_CONSUMER_BEATS: Final[dict[ConsumerBeat, dict[str, Any]]] = {
    ConsumerBeat.OWN_ASSIGNED_AND_SUBSCRIBE: _SUBSCRIBED,
    ConsumerBeat.OTHER_TOPIC: {"subscribed_topic_names": [OTHER_TOPIC]},
    ConsumerBeat.RANGE_ASSIGNOR: {"server_assignor": "range"},
}
_OWN_ASSIGNED: Final = frozenset({ConsumerBeat.OWN_ASSIGNED, ConsumerBeat.OWN_ASSIGNED_AND_SUBSCRIBE})
_REPORT_OWNED: Final = _OWN_ASSIGNED | {ConsumerBeat.OWN_SAME}
_RUN_ASSIGNED: Final = frozenset({StreamsBeat.RUN_ASSIGNED, StreamsBeat.RUN_ASSIGNED_TOO})
_REPORT_TASKS: Final = _RUN_ASSIGNED | {StreamsBeat.RUN_UNKNOWN_TASK, StreamsBeat.RUN_SAME}

_SHARE_JOINS: Final[tuple[list[str] | None, ...]] = (
    [TOPIC],
    [TOPIC, OTHER_TOPIC],
    [],
    [MISSING_TOPIC],
    None,
    [OTHER_TOPIC],
)
"""The subscription of a heartbeat that joins a share group, by `variant`."""
_SHARE_BEATS: Final[tuple[list[str] | None, ...]] = (None, None, [TOPIC], [OTHER_TOPIC], None, [])
"""The subscription of a later heartbeat, by `variant`; None sends none."""


def consumer_beat(group: str, actor: Actor, step: Step, member: str, version: int) -> ConsumerGroupHeartbeatRequest:
    """Return a heartbeat of the consumer protocol; updates the owned partitions of the actor."""
    instance = instance_of(actor, step)
    if step.do == "depart":
        return ConsumerGroupHeartbeatRequest(group, member, -1 - step.variant % 2, instance)
    epoch = 0 if step.do == "enter" else epoch_of(actor, step)
    request = ConsumerGroupHeartbeatRequest(group, member, epoch, instance)
    if step.do == "enter":
        actor.assigned, actor.owned = [], []
        request.topic_partitions = []
        fields = _CONSUMER_JOINS[ConsumerJoin(step.variant)]
    else:
        beat = ConsumerBeat(step.variant)
        if beat in _OWN_ASSIGNED:
            actor.owned = actor.assigned
        if beat in _REPORT_OWNED:
            request.topic_partitions = actor.owned
        fields = _CONSUMER_BEATS.get(beat, {})
    for name, value in fields.items():
        setattr(request, name, value)
    if not version:
        request.subscribed_topic_regex = None
    return request


def share_beat(group: str, actor: Actor, step: Step, member: str) -> ShareGroupHeartbeatRequest:
    """Return a heartbeat of a share group."""
    if step.do == "share-leave":
        return ShareGroupHeartbeatRequest(group, member, -2 if step.variant == _LEAVE_AS_STATIC else -1)
    joins = step.do == "share-join"
    names = (_SHARE_JOINS if joins else _SHARE_BEATS)[step.variant]
    actor.topics = actor.topics if names is None else names
    return ShareGroupHeartbeatRequest(group, member, 0 if joins else epoch_of(actor, step), None, names)


def share_offsets(group: str, step: Step) -> Message:
    """Return a request that describes, alters or deletes offsets of a share group."""
    topic = MISSING_TOPIC if step.variant == 5 else TOPIC
    if step.do == "share-alter":
        partitions = [AlteredPartition(number, step.variant) for number in sorted({0, step.variant, 10 * step.variant})]
        return AlterShareGroupOffsetsRequest(group, [AlteredTopic(topic, partitions)])
    if step.do == "share-forget":
        return DeleteShareGroupOffsetsRequest(group, [DeletedTopic(topic), DeletedTopic(OTHER_TOPIC)])
    topics = None if step.variant < 3 else [RequestTopic(topic, [0, 1, 59])]
    return DescribeShareGroupOffsetsRequest([RequestGroup(group, topics)])


def streams_beat(group: str, actor: Actor, step: Step, member: str) -> StreamsGroupHeartbeatRequest:
    """Return a heartbeat of a streams group; updates the running tasks of the actor."""
    instance = instance_of(actor, step)
    if step.do == "stream-leave":
        epoch = -2 if step.variant == _LEAVE_AS_STATIC else -1
        return StreamsGroupHeartbeatRequest(group, member, epoch, instance_id=instance)
    if step.do == "stream-join":
        actor.active, actor.runs = [], []
        request = _streams_join(group, actor, StreamsJoin(step.variant), member)
        request.instance_id = instance
        _tell_more(request, actor, step)
        return request
    beat = StreamsBeat(step.variant)
    request = StreamsGroupHeartbeatRequest(
        group, member, epoch_of(actor, step), actor.endpoint_epoch, instance_id=instance
    )
    _tell_more(request, actor, step)
    if beat in _RUN_ASSIGNED:
        actor.runs = actor.active
    if beat in _REPORT_TASKS:
        request.active_tasks = [TaskIds("0", [99])] if beat is StreamsBeat.RUN_UNKNOWN_TASK else actor.runs
        request.standby_tasks, request.warmup_tasks = [], []
    request.shutdown_application = beat is StreamsBeat.SHUT_DOWN
    return request


def _streams_join(group: str, actor: Actor, join: StreamsJoin, member: str) -> StreamsGroupHeartbeatRequest:
    more = {StreamsJoin.TWO_TOPICS: [OTHER_TOPIC], StreamsJoin.MISSING_TOPIC: [MISSING_TOPIC]}.get(join, [])
    subtopology = Subtopology("0", source_topics=[TOPIC, *more])
    return StreamsGroupHeartbeatRequest(
        group,
        member,
        0,
        0,
        rebalance_timeout_ms=LONG_MS,
        topology=None
        if join is StreamsJoin.NO_TOPOLOGY
        else Topology(int(join is StreamsJoin.NEWER_TOPOLOGY), [subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="shared" if join is StreamsJoin.SHARED_PROCESS else f"process-{actor.number}",
        client_tags=[],
    )


def _tell_more(request: StreamsGroupHeartbeatRequest, actor: Actor, step: Step) -> None:
    """Add the `extra` of a step: tags of the client if it is odd, offsets of tasks from 2 on."""
    if step.extra % 2:
        request.client_tags = [KeyValue("zone", f"zone-{step.extra}-{actor.number}")]
    if step.extra >= _OFFSETS:
        request.task_offsets = [TaskOffset("0", number, 10 * step.variant + number) for number in range(3)]
        request.task_end_offsets = [TaskOffset("0", number, 60 + number) for number in range(3)]


def instance_of(actor: Actor, step: Step) -> str | None:
    """Return the group instance id that a step sends, if any."""
    if step.instance == "none":
        return None
    return actor.instance if step.instance == "own" else ACTORS[int(step.instance)]


def epoch_of(actor: Actor, step: Step) -> int:
    """Return the generation or member epoch that a step sends."""
    own = actor.generation
    return {"own": own, "none": 0, "-1": own - 1, "+1": own + 1}[step.generation]
