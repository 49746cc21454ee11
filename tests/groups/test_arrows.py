"""The arrows between states that the page and the documents show are the ones along which groups go, by those rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_shim.groups.classic.states import TRANSITIONS, Rule, State
from kafka_shim.groups.consumer.states import GroupState as ConsumerState
from kafka_shim.groups.kinds import KINDS
from kafka_shim.why.arrows import CLASSIC, MACHINES
from tests.groups.consumer.context import Cluster as ConsumerCluster
from tests.groups.context import ROUND_ROBIN, Context
from tests.groups.share.context import Cluster as ShareCluster
from tests.groups.streams.context import Cluster as StreamsCluster
from tests.groups.streams.context import one_subtopology
from tests.groups.streams.context import settle as settle_streams
from tests.groups.test_state_table import CASES, REQUESTS, Group

ALONE = {
    "leaves": lambda c, member: c.left(member),
    "falls silent": lambda c, member: c.advance(60_000),
    "joins with another protocol": lambda c, member: c.join(member, ROUND_ROBIN),
    "joins again": lambda c, member: c.join(member),
}


def gone(context: Context) -> set[tuple[State, State, Rule]]:
    return {(State(e["from"]), State(e["to"]), Rule(e["rule"])) for e in context.of("state")}


@pytest.fixture(scope="module")
def seen() -> set[tuple[State, State, Rule]]:
    """Every arrow that a group goes along, with the rule: each request in each state, then time; and a lone member."""
    found = set()
    for case in CASES:
        request, state, *_ = case.values
        group = Group(str(state))
        REQUESTS[str(request)](group)
        for _ in range(3):
            group.advance(70_000)
        found |= gone(group)
    for does in ALONE.values():
        for instances in ([], ["instance"]):
            context = Context("group.initial.rebalance.delay.ms=0")
            (member,) = context.form(1, instances=instances)
            does(context, member)
            context.advance(70_000)
            found |= gone(context)
    return found


def test_groups_go_along_these_arrows_by_these_rules(seen: set[tuple[State, State, Rule]]) -> None:
    unknown = {each for each in seen if (each[0], each[1]) not in CLASSIC or each[2] not in CLASSIC[each[:2]].rules}
    assert unknown == set()
    # Dead is not entered by a rule that a client sees; the other arrows need a full group or a record too large.
    expected = {(*arrow, rule) for arrow, each in CLASSIC.items() if arrow[1] is not State.DEAD for rule in each.rules}
    assert len(seen) > 0.5 * len(expected)
    assert {each[:2] for each in seen} == {each[:2] for each in expected}


def test_there_is_an_arrow_for_each_way_of_the_table() -> None:
    assert set(CLASSIC) == {(a, b) for a, targets in TRANSITIONS.items() for b in targets if a is not b}


def consumers() -> Context:
    """Where consumer groups go: members come, give up, are away, come back and leave; a topic grows."""
    cluster = ConsumerCluster(t=4)
    a, b = cluster.consumer("a", "t"), cluster.consumer("b", "t", instance_id="b")
    a.join()
    b.join()
    cluster.create("t", 6)
    for member in (a, b) * 4:
        member.obey()
    assert cluster.consumer_group.state is ConsumerState.STABLE
    b.leave(-2)
    b.join()
    for member in (a, b) * 2:
        member.obey()
    b.leave()
    a.obey()
    a.leave()
    # The last one goes in every state that a group with members has.
    a.join()
    b.join()
    b.leave()
    a.leave()
    a.join()
    b.join()
    a.leave()
    b.obey()
    b.leave(-2)
    cluster.advance(50_000)
    return cluster


def sharers() -> Context:
    """The way of a share group: a member joins and leaves."""
    cluster = ShareCluster(t=4)
    a = cluster.sharer("a", "t")
    a.join()
    a.leave()
    return cluster


def threads() -> Context:
    """Where streams groups go: with all topics and without, at once and after the initial delay."""
    cluster = StreamsCluster("group.streams.initial.rebalance.delay.ms=1000", t=4)
    a, b = (cluster.member(name, one_subtopology("t")) for name in "ab")

    def without_topic() -> None:
        cluster.delete_topic("t")
        a.heartbeat()
        cluster.create("t", 4)
        a.heartbeat()

    a.join()
    without_topic()  # while Assigning: the first assignment is delayed
    cluster.advance(2_000)
    a.heartbeat()
    b.join()
    without_topic()  # while Reconciling
    settle_streams(a, b)
    without_topic()  # while Stable
    settle_streams(a, b)
    a.leave()
    b.heartbeat()
    a.join()
    b.leave()
    a.leave()  # while Assigning
    a.join()
    cluster.advance(2_000)
    settle_streams(a)
    a.leave()  # while Stable
    a.join()
    a.heartbeat()
    cluster.advance(2_000)
    a.leave()  # while Reconciling: it has not heard of its tasks
    cluster.delete_topic("t")
    a.join()
    a.leave()  # while NotReady
    return cluster


def ways(context: Context) -> set[tuple[str, str]]:
    return {(event["from"], event["to"]) for event in context.of("state")}


def path(kind: str, before: str, after: str) -> list[tuple[str, str]]:
    """The shortest way along arrows, that goes through no Empty group."""
    arrows = [(a.value, b.value) for a, b in MACHINES[kind]]
    paths = [[arrow] for arrow in arrows if arrow[0] == before]
    for found in paths:
        if found[-1][1] == after:
            return found
        paths += [[*found, arrow] for arrow in arrows if arrow[0] == found[-1][1] != "Empty" and len(found) < 4]
    return []


@pytest.mark.parametrize(("kind", "history"), [("consumer", consumers), ("share", sharers), ("streams", threads)])
def test_groups_with_epochs_go_along_these_arrows(kind: str, history: Callable[[], Context]) -> None:
    seen = {way: path(kind, *way) for way in ways(history())}
    assert [way for way, found in seen.items() if not found] == []
    used = {arrow for found in seen.values() for arrow in found}
    # Only an answer about a deleted group says Dead; no event does.
    drawn = {(a.value, b.value) for a, b in MACHINES[kind] if b.value != "Dead"}
    assert drawn == used


def test_every_kind_of_group_has_its_states_drawn() -> None:
    for kind in KINDS:
        assert {state for arrow in MACHINES[kind.name] for state in arrow} == set(kind.states)
