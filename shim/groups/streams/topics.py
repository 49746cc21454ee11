"""The topics of a topology: how many partitions its internal topics are to have, and what is missing or wrong.

Decides the number of tasks of each subtopology, which internal topics must be created, and what members are told
meanwhile. It knows topics only by `partitions_of(name)`, 0 for one that does not exist. After Kafka's
`InternalTopicManager`, `RepartitionTopics`, `CopartitionedTopicsEnforcer` and `ChangelogTopics` of 4.2
(semantics 4.12).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kafka_shim.groups.streams.states import StatusCode
from kafka_shim.groups.streams.topology import Topology, sources_of
from kafka_shim.persistence.streams_records import Subtopology, TopicInfo

PartitionsOf = Callable[[str], int]


class InvalidTopologyError(Exception):
    """STREAMS_INVALID_TOPOLOGY (130)."""


class Problem(NamedTuple):
    """Why tasks cannot be assigned, as members are told."""

    status: StatusCode
    detail: str


class _ProblemError(Exception):
    def __init__(self, status: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(status, detail)


class InternalTopic(NamedTuple):
    """An internal topic as it is to be; `replication_factor` 0: the default."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose numbers of partitions are known; topics are sorted by name."""

    tasks: int
    source_topics: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)


class ConfiguredTopology(NamedTuple):
    """`subtopologies` are sorted by id, and None where numbers of partitions cannot be worked out. `missing` are the
    internal topics to create."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: tuple[InternalTopic, ...] = ()
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure(topology: Topology, partitions_of: PartitionsOf) -> ConfiguredTopology:
    """The topology as it must be for these topics. Raises `InvalidTopologyError` for one that never can be, and
    ValueError or IndexError for one that contradicts itself."""
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
    """At most three names, and how many more there are."""
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
        """A topic that is there has the number it has, another the number it is to have."""
        found = partitions_of(topic) or decided.get(topic, 0)
        if not found:
            raise ValueError(f"Number of partitions is not set for topic: {topic}")
        return found

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
    """Of each repartition topic, by what is read where it is written to; one may depend on another."""
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
    """Sets of topics that must have equally many partitions."""
    return [
        {subtopology.source_topics[index] for index in group.source_topics}
        | {subtopology.repartition_source_topics[index].name for index in group.repartition_source_topics}
        for group in subtopology.copartition_groups
    ]


def _copartition(topics: set[str], fixed: set[str], flexible: set[str], count: Callable[[str], int]) -> dict[str, int]:
    """Numbers of partitions of the repartition topics among `topics`."""
    internal = {topic: count(topic) for topic in sorted(topics) if topic in fixed or topic in flexible}
    others = {topic: count(topic) for topic in sorted(topics) if topic not in internal}
    if not topics:
        return {}
    if others:
        agreed = _same(others.values(), others)
    elif fixed:
        # As Kafka does: every topic with a fixed number in the topology counts, not only those of this set.
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


def _same(counts: Iterable[int], shown: Mapping[str, int]) -> int:
    first, *others = counts
    if any(each != first for each in others):
        text = ", ".join(f"{topic}={partitions}" for topic, partitions in sorted(shown.items()))
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
    """The internal topics that are not there, by name."""
    internal = {topic.name: topic for each in subtopologies for topic in (*each.repartition_sources, *each.changelogs)}
    missing = []
    for name in sorted(internal):
        found = partitions_of(name)
        if not found:
            missing.append(internal[name])
        elif found != internal[name].partitions:
            raise _ProblemError(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {internal[name].partitions},"
                f" found {found}",
            )
    return tuple(missing)
