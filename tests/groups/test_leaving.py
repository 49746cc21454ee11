"""LeaveGroup: the LG rows and batches."""

import pytest


@pytest.mark.parametrize("version", range(6))
def test_an_empty_group_id_is_refused_at_the_top(coordinator, version):
    response = coordinator.leave("unknown", group="", version=version)
    assert (response.error_code, response.members) == (24, [])


@pytest.mark.parametrize("version", range(6))
def test_an_unknown_group_is_an_unknown_member(coordinator, version):
    response = coordinator.leave("unknown", version=version)
    if version < 3:
        assert (response.error_code, response.members) == (25, [])
    else:
        assert (response.error_code, [member.error_code for member in response.members]) == (0, [25])


@pytest.mark.parametrize("version", range(6))
def test_the_last_member_leaves_an_empty_group(coordinator, version):
    (member_id,) = coordinator.form(1)
    response = coordinator.leave(member_id, version=version)
    assert response.error_code == 0
    assert coordinator.state == "Empty"


def test_each_member_of_a_batch_is_judged_in_turn_and_one_rebalance_follows(coordinator):
    leader, *rest = coordinator.form(4)
    errors = coordinator.left(rest[0], "unknown", (rest[1], "instance"), rest[2], rest[2], ("", None))
    assert errors == [0, 25, 25, 0, 25, 25]
    assert coordinator.causes() == ["NEW_MEMBER", "MEMBER_LEFT"]
    assert list(coordinator.group.members) == [leader, rest[1]]


def test_the_answer_names_members_as_the_request_did(coordinator):
    coordinator.form(instances=["a"])
    (answer,) = coordinator.leave(("", "a")).members
    assert (answer.member_id, answer.group_instance_id, answer.error_code) == ("", "a", 0)


def test_a_batch_without_a_valid_leaver_changes_nothing(coordinator):
    coordinator.form()
    written = len(coordinator.written)
    coordinator.leave("unknown", ("", "unknown"))
    assert coordinator.state == "Stable"
    assert len(coordinator.written) == written


def test_a_parked_join_of_a_member_that_leaves_is_answered_25(coordinator):
    leader, _ = coordinator.form()
    parked = coordinator.join(leader)
    coordinator.leave(leader)
    assert (parked.error, parked.member_id) == (25, "")


def test_when_the_last_awaited_member_leaves_the_round_ends(coordinator):
    leader, follower = coordinator.form()
    parked = coordinator.join(leader)
    coordinator.leave(follower)
    assert parked.generation_id == 2


def test_the_last_member_may_leave_the_initial_round(coordinator):
    member_id, parked = coordinator.join_new()
    coordinator.leave(member_id)
    assert parked.error == 25
    assert coordinator.state == "PreparingRebalance"
    coordinator.advance(3000)
    assert (coordinator.state, coordinator.group.generation) == ("Empty", 1)


def test_a_pending_id_that_leaves_an_empty_group_is_forgotten(coordinator):
    pending = coordinator.join().member_id
    assert coordinator.left(pending) == [0]
    assert coordinator.armed("pending-member") == {}
    assert coordinator.join(pending).error == 25


def test_a_pending_id_may_leave_under_any_instance_id(coordinator):
    pending = coordinator.join().member_id
    assert coordinator.left((pending, "instance")) == [0]
    assert coordinator.left((pending, "instance")) == [25]
    assert coordinator.join(pending).error == 25


def test_the_poll_timeout_of_a_consumer_is_told_apart_by_its_reason(coordinator):
    _, follower = coordinator.form()
    coordinator.leave(follower, reason="consumer poll timeout has expired.")
    assert coordinator.causes()[-1] == "POLL_TIMEOUT_REASON"
