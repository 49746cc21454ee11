"""Explanations of groups with a known trouble, from the simulator and from real clients."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from kafka_shim.lab.puppets import Manner
from kafka_shim.lab.replaying import play
from kafka_shim.trace import history as histories
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.history import GroupHistory, History
from kafka_shim.trace.rebalance import INITIAL_DELAY, LEADER_THINKS, NEVER_CAME, WAITING_FOR_MEMBERS, Join, Rebalance
from kafka_shim.why.causes import BECAUSE
from kafka_shim.why.explanation import Explanation, as_json, explain
from kafka_shim.why.names import Names
from kafka_shim.why.remedies import REPLAYED, span
from kafka_shim.why.text import lines
from kafka_shim.why.waits import waits_of
from tests.why.simulated import recorded

RECORDING = Path(__file__).parents[1] / "pipeline" / "recordings" / "kafka-4.2"


def of(history: GroupHistory) -> Explanation:
    explanation = explain(history, list(history.rebalances), play)
    assert explanation is not None
    return explanation


def settings(explanation: Explanation) -> dict[str, str]:
    return {remedy.setting: remedy.grade for remedy in explanation.advice.remedies}


def test_every_cause_has_a_clause() -> None:
    assert set(BECAUSE) == {*Cause, ""}


def test_the_initial_delay_has_no_slow_member() -> None:
    with recorded() as record:
        for name in "abc":
            record.simulation.puppet("billing", ["orders"], client_id=name)
        record.simulation.run(10)
    first = record.history().rebalances[0]
    assert [phase.name for phase in first.phases][:1] == [INITIAL_DELAY]
    # Kafka lets newcomers extend it once more by its own length.
    assert first.phases[0].seconds == pytest.approx(2.0, abs=0.05)
    assert first.phases[0].members == ()
    assert first.slow is None


def test_an_explanation_names_and_advises_the_member_slow_to_rejoin() -> None:
    with recorded() as record:
        slow = record.simulation.puppet("billing", ["orders"], client_id="slow", think=4.0)
        record.simulation.puppet("billing", ["orders"], client_id="quick")
        record.simulation.run(20)
        for number in range(3):
            record.simulation.puppet("billing", ["orders"], client_id=f"new-{number}")
            record.simulation.run(30)
    explanation = of(record.history())
    last = explanation.last
    assert last.slow is not None
    assert last.slow.member_id == slow.member_id
    assert (last.cause, explanation.names(last.trigger)) == (Cause.NEW_MEMBER, "new-2")
    waiting = next(phase for phase in last.phases if phase.name == WAITING_FOR_MEMBERS)
    assert waiting.seconds > 4.0
    assert waiting.members == (slow.member_id,)
    first = explanation.advice.remedies[0]
    assert (first.who, first.setting, first.grade) == ("slow", "max.poll.records", REPLAYED)
    assert first.before is not None
    assert first.after is not None
    assert first.after.partition_seconds < first.before.partition_seconds


def test_a_member_that_never_rejoins_has_its_own_phase() -> None:
    with recorded() as record:
        deaf = record.simulation.puppet(
            "billing", ["orders"], client_id="deaf", rebalance_timeout=20.0, manner=Manner(never_rejoins=True)
        )
        record.simulation.puppet("billing", ["orders"], client_id="b", rebalance_timeout=20.0)
        record.simulation.run(10)
        member_id = deaf.member_id
        record.simulation.puppet("billing", ["orders"], client_id="c", rebalance_timeout=20.0)
        record.simulation.run(60)
    rebalance = next(each for each in record.history().rebalances if each.dropped)
    vain = next(phase for phase in rebalance.phases if phase.name == NEVER_CAME)
    assert vain.members == (member_id,)
    assert vain.seconds == pytest.approx(20.0, abs=3.5)


@pytest.mark.parametrize(("most", "left_out"), [(2, "1 rebalance"), (1, "2 rebalances"), (3, "")])
def test_rebalances_beyond_the_bound_are_not_silently_left_out(
    monkeypatch: pytest.MonkeyPatch, most: int, left_out: str
) -> None:
    monkeypatch.setattr(histories, "REBALANCES", most)
    with recorded() as record:
        for name in "abc":
            record.simulation.puppet("billing", ["orders"], client_id=name)
            record.simulation.run(20)
    explanation = of(record.history())
    assert len(explanation.rebalances) == most
    assert any("oldest" in sentence for sentence in as_json(explanation)["missing"]) == bool(left_out)
    assert ("at least" in explanation.verdict) == bool(left_out)
    assert explanation.calm is (None if left_out else True)


def test_restarts_call_for_static_members() -> None:
    with recorded() as record:
        members = [record.simulation.puppet("billing", ["orders"], client_id=f"m{n}") for n in range(3)]
        record.simulation.run(20)
        for number, member in enumerate(members):
            member.leave()
            record.simulation.run(5)
            record.simulation.puppet("billing", ["orders"], client_id=f"m{number}")
            record.simulation.run(20)
    remedies = settings(of(record.history()))
    assert remedies["group.instance.id"] == REPLAYED


def test_a_process_that_came_back_has_its_own_name_and_not_that_of_its_newest_member() -> None:
    with recorded() as record:
        record.simulation.puppet("billing", ["orders"], client_id="a")
        restless = record.simulation.puppet("billing", ["orders"], client_id="b")
        record.simulation.run(20)
        for _ in range(3):
            restless.leave()
            record.simulation.run(2)
            restless = record.simulation.puppet("billing", ["orders"], client_id="b")
            record.simulation.run(20)
    (remedy,) = (each for each in of(record.history()).advice.remedies if each.setting == "group.instance.id")
    assert remedy.why.startswith("b left and came back after at most 2.0 s")


def test_a_dead_process_gets_no_setting_as_remedy() -> None:
    with recorded() as record:
        record.simulation.puppet("billing", ["orders"], client_id="a")
        dead = record.simulation.puppet("billing", ["orders"], client_id="dead", session_timeout=10.0)
        record.simulation.run(20)
        dead.crash()
        record.simulation.run(30)
    explanation = of(record.history())
    assert explanation.last.cause == Cause.SESSION_EXPIRED
    assert "dead" in explanation.verdict
    # Its six partitions stood still for the ten seconds of its session too.
    assert explanation.last.partition_seconds >= 60
    assert settings(explanation)["the process itself"] == "cannot see"


def test_an_explanation_names_a_storm_and_its_pattern() -> None:
    with recorded() as record:
        record.simulation.puppet("billing", ["orders"], client_id="steady")
        record.simulation.run(5)
        for _ in range(8):
            flapping = record.simulation.puppet("billing", ["orders"], client_id="flapping")
            record.simulation.run(8)
            flapping.leave()
            record.simulation.run(8)
    explanation = of(record.history())
    assert explanation.storm
    assert explanation.verdict.startswith("STORM: ")
    pattern = explanation.patterns[0]
    assert (pattern.cause, pattern.who, pattern.count) == (Cause.MEMBER_LEFT, "flapping", 8)
    assert pattern.period == pytest.approx(16.0, abs=0.5)


def test_members_that_come_one_by_one_and_later_go_are_no_storm() -> None:
    with recorded() as record:
        members = []
        for number in range(8):
            members.append(record.simulation.puppet("billing", ["orders"], client_id=f"m{number}"))
            record.simulation.run(8)
        started = record.history()
        assert len(started.rebalances) == 8
        assert not of(started).storm
        record.simulation.run(200)
        for member in members:
            member.leave()
            record.simulation.run(8)
    history = record.history()
    assert len(history.rebalances) > 12
    assert not of(history).storm


def test_the_generation_after_the_last_leave_has_no_members() -> None:
    with recorded() as record:
        only = record.simulation.puppet("billing", ["orders"], client_id="only")
        record.simulation.run(5)
        only.leave()
        record.simulation.run(5)
    last = of(record.history()).last
    assert (last.cause, last.generation, last.members, last.seconds) == (Cause.MEMBER_LEFT, 2, (), 0.0)
    assert last.over is not None


def test_no_phase_has_the_time_of_an_empty_group() -> None:
    with recorded() as record:
        for _ in range(2):
            pods = [record.simulation.puppet("billing", ["orders"], client_id=name) for name in "ab"]
            record.simulation.run(10)
            for pod in pods:
                pod.leave()
            record.simulation.run(15)
    history = record.history()
    emptied = [each for each in history.rebalances if not each.members]
    assert len(emptied) == 2
    assert max(each.seconds for each in emptied) < 1.0
    assert LEADER_THINKS not in {phase.name for each in emptied for phase in each.phases}
    explanation = of(history)
    assert "all members left, and new ones started: a deploy" in explanation.verdict
    assert "knows no reason" not in explanation.advice_text


def test_three_restarts_are_a_storm() -> None:
    with recorded() as record:
        record.simulation.puppet("billing", ["orders"], client_id="steady")
        record.simulation.run(5)
        for number in range(3):
            restarted = record.simulation.puppet("billing", ["orders"], client_id=f"m{number}")
            record.simulation.run(20)
            restarted.leave()
            record.simulation.run(20)
    assert of(record.history()).storm


def test_phases_add_up() -> None:
    for history in recording().groups.values():
        for each in history.rebalances:
            assert sum(phase.seconds for phase in each.phases) == pytest.approx(each.seconds)
            assert all(phase.seconds > 0 for phase in each.phases)


def test_the_explanation_names_a_slow_leader() -> None:
    with recorded() as record:
        record.simulation.puppet("billing", ["orders"], client_id="thinker", think=5.0)
        record.simulation.run(30)
    explanation = of(record.history())
    assert max(explanation.last.phases, key=lambda phase: phase.seconds).name == LEADER_THINKS
    assert settings(explanation)["the leader's assignor"] == "cannot see"


def recording() -> History:
    history = History()
    with gzip.open(RECORDING / "trace" / "trace.jsonl.gz") as trace:
        for line in trace:
            history.add(json.loads(line))
    return history


def test_every_rebalance_of_a_real_kafka_has_its_cause() -> None:
    """Every rebalance of the recording has the cause and the trigger of its story, and there is no other."""
    causes = {"started": Cause.NEW_MEMBER, "killed": Cause.SESSION_EXPIRED, "closed": Cause.MEMBER_LEFT}
    story = json.loads((RECORDING / "story.json").read_text())
    done = Counter((act["group"], str(causes[act["what"]]), act["member_id"]) for act in story if act["rounds"])
    explained = Counter(
        (each.group, each.cause, each.trigger)
        for history in recording().groups.values()
        for each in history.rebalances
        if each.cause != Cause.COOPERATIVE_FOLLOWUP
    )
    assert explained == done


def test_the_text_and_the_json_say_the_same() -> None:
    explanation = of(recording().groups["billing"])
    document = json.loads(json.dumps(as_json(explanation)))
    text = "\n".join(lines(explanation))
    assert document["verdict"] in " ".join(text.split())
    last = document["rebalances"][-1]
    assert last["cause"] in text
    assert f"[seq {last['first_seq']}-{last['last_seq']}]" in text
    for remedy in document["remedies"]:
        assert remedy["setting"] in text


@pytest.fixture(scope="module")
def slow_below_a_second() -> GroupHistory:
    with recorded() as record:
        record.simulation.puppet("billing", ["orders"], client_id="slow", think=0.5)
        record.simulation.run(20.4)
        record.simulation.puppet("billing", ["orders"], client_id="new")
        record.simulation.run(20)
    return record.history()


def test_the_wait_of_a_calm_group_is_told_by_its_parts(slow_below_a_second: GroupHistory) -> None:
    explanation = of(slow_below_a_second)
    assert explanation.is_calm
    phases = {phase.name: phase.seconds for phase in explanation.last.phases}
    called = explanation.last.joins[0].called
    assert called is not None
    own = phases[WAITING_FOR_MEMBERS] - called
    assert own == pytest.approx(0.5, abs=0.1)
    advice = explanation.advice_text
    assert advice.startswith(f"no change is needed. The longest rebalance took {span(explanation.last.seconds)}: ")
    assert f"{span(called)} until the next heartbeat of slow" in advice
    assert f"{span(own)} for slow to join after its heartbeat" in advice
    assert f"{span(phases[LEADER_THINKS])} for the leader, slow, to assign" in advice
    assert "heartbeat intervals" not in advice


@pytest.mark.parametrize("heartbeats", [True, False])
def test_a_wait_is_measured_by_the_heartbeats_of_the_last_to_join_if_they_show(heartbeats: bool) -> None:
    with recorded() as record:
        script = {"heartbeat_interval": 0.25, "session_timeout": 10.0}
        record.simulation.puppet("billing", ["orders"], client_id="stays", think=1.2, **script)
        goes = record.simulation.puppet("billing", ["orders"], client_id="goes", **script)
        record.simulation.run(20)
        goes.leave()
        record.simulation.run(20)
    if not heartbeats:
        record.events = [each for each in record.events if each.get("api") != "Heartbeat" or each["error"]]
    explanation = of(record.history())
    assert explanation.last.seconds == pytest.approx(2.6, abs=0.1)
    assert not explanation.troubles
    assert explanation.is_calm is not heartbeats
    begin = "no change is needed." if not heartbeats else "why knows no reason for this wait of 2.6 s: "
    assert explanation.advice_text.startswith(begin)
    assert "1.2 s for stays to join after its heartbeat" in explanation.advice_text


def test_the_time_of_all_rebalances_ends_with_the_last(slow_below_a_second: GroupHistory) -> None:
    first, last = slow_below_a_second.rebalances[0], slow_below_a_second.rebalances[-1]
    assert last.seconds > 1.0
    assert f"in {span(last.started + last.seconds - first.started)}:" in of(slow_below_a_second).verdict


def test_a_wait_without_known_heartbeats_is_not_called_one() -> None:
    rebalance = Rebalance("g", Cause.NEW_MEMBER, "new", 10.0, 10.0, 1, 2, ended=12.0, assigned=12.0, members=("a",))
    assert waits_of(rebalance, Names()) == (["2.0 s until all members joined"], None)
    rebalance.joins = [Join("a", 2.0)]
    assert waits_of(rebalance, Names()) == (["2.0 s until a joined"], None)
    rebalance.joins = [Join("a", 2.0, 2.0)]
    assert waits_of(rebalance, Names()) == (["2.0 s until the next heartbeat of a"], 2.0)


def test_a_long_wait_without_a_reason_is_told_by_its_parts() -> None:
    history = GroupHistory("g")
    rebalance = Rebalance("g", Cause.ADMIN_REMOVED, "", 10.0, 16.0, 1, 2, ended=16.0, assigned=16.0, members=("a",))
    rebalance.joins = [Join("a", 6.0)]
    history.rebalances.append(rebalance)
    explanation = of(history)
    assert not explanation.is_calm
    assert not explanation.troubles
    text = "why knows no reason for this wait of 6.0 s: 6.0 s until a joined."
    assert (explanation.advice_text, explanation.advice_of(rebalance)) == (text, text)
