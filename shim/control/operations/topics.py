"""Topics over HTTP: list, describe, create, delete."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.operation import Answer, Body, Operation, TopicName
from kafka_shim.control.problems import Problem
from kafka_shim.control.workbench import Workbench
from kafka_shim.server.refusals import Refused


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
    workbench.settle()
    return Topic(topic=body.topic, partitions=body.partitions)


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
        method="DELETE",
        path="/v1/topics/{topic}",
        summary="Delete a topic.",
        do=_delete,
        answers=(TopicNamed,),
        problems=(404,),
        tag="topics",
    ),
)
