"""A static consumer (KIP-848) that is refused, since another member holds its group instance id."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_shim.lab.consumer_puppets import ConsumerPuppet, ConsumerScript
from kafka_shim.lab.replaying import play
from kafka_shim.lab.simulator import Simulation
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.history import History
from kafka_shim.why.diagnoses import Diagnosis
from kafka_shim.why.explanation import Explanation, explain
from kafka_shim.why.past import Change, past_of
from kafka_shim.why.remedies import LIKELY, REPLAYED
from kafka_shim.why.text import lines
from tests.why.provoked.judge import SETS
from tests.why.provoked.printed import printed
from tests.why.simulated import Recorded, recorded
from tests.why.test_watcher import watched

SESSION = "consumer.session.timeout.ms"
EVERY = 0.25
"""Seconds between two requests of a process that a supervisor starts again and again."""


def static(simulation: Simulation, client_id: str = "app", instance_id: str = "pod-1") -> ConsumerPuppet:
    return simulation.consumer_puppet("billing", ["orders"], client_id=client_id, instance_id=instance_id)


def tries(simulation: Simulation, client_id: str = "app", seconds: float = 60.0) -> ConsumerPuppet:
    """Start a new process of `pod-1` again and again until it is let in, or for so many seconds."""
    end = simulation.now + seconds
    puppet = static(simulation, client_id)
    simulation.run(EVERY)
    while puppet.fenced and simulation.now < end:
        puppet = static(simulation, client_id)
        simulation.run(EVERY)
    return puppet


def two(session: float, interval_ms: int = 1000) -> tuple[Recorded, ConsumerPuppet]:
    """Return two static members with six partitions each; the second is `pod-1`."""
    config = {
        "group.consumer.session.timeout.ms": f"{1000 * session:.0f}",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.heartbeat.interval.ms": str(interval_ms),
        "group.consumer.min.heartbeat.interval.ms": "1000",
    }
    with recorded(config=config) as record:
        static(record.simulation, instance_id="pod-0")
        old = static(record.simulation)
        record.simulation.run(20)
        return record, old


def killed(session: float, *, client_id: str = "app", seconds: float = 60.0, interval_ms: int = 1000) -> Recorded:
    """Kill `pod-1`; a supervisor starts it again at once, until it is let in."""
    record, old = two(session, interval_ms)
    old.crash()
    tries(record.simulation, client_id, seconds)
    if seconds > session:
        record.simulation.run(30)
    return record


def explained(record: Recorded, events: list[dict[str, Any]] | None = None) -> Explanation:
    history = History()
    for event in record.events if events is None else events:
        history.add(event)
    group = history.groups["billing"]
    explanation = explain(group, list(group.rebalances), play)
    assert explanation is not None
    return explanation


@pytest.mark.parametrize("client_id", ["app", "another"])
@pytest.mark.parametrize("session", [8.0, 10.0, 12.0])
def test_the_refusals_of_a_killed_static_consumer_are_the_finding(session: float, client_id: str) -> None:
    explanation = explained(killed(session, client_id=client_id))
    (finding,) = explanation.troubles
    assert (finding.code, finding.client, finding.partitions) == (Diagnosis.JOIN_REFUSED, "pod-1", 6)
    assert finding.count == pytest.approx(session / EVERY, abs=2)
    assert finding.seconds == pytest.approx(session, abs=0.5)
    # Six partitions stood still for the session.
    assert finding.cost == pytest.approx(7 * session, rel=0.1)
    assert {Cause.SESSION_EXPIRED, Cause.NEW_MEMBER} == {each.cause for each in finding.rebalances}
    assert f"pod-1 was refused {finding.count} times in {session:.1f} s: UNRELEASED_INSTANCE_ID" in explanation.verdict
    assert "6 partitions had no running owner" in explanation.verdict
    assert "did not come back" not in "\n".join(lines(explanation))


@pytest.mark.parametrize("session", [8.0, 10.0, 12.0])
def test_a_shorter_session_is_proved_and_a_longer_one_is_not_offered(session: float) -> None:
    explanation = explained(killed(session))
    process, shorter = explanation.advice.remedies
    assert (process.key, process.who, process.seen) == ("process", "pod-1", "its old process ended without leaving")
    assert "epoch -2" in process.proposed
    assert "6 partitions stood still" in process.why
    assert (shorter.setting, shorter.seen, shorter.proposed) == (
        SESSION,
        f"{1000 * session:.0f}",
        f"{500 * session:.0f}",
    )
    assert shorter.grade == REPLAYED
    assert shorter.before is not None
    assert shorter.after is not None
    # The six partitions stand still for half the time.
    saved = shorter.before.partition_seconds - shorter.after.partition_seconds
    assert saved == pytest.approx(6 * session / 2, abs=7.0)


def test_a_simulation_refuses_the_successor_of_a_dead_static_consumer() -> None:
    history = killed(8.0).history()
    past = past_of(history, list(history.rebalances))
    played = [play(past.changed(Change(session_timeout=session))).partition_seconds for session in (4.0, 10.0, 12.0)]
    assert played[0] < play(past).partition_seconds < played[1] < played[2]


@pytest.mark.parametrize("session", [8.0, 12.0])
def test_the_refusals_are_the_finding_while_they_last(session: float) -> None:
    explanation = explained(killed(session, seconds=0.8 * session))
    assert not explanation.is_calm
    (finding,) = explanation.troubles
    assert (finding.code, finding.client, finding.partitions) == (Diagnosis.JOIN_REFUSED, "pod-1", 6)
    assert finding.seconds == pytest.approx(0.8 * session, abs=0.6)
    process, shorter = explanation.advice.remedies
    assert process.seen == "its old process is silent, and has not left"
    # Nothing shows yet when its session ends.
    assert (shorter.setting, shorter.proposed, shorter.grade) == (SESSION, f"{500 * session:.0f}", LIKELY)


def test_a_session_of_few_heartbeats_is_not_shortened_alone() -> None:
    explanation = explained(killed(8.0, interval_ms=5000))
    shorter = explanation.advice.remedies[1]
    assert shorter.proposed == "shorter, with a shorter consumer.heartbeat.interval.ms"
    assert shorter.grade == LIKELY


def test_a_server_without_a_listener_does_not_say_what_it_does_not_know() -> None:
    whole = killed(8.0, seconds=5.0)
    explanation = explained(whole, watched(whole.events))
    (finding,) = explanation.troubles
    assert (finding.code, finding.client, finding.partitions) == (Diagnosis.JOIN_REFUSED, "pod-1", 0)
    (process,) = explanation.advice.remedies
    assert process.seen == "another process has this group.instance.id, and has not left"
    over = killed(8.0)
    (finding,) = explained(over, watched(over.events)).troubles
    assert (finding.code, finding.client, finding.partitions) == (Diagnosis.JOIN_REFUSED, "pod-1", 6)


@pytest.mark.parametrize("client_id", ["app", "another"])
@pytest.mark.parametrize("keeps_all", [True, False])
@pytest.mark.parametrize("times", [1, 40])
def test_two_running_processes_are_two_processes(client_id: str, keeps_all: bool, times: int) -> None:
    record, _ = two(8.0)
    tries(record.simulation, client_id, seconds=EVERY * (times - 1))
    record.simulation.run(4)
    explanation = explained(record, None if keeps_all else watched(record.events))
    (finding,) = explanation.troubles
    assert (finding.code, finding.client) == (Diagnosis.DUPLICATE_INSTANCE_ID, "pod-1")
    assert [each.key for each in explanation.advice.remedies] == ["group.instance.id"]


@pytest.mark.parametrize("client_id", ["app", "another"])
def test_a_process_that_starts_before_the_old_one_has_left_is_no_second_one(client_id: str) -> None:
    record, old = two(8.0)
    tries(record.simulation, client_id, seconds=3.0)
    old.leave()
    assert not tries(record.simulation, client_id).fenced
    record.simulation.run(30)
    explanation = explained(record)
    (finding,) = explanation.troubles
    assert (finding.code, finding.client, finding.partitions) == (Diagnosis.JOIN_REFUSED, "pod-1", 0)
    (process,) = explanation.advice.remedies
    assert process.seen == "its old process still ran"


def test_a_consumer_that_is_refused_its_own_instance_id_is_one_process() -> None:
    record, old = two(8.0)
    old.crash()
    again = ConsumerPuppet(
        record.simulation.scheduler,
        ConsumerScript(group="billing", topics=["orders"], client_id="app", instance_id="pod-1"),
    )
    again.member_id = old.member_id
    again.join()
    record.simulation.run(2)
    explanation = explained(record)
    (finding,) = explanation.troubles
    assert (finding.code, finding.client) == (Diagnosis.JOIN_REFUSED, "pod-1")
    assert explanation.advice.remedies[0].seen.startswith("it holds the group.instance.id itself")


def test_a_static_consumer_that_is_back_after_its_session_needs_no_longer_one() -> None:
    """A longer session would keep it out for longer, so that is no remedy."""
    record, old = two(8.0)
    old.crash()
    record.simulation.run(12)
    static(record.simulation)
    record.simulation.run(30)
    explanation = explained(record)
    assert explanation.troubles[0].code == Cause.SESSION_EXPIRED
    assert [each.key for each in explanation.advice.remedies] == ["process"]
    assert "back" in explanation.advice.remedies[0].seen


def test_one_refusal_has_no_duration() -> None:
    """librdkafka gives up at the first refusal."""
    case = next(each for each in SETS["lives"] if each.name == "a-killed-static-consumer-is-started-at-once")
    (client, *_) = case.clients
    assert "pod-1 was refused once: UNRELEASED_INSTANCE_ID" in " ".join(printed(case, client).split())
