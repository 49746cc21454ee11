"""The topology of a Kafka Streams application, as its record has it.

Decides which topics it needs. How many partitions they are to have, and which are missing, is in `topics.py`. After
Kafka's `StreamsTopology`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_shim.apis import streams_group_heartbeat as api
from kafka_shim.persistence.records import StreamsGroupTopologyValue
from kafka_shim.persistence.streams_records import CopartitionGroup, Subtopology, TopicConfig, TopicInfo


class Topology:
    """`by_source` has the subtopology that reads a topic, `required` every topic but sinks."""

    __slots__ = ("by_source", "epoch", "required", "subtopologies")

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        """Raises ValueError for an epoch below 0 or two subtopologies of one id."""
        self.epoch = value.epoch
        self.subtopologies = {each.subtopology_id: each for each in value.subtopologies}
        if value.epoch < 0:
            raise ValueError("Topology epoch must be non-negative.")
        if len(self.subtopologies) < len(value.subtopologies):
            raise ValueError("Two subtopologies have the same id.")
        self.by_source = {
            topic: subtopology.subtopology_id
            for subtopology in value.subtopologies
            for topic in sources_of(subtopology)
        }
        changelogs = (topic.name for each in value.subtopologies for topic in each.state_changelog_topics)
        self.required = frozenset((*self.by_source, *changelogs))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and self.epoch == other.epoch and self.subtopologies == other.subtopologies

    __hash__ = None  # type: ignore[assignment]


def sources_of(subtopology: Subtopology) -> list[str]:
    """The topics that a subtopology reads, those from without first."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def value_of(topology: api.Topology) -> StreamsGroupTopologyValue:
    """The record of a topology that came in a request."""
    return StreamsGroupTopologyValue(
        topology.epoch,
        [
            Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                state_changelog_topics=_infos(each.state_changelog_topics),
                repartition_sink_topics=each.repartition_sink_topics,
                repartition_source_topics=_infos(each.repartition_source_topics),
                copartition_groups=[
                    CopartitionGroup(group.source_topics, group.source_topic_regex, group.repartition_source_topics)
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies
        ],
    )


def _infos(topics: Iterable[api.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            each.name,
            each.partitions,
            each.replication_factor,
            [TopicConfig(config.key, config.value) for config in each.topic_configs],
        )
        for each in topics
    ]


def message_of(topology: Topology) -> api.Topology:
    """The topology as a member sends it."""
    return api.Topology(
        topology.epoch,
        [
            api.Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                state_changelog_topics=_infos_sent(each.state_changelog_topics),
                repartition_sink_topics=each.repartition_sink_topics,
                repartition_source_topics=_infos_sent(each.repartition_source_topics),
                copartition_groups=[
                    api.CopartitionGroup(group.source_topics, group.source_topic_regex, group.repartition_source_topics)
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies.values()
        ],
    )


def _infos_sent(topics: Iterable[TopicInfo]) -> list[api.TopicInfo]:
    return [
        api.TopicInfo(
            each.name,
            each.partitions,
            each.replication_factor,
            [api.KeyValue(config.key, config.value) for config in each.topic_configs],
        )
        for each in topics
    ]
