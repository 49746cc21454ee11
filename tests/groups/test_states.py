"""The tables of `states.py`: nothing undecided, nothing unused, and carried out as they say."""

import pytest

from kafka_shim.groups.classic import join, rebalance
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.states import COUNTED, ERRORS, MEANING, RULES, TRANSITIONS, Rule, State, Trigger
from kafka_shim.trace import causes

PAIRS = [(trigger, state) for trigger in Trigger for state in State]


@pytest.mark.parametrize(("trigger", "state"), PAIRS)
def test_every_pair_has_a_rule_with_a_meaning(trigger, state):
    assert MEANING[RULES[trigger][state]].endswith(".")


def test_every_rule_is_used_and_every_meaning_is_a_rules():
    assert {rule for row in RULES.values() for rule in row.values()} == set(Rule) == set(MEANING)


def test_every_cause_has_a_meaning():
    assert set(causes.MEANING) == set(causes.Cause)


def test_every_rule_that_refuses_has_an_error_and_no_other_has():
    """A rule that refuses says so by name; four others answer an error and do something too."""
    both = {
        Rule.HAND_OUT_ID,
        Rule.TURN_AWAY,
        Rule.KEEP_OLD,
        Rule.REJECT_ASSIGNMENTS,
        Rule.RENEW_AND_CALL,
        Rule.SHOW_DEAD,
    }
    assert {rule for rule, error in ERRORS.items() if error} == both | {r for r in Rule if r.name.startswith("REFUSE_")}


def test_every_state_names_its_metric():
    assert set(COUNTED) == set(State)


@pytest.mark.parametrize("trigger", [trigger for trigger in Trigger if trigger.name.startswith("JOIN_")])
def test_every_rule_of_a_join_is_carried_out(trigger):
    if trigger not in (Trigger.JOIN_TIMEOUT, Trigger.JOIN_TAKE_OVER_OVERSIZED):
        assert set(RULES[trigger].values()) <= join._CARRY_OUT.keys()


ALLOWED = {(before, after) for before, afters in TRANSITIONS.items() for after in afters}


def test_the_transitions_are_kafkas():
    """Semantics 2.1."""
    empty, preparing, completing, stable, dead = State
    kafkas = {
        (empty, preparing),
        (preparing, empty),
        (preparing, completing),
        (completing, preparing),
        (completing, stable),
        (stable, preparing),
        (empty, dead),
        (preparing, dead),
        (completing, dead),
        (stable, dead),
        (dead, dead),
    }
    assert kafkas == ALLOWED


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", State)
def test_a_group_takes_allowed_transitions_and_no_others(before, after):
    group = ClassicGroup("group", 0)
    group.state = before
    if (before, after) in ALLOWED:
        group.enter(after)
        assert group.state is after
        assert group.in_initial_round is (before is State.EMPTY and after is State.PREPARING_REBALANCE)
    else:
        with pytest.raises(ValueError, match="cannot go from"):
            group.enter(after)


def test_a_rebalance_needs_a_cause():
    with pytest.raises(TypeError, match="cause"):
        rebalance.start(shard=None, group=None, trigger="", rule=Rule.ADD, now=0.0)
