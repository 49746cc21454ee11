"""Topology of a Kafka Streams application: its record, its partition counts, and missing or wrong topics.

`configure` computes the number of tasks of each subtopology, the internal topics to create, and the status for members.
`partitions_of(name)` is 0 for a missing topic. After Kafka's `StreamsTopology`, `InternalTopicManager`,
`RepartitionTopics`, `CopartitionedTopicsEnforcer` and `ChangelogTopics` of 4.2 (semantics 4.12).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafka_shim.apis import streams_group_heartbeat as api
from kafka_shim.apis.streams_group_heartbeat import StatusCode
from kafka_shim.persistence.records import StreamsGroupTopologyValue
from kafka_shim.persistence.streams_records import CopartitionGroup, Subtopology, TopicConfig, TopicInfo

PartitionsOf = Callable[[str], int]


class Topology:
    """A topology. `by_source` has the subtopology that reads a topic, `required` every topic but sinks."""

    __slots__ = ("by_source", "epoch", "required", "subtopologies")

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        """Read a record. Raises ValueError for an epoch below 0 or two subtopologies of one id."""
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
    """Return the topics that a subtopology reads, source topics first."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


class _Classes(NamedTuple):
    """The classes of the parts of a topology, in a message or in a record."""

    subtopology: type
    topic: type
    config: type
    copartition: type


_IN_RECORD: Final = _Classes(Subtopology, TopicInfo, TopicConfig, CopartitionGroup)
_IN_MESSAGE: Final = _Classes(api.Subtopology, api.TopicInfo, api.KeyValue, api.CopartitionGroup)


def value_of(topology: api.Topology) -> StreamsGroupTopologyValue:
    """Build the record of a topology in a request."""
    return StreamsGroupTopologyValue(topology.epoch, _converted(topology.subtopologies, _IN_RECORD))


def message_of(topology: Topology) -> api.Topology:
    """Build the topology as a member sends it."""
    return api.Topology(topology.epoch, _converted(topology.subtopologies.values(), _IN_MESSAGE))


def topics_in_message(topics: Iterable[TopicInfo]) -> list[api.TopicInfo]:
    """Build internal topics as a member sends them."""
    return _converted_topics(topics, _IN_MESSAGE)


def _converted(subtopologies: Iterable[Any], classes: _Classes) -> list[Any]:
    return [
        classes.subtopology(
            subtopology_id=each.subtopology_id,
            source_topics=each.source_topics,
            source_topic_regex=each.source_topic_regex,
            state_changelog_topics=_converted_topics(each.state_changelog_topics, classes),
            repartition_sink_topics=each.repartition_sink_topics,
            repartition_source_topics=_converted_topics(each.repartition_source_topics, classes),
            copartition_groups=[
                classes.copartition(group.source_topics, group.source_topic_regex, group.repartition_source_topics)
                for group in each.copartition_groups
            ],
        )
        for each in subtopologies
    ]


def _converted_topics(topics: Iterable[Any], classes: _Classes) -> list[Any]:
    return [
        classes.topic(
            each.name,
            each.partitions,
            each.replication_factor,
            [classes.config(config.key, config.value) for config in each.topic_configs],
        )
        for each in topics
    ]


class InvalidTopologyError(Exception):
    """STREAMS_INVALID_TOPOLOGY (130)."""


class Problem(NamedTuple):
    """The obstacle to an assignment, as a status for members."""

    status: StatusCode
    detail: str


class _ProblemError(Exception):
    def __init__(self, status: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(status, detail)


class InternalTopic(NamedTuple):
    """An internal topic as it must be; `replication_factor` 0 is the default."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with its partition counts; topics are sorted by name."""

    tasks: int
    source_topics: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)


class ConfiguredTopology(NamedTuple):
    """A topology with its partition counts. `subtopologies` are sorted by id, None if counts are unknown; `missing` are
    the internal topics to create.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: tuple[InternalTopic, ...] = ()
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure(topology: Topology, partitions_of: PartitionsOf) -> ConfiguredTopology:
    """Configure the topology for the existing topics. Raises `InvalidTopologyError` for one that is never valid, and
    ValueError or IndexError for one that contradicts itself.
    """
    try:
        subtopologies, missing = _configure(topology, partitions_of)
    except _ProblemError as error:
        return ConfiguredTopology(topology.epoch, None, (), error.problem)
    problem = None
    if missing:
        names = summary([each.name for each in missing])
        problem = Problem(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology.epoch, subtopologies, missing, problem)


def summary(names: Iterable[str]) -> str:
    """Return at most three names, and the number of the others."""
    all_names = list(names)
    more = len(all_names) - 3
    return ", ".join(all_names[:3]) + (f" and {more} additional topics" if more > 0 else "")


def _configure(
    topology: Topology, partitions_of: PartitionsOf
) -> tuple[dict[str, ConfiguredSubtopology], tuple[InternalTopic, ...]]:
    subtopologies = topology.subtopologies.values()
    absent = sorted({topic for each in subtopologies for topic in each.source_topics if not partitions_of(topic)})
    if absent:
        raise _ProblemError(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {summary(absent)} are missing.")
    decided = _repartition_counts(subtopologies, partitions_of)

    def count(topic: str) -> int:
        """Return the present number of an existing topic, or the computed one."""
        partitions = partitions_of(topic) or decided.get(topic, 0)
        if not partitions:
            raise ValueError(f"Number of partitions is not set for topic: {topic}")
        return partitions

    fixed = {topic.name for each in subtopologies for topic in each.repartition_source_topics if topic.partitions}
    flexible = {
        topic.name for each in subtopologies for topic in each.repartition_source_topics if not topic.partitions
    }
    for each in subtopologies:
        for group in _copartitioned(each):
            decided |= _copartition(group, fixed, flexible, count)
    for each in subtopologies:
        if not sources_of(each):
            raise InvalidTopologyError(f"No source topics found for subtopology {each.subtopology_id}")
        most = max(count(topic) for topic in sources_of(each))
        decided |= {topic.name: most for topic in each.state_changelog_topics}
    configured = {
        subtopology_id: _configured(topology.subtopologies[subtopology_id], decided, count)
        for subtopology_id in sorted(topology.subtopologies)
    }
    return configured, _missing(configured.values(), partitions_of)


def _repartition_counts(subtopologies: Iterable[Subtopology], partitions_of: PartitionsOf) -> dict[str, int]:
    """Compute the partitions of each repartition topic from the inputs of the subtopologies that write it; one may
    depend on another.
    """
    counts = {
        topic.name: topic.partitions
        for each in subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    waiting = [(sink, each) for each in subtopologies for sink in each.repartition_sink_topics]
    while waiting := [(sink, each) for sink, each in waiting if sink not in counts]:
        before = len(counts)
        for sink, subtopology in waiting:
            reads = [counts.get(topic.name, 0) for topic in subtopology.repartition_source_topics]
            reads += [partitions_of(topic) for topic in subtopology.source_topics]
            if any(reads):
                counts.setdefault(sink, max(reads))
        if len(counts) == before:
            raise InvalidTopologyError(
                "Failed to compute number of partitions for all repartition topics."
                " There may be loops in the topology that cannot be resolved."
            )
    if any(topic.name not in counts for each in subtopologies for topic in each.repartition_source_topics):
        raise InvalidTopologyError(
            "Failed to compute number of partitions for all repartition topics,"
            " because a repartition source topic is never used as a sink topic."
        )
    return counts


def _copartitioned(subtopology: Subtopology) -> list[set[str]]:
    """Return the sets of topics that must have equally many partitions."""
    return [
        {subtopology.source_topics[index] for index in group.source_topics}
        | {subtopology.repartition_source_topics[index].name for index in group.repartition_source_topics}
        for group in subtopology.copartition_groups
    ]


def _copartition(topics: set[str], fixed: set[str], flexible: set[str], count: Callable[[str], int]) -> dict[str, int]:
    """Compute the partitions of the repartition topics among `topics`."""
    internal = {topic: count(topic) for topic in sorted(topics) if topic in fixed or topic in flexible}
    others = {topic: count(topic) for topic in sorted(topics) if topic not in internal}
    if not topics:
        return {}
    if others:
        agreed = _same(others.values(), others)
    elif fixed:
        # As in Kafka, every topic with a fixed number in the topology counts, not only those of this set.
        agreed = _same([count(topic) for topic in sorted(fixed)], internal)
    else:
        agreed = max(internal.values())
    for topic, partitions in internal.items():
        if topic in fixed and partitions != agreed:
            raise _ProblemError(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{partitions}] of repartition topic [{topic}] doesn't match number of partitions"
                f" [{agreed}] of the source topic.",
            )
    return dict.fromkeys(internal, agreed)


def _same(counts: Iterable[int], topics: Mapping[str, int]) -> int:
    first, *others = counts
    if any(each != first for each in others):
        text = ", ".join(f"{topic}={partitions}" for topic, partitions in sorted(topics.items()))
        raise _ProblemError(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{text}}}]",
        )
    return first


def _configured(
    subtopology: Subtopology, decided: Mapping[str, int], count: Callable[[str], int]
) -> ConfiguredSubtopology:
    def internal(topics: Iterable[TopicInfo]) -> tuple[InternalTopic, ...]:
        return tuple(
            InternalTopic(
                topic.name,
                topic.partitions or decided[topic.name],
                topic.replication_factor,
                tuple((config.key, config.value) for config in topic.topic_configs),
            )
            for topic in sorted(topics, key=lambda each: each.name)
        )

    return ConfiguredSubtopology(
        tasks=max(count(topic) for topic in sources_of(subtopology)),
        source_topics=tuple(sorted(set(subtopology.source_topics))),
        repartition_sources=internal(subtopology.repartition_source_topics),
        repartition_sinks=tuple(sorted(set(subtopology.repartition_sink_topics))),
        changelogs=internal(subtopology.state_changelog_topics),
    )


def _missing(subtopologies: Iterable[ConfiguredSubtopology], partitions_of: PartitionsOf) -> tuple[InternalTopic, ...]:
    """Return the missing internal topics, by name."""
    internal = {topic.name: topic for each in subtopologies for topic in (*each.repartition_sources, *each.changelogs)}
    missing = []
    for name in sorted(internal):
        partitions = partitions_of(name)
        if not partitions:
            missing.append(internal[name])
        elif partitions != internal[name].partitions:
            raise _ProblemError(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {internal[name].partitions},"
                f" found {partitions}",
            )
    return tuple(missing)
