"""The log of a real Kafka 4.4 tells of its members as they came and went.

Two consumers of kafka-python in `billing`: the second was closed, started again and killed, then the first was closed.
Two of librdkafka in `modern`, with the protocol of KIP-848: both were closed. Recorded at INFO, with slf4j-simple.
"""

import gzip
from pathlib import Path

import pytest

from kafka_shim.why.explanation import Explanation, explain
from tests.sources.test_story import causes, history_of, read

LOG = Path(__file__).parent / "recorded" / "broker-4.4.log.gz"


def explanation_of(tmp_path: Path, group: str) -> Explanation:
    reading, events = read(tmp_path, gzip.decompress(LOG.read_bytes()), group=group)
    assert (reading.unknown, reading.example) == (0, "")
    history = history_of(events, group)
    explanation = explain(history, list(history.rebalances))
    assert explanation is not None
    return explanation


def test_members_that_close_and_one_that_was_killed_are_told_apart(tmp_path: Path) -> None:
    explanation = explanation_of(tmp_path, "billing")
    history, names = explanation.history, explanation.names
    assert [(generation, cause, names(trigger)) for generation, cause, trigger in causes(history)] == [
        (1, "NEW_MEMBER", "app-1"),
        (2, "NEW_MEMBER", "app-2"),
        (3, "MEMBER_LEFT", "app-2"),
        (4, "NEW_MEMBER", "app-2#2"),
        (5, "LEADER_REJOINED", "app-1"),
        (6, "MEMBER_LEFT", "app-1"),
    ]
    assert [each.size for each in history.rebalances] == [1, 2, 1, 2, 1, None]
    assert [names(each) for each in history.rebalances[4].dropped] == ["app-2#2"]
    assert [(each.code, each.client) for each in explanation.troubles] == [("GHOST", "app-2")]
    assert history.rebalances[4].seconds == pytest.approx(7.942, abs=0.001)


def test_epochs_have_the_causes_of_the_lines_before_them(tmp_path: Path) -> None:
    explanation = explanation_of(tmp_path, "modern")
    one, two = explanation.history.members
    assert causes(explanation.history) == [
        (2, "NEW_MEMBER", one),
        (3, "NEW_MEMBER", two),
        (4, "MEMBER_LEFT", two),
        (5, "MEMBER_LEFT", one),
    ]
    assert explanation.is_calm
