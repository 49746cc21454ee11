"""A client that comes again and again and never leaves: each time the group waits for its session."""

from __future__ import annotations

import pytest

from kafka_shim.lab.replaying import play
from kafka_shim.trace.causes import Cause
from kafka_shim.why.advice import INITIAL_DELAY
from kafka_shim.why.diagnoses import Diagnosis
from kafka_shim.why.explanation import Explanation, explain
from tests.why.simulated import Recorded, recorded

QUICK = {"group.initial.rebalance.delay.ms": "0"}


def steady(record: Recorded, *clients: str) -> None:
    for client in clients:
        record.simulation.puppet("billing", ["orders"], client_id=client, session_timeout=10.0, heartbeat_interval=0.25)
        record.simulation.run(0.5)


def visited(stay: float, gap: float, *, waits: bool, times: int = 4) -> Explanation:
    """Explain a group with two steady members and a visitor, that stays for a time once it is in the group if it
    `waits`, and else once it has asked.
    """
    with recorded(config=QUICK) as record:
        simulation = record.simulation
        steady(record, "a", "b")
        for _ in range(times):
            visitor = simulation.puppet(
                "billing", ["orders"], client_id="visitor", session_timeout=10.0, heartbeat_interval=0.25
            )
            while waits and visitor.generation < 0:
                simulation.run(0.1)
            simulation.run(stay)
            visitor.crash()
            simulation.run(gap)
        simulation.run(40)
    return answer(record)


def answer(record: Recorded) -> Explanation:
    history = record.history()
    explanation = explain(history, list(history.rebalances), play)
    assert explanation is not None
    return explanation


@pytest.mark.parametrize(
    ("stay", "gap", "waits"),
    [(0.5, 0.2, True), (0.2, 0.2, False), (0.4, 0.3, False), (6.0, 0.5, False), (1.0, 3.0, True)],
)
def test_a_visitor_that_never_leaves_is_the_finding(stay: float, gap: float, waits: bool) -> None:
    explanation = visited(stay, gap, waits=waits)
    (finding,) = explanation.troubles
    assert (finding.code, finding.client, finding.count) == (Diagnosis.CRASH_LOOP, "visitor", 4)
    assert "visitor comes again and again and never leaves: it fell silent 4 times" in explanation.verdict
    # Its sessions are all of the waiting, also in rebalances of another cause.
    assert explanation.advice.would_not_help == ()
    assert explanation.unexplained <= 1.0
    close, instance = (each for each in explanation.advice.remedies if each.code == Diagnosis.CRASH_LOOP)
    assert close.key == "process"
    assert close.seen == "fell silent 4 times, without a LeaveGroup"
    assert "close the consumer" in close.proposed
    assert instance.key == "group.instance.id"
    assert INITIAL_DELAY not in {each.key for each in explanation.advice.remedies}


def test_a_visitor_that_comes_after_its_session_gets_no_instance_id() -> None:
    explanation = visited(2.0, 15.0, waits=True)
    assert explanation.troubles[0].code == Diagnosis.CRASH_LOOP
    assert "group.instance.id" not in {each.key for each in explanation.advice.remedies}


def test_processes_with_one_client_id_that_die_together_are_no_visitor() -> None:
    with recorded(config=QUICK) as record:
        simulation = record.simulation
        steady(record, "a")
        pods = []
        for _ in range(3):
            pods.append(simulation.puppet("billing", ["orders"], client_id="pod", session_timeout=10.0))
            simulation.run(5)
        simulation.run(20)
        for pod in pods:
            pod.crash()
        simulation.run(40)
    explanation = answer(record)
    assert {each.code for each in explanation.troubles} == {Cause.SESSION_EXPIRED}
    assert {each.client for each in explanation.troubles} == {"pod", "pod#2", "pod#3"}


def test_a_session_that_ran_out_in_another_rebalance_is_not_denied() -> None:
    explanation = visited(0.3, 0.2, waits=False, times=2)
    assert any(each.how == "expired" for each in explanation.history.members.values())
    assert explanation.advice.would_not_help == ()
