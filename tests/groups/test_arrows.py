"""The arrows between states that the page and the documents show are the ones along which groups go, by those rules."""

from __future__ import annotations

import pytest

from kafka_shim.groups.classic.states import TRANSITIONS, Rule, State
from kafka_shim.groups.consumer.states import GroupState
from kafka_shim.why.arrows import CLASSIC, CONSUMER
from tests.groups.context import ROUND_ROBIN, Context
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
    # Dead is not entered by a rule that a client sees; what is left needs a full group or a record too large.
    expected = {(*arrow, rule) for arrow, each in CLASSIC.items() if arrow[1] is not State.DEAD for rule in each.rules}
    assert len(seen) > 0.5 * len(expected)
    assert {each[:2] for each in seen} == {each[:2] for each in expected}


def test_there_is_an_arrow_for_each_way_of_the_table() -> None:
    assert set(CLASSIC) == {(a, b) for a, targets in TRANSITIONS.items() for b in targets if a is not b}
    assert {state for arrow in CONSUMER for state in arrow} == set(GroupState)
