"""The story a trace tells."""

from typing import Any

import pytest

from kafka_shim.trace.causes import Cause
from kafka_shim.why.narration import Narrator
from tests.server.test_trace_file import live
from tests.server.wire import Wire, cluster

UNIQUE = "-0b2f7a3e-8d5c-4f5e-9a3b-3c1d2e4f5a6b"


def state(cause: str, trigger: str = f"billing-1{UNIQUE}") -> dict[str, Any]:
    return {
        "event": "state",
        "group": "g",
        "from": "Stable",
        "to": "PreparingRebalance",
        "generation": 3,
        "cause": cause,
        "trigger": trigger,
        "rule": "join",
        "mono": 12.5,
    }


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_a_sentence(cause: Cause) -> None:
    (line,) = Narrator().lines(state(cause))
    assert f"cause {cause}: " in line.text
    assert not line.text.endswith(": ")
    assert "{" not in line.text


def test_the_story_numbers_members_of_one_client_id() -> None:
    story = Narrator()
    assert story.name(f"billing-1{UNIQUE}") == "billing-1"
    assert story.name(f"rdkafka{UNIQUE}") == "rdkafka"
    assert story.name("rdkafka-1b2f7a3e-8d5c-4f5e-9a3b-3c1d2e4f5a6b") == "rdkafka#2"
    assert story.name(f"rdkafka{UNIQUE}") == "rdkafka"
    assert story.name("short") == "short"


def test_an_assignment_lists_partitions_by_member() -> None:
    assignments = {f"a{UNIQUE}": {"orders": [2, 0, 1, 5], "returns": [0]}, f"b{UNIQUE}": {}, f"c{UNIQUE}": 17}
    event = {"event": "assignment", "group": "g", "generation": 3, "assignments": assignments, "mono": 1.0}
    texts = [" ".join(line.text.split()) for line in Narrator().lines(event)]
    assert texts == ["generation 3 is stable; assignments:", "a orders 0-2, 5, returns 0", "b nothing", "c 17 bytes"]


def test_times_count_from_the_first_event() -> None:
    story = Narrator()
    story.lines(state("NEW_MEMBER"))
    (line,) = story.lines(state("MEMBER_LEFT") | {"mono": 14.0})
    assert line.seconds == pytest.approx(1.5)
    assert line.group == "g"


async def test_the_story_follows_a_member_from_join_to_leave() -> None:
    wire, story = Wire(cluster(topics={"orders": 1})), Narrator()
    lines: list[str] = []
    wire.cluster.events.listen(
        lambda events, now: lines.extend(line.text for event in events for line in story.lines(event, now))
    )
    live(wire)
    assert lines[0] == "the group is created"
    assert lines[1].startswith("test joins")
    assert lines[2] == "rebalance begins, cause NEW_MEMBER: test is new"
    assert lines[3].startswith("generation 1: 1 member after 500 ms (test), test leads, protocol range")
    assert lines[-3:] == [
        "test leaves",
        "rebalance begins, cause MEMBER_LEFT: test left",
        "the group is empty, generation 2",
    ]


def test_the_story_of_a_relay_has_the_cause_with_the_round() -> None:
    event = {
        "event": "round", "group": "billing", "generation": 2, "cause": "MEMBER_LEFT", "trigger": "a", "started": 10.0,
        "ended": 10.5, "waited_for": [], "dropped": [], "leader": "b", "protocol": "range", "members": ["b"],
        "inferred": True, "mono": 10.5,
    }  # fmt: skip
    story = Narrator()
    assert [line.text for line in story.lines(event)][:1] == ["rebalanced, cause MEMBER_LEFT: a left"]
    (unseen, *_) = story.lines(event | {"cause": "", "trigger": ""})
    assert unseen.text == "rebalanced, cause unknown: the request that began it did not pass the relay"
