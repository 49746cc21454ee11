"""What scripts say to groups whose coordinator assigns: consumer, share and streams groups.

Decides what a step's `variant` means in a heartbeat, and in the requests about offsets of share groups. It does not
know how a request is sent.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_shim.apis.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kafka_shim.apis.alter_share_group_offsets import RequestPartition as AlteredPartition
from kafka_shim.apis.alter_share_group_offsets import RequestTopic as AlteredTopic
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kafka_shim.apis.delete_share_group_offsets import RequestTopic as DeletedTopic
from kafka_shim.apis.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, RequestGroup, RequestTopic
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_shim.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, TaskIds, Topology
from kafka_shim.apis.wire import Message
from kafka_shim.conformance.differential.actor import Actor
from kafka_shim.conformance.differential.script import ACTORS, Step

TOPIC: Final = "conformance-60"
"""It is shared out evenly by up to five members: who has one more would be the order of a hash table."""
OTHER_TOPIC: Final = "conformance-8"
MISSING_TOPIC: Final = "conformance-missing"
LONG_MS: Final = 60_000

_SUBSCRIBED: Final[dict[str, Any]] = {"rebalance_timeout_ms": LONG_MS, "subscribed_topic_names": [TOPIC]}
_ENTRANCES: Final[tuple[dict[str, Any], ...]] = (
    _SUBSCRIBED | {"topic_partitions": []},
    _SUBSCRIBED | {"subscribed_topic_names": [TOPIC, OTHER_TOPIC], "topic_partitions": []},
    _SUBSCRIBED | {"subscribed_topic_regex": "(", "topic_partitions": []},
    _SUBSCRIBED | {"server_assignor": "range", "topic_partitions": []},
    {"rebalance_timeout_ms": LONG_MS, "topic_partitions": []},
    _SUBSCRIBED | {"server_assignor": "nobody's", "topic_partitions": []},
)
"""What a heartbeat that joins a consumer group says, by `variant`."""
_BEATS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {},
    _SUBSCRIBED,
    {"subscribed_topic_names": [OTHER_TOPIC]},
    {},
    {"server_assignor": "range"},
)
"""What another says, by `variant`: with 1 and 2 the member owns what it was assigned and says so, with 4 it says that
it owns what it had."""

_SHARED: Final[tuple[list[str] | None, ...]] = ([TOPIC], [TOPIC, OTHER_TOPIC], [], [MISSING_TOPIC], None, [OTHER_TOPIC])
"""What whoever joins a share group subscribes to, by `variant`."""
_SHARED_LATER: Final[tuple[list[str] | None, ...]] = (None, None, [TOPIC], [OTHER_TOPIC], None, [])
"""What a member subscribes to later."""


def consumer_beat(group: str, actor: Actor, step: Step, member: str, version: int) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat of the consumer protocol; what `variant` means is in `_ENTRANCES` and `_BEATS`."""
    instance = actor.instance if step.instance == "own" else None
    if step.instance not in ("own", "none"):
        instance = ACTORS[int(step.instance)]
    if step.do == "depart":
        return ConsumerGroupHeartbeatRequest(group, member, -1 - step.variant % 2, instance)
    epoch = 0 if step.do == "enter" else epoch_of(actor, step)
    request = ConsumerGroupHeartbeatRequest(group, member, epoch, instance)
    fields = (_ENTRANCES if step.do == "enter" else _BEATS)[step.variant % len(_BEATS)]
    for name, value in fields.items():
        setattr(request, name, value)
    if not version:
        request.subscribed_topic_regex = None
    if step.do == "enter":
        actor.assigned, actor.owned = [], []
    elif step.variant in (1, 2):
        actor.owned = actor.assigned
    if step.do == "beat" and step.variant in (1, 2, 4):
        request.topic_partitions = actor.owned
    return request


def share_beat(group: str, actor: Actor, step: Step, member: str) -> ShareGroupHeartbeatRequest:
    """A heartbeat of a share group; what `variant` means is in `_SHARED` and `_SHARED_LATER`."""
    if step.do == "share-leave":
        return ShareGroupHeartbeatRequest(group, member, -2 if step.variant == 5 else -1)
    joins = step.do == "share-join"
    names = (_SHARED if joins else _SHARED_LATER)[step.variant % len(_SHARED)]
    actor.topics = actor.topics if names is None else names
    return ShareGroupHeartbeatRequest(group, member, 0 if joins else epoch_of(actor, step), None, names)


def share_offsets(group: str, step: Step) -> Message:
    """How far a share group has come, where it is to go on, or what it is to forget."""
    topic = MISSING_TOPIC if step.variant == 5 else TOPIC
    if step.do == "share-alter":
        partitions = [AlteredPartition(number, step.variant) for number in sorted({0, step.variant, 10 * step.variant})]
        return AlterShareGroupOffsetsRequest(group, [AlteredTopic(topic, partitions)])
    if step.do == "share-forget":
        return DeleteShareGroupOffsetsRequest(group, [DeletedTopic(topic), DeletedTopic(OTHER_TOPIC)])
    topics = None if step.variant < 3 else [RequestTopic(topic, [0, 1, 59])]
    return DescribeShareGroupOffsetsRequest([RequestGroup(group, topics)])


def streams_beat(group: str, actor: Actor, step: Step, member: str) -> StreamsGroupHeartbeatRequest:
    """A heartbeat of a streams group. To join by `variant`: 1 another topology, 2 a topic that is missing, 3 in the
    process of others, 4 a newer topology, 5 none. Later: 1 and 2 the member runs what it was assigned and says so, 3 it
    says that it runs a task there is not, 4 what it had; 5 it asks all to end."""
    if step.do == "stream-leave":
        return StreamsGroupHeartbeatRequest(group, member, -2 if step.variant == 5 else -1)
    if step.do == "stream-join":
        actor.active, actor.runs = [], []
        sources = {1: [TOPIC, OTHER_TOPIC], 2: [TOPIC, MISSING_TOPIC]}.get(step.variant, [TOPIC])
        return StreamsGroupHeartbeatRequest(
            group,
            member,
            0,
            0,
            rebalance_timeout_ms=LONG_MS,
            topology=None
            if step.variant == 5
            else Topology(int(step.variant == 4), [Subtopology("0", source_topics=sources)]),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="shared" if step.variant == 3 else f"process-{actor.number}",
            client_tags=[],
        )
    request = StreamsGroupHeartbeatRequest(group, member, epoch_of(actor, step), actor.endpoint_epoch)
    if step.variant in (1, 2):
        actor.runs = actor.active
    if step.variant in (1, 2, 3, 4):
        request.active_tasks = [TaskIds("0", [99])] if step.variant == 3 else actor.runs
        request.standby_tasks, request.warmup_tasks = [], []
    request.shutdown_application = step.variant == 5
    return request


def epoch_of(actor: Actor, step: Step) -> int:
    """The generation or member epoch that a step says."""
    own = actor.generation
    return {"own": own, "none": 0, "-1": own - 1, "+1": own + 1}[step.generation]
