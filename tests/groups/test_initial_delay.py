"""The initial round and the vectors of semantics 2.4."""

import pytest

from tests.groups.context import Context


@pytest.mark.parametrize(
    ("delay", "rebalance", "joins", "completes"),
    [
        (3000, 10000, [], 3000),
        (3000, 10000, [1000], 6000),
        (3000, 10000, [1000, 4000], 9000),
        (3000, 10000, list(range(500, 10000, 500)), 10000),
        (3000, 5000, [100, 3500], 5000),
        (3000, 1000, [100], 3000),
    ],
)
def test_the_initial_round_ends_when_newcomers_stop_or_the_rebalance_timeout_is_over(
    delay, rebalance, joins, completes
):
    coordinator = Context(f"group.initial.rebalance.delay.ms={delay}")
    start = coordinator.now
    coordinator.join(version=3, rebalance=rebalance)
    for at in joins:
        coordinator.advance(start * 1000 + at - coordinator.now * 1000)
        coordinator.join(version=3, rebalance=rebalance)
    coordinator.advance(start * 1000 + completes - coordinator.now * 1000 - 1)
    assert coordinator.state == "PreparingRebalance"
    coordinator.advance(1)
    assert coordinator.state == "CompletingRebalance"
    assert len(coordinator.describe().members) == 1 + len(joins)


def test_the_initial_round_does_not_end_early_when_all_join_again():
    coordinator = Context()
    first = coordinator.prepare(2)
    replies = [coordinator.join(member_id) for member_id in first]
    assert all(reply.parked for reply in replies)
    coordinator.advance(5999)
    assert coordinator.state == "PreparingRebalance"


def test_a_delay_of_zero_still_takes_a_timer_so_that_one_tick_s_members_meet():
    coordinator = Context("group.initial.rebalance.delay.ms=0")
    one, two = coordinator.join(version=3), coordinator.join(version=3)
    assert one.parked
    assert two.parked
    coordinator.advance(0)
    assert (one.generation_id, two.generation_id) == (1, 1)


def test_a_group_that_became_empty_begins_with_an_initial_round_again():
    coordinator = Context()
    ids = coordinator.form(2)
    coordinator.leave(*ids)
    assert coordinator.state == "Empty"
    member_id, reply = coordinator.join_new()
    coordinator.advance(2999)
    assert reply.parked
    coordinator.advance(1)
    assert (reply.generation_id, reply.leader) == (3, member_id)


def test_a_newcomer_that_could_not_extend_one_initial_round_does_not_extend_the_next():
    coordinator = Context()
    ids = coordinator.prepare(2, rebalance=1000)
    coordinator.end_round()
    coordinator.leave(*ids)
    _, reply = coordinator.join_new(rebalance=10_000)
    coordinator.advance(3000)
    assert reply.generation_id == 3


def test_only_a_new_member_extends_the_initial_round():
    coordinator = Context()
    member_id, _ = coordinator.join_new()
    coordinator.advance(1000)
    again = coordinator.join(member_id)
    coordinator.advance(2000)
    assert again.generation_id == 1


def test_a_static_member_that_restarts_does_not_extend_the_initial_round():
    coordinator = Context()
    coordinator.join(instance="a")
    coordinator.advance(1000)
    again = coordinator.join(instance="a")
    coordinator.advance(2000)
    assert again.generation_id == 1
