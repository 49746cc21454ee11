"""Explanations of consumer groups (KIP-848), from a trace of our server with confluent-kafka and from invented events.

The recording: `a`, which takes two seconds to give up partitions, `b` and `c` join one after the other, `b` leaves, `c`
is killed, a static member joins and is restarted, `orders` grows from 6 to 8 partitions, and both leave.
"""

import gzip
import json
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.lab.replaying import play
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.history import GroupHistory, History
from kafka_shim.trace.reading import read
from kafka_shim.trace.reconciliation import HANDING_OVER, INTERVAL, NOT_ASSIGNED, REVOKING, Reconciliation, Wait
from kafka_shim.why.explanation import Explanation, as_json, explain
from kafka_shim.why.mermaid import sequence_diagram
from kafka_shim.why.narration import Narrator
from kafka_shim.why.text import lines, whole
from tests.why.simulated import recorded

RECORDINGS = Path(__file__).parent / "recordings"
TRACE = RECORDINGS / "consumer-group.jsonl.gz"
START = RECORDINGS / "lives" / "another-group-on-the-topic-has-trouble-confluent-kafka-2.16-consumer.jsonl.gz"
"""Two members of confluent-kafka start on a server with the assignment interval of Kafka 4.4, 1 s."""


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    explanation = explained(read([TRACE], group="billing"))
    assert all(isinstance(each, Reconciliation) for each in explanation.rebalances)
    return explanation


def explained(events: Any) -> Explanation:
    history = History()
    for event in events:
        history.add(event)
    group = history.groups["billing"]
    explanation = explain(group, list(group.rebalances))
    assert explanation is not None
    return explanation


def test_every_epoch_has_its_cause_and_trigger(explanation: Explanation) -> None:
    assert [(each.generation, each.cause, explanation.names(each.trigger)) for each in explanation.rebalances] == [
        (1, Cause.NEW_MEMBER, "a"),
        (2, Cause.NEW_MEMBER, "b"),
        (3, Cause.NEW_MEMBER, "c"),
        (4, Cause.MEMBER_LEFT, "b"),
        (5, Cause.SESSION_EXPIRED, "c"),
        (6, Cause.NEW_MEMBER, "s"),
        (7, Cause.TOPIC_METADATA_CHANGED, explanation.names(explanation.rebalances[6].trigger)),
        (8, Cause.MEMBER_LEFT, "a"),
    ]


def test_a_setting_that_a_refused_classic_member_needs_is_not_called_useless() -> None:
    with recorded() as record:
        record.simulation.consumer_puppet("billing", ["orders"], client_id="new")
        record.simulation.run(10)
        record.simulation.puppet("billing", ["orders"], client_id="old", session_timeout=1.0)
        record.simulation.run(5)
    answer = explained(record.events)
    assert answer.advice.remedies[0].key == "session.timeout.ms"
    assert answer.advice.would_not_help == ("partition.assignment.strategy (a consumer ignores it here)",)


def test_phases_add_up_and_name_the_slow_member(explanation: Explanation) -> None:
    for each in explanation.rebalances:
        assert sum(phase.seconds for phase in each.phases) == pytest.approx(each.seconds)
    second, fourth = explanation.rebalances[1], explanation.rebalances[3]
    revoking = next(phase for phase in second.phases if phase.name == REVOKING)
    assert [explanation.names(member) for member in revoking.members] == ["a"]
    assert revoking.seconds == pytest.approx(2.0, abs=0.5)
    # No member gives up a partition: the present members only get more.
    assert [phase.name for phase in fourth.phases] == [NOT_ASSIGNED, HANDING_OVER]


def test_an_explanation_names_and_advises_the_member_slow_to_revoke(explanation: Explanation) -> None:
    slow = explanation.rebalances[1].slow
    assert slow is not None
    assert explanation.names(slow.member_id) == "a"
    assert slow.called is not None
    assert slow.seconds - slow.called == pytest.approx(2.0, abs=0.2)
    assert explanation.advice.remedies[0].key == "processing"
    assert explanation.advice.remedies[0].who == "a"


def test_each_wait_has_its_member_and_holder(explanation: Explanation) -> None:
    a, b, c = (explanation.rebalances[place].trigger for place in range(3))
    second, third = explanation.rebalances[1], explanation.rebalances[2]
    assert isinstance(second, Reconciliation)
    assert isinstance(third, Reconciliation)
    assert set(second.waits) == {Wait(b, a)}
    assert set(third.waits) == {Wait(c, a), Wait(c, b)}


def test_an_explanation_has_moves_and_cost(explanation: Explanation) -> None:
    moves = [(each.moved.moved, each.moved.needed) for each in explanation.rebalances[:7] if each.moved is not None]
    assert moves == [(0, 0), (3, 3), (2, 2), (2, 2), (3, 3), (3, 3), (0, 0)]
    costs = [each.partition_seconds for each in explanation.rebalances]
    # Three partitions for two seconds; three for the session of the dead member.
    assert costs[1] == pytest.approx(6.0, abs=1.0)
    assert costs[4] == pytest.approx(9.0, abs=1.0)
    assert [each.member_seconds for each in explanation.rebalances] == [0.0] * 8


def test_a_returning_static_member_does_not_rebalance(explanation: Explanation) -> None:
    statics = [member for member in explanation.history.members.values() if member.instance_id == "s"]
    assert [member.how for member in statics] == ["fenced", ""]
    assert [each.cause for each in explanation.rebalances].count(Cause.STATIC_REPLACED) == 0


def test_the_text_and_the_json_say_the_same(explanation: Explanation) -> None:
    text = "\n".join((*lines(explanation), *whole(explanation, 100, bars=False, zone=None)))  # type: ignore[arg-type]
    assert "billing  consumer, uniform, " in text
    assert "epoch 1 -> 2, " in text
    assert "  slow      a gave up its partitions 2.0 s after it was told to" in text
    assert "  waited    b for a" in text
    assert "member-seconds" not in text
    document = json.loads(json.dumps(as_json(explanation)))
    assert document["kind"] == "consumer"
    assert [each["assignor"] for each in document["rebalances"]][:3] == ["uniform"] * 3
    assert document["waiting"] == []


def test_an_open_rebalance_lists_the_members_it_waits_for() -> None:
    events = list(read([TRACE], group="billing"))
    (begin,) = (place for place, each in enumerate(events) if each["event"] == "epoch" and each["generation"] == 2)
    (revocation,) = (
        place
        for place, each in enumerate(events)
        if each["event"] == "reconciliation" and each["revoking"] and each["generation"] == 1
    )
    early, later = explained(events[: begin + 1]), explained(events[: revocation + 1])
    assert [what for _, what in waiting(early.history)] == ["any member must send a heartbeat"]
    assert [(later.names(member), what) for member, what in waiting(later.history)] == [
        ("a", "must give up 3 partitions")
    ]
    assert "  waits for a, which must give up 3 partitions" in "\n".join(lines(later))
    members = as_json(later)["members"]
    a = next(each for member, each in members.items() if later.names(member) == "a")
    assert (a["epoch"], a["assigned"], a["revoking"]) == (1, {"orders": [0, 1, 2]}, {"orders": [3, 4, 5]})
    assert a["target"] == {"orders": [0, 1, 2]}


def waiting(history: GroupHistory) -> list[tuple[str, str]]:
    assert history.epochs is not None
    return history.epochs.waiting()


def test_the_story_has_epochs_targets_and_revocations() -> None:
    story = Narrator()
    lines = [line.text for event in read([TRACE], group="billing") for line in story.lines(event)]
    assert lines[:2] == ["the group is created", "a joins from 127.0.0.1"]
    assert "epoch 2 begins, cause NEW_MEMBER: b is new" in lines
    assert "target assignment of epoch 2, by uniform; changes:" in lines
    assert "a is at epoch 1 and has orders 0-2; it must give up orders 3-5" in lines
    assert "b is at epoch 2 and has nothing; it waits for a" in lines
    assert "epoch 2 is stable" in lines
    assert any(line.endswith(" is away, a static member, and keeps orders 3-5") for line in lines)


def test_a_diagram_has_only_heartbeats_with_changes(explanation: Explanation) -> None:
    with gzip.open(TRACE) as trace:
        events = [event for line in trace if (event := json.loads(line)).get("group") == "billing"]
    lines = list(sequence_diagram(explanation.rebalances[1], events))
    assert any("ConsumerGroupHeartbeat, joins" in line for line in lines)
    assert any("ConsumerGroupHeartbeat, epoch 1, owns 3 partitions" in line for line in lines)
    assert any("epoch 2, has 3 partitions" in line for line in lines)
    assert len(lines) < 30


def test_an_explanation_names_a_member_removed_for_not_revoking() -> None:
    explanation = explained(made_up())
    assert [each.cause for each in explanation.rebalances] == ["NEW_MEMBER", "NEW_MEMBER", "REBALANCE_TIMEOUT"]
    second = explanation.rebalances[1]
    assert [(phase.name, phase.members) for phase in second.phases] == [(REVOKING, ("deaf",))]
    assert second.seconds == pytest.approx(60.0)
    assert second.dropped == ("deaf",)
    remedy = explanation.advice.remedies[0]
    assert (remedy.who, remedy.setting) == ("deaf", "max.poll.interval.ms")


def made_up() -> list[dict[str, Any]]:
    """`new` joins the group of `deaf`, which never gives up a partition and is removed a minute later."""

    def at(seconds: float, event: str, **fields: Any) -> dict[str, Any]:
        return {"event": event, "group": "billing", "wall": 1000.0 + seconds, "mono": seconds, **fields}

    def member(seconds: float, member_id: str, change: str) -> dict[str, Any]:
        who = {"member_id": member_id, "instance_id": None, "client_id": "c", "client_host": "", "rule": "consumer"}
        return at(seconds, "member", change=change, **who)

    def reconciled(seconds: float, member_id: str, epoch: int, state: str, *has: list[int]) -> dict[str, Any]:
        assigned, revoking = ({"t": list(numbers)} if numbers else {} for numbers in has)
        return at(seconds, "reconciliation", member_id=member_id, generation=epoch, state=state, assigned=assigned,
                  revoking=revoking, waits_for=["deaf"] if state == "UNRELEASED_PARTITIONS" else [])  # fmt: skip

    def epoch(seconds: float, number: int, cause: str, trigger: str) -> dict[str, Any]:
        return at(seconds, "epoch", generation=number, cause=cause, trigger=trigger)

    def target(seconds: float, number: int, **assignments: list[int]) -> dict[str, Any]:
        shares = {member_id: {"t": numbers} for member_id, numbers in assignments.items()}
        return at(seconds, "target", generation=number, assignor="uniform", assignments=shares)

    return [
        member(0, "deaf", "added"), epoch(0, 1, "NEW_MEMBER", "deaf"), target(0, 1, deaf=[0, 1]),
        reconciled(0, "deaf", 1, "STABLE", [0, 1], []),
        member(10, "new", "added"), epoch(10, 2, "NEW_MEMBER", "new"), target(10, 2, deaf=[0], new=[1]),
        reconciled(10, "new", 2, "UNRELEASED_PARTITIONS", [], []),
        reconciled(10, "deaf", 1, "UNREVOKED_PARTITIONS", [0], [1]),
        member(70, "deaf", "removed"), epoch(70, 3, "REBALANCE_TIMEOUT", "deaf"), target(71, 3, new=[0, 1]),
        reconciled(71, "new", 3, "STABLE", [0, 1], []),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_an_explanation_names_the_wait_for_the_assignment_interval(kind: str) -> None:
    events = made_up()
    events.insert(2, events[0] | {"event": "state", "rule": kind, "from": "Empty", "to": "Assigning"})
    begun = next(number for number, event in enumerate(events) if event.get("cause") == "REBALANCE_TIMEOUT")
    events[begun]["waits_ms"] = 700
    history = History()
    for event in events[: begun + 1]:
        history.add(event)
    missing = "the assignment interval must pass, and then any member must send a heartbeat"
    assert waiting(history.groups["billing"]) == [("", missing)]
    explanation = explained(events)
    third = explanation.rebalances[2]
    assert [(phase.name, round(phase.seconds, 1)) for phase in third.phases] == [(INTERVAL, 0.7), (NOT_ASSIGNED, 0.3)]
    for event in events:
        if event["event"] == "epoch":
            event["waits_ms"] = 700
        elif event["event"] == "target":
            event["wall"] = event["wall"] + 0.8
    remedies = explained(sorted(events, key=lambda event: event["wall"])).advice.remedies
    (remedy,) = (each for each in remedies if each.setting == f"{kind}.assignment.interval.ms")
    assert (remedy.who, remedy.proposed, remedy.side) == ("billing", "0", "broker")


def test_a_start_has_the_wait_for_the_interval_in_its_story_phases_and_advice() -> None:
    group = START.name.removesuffix(".jsonl.gz")
    events = list(read([START], group=group))
    story = Narrator()
    texts = [line.text for event in events for line in story.lines(event)]
    place = texts.index("epoch 3 begins, cause NEW_MEMBER: b is new")
    assert texts[place + 1] == "its assignment waits 909 ms for the assignment interval"
    history = History()
    for event in events:
        history.add(event)
    explanation = explain(history.groups[group], list(history.groups[group].rebalances), play)
    assert explanation is not None
    second = explanation.rebalances[1]
    names = [phase.name for phase in second.phases]
    assert names == [INTERVAL, NOT_ASSIGNED, REVOKING, HANDING_OVER]
    assert second.phases[0].seconds == pytest.approx(0.909)
    # Without a play the heartbeat interval is offered; the wait for the interval is named beside it.
    likely = explain(history.groups[group], list(history.groups[group].rebalances))
    assert likely is not None
    assert [each.key for each in likely.advice.remedies] == ["consumer.heartbeat.interval.ms"]
    assert "Up to 909 ms was the wait for consumer.assignment.interval.ms." in list(lines(likely))
    assert [len(likely.remedies_of(each)) for each in likely.rebalances] == [0, 1, 0, 0]
    # A wait of two heartbeat intervals of 5 s is that of every start.
    assert explanation.is_calm
    assert explanation.advice_text.startswith("no change is needed. The 10 s that members waited are heartbeat")
    assert explanation.advice_text.endswith("Up to 909 ms was the wait for consumer.assignment.interval.ms.")
    assert explanation.advice_of(second).endswith("Up to 909 ms was the wait for consumer.assignment.interval.ms.")


REVOKED = "nothing yet: the next rebalance assigns the revoked partitions"


def text_of(history: GroupHistory) -> str:
    explanation = explain(history, list(history.rebalances))
    assert explanation is not None
    return " ".join(" ".join(whole(explanation, len(history.rebalances), bars=False, zone=UTC)).split())


def test_no_rebalance_is_announced_after_the_last_member_left() -> None:
    with recorded() as record:
        only = record.simulation.consumer_puppet("billing", ["orders"], client_id="only")
        record.simulation.run(20)
        only.leave()
        record.simulation.run(5)
    history = record.history()
    assert (history.present, history.state, len(history.rebalances)) == ({}, "Empty", 2)
    assert REVOKED not in text_of(history)


def test_partitions_that_a_cooperative_member_revoked_are_of_the_next_rebalance() -> None:
    with recorded() as record:
        for client_id in "ab":
            record.simulation.puppet("billing", ["orders"], client_id=client_id, protocols=("cooperative-sticky",))
            record.simulation.run(20)
    assert text_of(record.history()).count(REVOKED) == 1


def test_a_long_wait_for_the_interval_is_never_calm() -> None:
    events = made_up()
    begun = next(event for event in events if event.get("cause") == "REBALANCE_TIMEOUT")
    later = [event | {"wall": event["wall"] + 29} if event["wall"] > begun["wall"] else event for event in events]
    begun["waits_ms"] = 30_000
    remedies = explained(later).advice.remedies
    assert "consumer.assignment.interval.ms" in {each.setting for each in remedies}
