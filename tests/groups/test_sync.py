"""SyncGroup: semantics 2.6 and the SG rows."""

import pytest


@pytest.fixture
def ids(coordinator):
    ids = coordinator.prepare(3)
    coordinator.end_round()
    return ids


def test_the_leader_gets_its_own_bytes_and_v5_the_protocol(coordinator, ids):
    reply = coordinator.sync(ids[0], 1, {ids[0]: b"mine"})
    assert (reply.assignment, reply.protocol_type, reply.protocol_name) == (b"mine", "consumer", "range")


def test_a_follower_waits_for_the_leader(coordinator, ids):
    follower = coordinator.sync(ids[1], 1)
    assert follower.parked
    coordinator.sync(ids[0], 1, {ids[1]: b"yours"})
    assert follower.assignment == b"yours"


def test_r26_a_follower_after_the_leader_gets_its_bytes_at_once(coordinator, ids):
    coordinator.sync(ids[0], 1, {ids[2]: b"yours"})
    assert coordinator.sync(ids[2], 1).assignment == b"yours"


def test_a_member_missing_in_the_list_gets_nothing_and_strangers_are_ignored(coordinator, ids):
    coordinator.sync(ids[0], 1, {"stranger": b"x"})
    assert coordinator.sync(ids[1], 1).assignment == b""
    assert "stranger" not in coordinator.group.members


def test_assignments_sent_when_stable_are_ignored(coordinator, ids):
    coordinator.sync(ids[0], 1, {ids[0]: b"first"})
    assert coordinator.sync(ids[0], 1, {ids[0]: b"second"}).assignment == b"first"


def test_before_v5_no_protocol_is_needed_and_none_checked(coordinator, ids):
    assert coordinator.sync(ids[0], 1, version=4, protocol_type=None, protocol_name=None).error == 0


@pytest.mark.parametrize(("protocol_type", "protocol_name"), [(None, "range"), ("consumer", None)])
def test_v5_without_protocol_is_refused_before_anything_else(coordinator, protocol_type, protocol_name):
    reply = coordinator.sync("unknown", 1, group="", protocol_type=protocol_type, protocol_name=protocol_name)
    assert (reply.error, reply.protocol_type, reply.protocol_name) == (23, None, None)


def test_a_repeated_sync_replaces_the_parked_one_which_is_answered_27(coordinator, ids):
    first = coordinator.sync(ids[1], 1)
    second = coordinator.sync(ids[1], 1)
    assert first.error == 27
    coordinator.sync(ids[0], 1, {ids[1]: b"yours"})
    assert second.assignment == b"yours"


def test_a_parked_sync_of_a_member_that_leaves_is_answered_25(coordinator, ids):
    parked = coordinator.sync(ids[1], 1)
    coordinator.leave(ids[1])
    assert parked.error == 25


def test_a_rebalance_answers_every_parked_sync_27_and_clears_the_assignments(coordinator, ids):
    parked = [coordinator.sync(member_id, 1) for member_id in ids[1:]]
    coordinator.join(version=3)
    assert [reply.error for reply in parked] == [27, 27]
    assert all(member.member_assignment == b"" for member in coordinator.describe().members)


def test_a_rebalance_before_the_group_is_stable_clears_the_assignments_of_the_generation_before(coordinator):
    leader, follower = coordinator.form()
    coordinator.join(leader)
    coordinator.join(follower)
    assert [member.member_assignment for member in coordinator.describe().members] == [b"0", b"1"]
    coordinator.join(version=3)
    assert [member.member_assignment for member in coordinator.describe().members] == [b"", b"", b""]


def test_assignments_stay_as_stored_while_a_stable_group_rebalances(coordinator):
    coordinator.form()
    coordinator.join(version=3)
    assert [member.member_assignment for member in coordinator.describe().members] == [b"0", b"1", b""]


def test_if_the_leader_never_syncs_it_is_expelled_after_the_rebalance_timeout(coordinator):
    ids = coordinator.prepare(2, rebalance=8000, session=6000)
    coordinator.end_round()
    parked = coordinator.sync(ids[1], 1)
    for _ in range(3):
        coordinator.advance(2000)
        assert coordinator.heartbeat(ids[0], 1) == 0
    coordinator.advance(2000)
    assert coordinator.heartbeat(ids[0], 1) == 25
    assert parked.error == 27
    assert coordinator.causes()[-1] == "PENDING_SYNC_EXPIRED"


def test_a_follower_that_never_syncs_is_expelled_even_from_a_stable_group(coordinator):
    ids = coordinator.prepare(2, rebalance=8000, session=30_000)
    coordinator.end_round()
    coordinator.sync(ids[0], 1, {})
    coordinator.advance(7999)
    assert coordinator.state == "Stable"
    coordinator.advance(1)
    assert coordinator.state == "PreparingRebalance"
    assert list(coordinator.group.members) == [ids[0]]


def test_static_members_are_expelled_too(coordinator):
    ids = coordinator.prepare(instances=["a", "b"], rebalance=8000, session=30_000)
    coordinator.end_round()
    coordinator.sync(ids[0], 1, {})
    coordinator.advance(8000)
    assert coordinator.group.static == {"a": ids[0]}


def test_no_member_is_expelled_when_all_have_synced(coordinator, ids):
    coordinator.sync_all(ids)
    assert coordinator.armed("sync") == {}


def test_all_members_are_expelled_when_none_synced(coordinator):
    coordinator.prepare(2, rebalance=8000, session=30_000)
    coordinator.end_round()
    coordinator.advance(8000)
    assert (coordinator.state, coordinator.group.generation) == ("Empty", 2)


def test_the_sync_timer_of_one_generation_is_not_that_of_the_next(coordinator):
    ids = coordinator.prepare(2, rebalance=8000, session=30_000)
    coordinator.end_round()
    coordinator.sync(ids[0], 1, {})
    coordinator.advance(7000)
    for member_id in ids:
        coordinator.join(member_id, rebalance=8000, session=30_000)
    assert coordinator.armed("sync") == {"": 8000}
