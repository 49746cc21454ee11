"""`why --offsets` on the recordings, alone and beside the broker's log: no false calm, and the table of
docs/offsets-topic.md is true.
"""

from __future__ import annotations

from functools import cache

import pytest

from kafka_shim.sources.offsets_topic.cluster import TOPIC as TOPIC_NAME
from tests.sources.judge import (
    TOPIC,
    TOPIC_PAGE,
    TOPIC_SOURCES,
    WITH_LOG,
    Judged,
    Mark,
    all_judged,
    answer_of,
    renewed_topic,
)
from tests.sources.recordings import OF_TOPIC, WITH_TOPIC, Recording, recorded_topic


@cache
def results() -> tuple[Judged, ...]:
    return tuple(all_judged(recorded_topic(), TOPIC_SOURCES))


def test_every_recording_is_there() -> None:
    names = {f"{each.release}/{each.name}" for each in WITH_TOPIC}
    assert {f"{each.release}/{each.name}" for each in recorded_topic()} == names
    assert {str(each.parent.relative_to(OF_TOPIC)) for each in OF_TOPIC.glob("*/*/truth.toml")} == names


def test_no_group_is_called_calm_that_is_not() -> None:
    assert [(each.recording.name, each.source) for each in results() if each.is_false_calm] == []


def test_the_records_name_no_wrong_cause_and_no_wrong_culprit() -> None:
    of_topic = [each for each in results() if each.source == TOPIC]
    assert {each.marks[part] for each in of_topic for part in ("cause", "culprit", "remedy")}.isdisjoint({Mark.WRONG})


def test_the_log_adds_the_causes() -> None:
    answers = [each.marks["cause"] for each in results() if each.source == WITH_LOG]
    assert answers.count(Mark.RIGHT) >= len(answers) - 1


def test_the_page_has_the_table() -> None:
    page = TOPIC_PAGE.read_text()
    assert renewed_topic(page, results()) == page


def recording(name: str, release: str = "4.4") -> Recording:
    return next(each for each in recorded_topic() if each.name.startswith(name) and each.release == release)


@pytest.mark.parametrize("release", ["3.9", "4.4"])
def test_together_has_reasons_and_assignments(release: str) -> None:
    answer = answer_of(recording("killed-for-good", release), WITH_LOG)
    death = next(each for each in answer["rebalances"] if each["cause"] == "SESSION_EXPIRED")
    # The culprit had partitions, which moved: that is in no line of the log.
    assert death["moved"] is not None
    assert death["moved"]["moved"] >= 1
    assert death["lines"][0].startswith("server.log.gz:")
    assert death["seconds"] > 0
    alone = answer_of(recording("killed-for-good", release), TOPIC)
    gone = next(each for each in alone["rebalances"] if each["cause"] == "MEMBER_GONE")
    assert gone["trigger"] == death["trigger"]
    assert (gone["seconds"], gone["lines"][0].startswith(TOPIC_NAME)) == (None, True)
    assert alone["calm"] is None


def test_the_steps_of_a_consumer_group_show_who_was_slow() -> None:
    answer = answer_of(recording("slow-to-give-up"), TOPIC)
    slow = next(each for each in answer["rebalances"] if each["slow"])
    assert [phase["name"] for phase in slow["phases"]][-2:] == ["waiting for revocation", "waiting for heartbeats"]
    assert slow["partition_seconds"] > 1
    assert answer["calm"] is False


def test_the_difference_of_records_tells_what_a_log_does_not() -> None:
    answer = answer_of(recording("topic-grows"), WITH_LOG)
    assert "TOPIC_METADATA_CHANGED" in [each["cause"] for each in answer["rebalances"]]
    answer = answer_of(recording("subscribes-to-more"), WITH_LOG)
    assert "SUBSCRIPTION_CHANGED" in [each["cause"] for each in answer["rebalances"]]
