"""Sessions, new members and pending ids: semantics 2.7."""

import pytest


def test_a_silent_member_is_expelled_after_its_session_timeout(coordinator):
    leader, silent = coordinator.form(session=10_000)
    coordinator.advance(6000)
    coordinator.heartbeat(leader, 1)
    coordinator.advance(3999)
    assert coordinator.state == "Stable"
    coordinator.advance(1)
    assert coordinator.state == "PreparingRebalance"
    assert coordinator.heartbeat(silent, 1) == 25
    assert coordinator.causes()[-1] == "SESSION_EXPIRED"


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_a_heartbeat_renews_the_session_in_every_state_with_members(coordinator, state):
    ids = coordinator.prepare(2)
    coordinator.end_round()
    if state != "CompletingRebalance":
        coordinator.sync_all(ids)
    if state == "PreparingRebalance":
        coordinator.join(version=3)
    assert coordinator.state == state
    coordinator.advance(4000)
    coordinator.heartbeat(ids[1], 1)
    assert coordinator.armed("session")[ids[1]] == 10_000


@pytest.mark.parametrize("refused", [{"generation": 2}, {"generation": 1, "instance": "x"}])
def test_a_refused_heartbeat_does_not_renew_the_session(coordinator, refused):
    _, follower = coordinator.form()
    coordinator.advance(4000)
    assert coordinator.heartbeat(follower, **refused) != 0
    assert coordinator.armed("session")[follower] == 6000


def test_the_end_of_the_round_renews_every_session(coordinator):
    ids = coordinator.prepare(2, session=20_000)
    coordinator.end_round()
    assert coordinator.armed("session") == dict.fromkeys(ids, 20_000)


def test_the_leaders_sync_renews_the_sessions_of_those_it_answers(coordinator):
    ids = coordinator.prepare(3)
    coordinator.end_round()
    coordinator.advance(1000)
    coordinator.sync(ids[1], 1)
    coordinator.advance(1000)
    coordinator.sync(ids[0], 1, {})
    assert coordinator.armed("session") == {ids[0]: 10_000, ids[1]: 10_000, ids[2]: 8000}


def test_a_sync_answered_at_once_does_not_renew_the_session(coordinator):
    _, follower = coordinator.form()
    coordinator.advance(1000)
    coordinator.sync(follower, 1)
    assert coordinator.armed("session")[follower] == 9000


def test_a_member_with_a_parked_join_does_not_expire(coordinator):
    leader, _ = coordinator.form(session=10_000, rebalance=60_000)
    parked = coordinator.join(leader, session=10_000, rebalance=60_000)
    assert leader not in coordinator.armed("session")
    coordinator.advance(9999)
    assert parked.parked
    coordinator.advance(1)
    assert parked.generation_id == 2


def test_a_member_with_a_parked_sync_does_not_expire(coordinator):
    leader, follower = coordinator.prepare(2, session=10_000, rebalance=60_000)
    coordinator.end_round()
    parked = coordinator.sync(follower, 1)
    assert follower not in coordinator.armed("session")
    for _ in range(3):
        coordinator.advance(9000)
        coordinator.heartbeat(leader, 1)
    assert parked.parked
    coordinator.sync(leader, 1, {follower: b"yours"})
    assert parked.assignment == b"yours"
    assert coordinator.armed("session")[follower] == 10_000


def test_a_heartbeat_of_a_member_with_a_parked_join_does_not_let_it_expire(coordinator):
    leader, other = coordinator.form(session=10_000, rebalance=60_000)
    parked = coordinator.join(leader, session=10_000, rebalance=60_000)
    assert coordinator.heartbeat(leader, 1) == 27
    assert coordinator.armed("session")[leader] == 10_000
    coordinator.advance(5000)
    coordinator.heartbeat(other, 1)
    coordinator.advance(6000)
    assert parked.parked
    assert leader in coordinator.group.members


def test_a_new_member_without_an_answer_expires_after_five_minutes(coordinator):
    leader, other = coordinator.form(session=1_800_000, rebalance=1_800_000)
    _, parked = coordinator.join_new(session=6000, rebalance=6000)
    coordinator.join(leader, session=1_800_000, rebalance=1_800_000)
    coordinator.advance(299_999)
    assert parked.parked
    coordinator.advance(1)
    assert (parked.error, parked.member_id) == (25, "")
    assert set(coordinator.group.members) == {leader, other}


def test_a_heartbeat_of_a_new_member_puts_its_own_session_in_place_of_the_five_minutes(coordinator):
    coordinator.form(session=1_800_000, rebalance=1_800_000)
    member_id, parked = coordinator.join_new(session=6000)
    assert coordinator.armed("session")[member_id] == 300_000
    assert coordinator.heartbeat(member_id, 1) == 27
    coordinator.advance(6000)
    assert parked.error == 25


def test_when_the_last_awaited_member_expires_the_round_ends(coordinator):
    leader, _ = coordinator.form(session=10_000, rebalance=60_000)
    parked = coordinator.join(leader, rebalance=60_000)
    coordinator.advance(10_000)
    assert parked.generation_id == 2
    assert coordinator.of("round")[-1]["dropped"] != []


def test_the_last_member_to_expire_leaves_an_empty_group(coordinator):
    coordinator.form(1, session=10_000)
    coordinator.advance(10_000)
    assert (coordinator.state, coordinator.group.generation) == ("Empty", 2)
    assert coordinator.armed("session") == {}


def test_a_pending_id_expires_after_the_session_timeout_it_asked_for(coordinator):
    pending = coordinator.join(session=7000).member_id
    coordinator.advance(6999)
    assert coordinator.group.pending
    coordinator.advance(1)
    assert not coordinator.group.pending
    assert coordinator.join(pending).error == 25


def test_pending_ids_of_a_stable_group_expire_without_a_rebalance(coordinator):
    ids = coordinator.form(session=30_000)
    coordinator.join(session=7000)
    coordinator.advance(7000)
    assert [coordinator.heartbeat(member_id, 1) for member_id in ids] == [0, 0]


def test_however_many_pending_ids_are_handed_out_they_are_forgotten(coordinator):
    for _ in range(200):
        coordinator.join(session=6000)
    coordinator.advance(6000)
    assert coordinator.armed("pending-member") == {}


def test_a_lowered_session_timeout_counts_at_once_after_the_round(coordinator):
    leader, follower = coordinator.form(session=30_000)
    coordinator.join(leader, session=6000)
    coordinator.join(follower, session=30_000)
    coordinator.sync_all([leader, follower])
    coordinator.advance(6000)
    assert coordinator.heartbeat(leader, 2) == 25


def test_no_timer_is_armed_for_a_member_that_left(coordinator):
    ids = coordinator.form(3)
    coordinator.leave(*ids)
    assert coordinator.armed("session") == {}
    assert coordinator.armed("join") == {}
    assert coordinator.armed("sync") == {}
