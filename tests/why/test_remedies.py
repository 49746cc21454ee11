"""Every remedy that `why` proposes helps: a replay with it is better than one without it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from kafka_shim.lab.consumer_puppets import ConsumerManner
from kafka_shim.lab.replaying import play
from kafka_shim.lab.simulator import Simulation
from kafka_shim.trace import clients
from kafka_shim.why import advice, member_remedies, reconciliation_advice
from kafka_shim.why import remedies as remedies_module
from kafka_shim.why.explanation import explain
from kafka_shim.why.past import MISSED_POLL, Change, Past, Stay, placed
from kafka_shim.why.remedies import CANNOT_SEE, LIKELY, REPLAYED, Played, Remedy, judge
from tests.why.simulated import recorded

Acts = Callable[[Simulation], None]


def three(simulation: Simulation, **script: object) -> None:
    for name in "abc":
        simulation.puppet("billing", ["orders"], client_id=name, **script)
    simulation.run(20)


def a_member_is_slow_to_join(simulation: Simulation) -> None:
    simulation.puppet("billing", ["orders"], client_id="slow", think=4.0)
    simulation.puppet("billing", ["orders"], client_id="quick")
    simulation.run(20)
    for number in range(3):
        simulation.puppet("billing", ["orders"], client_id=f"new-{number}")
        simulation.run(30)


def a_member_sends_few_heartbeats(simulation: Simulation) -> None:
    simulation.puppet("billing", ["orders"], client_id="seldom", heartbeat_interval=20.0)
    simulation.puppet("billing", ["orders"], client_id="quick", heartbeat_interval=0.5)
    simulation.run(40)
    for number in range(3):
        simulation.puppet("billing", ["orders"], client_id=f"new-{number}", heartbeat_interval=0.5)
        simulation.run(45)


def a_member_is_paused_for_longer_than_its_session(simulation: Simulation) -> None:
    three(simulation, session_timeout=10.0)
    for _ in range(2):
        paused = simulation.puppet("billing", ["orders"], client_id="paused", session_timeout=10.0)
        simulation.run(20)
        paused.silence()
        simulation.run(14)
        # Its process runs again, and its commit comes too late.
        paused.commit({("orders", 0): 1})
    simulation.puppet("billing", ["orders"], client_id="paused", session_timeout=10.0)
    simulation.run(20)


def members_are_restarted(simulation: Simulation) -> None:
    members = [simulation.puppet("billing", ["orders"], client_id=f"m{n}") for n in range(3)]
    simulation.run(20)
    for number, member in enumerate(members):
        member.leave()
        simulation.run(5)
        simulation.puppet("billing", ["orders"], client_id=f"m{number}")
        simulation.run(20)


def members_leave_a_slow_one(simulation: Simulation) -> None:
    simulation.puppet("billing", ["orders"], client_id="slow", think=8.0)
    others = [simulation.puppet("billing", ["orders"], client_id=f"m{number}") for number in range(3)]
    simulation.run(20)
    for other in others:
        other.leave()
        simulation.run(30)


def members_come_one_by_one(simulation: Simulation) -> None:
    for number in range(5):
        simulation.puppet("billing", ["orders"], client_id=f"m{number}")
        simulation.run(2.2)
    simulation.run(30)


def a_consumer_is_slow_to_give_up(simulation: Simulation) -> None:
    simulation.consumer_puppet("billing", ["orders"], client_id="slow", think=8.0)
    simulation.run(20)
    for number in range(2):
        simulation.consumer_puppet("billing", ["orders"], client_id=f"new-{number}")
        simulation.run(40)


def a_consumer_does_not_give_up_in_time(simulation: Simulation) -> None:
    late = ConsumerManner(reports_late=30.0)
    simulation.consumer_puppet("billing", ["orders"], client_id="late", rebalance_timeout=20.0, manner=late)
    simulation.run(20)
    simulation.consumer_puppet("billing", ["orders"], client_id="new")
    simulation.run(90)


def a_consumer_is_paused_for_longer_than_its_session(simulation: Simulation) -> None:
    for name in "ab":
        simulation.consumer_puppet("billing", ["orders"], client_id=name)
    for _ in range(2):
        paused = simulation.consumer_puppet("billing", ["orders"], client_id="paused")
        simulation.run(30)
        paused.silence()
        simulation.run(55)
        # Its process runs again, and its commit comes too late.
        paused.commit({("orders", 0): 1})
    simulation.consumer_puppet("billing", ["orders"], client_id="paused")
    simulation.run(30)


def consumers_are_restarted(simulation: Simulation) -> None:
    members = [simulation.consumer_puppet("billing", ["orders"], client_id=f"m{n}") for n in range(3)]
    simulation.run(30)
    for number, member in enumerate(members):
        member.leave()
        simulation.run(5)
        simulation.consumer_puppet("billing", ["orders"], client_id=f"m{number}")
        simulation.run(30)


def consumers_wait_for_heartbeats(simulation: Simulation) -> None:
    for number in range(4):
        simulation.consumer_puppet("billing", ["orders"], client_id=f"m{number}")
        simulation.run(33)


REPLAYABLE: Final[dict[tuple[str, str], Acts]] = {
    ("classic", "max.poll.records"): a_member_is_slow_to_join,
    ("classic", "heartbeat.interval.ms"): a_member_sends_few_heartbeats,
    ("classic", "session.timeout.ms"): a_member_is_paused_for_longer_than_its_session,
    ("classic", "group.instance.id"): members_are_restarted,
    ("classic", "partition.assignment.strategy"): members_leave_a_slow_one,
    ("classic", "group.initial.rebalance.delay.ms"): members_come_one_by_one,
    ("consumer", "processing"): a_consumer_is_slow_to_give_up,
    ("consumer", "max.poll.interval.ms"): a_consumer_does_not_give_up_in_time,
    ("consumer", "consumer.session.timeout.ms"): a_consumer_is_paused_for_longer_than_its_session,
    ("consumer", "group.instance.id"): consumers_are_restarted,
    ("consumer", "consumer.heartbeat.interval.ms"): consumers_wait_for_heartbeats,
}
"""The script that leads to each remedy with a replay, by kind of group and setting."""


ELSEWHERE: Final = {("classic", "max.poll.interval.ms")}
"""Puppets leave without a reason, so this remedy has its own test."""

UNSEEN: Final = {
    ("classic", "process"),
    ("classic", "assignor"),
    ("consumer", "process"),
}
"""Remedies without a replay: the wire does not show their trouble."""

RECORDED: Final = {("classic", "processing"), ("classic", "group.id")}
"""Remedies that recordings of real clients have (`test_provoked.py`): puppets have `max.poll.records`, and divide
partitions by the topics of each member."""


def remedies(acts: Acts) -> list[Remedy]:
    with recorded() as record:
        acts(record.simulation)
    history = record.history()
    explanation = explain(history, list(history.rebalances), play)
    assert explanation is not None
    return list(explanation.advice.remedies)


@pytest.mark.parametrize(("kind", "setting"), REPLAYABLE)
def test_a_remedy_is_proposed_where_it_helps(kind: str, setting: str) -> None:
    remedy = next(each for each in remedies(REPLAYABLE[kind, setting]) if each.key == setting)
    assert remedy.grade == REPLAYED
    assert remedy.before is not None
    assert remedy.after is not None
    fewer = remedy.after.rebalances < remedy.before.rebalances
    assert remedy.after.partition_seconds <= (1.05 if fewer else 0.9) * remedy.before.partition_seconds


def test_a_member_that_polls_in_time_stays() -> None:
    """`max.poll.interval.ms` and `max.poll.records`: a member that was expelled twice for not polling stays."""
    stays = [
        Stay("steady", 0.0, None, ""),
        Stay("late", 0.0, 60.0, MISSED_POLL),
        Stay("late", 75.0, 130.0, MISSED_POLL),
        Stay("late", 150.0, None, ""),
    ]
    past = Past(placed(stays), {"orders": 12}, initial_delay=0.0)
    before, after = play(past), play(past.changed(advice.Change(poll_interval=400.0)))
    # It comes once, and no member comes or goes after that.
    assert (before.rebalances, after.rebalances) == (6, 2)
    assert after.partition_seconds < before.partition_seconds


def test_every_remedy_is_tested() -> None:
    for kind, modules in (
        ("classic", (advice, member_remedies, remedies_module)),
        ("consumer", (reconciliation_advice,)),
    ):
        source = "".join(Path(module.__file__ or "").read_text() for module in modules)
        names = dict(vars(clients))
        for module in modules:
            names |= vars(module)
        keys = re.findall(r'\bkey=(?:"([^"]+)"|(?:clients\.)?([A-Z_]+))', source)
        settings = {literal or names[name] for literal, name in keys}
        tested = {*REPLAYABLE, *ELSEWHERE, *UNSEEN, *RECORDED}
        assert settings == {setting for of, setting in tested if of == kind}
        unseen = len(re.findall(r"grade=CANNOT_SEE", source))
        assert unseen == sum(1 for of, _ in UNSEEN if of == kind)
    assert CANNOT_SEE != REPLAYED


def test_judge_drops_remedies_that_do_not_help() -> None:
    """Members that come and stay need no remedy."""
    assert [each.setting for each in remedies(three)] == []


def test_a_simulation_proves_nothing_if_it_is_unlike_what_was_seen() -> None:
    stays = [Stay("app", 0.0, 40.0, "left"), Stay("steady", 0.0, None, ""), Stay("app", 45.0, None, "")]
    past = Past(placed(stays), {"orders": 12}, initial_delay=0.0)
    remedy = Remedy(
        who="app", side="client", setting="s", seen="", proposed="", why="", change=Change(static=True), code="DEPLOY"
    )
    count = play(past).rebalances
    for seen, grade in ((None, REPLAYED), (count, REPLAYED), (count - 1, REPLAYED), (count - 2, LIKELY)):
        (judged,) = judge([remedy], replace(past, seen=seen), play)
        assert (judged.grade, judged.before is None) == (grade, grade == LIKELY)
    # Nothing calls for this one, so that only a proof would.
    assert judge([replace(remedy, code="", optional=True)], replace(past, seen=count - 2), play) == []


def test_a_change_that_lets_nobody_in_is_no_gain() -> None:
    stays = [Stay("paused", 0.0, 40.0, "expired"), Stay("steady", 0.0, None, ""), Stay("paused", 45.0, None, "")]
    past = Past(placed(stays), {"orders": 12}, initial_delay=0.0)
    hour = Change(session_timeout=3600.0)
    remedy = Remedy(who="paused", side="client", setting="s", seen="", proposed="", why="", change=hour)

    def refuses(past: Past) -> Played:
        # A session over half an hour is refused: the simulator takes many seconds to show it.
        return Played(0, 0, 0.0) if past.session_timeout == 3600.0 else Played(4, 6, 50.0)

    assert judge([remedy], past, refuses) == [remedy]


def test_several_members_of_one_client_are_played_side_by_side() -> None:
    """Consumers of one process share client id and host; as static members each still needs its own instance id."""
    stays = [Stay("app", 0.0, 40.0, "left"), Stay("app", 0.0, None, ""), Stay("app", 45.0, None, "")]
    assert [stay.place for stay in placed(stays)] == ["app", "app (2)", "app"]
    past = Past(placed(stays), {"orders": 12}, initial_delay=0.0)
    as_it_was, static = play(past), play(past.changed(advice.Change(static=True)))
    assert as_it_was.rebalances > static.rebalances == 2
