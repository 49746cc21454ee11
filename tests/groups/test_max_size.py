"""group.max.size: semantics 2.9."""

import pytest

from tests.groups.context import Context


@pytest.fixture
def coordinator():
    return Context("group.max.size=2")


def test_a_full_group_refuses_a_newcomer(coordinator):
    coordinator.form(2)
    reply = coordinator.join()
    assert (reply.error, reply.member_id) == (81, "")
    assert coordinator.state == "Stable"


def test_the_first_round_counts_parked_joins(coordinator):
    assert [coordinator.join(version=3).parked for _ in range(2)] == [True, True]
    assert coordinator.join(version=3).error == 81


def test_pending_ids_do_not_count_but_only_as_many_may_join(coordinator):
    ids = [coordinator.join().member_id for _ in range(3)]
    assert [coordinator.join(member_id).parked for member_id in ids[:2]] == [True, True]
    assert coordinator.join(ids[2]).error == 81


def test_static_members_count_as_well(coordinator):
    coordinator.form(instances=["a", "b"])
    assert coordinator.join(instance="c").error == 81


def test_members_may_rejoin_a_full_group(coordinator):
    leader, follower = coordinator.form(2)
    assert coordinator.join(follower).error == 0
    assert coordinator.join(leader).parked
    assert coordinator.join(leader).parked
    assert coordinator.join(follower).generation_id == 2


def test_a_member_with_a_parked_join_may_repeat_it_in_a_full_round(coordinator):
    ids = coordinator.prepare(2)
    assert coordinator.join(ids[0]).parked


def test_an_empty_group_accepts_any_member(coordinator):
    coordinator.leave(*coordinator.form(2))
    assert coordinator.join(version=3).parked


def overfull() -> tuple[Context, list[str]]:
    coordinator = Context("group.max.size=4")
    ids = coordinator.form(4)
    coordinator.config = coordinator.config.with_settings(["group.max.size=2"])
    coordinator.crash()
    return coordinator, ids


def test_a_group_loaded_above_the_limit_rebalances_at_once():
    coordinator, ids = overfull()
    assert coordinator.state == "PreparingRebalance"
    assert coordinator.heartbeat(ids[0], 1) == 27
    assert coordinator.causes()[-1] == "COORDINATOR_RELOADED"


def test_the_last_to_rejoin_are_refused_and_the_timer_ends_the_round():
    coordinator, ids = overfull()
    kept = [coordinator.join(member_id) for member_id in ids[:2]]
    refused = [coordinator.join(member_id) for member_id in ids[2:]]
    assert [(reply.error, reply.member_id) for reply in refused] == [(81, ""), (81, "")]
    assert [reply.parked for reply in kept] == [True, True]
    coordinator.advance(60_000)
    assert [reply.generation_id for reply in kept] == [2, 2]
    assert list(coordinator.group.members) == ids[:2]
