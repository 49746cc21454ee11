"""Groups of Kafka Connect, Schema Registry and others have no partitions that a trace shows, and no static members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_shim.lab.puppets import Puppet, Script
from kafka_shim.trace.causes import Cause
from kafka_shim.why.diagnoses import Diagnosis
from kafka_shim.why.explanation import Explanation, explain
from kafka_shim.why.narration import Narrator
from kafka_shim.why.text import lines
from tests.why.simulated import Recorded, recorded

TYPES = ["connect", "sr"]
NOUNS = {"consumer": "partitions", "connect": "tasks", "sr": "work"}
OF_CONSUMERS = ("partition", "poll", "group.instance.id", "subscribes", "topics")


class Worker(Puppet):
    """A member of another protocol type than `consumer`."""

    def __init__(self, record: Recorded, protocol_type: str, client_id: str, **script: Any) -> None:
        super().__init__(
            record.simulation.scheduler,
            Script(group="billing", topics=["orders"], client_id=client_id, session_timeout=10.0, **script),
        )
        self.protocol_type = protocol_type
        self.join()

    def _ask(self, request: Any, on_answer: Callable[[Any, float], None], now: float) -> None:
        if hasattr(request, "protocol_type"):
            request.protocol_type = self.protocol_type
        super()._ask(request, on_answer, now)


def explained(record: Recorded) -> Explanation:
    history = record.history()
    explanation = explain(history, list(history.rebalances))
    assert explanation is not None
    return explanation


def words(explanation: Explanation) -> str:
    return " ".join("\n".join(lines(explanation)).split())


def killed(protocol_type: str) -> Recorded:
    with recorded() as record:
        workers = [Worker(record, protocol_type, name) for name in ("w-1", "w-2")]
        record.simulation.run(20)
        workers[1].crash()
        record.simulation.run(40)
    return record


@pytest.mark.parametrize("protocol_type", ["consumer", *TYPES])
def test_a_dead_member_had_partitions_tasks_or_work(protocol_type: str) -> None:
    explanation = explained(killed(protocol_type))
    (finding,) = explanation.troubles
    assert (finding.code, finding.client) == (Cause.SESSION_EXPIRED, "w-2")
    assert explanation.history.protocol_type == protocol_type
    (remedy,) = (each for each in explanation.advice.remedies if each.key == "process")
    assert remedy.why == f"its {NOUNS[protocol_type]} stood still for the session timeout of 10 s"


@pytest.mark.parametrize("protocol_type", TYPES)
def test_the_text_of_another_type_has_no_word_of_consumers(protocol_type: str) -> None:
    text = words(explained(killed(protocol_type)))
    assert text.startswith(f"billing classic of type {protocol_type}, range, 1 member, Stable")
    assert f"member-seconds; how long {NOUNS[protocol_type]} stood still does not show" in text
    assert [word for word in OF_CONSUMERS if word in text] == []


@pytest.mark.parametrize("protocol_type", TYPES)
def test_the_story_of_another_type_has_no_word_of_consumers(protocol_type: str) -> None:
    with recorded() as record:
        workers = [Worker(record, protocol_type, name) for name in ("w-1", "w-2")]
        record.simulation.run(20)
        leader = next(each for each in workers if each.leads)
        # Its metadata has its generation, so that differs.
        leader._join(record.simulation.now)
        record.simulation.run(20)
    narrator = Narrator()
    story = "\n".join(str(line) for event in record.events for line in narrator.lines(event))
    because = f"{leader.script.client_id} joined again with other metadata or other protocols"
    assert f"rebalance begins, cause SUBSCRIPTION_CHANGED: {because}" in story
    assert [word for word in OF_CONSUMERS if word in story] == []


@pytest.mark.parametrize(
    ("protocol_type", "setting"), [("connect", "session.timeout.ms"), ("sr", "the process itself")]
)
def test_a_pause_calls_for_a_setting_that_the_client_has(protocol_type: str, setting: str) -> None:
    with recorded() as record:
        Worker(record, protocol_type, "w-1")
        paused = Worker(record, protocol_type, "w-2")
        record.simulation.run(20)
        paused.silence()
        record.simulation.run(14)
        paused.commit({("orders", 0): 1})
        Worker(record, protocol_type, "w-2")
        record.simulation.run(20)
    explanation = explained(record)
    assert explanation.troubles[0].code == Diagnosis.PAUSED_MEMBER
    assert explanation.advice.remedies[0].setting == setting
    assert "died" not in explanation.advice.remedies[0].proposed


@pytest.mark.parametrize("protocol_type", ["consumer", *TYPES])
def test_only_a_consumer_may_be_static(protocol_type: str) -> None:
    with recorded() as record:
        workers = [Worker(record, protocol_type, f"w-{number}") for number in range(2)]
        record.simulation.run(20)
        for _ in range(4):
            workers[1].leave()
            record.simulation.run(3)
            workers[1] = Worker(record, protocol_type, "w-1")
            record.simulation.run(20)
    explanation = explained(record)
    assert explanation.troubles[0].code == Diagnosis.FLAPPING
    (remedy,) = (each for each in explanation.advice.remedies if each.code == Diagnosis.FLAPPING)
    assert remedy.key == ("group.instance.id" if protocol_type == "consumer" else "process")
    assert ("read" in remedy.proposed) is False
    assert ("restart" in remedy.proposed) is (protocol_type == "consumer")


@pytest.mark.parametrize("protocol_type", TYPES)
def test_a_slow_member_works_before_it_joins_again(protocol_type: str) -> None:
    with recorded() as record:
        Worker(record, protocol_type, "slow", think=4.0)
        Worker(record, protocol_type, "quick")
        record.simulation.run(20)
        for number in range(3):
            Worker(record, protocol_type, f"new-{number}")
            record.simulation.run(30)
    explanation = explained(record)
    remedy = explanation.advice.remedies[0]
    assert (remedy.key, remedy.who) == ("processing", "slow")
    assert [word for word in OF_CONSUMERS if word in f"{remedy.setting} {remedy.why} {remedy.proposed}"] == []


def test_a_consumer_in_a_group_of_workers_needs_another_group() -> None:
    with recorded() as record:
        Worker(record, "connect", "w-1")
        record.simulation.run(20)
        Worker(record, "consumer", "stray")
        record.simulation.run(5)
    explanation = explained(record)
    assert (explanation.troubles[0].code, explanation.troubles[0].client) == (Diagnosis.JOIN_REFUSED, "stray")
    remedy = explanation.advice.remedies[0]
    assert (remedy.setting, remedy.seen) == ("group.id", "billing, a group of type connect")
