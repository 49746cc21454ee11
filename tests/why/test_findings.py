"""Findings: one restart of a static member is no fight of two processes, and a pause is not a rare heartbeat."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.history import History
from kafka_shim.trace.members import Member
from kafka_shim.why.diagnoses import Diagnosis
from kafka_shim.why.explanation import Explanation, as_json, explain
from tests.why.provoked.cases import CONFLUENT, FRANZ, KP3, SARAMA
from tests.why.provoked.further import FURTHER
from tests.why.provoked.judge import SETS, explained, recording_of
from tests.why.provoked.last import LAST
from tests.why.provoked.unseen import UNSEEN
from tests.why.simulated import recorded


def fenced(times: int) -> Explanation | None:
    """Explain a group with a static member that is started `times` times more, each time beside the running one."""
    with recorded() as record:
        simulation = record.simulation
        simulation.puppet("billing", ["orders"], client_id="steady")
        for _ in range(times + 1):
            simulation.puppet("billing", ["orders"], client_id="app", instance_id="worker-0")
            simulation.run(20)
    history = record.history()
    return explain(history, list(history.rebalances))


def codes(explanation: Explanation | None) -> set[str]:
    return {each.code for each in explanation.advice.findings} if explanation else set()


def test_one_restart_beside_the_old_process_is_no_alarm() -> None:
    explanation = fenced(1)
    assert explanation is not None
    assert explanation.history.refusals.twice["worker-0"].count >= 1
    assert Diagnosis.DUPLICATE_INSTANCE_ID not in codes(explanation)
    assert explanation.is_calm


@pytest.mark.parametrize("times", [2, 4])
def test_two_processes_that_fence_each_other_are_named(times: int) -> None:
    explanation = fenced(times)
    assert explanation is not None
    assert explanation.advice.findings[0].code == Diagnosis.DUPLICATE_INSTANCE_ID
    assert explanation.advice.findings[0].client == "worker-0"
    assert not explanation.is_calm


def of_recording(name: str, client: str, *, heartbeats: bool, session_ms: int) -> Explanation:
    """Explain a recording as if its members had this session timeout; perhaps without the accepted heartbeats."""
    case = next(each for each in UNSEEN if each.name == name)
    history = History()
    with gzip.open(recording_of(case, client)) as lines:
        for line in lines:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == "exchange" and event["api"] == "Heartbeat" and not event["error"] and not heartbeats:
                continue
            if event["event"] == "exchange" and event["api"] == "JoinGroup":
                event["request"]["session_timeout_ms"] = session_ms
            history.add(event)
    group = history.groups[f"{name}-{client}"]
    explanation = explain(group, list(group.rebalances))
    assert explanation is not None
    return explanation


@pytest.mark.parametrize(
    ("heartbeats", "session_ms", "code", "key"),
    [
        (True, 60_000, Diagnosis.SLOW_MEMBER, "process"),
        # Without heartbeats, 9 s may be the interval of a session of 60 s, but not of one of 15 s.
        (False, 60_000, Diagnosis.SELDOM_HEARTBEATS, "heartbeat.interval.ms"),
        (False, 15_000, Diagnosis.SLOW_MEMBER, "process"),
    ],
)
def test_a_process_that_stands_still_is_told_from_rare_heartbeats(
    heartbeats: bool, session_ms: int, code: Diagnosis, key: str
) -> None:
    explanation = of_recording(
        "a-frozen-member-holds-up-a-rebalance", "java-4.4.0", heartbeats=heartbeats, session_ms=session_ms
    )
    assert (explanation.troubles[0].code, explanation.troubles[0].client) == (code, "frozen")
    assert explanation.advice.remedies[0].key == key
    assert ("stood still" in explanation.advice.remedies[0].why) is (code == Diagnosis.SELDOM_HEARTBEATS)


def test_the_usual_time_between_heartbeats_is_neither_a_pause_nor_the_first_after_a_sync() -> None:
    member = Member("a-1")
    assert member.beat == 0.0
    member.beaten = 0.0
    for at in (0.01, 3.0, 6.1, 40.0, 43.0):
        member.heard(at)
    assert member.beat == pytest.approx(3.1)


def test_a_slow_callback_in_a_cooperative_group_has_a_culprit() -> None:
    explanation = of_recording(
        "a-cooperative-callback-takes-seven-seconds", "java-4.4.0", heartbeats=True, session_ms=15_000
    )
    slow = explanation.troubles[0]
    assert (slow.code, slow.client, round(slow.seconds)) == (Diagnosis.SLOW_REVOCATION, "slow", 7)
    followup = next(each for each in explanation.rebalances if each.cause == "COOPERATIVE_FOLLOWUP")
    assert [each.key for each in explanation.remedies_of(followup)] == ["processing"]
    assert not explanation.is_calm


def test_members_that_are_all_slow_are_all_named() -> None:
    case = next(each for each in LAST if each.name == "all-callbacks-are-slow")
    explanation = explained(case, "confluent-kafka-2.16")
    assert explanation is not None
    slow = [(each.code, each.client, round(each.seconds)) for each in explanation.troubles]
    assert sorted(slow) == [(Diagnosis.SLOW_MEMBER, "flush-1", 6), (Diagnosis.SLOW_MEMBER, "flush-2", 6)]
    assert {each.key for each in explanation.advice.remedies} == {"processing"}


TIMES = ("arrived", "started", "ended")


def events_of(name: str, client: str) -> list[dict[str, Any]]:
    """Return the events of a recording."""
    case = next(each for cases in SETS.values() for each in cases if each.name == name)
    with gzip.open(recording_of(case, client)) as lines:
        return [json.loads(line) for line in lines]


def answer_to(group: str, *recordings: list[dict[str, Any]]) -> Explanation:
    """Explain recordings as one group, each an hour after the one before."""
    history = History()
    for number, events in enumerate(recordings):
        begin = min(each["wall"] for each in events if "wall" in each)
        for event in events:
            later = {name: event[name] - begin + 3600 * number for name in ("wall", "mono") if name in event}
            shift = {name: event[name] - event["mono"] + later["mono"] for name in TIMES if name in event}
            history.add(event | later | shift | ({"group": group} if event.get("group") else {}))
    explanation = explain(history.groups[group], list(history.groups[group].rebalances))
    assert explanation is not None
    return explanation


def test_a_client_that_was_refused_before_the_group_began_is_not_forgotten() -> None:
    outside = events_of("session-timeout-too-short-and-alone", KP3)
    healthy = events_of("clean-start-and-stop", KP3)
    assert answer_to("billing", healthy).is_calm
    explanation = answer_to("billing", outside, healthy)
    assert (explanation.troubles[0].code, explanation.troubles[0].client) == (Diagnosis.JOIN_REFUSED, "hasty")
    assert not explanation.is_calm
    # But a reader of the time since then does not care.
    group = explanation.history
    later = explain(group, list(group.rebalances)[1:])
    assert later is not None
    assert later.troubles == []


def test_commits_that_are_refused_for_good_are_no_calm() -> None:
    healthy = events_of("clean-start-and-stop", KP3)
    at = next(number for number, each in enumerate(healthy) if each.get("api") == "SyncGroup")
    late = healthy[at] | {"api": "OffsetCommit", "error": int(ErrorCode.ILLEGAL_GENERATION)}
    explanation = answer_to("billing", [*healthy[: at + 1], late, *healthy[at + 1 :]])
    assert not explanation.is_calm
    assert explanation.troubles[0].code == Diagnosis.COMMIT_REFUSED
    assert "commits of a were refused, once, ILLEGAL_GENERATION: their records are read again" in explanation.verdict
    # A rebalance that is in progress refuses it only for now.
    again = late | {"error": int(ErrorCode.REBALANCE_IN_PROGRESS)}
    assert answer_to("billing", [*healthy[: at + 1], again, *healthy[at + 1 :]]).is_calm


@pytest.mark.parametrize(("name", "client"), [("two-die-together", FRANZ), ("all-die-and-nobody-comes", "java-4.4.0")])
def test_all_members_that_die_together_are_named(name: str, client: str) -> None:
    case = next(each for cases in SETS.values() for each in cases if each.name == name)
    explanation = explained(case, client)
    assert explanation is not None
    dead = {each.client for each in explanation.troubles if each.code == Cause.SESSION_EXPIRED}
    assert dead == set(case.culprits)
    assert {each.who for each in explanation.advice.remedies if each.key == "process"} == dead


def of_case(name: str, client: str) -> Explanation:
    explanation = explained(next(each for each in FURTHER if each.name == name), client)
    assert explanation is not None
    return explanation


def test_a_clause_about_one_rebalance_does_not_count_the_whole_group() -> None:
    explanation = of_case("one-of-two-namesakes-misses-polls", CONFLUENT)
    assert "2 times" in explanation.verdict
    texts = [finding["text"] for rebalance in as_json(explanation)["rebalances"] for finding in rebalance["findings"]]
    assert "the application of web#2 did not poll within its poll interval" in texts
    assert not any(" times" in text or "up to" in text for text in texts)


def test_processes_with_one_client_id_have_a_place_each() -> None:
    explanation = of_case("namesakes-restart-in-turn", SARAMA)
    members = explanation.history.members.values()
    assert {each.client_id for each in members} == {"web"}
    assert {each.place for each in members} == {1, 2, 3}


def test_the_arrival_of_a_member_that_is_restarted_later_is_no_restart() -> None:
    with recorded() as record:
        simulation = record.simulation
        for name in ("one", "two"):
            puppet = simulation.puppet("billing", ["orders"], client_id=name)
            simulation.run(10)
        for _ in range(2):
            puppet.leave()
            simulation.run(5)
            puppet = simulation.puppet("billing", ["orders"], client_id="two")
            simulation.run(5)
    history = record.history()
    explanation = explain(history, list(history.rebalances))
    assert explanation is not None
    first, arrival, departure = explanation.rebalances[:3]
    assert [first.cause, arrival.cause, departure.cause] == [Cause.NEW_MEMBER, Cause.NEW_MEMBER, Cause.MEMBER_LEFT]
    assert [each.code for each in explanation.findings_of(arrival)] == [Diagnosis.SCALE_OUT]
    assert [each.code for each in explanation.findings_of(departure)] == [Diagnosis.RESTART]


def test_a_remedy_without_a_finding_needs_a_simulation() -> None:
    case = next(each for each in SETS["provoked"] if each.name == "rolling-restart")
    with_play = explained(case, CONFLUENT)
    assert with_play is not None
    history = with_play.history
    without = explain(history, list(history.rebalances))
    assert without is not None
    assert "group.instance.id" in {each.setting for each in without.advice.remedies}
    assert "partition.assignment.strategy" not in {each.setting for each in without.advice.remedies}
