"""Topics over HTTP: listed, made, deleted."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.operation import Answer, Body, Operation, TopicName
from kafka_shim.control.workbench import Workbench
from kafka_shim.server.refusals import Refused


class Topic(Answer, kw_only=True):
    """A topic."""

    topic: str
    partitions: int


class Topics(Answer, kw_only=True):
    """All topics, by name."""

    topics: list[Topic]


class CreateTopic(Body, kw_only=True):
    """A topic to make."""

    topic: TopicName
    partitions: Annotated[int, Meta(ge=1, le=10_000)] = 1


class TopicNamed(Answer, kw_only=True):
    """The topic that it was done to."""

    topic: str


def _topics(workbench: Workbench) -> Topics:
    found = sorted(workbench.cluster.topics.all(), key=lambda topic: topic.name)
    return Topics(topics=[Topic(topic=topic.name, partitions=len(topic.partitions)) for topic in found])


def _create(workbench: Workbench, body: CreateTopic) -> Topic:
    topics = workbench.cluster.topics
    if topics.named(body.topic) is not None:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, "There is such a topic already.")
    workbench.cluster.create_topic(body.topic, body.partitions)
    workbench.settle()
    return Topic(topic=body.topic, partitions=body.partitions)


def _delete(workbench: Workbench, topic: str) -> TopicNamed:
    found = workbench.cluster.topics.named(topic)
    if found is None or found.is_internal:
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
        method="DELETE",
        path="/v1/topics/{topic}",
        summary="Delete a topic.",
        do=_delete,
        answers=(TopicNamed,),
        problems=(404,),
        tag="topics",
    ),
)
