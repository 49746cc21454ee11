"""A replay refuses a member if the recorded broker would refuse it: the limits stand in the trace, or are unknown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from kafka_shim.commands.why import why
from kafka_shim.lab.replaying import play
from kafka_shim.testing import CoordinatorServer
from kafka_shim.trace.history import GroupHistory, History
from kafka_shim.trace.reading import read
from kafka_shim.why.explanation import Explanation, explain
from kafka_shim.why.past import Change, Past, Stay, past_of, placed
from kafka_shim.why.remedies import LIKELY, REPLAYED, Remedy, judge
from tests.why.provoked.judge import RECORDINGS
from tests.why.simulated import Recorded, recorded
from tests.why.test_unreleased import explained, killed

KAFKA: dict[str, Any] = {"event": "trace", "wall": 0.0, "mono": 0.0, "seq": 0}
"""The first line of a trace of a relay, which does not see the limits."""


def begun(**limits: int) -> dict[str, Any]:
    return KAFKA | {"limits": {f"group.{name.replace('_', '.')}": limit for name, limit in limits.items()}}


def longer(seconds: float) -> Remedy:
    change = Change(session_timeout=seconds)
    return Remedy(who="app", side="client", setting="s", seen="", proposed="", why="", change=change)


def test_no_longer_session_is_proved_where_a_dead_member_fills_the_group() -> None:
    """The dead member keeps its place for longer, so that its successor finds the group full."""
    stays = [
        Stay("steady", 0.0, None, ""),
        Stay("app", 0.0, 30.0, "expired", is_dead=True),
        Stay("successor", 32.0, None, ""),
        Stay("paused", 60.0, 90.0, "expired"),
        Stay("paused", 95.0, None, ""),
    ]
    past = Past(placed(stays), {"orders": 12}, session_timeout=10.0, initial_delay=0.0)
    full = replace(past, limits={"group.max.size": 3})
    change = Change(session_timeout=15.0)
    assert (play(full).refused, play(past.changed(change)).refused, play(full.changed(change)).refused) == (0, 0, 0)
    full = replace(past, limits={"group.max.size": 2}, stays=past.stays[:3])
    assert (play(full).refused, play(full.changed(change)).refused) == (0, 1)
    (judged,) = judge([longer(15.0)], full, play)
    assert judged.grade == LIKELY


@pytest.mark.parametrize(("most", "is_refused", "grade"), [(60_000, False, REPLAYED), (20_000, True, LIKELY)])
def test_a_session_beyond_the_limit_of_the_broker_is_not_proved(most: int, is_refused: bool, grade: str) -> None:
    stays = [Stay("paused", 0.0, 40.0, "expired"), Stay("steady", 0.0, None, ""), Stay("paused", 45.0, None, "")]
    limits = {"group.min.session.timeout.ms": 6_000, "group.max.session.timeout.ms": most}
    past = Past(placed(stays), {"orders": 12}, session_timeout=10.0, initial_delay=0.0, limits=limits)
    assert play(past).refused == 0
    after = play(past.changed(Change(session_timeout=25.0)))
    assert (after.refused > 0) is is_refused
    (judged,) = judge([longer(25.0)], past, play)
    assert judged.grade == grade


def recording(name: str, *, first: dict[str, Any] | None = None) -> GroupHistory:
    """Return the history of a recording; `first` is its first line in place of its own."""
    (path,) = RECORDINGS.glob(f"*/{name}.jsonl.gz")
    history = History()
    for event in read([path]):
        history.add(event if first is None or event["event"] != "trace" else first)
    return history.groups[name]


def answer(history: GroupHistory) -> Explanation:
    explanation = explain(history, list(history.rebalances), play)
    assert explanation is not None
    return explanation


def test_a_refused_client_shows_the_size_of_its_group_where_the_trace_does_not() -> None:
    name = "group-is-full-aiokafka-0.14"
    for first, size in ((None, 2), (begun(max_size=9), 9)):
        history = recording(name, first=first)
        assert past_of(history, list(history.rebalances)).limits == {"group.max.size": size}
        assert answer(history).advice.remedies[0].seen == f"{size}, and reached"
    quiet = recording("clean-start-and-stop-aiokafka-0.14")
    assert past_of(quiet, list(quiet.rebalances)).limits == {}


def test_a_refused_session_is_told_the_limits_of_its_broker() -> None:
    name = "session-timeout-too-long-confluent-kafka-2.16"
    assert "by default" in answer(recording(name)).advice.remedies[0].proposed
    known = recording(name, first=begun(min_session_timeout_ms=500, max_session_timeout_ms=70_000))
    assert "from 500 to 70000" in answer(known).advice.remedies[0].proposed


def test_a_longer_session_names_the_limit_that_forbids_it() -> None:
    name = "paused-longer-than-its-session-kafka-python-3.0"
    price = "the death of a process is detected up to"
    answers = {
        words: answer(recording(name, first=first)).advice.remedies[0]
        for first, words in (
            (KAFKA, "the trace does not show group.max.session.timeout.ms"),
            (begun(max_session_timeout_ms=7_000), "refuses it until group.max.session.timeout.ms is more than 7000"),
            (begun(max_session_timeout_ms=60_000), ""),
        )
    }
    for words, remedy in answers.items():
        assert price in remedy.price
        assert words in remedy.price
        assert bool(words) is (";" in remedy.price)


def test_a_shorter_session_of_consumers_is_not_below_the_limit_of_the_broker() -> None:
    record = killed(10.0)
    limit = "group.consumer.min.session.timeout.ms"
    for least, proposed in ((1_000, "5000"), (8_000, "8000"), (10_000, f"shorter, with a shorter {limit}")):
        events = [begun(consumer_min_session_timeout_ms=least), *record.events]
        _, shorter = explained(record, events).advice.remedies
        assert shorter.proposed == proposed
        assert "must allow it" not in shorter.price
    assert "must allow it" in explained(record).advice.remedies[1].price


def test_a_running_server_tells_its_limits() -> None:
    config = {"group.max.size": "1", "group.initial.rebalance.delay.ms": "0"}
    with CoordinatorServer(topics={"orders": 2}, config=config, control=True) as server:
        server.puppet("billing", ["orders"], client_id="first")
        server.group("billing").stable(members=1)
        server.puppet("billing", ["orders"], client_id="second")
        server.group("billing").wait_for(
            lambda _: any(each["event"] == "exchange" and each["error"] == 81 for each in server.events("billing"))
        )
        assert server.control_url is not None
        result = CliRunner().invoke(why, ["billing", "--control", server.control_url])
        assert result.exit_code == 0, result.output
        (remedy,) = httpx.get(f"{server.control_url}/v1/groups/billing/why").json()["remedies"]
    assert "second, broker: group.max.size  1, and reached" in result.output
    assert remedy["seen"] == "1, and reached"


def test_the_limits_of_a_file_are_those_of_its_groups(tmp_path: Path) -> None:
    with recorded() as record:
        record.simulation.puppet("billing", ["orders"], client_id="a")
        record.simulation.run(5)
    later = Recorded(record.simulation)
    later.events = [begun(max_size=4), *record.events, begun(max_size=6), *record.events]
    path = later.write(tmp_path / "trace.jsonl")
    history = History()
    for event in read([path]):
        history.add(event)
    assert history.groups["billing"].broker_limits == {"group.max.size": 6}
