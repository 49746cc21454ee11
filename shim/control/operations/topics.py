"""Topics over HTTP: list, describe, create, add partitions, delete; and settings of topics, groups and brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.operation import MAX_TEXT, Answer, Body, BrokerId, GroupId, Operation, TopicName
from kafka_shim.control.problems import Problem
from kafka_shim.control.workbench import Workbench
from kafka_shim.server.passwords import is_password
from kafka_shim.server.refusals import Refused

if TYPE_CHECKING:
    from kafka_shim.control.lab_workbench import LabWorkbench


class Topic(Answer, kw_only=True):
    """A topic."""

    topic: str
    partitions: int


class Topics(Answer, kw_only=True):
    """All topics, by name."""

    topics: list[Topic]


class PartitionDescribed(Answer, kw_only=True):
    """A partition of a topic."""

    partition: int
    leader: Annotated[int, Meta(description="Id of the broker that leads it.")]
    start_offset: Annotated[int, Meta(description="Offset of its first record.")]
    end_offset: Annotated[int, Meta(description="Offset of its next record.")]
    bytes: int


class TopicDescribed(Answer, kw_only=True):
    """A topic with its partitions."""

    topic: str
    topic_id: Annotated[str, Meta(description="16 bytes in hexadecimal digits.")]
    config: Annotated[dict[str, str], Meta(description="The settings of its own.")]
    partitions: list[PartitionDescribed]


class CreateTopic(Body, kw_only=True):
    """A topic to create."""

    topic: TopicName
    partitions: Annotated[int, Meta(ge=1, le=10_000)] = 1
    config: _Settings | UnsetType = UNSET


_Settings = Annotated[
    dict[Annotated[str, Meta(max_length=MAX_TEXT)], Annotated[str, Meta(max_length=MAX_TEXT)] | float | bool | None],
    Meta(max_length=1000, description="Values by Kafka's names; null removes one.", examples=[{"retention.ms": 1000}]),
]


class GrowTopic(Body, kw_only=True):
    """The number of partitions that a topic has then."""

    partitions: Annotated[int, Meta(ge=2, le=10_000)]


class SetConfig(Body, kw_only=True):
    """Settings of a topic, of a group or of a broker; without any of the three, of all brokers."""

    config: _Settings
    topic: TopicName | UnsetType = UNSET
    group: GroupId | UnsetType = UNSET
    broker: BrokerId | UnsetType = UNSET


class ConfigSet(Answer, kw_only=True):
    """The settings that were set; a password is null, as DescribeConfigs shows it."""

    config: dict[str, str | float | bool | None]


class TopicNamed(Answer, kw_only=True):
    """The topic of the operation."""

    topic: str


def _topics(workbench: Workbench) -> Topics:
    topics = sorted(workbench.cluster.topics.all(), key=lambda topic: topic.name)
    return Topics(topics=[Topic(topic=topic.name, partitions=len(topic.partitions)) for topic in topics])


def _describe(workbench: Workbench, topic: str) -> TopicDescribed:
    existing = workbench.cluster.topics.named(topic)
    if existing is None:
        raise Problem(404, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name, "There is no such topic.")
    partitions = [
        PartitionDescribed(
            partition=each.index,
            leader=each.leader,
            start_offset=each.log.start_offset,
            end_offset=each.log.end_offset,
            bytes=each.log.size,
        )
        for each in existing.partitions
    ]
    return TopicDescribed(topic=topic, topic_id=existing.id.hex(), config=existing.configs, partitions=partitions)


def _create(workbench: Workbench, body: CreateTopic) -> Topic:
    topics = workbench.cluster.topics
    if topics.named(body.topic) is not None:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, "There is such a topic already.")
    workbench.cluster.create_topic(body.topic, body.partitions)
    try:
        if body.config is not UNSET:
            _set(workbench, body.config, topic=body.topic)
    except Refused:
        workbench.cluster.delete_topic(body.topic)
        raise
    finally:
        workbench.settle()
    return Topic(topic=body.topic, partitions=body.partitions)


def _grow(workbench: Workbench, topic: str, body: GrowTopic) -> Topic:
    if workbench.cluster.topics.named(topic) is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such topic.")
    try:
        _lab(workbench).grow_topic(topic, body.partitions)
    except ValueError as error:
        raise Refused(ErrorCode.INVALID_PARTITIONS, str(error)) from None
    workbench.settle()
    return Topic(topic=topic, partitions=body.partitions)


def _set_config(workbench: Workbench, body: SetConfig) -> ConfigSet:
    names = {"topic": body.topic, "group": body.group, "broker": body.broker}
    config = _set(workbench, body.config, **{name: value for name, value in names.items() if value is not UNSET})
    workbench.settle()
    return ConfigSet(config={name: None if is_password(name) else value for name, value in config.items()})


def _set(
    workbench: Workbench, config: Mapping[str, str | float | bool | None], **place: Any
) -> dict[str, str | float | bool | None]:
    whole = {
        name: int(each) if isinstance(each, float) and each.is_integer() else each for name, each in config.items()
    }
    try:
        _lab(workbench).set_config(whole, **place)
    except ValueError as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None
    return whole


def _lab(workbench: Workbench) -> LabWorkbench:
    # Imported here because few servers without a laboratory use it.
    from kafka_shim.control.lab_workbench import lab_workbench_of

    return lab_workbench_of(workbench)


def _delete(workbench: Workbench, topic: str) -> TopicNamed:
    existing = workbench.cluster.topics.named(topic)
    if existing is None or existing.is_internal:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such topic.")
    workbench.cluster.delete_topic(topic)
    workbench.settle()
    return TopicNamed(topic=topic)


OPERATIONS: Final = (
    Operation(method="GET", path="/v1/topics", summary="All topics.", do=_topics, answers=(Topics,), tag="topics"),
    Operation(
        method="POST",
        path="/v1/topics",
        summary="Make a topic.",
        do=_create,
        body=CreateTopic,
        answers=(Topic,),
        problems=(409,),
        example={"topic": "orders", "partitions": 6},
        tag="topics",
    ),
    Operation(
        method="GET",
        path="/v1/topics/{topic}",
        summary="A topic: the leader and the offsets of each partition.",
        do=_describe,
        answers=(TopicDescribed,),
        problems=(404,),
        tag="topics",
    ),
    Operation(
        method="POST",
        path="/v1/topics/{topic}",
        summary="Add partitions to a topic.",
        do=_grow,
        body=GrowTopic,
        answers=(Topic,),
        problems=(404, 409),
        example={"partitions": 8},
        tag="topics",
    ),
    Operation(
        method="POST",
        path="/v1/config",
        summary="Set settings of a topic, a group or a broker, or of all brokers.",
        do=_set_config,
        body=SetConfig,
        answers=(ConfigSet,),
        problems=(409,),
        example={"topic": "orders", "config": {"retention.ms": 1000}},
        tag="topics",
    ),
    Operation(
        method="DELETE",
        path="/v1/topics/{topic}",
        summary="Delete a topic.",
        do=_delete,
        answers=(TopicNamed,),
        problems=(404,),
        tag="topics",
    ),
)
