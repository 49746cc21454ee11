"""The topics that a topology needs: numbers of partitions, missing topics and wrong ones."""

from __future__ import annotations

import pytest

from kafka_shim.apis.streams_group_heartbeat import StatusCode
from kafka_shim.groups.streams.topology import (
    ConfiguredTopology,
    InvalidTopologyError,
    Topology,
    configure,
    message_of,
    summary,
    value_of,
)
from kafka_shim.persistence.records import StreamsGroupTopologyValue
from kafka_shim.persistence.streams_records import CopartitionGroup, Subtopology, TopicConfig, TopicInfo


def configured(*subtopologies: Subtopology, **topics: int) -> ConfiguredTopology:
    topology = Topology(StreamsGroupTopologyValue(0, list(subtopologies)))
    return configure(topology, lambda name: topics.get(name, 0))


def repartition(name: str, partitions: int = 0) -> TopicInfo:
    return TopicInfo(name, partitions, 0, [TopicConfig("cleanup.policy", "delete")])


def detail(topology: ConfiguredTopology) -> tuple[StatusCode, str]:
    assert topology.problem is not None
    return topology.problem


def test_a_repartition_topic_has_the_partitions_of_its_writers_sources() -> None:
    found = configured(
        Subtopology("0", source_topics=["small", "large"], repartition_sink_topics=["r"]),
        Subtopology("1", repartition_source_topics=[repartition("r")], state_changelog_topics=[repartition("c")]),
        small=2,
        large=5,
    )
    assert {(each.name, each.partitions) for each in found.missing} == {("r", 5), ("c", 5)}
    assert found.missing[0].configs == (("cleanup.policy", "delete"),)
    assert found.subtopologies is not None
    assert {name: each.tasks for name, each in found.subtopologies.items()} == {"0": 5, "1": 5}
    assert detail(found) == (StatusCode.MISSING_INTERNAL_TOPICS, "Internal topics are missing: c, r")
    ready = configured(
        Subtopology("0", source_topics=["t"], repartition_sink_topics=["r"]),
        Subtopology("1", repartition_source_topics=[repartition("r")]),
        t=2,
        r=2,
    )
    assert (ready.is_ready, ready.missing) == (True, ())


def test_numbers_go_through_a_chain_in_any_order_and_a_fixed_one_stays() -> None:
    found = configured(
        Subtopology("2", repartition_source_topics=[repartition("r2")]),
        Subtopology("1", repartition_source_topics=[repartition("r1")], repartition_sink_topics=["r2", "fixed"]),
        Subtopology("0", source_topics=["t"], repartition_sink_topics=["r1"]),
        Subtopology("3", repartition_source_topics=[repartition("fixed", 7)]),
        t=3,
    )
    assert {each.name: each.partitions for each in found.missing} == {"r1": 3, "r2": 3, "fixed": 7}


def test_a_repartition_topic_read_with_another_topic_has_as_many_partitions_as_that() -> None:
    found = configured(
        Subtopology("0", source_topics=["t"], repartition_sink_topics=["r"]),
        Subtopology(
            "1",
            source_topics=["other"],
            repartition_source_topics=[repartition("r")],
            copartition_groups=[CopartitionGroup([0], [], [0])],
        ),
        t=2,
        other=6,
    )
    assert [(each.name, each.partitions) for each in found.missing] == [("r", 6)]


@pytest.mark.parametrize(
    ("subtopology", "topics", "expected"),
    [
        (Subtopology("0", source_topics=["a", "t"]), {"t": 1}, "Source topics a are missing."),
        (
            Subtopology("0", source_topics=["a", "b", "c", "d", "e"]),
            {},
            "Source topics a, b, c and 2 additional topics are missing.",
        ),
        (
            Subtopology("0", source_topics=["a", "b"], copartition_groups=[CopartitionGroup([0, 1], [], [])]),
            {"a": 1, "b": 2},
            "Following topics do not have the same number of partitions: [{a=1, b=2}]",
        ),
        (
            Subtopology(
                "0",
                source_topics=["a"],
                repartition_source_topics=[repartition("r", 3)],
                copartition_groups=[CopartitionGroup([0], [], [0])],
            ),
            {"a": 2},
            "Number of partitions [3] of repartition topic [r] doesn't match number of partitions [2] of the source"
            " topic.",
        ),
        (
            Subtopology("0", source_topics=["a"], state_changelog_topics=[repartition("c")]),
            {"a": 2, "c": 1},
            "Existing topic c has different number of partitions: expected 2, found 1",
        ),
    ],
)
def test_problems_have_the_texts_of_kafka(subtopology: Subtopology, topics: dict[str, int], expected: str) -> None:
    found = configured(subtopology, **topics)
    status, sentence = detail(found)
    assert sentence == expected
    assert status in (StatusCode.MISSING_SOURCE_TOPICS, StatusCode.INCORRECTLY_PARTITIONED_TOPICS)
    assert (found.subtopologies, found.missing) == (None, ())


@pytest.mark.parametrize(
    ("subtopologies", "sentence"),
    [
        ([Subtopology("0")], "No source topics found"),
        (
            [Subtopology("0", repartition_source_topics=[repartition("r")], repartition_sink_topics=["r"])],
            "There may be loops",
        ),
        (
            [Subtopology("0", source_topics=["t"], repartition_source_topics=[repartition("r")])],
            "is never used as a sink topic",
        ),
    ],
)
def test_a_topology_that_can_never_be_is_refused(subtopologies: list[Subtopology], sentence: str) -> None:
    with pytest.raises(InvalidTopologyError, match=sentence):
        configured(*subtopologies, t=1)


def test_a_summary_has_three_names_and_the_number_of_others() -> None:
    assert summary(["a"]) == "a"
    assert summary("abcd") == "a, b, c and 1 additional topics"


def test_a_topology_as_a_member_sends_it_has_every_field_of_its_record() -> None:
    value = StreamsGroupTopologyValue(
        3,
        [
            Subtopology(
                "0",
                source_topics=["a", "b"],
                source_topic_regex=["c.*"],
                state_changelog_topics=[TopicInfo("log", 4, 2, [TopicConfig("cleanup.policy", "compact")])],
                repartition_sink_topics=["sink"],
                repartition_source_topics=[repartition("r", 5)],
                copartition_groups=[CopartitionGroup([0, 1], [0], [0])],
            )
        ],
    )
    sent = message_of(Topology(value))
    assert type(sent.subtopologies[0].copartition_groups[0]) is not CopartitionGroup
    assert value_of(sent) == value
