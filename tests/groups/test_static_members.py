"""Static membership: semantics 2.8, KIP-345, KAFKA-9801 and KAFKA-10284."""

from tests.groups.context import RANGE, ROUND_ROBIN, subscription


def test_a_static_member_is_never_asked_to_come_back_with_an_id(coordinator):
    assert coordinator.join(instance="a", version=5).parked


def test_a_static_member_id_begins_with_the_instance_id(coordinator):
    coordinator.join(instance="a")
    assert coordinator.group.static["a"].startswith("a-")


def test_a_restarted_follower_gets_its_assignment_without_a_rebalance(coordinator):
    _, follower = coordinator.form(instances=["a", "b"])
    again = coordinator.join(instance="b")
    assert (again.error, again.generation_id, again.members) == (0, 1, [])
    assert again.member_id != follower
    assert coordinator.state == "Stable"
    assert coordinator.sync(again.member_id, 1, instance="b").assignment == b"1"
    assert coordinator.causes() == ["NEW_MEMBER"]


def test_a_restarted_leader_of_v9_is_told_to_skip_the_assignment(coordinator):
    coordinator.form(instances=["a", "b"])
    again = coordinator.join(instance="a", version=9)
    assert again.skip_assignment
    assert again.leader == again.member_id
    assert {member.group_instance_id for member in again.members} == {"a", "b"}


def test_a_restarted_leader_before_v9_is_told_that_its_old_id_leads(coordinator):
    leader, _ = coordinator.form(instances=["a", "b"])
    again = coordinator.join(instance="a", version=8)
    assert (again.leader, again.members, again.skip_assignment) == (leader, [], False)
    assert coordinator.group.leader == again.member_id


def test_a_restart_that_changes_the_protocol_to_select_rebalances(coordinator):
    coordinator.form(instances=["a"])
    again = coordinator.join("", ROUND_ROBIN, instance="a")
    assert again.error == 23
    again = coordinator.join("", RANGE, ROUND_ROBIN, instance="a")
    assert again.error == 0
    assert coordinator.join("", ROUND_ROBIN, RANGE, instance="a").generation_id == 2
    assert coordinator.causes()[-1] == "STATIC_REPLACED"


def test_a_restart_with_other_topics_under_the_same_protocol_does_not_rebalance(coordinator):
    coordinator.form(instances=["a", "b"])
    assert coordinator.join("", ("range", subscription("other")), instance="b").error == 0
    assert coordinator.state == "Stable"
    assert coordinator.group.is_subscribed("other")


def test_the_old_id_is_fenced(coordinator):
    _, old = coordinator.form(instances=["a", "b"])
    coordinator.join(instance="b")
    assert coordinator.heartbeat(old, 1, instance="b") == 82
    assert coordinator.sync(old, 1, instance="b").error == 82
    assert coordinator.join(old, instance="b").error == 82
    assert coordinator.left((old, "b")) == [82]
    assert coordinator.heartbeat(old, 1) == 25


def test_a_parked_join_of_the_old_id_is_fenced_at_once(coordinator):
    coordinator.form(instances=["a", "b"])
    old = coordinator.group.static["b"]
    coordinator.join(instance="c")
    parked = coordinator.join(old, instance="b")
    again = coordinator.join(instance="b")
    assert again.parked
    assert (parked.error, parked.member_id, parked.generation_id) == (82, old, -1)


def test_a_parked_sync_of_the_old_id_is_fenced_and_the_group_rebalances(coordinator):
    ids = coordinator.prepare(instances=["a", "b"])
    coordinator.end_round()
    parked = coordinator.sync(ids[1], 1)
    again = coordinator.join(instance="b")
    assert parked.error == 82
    assert again.parked
    assert coordinator.causes()[-1] == "STATIC_REPLACED"


def test_r21_a_restart_in_completing_rebalance_starts_a_rebalance(coordinator):
    """Else the leader would assign to the old id and the new one would get nothing (KAFKA-9801)."""
    ids = coordinator.prepare(instances=["a", "b"])
    coordinator.end_round()
    coordinator.join(instance="b")
    assert coordinator.state == "PreparingRebalance"
    leader = coordinator.join(ids[0], instance="a")
    assert leader.generation_id == 2
    assert {member.member_id for member in leader.members} == set(coordinator.group.static.values())


def test_r22_a_replaced_member_id_survives_a_restart_of_the_coordinator(coordinator):
    coordinator.form(instances=["a", "b"])
    again = coordinator.join(instance="b")
    coordinator.crash()
    assert coordinator.heartbeat(again.member_id, 1, instance="b") == 0
    assert coordinator.sync(again.member_id, 1, instance="b").assignment == b"1"


def test_a_different_id_at_each_rejoin_leaves_one_member(coordinator):
    coordinator.form(instances=["a", "b"])
    for _ in range(5):
        coordinator.join(instance="b")
    assert len(coordinator.describe().members) == 2
    assert len(coordinator.armed("session")) == 2


def test_a_successor_has_the_old_session_timeout_until_its_first_heartbeat(coordinator):
    coordinator.form(instances=["a", "b"], session=7000)
    again = coordinator.join(instance="b", session=30_000).member_id
    assert coordinator.armed("session")[again] == 7000
    coordinator.heartbeat(again, 1)
    assert coordinator.armed("session")[again] == 30_000


def test_the_follower_still_owes_its_sync_under_the_new_id(coordinator):
    ids = coordinator.prepare(instances=["a", "b"])
    coordinator.end_round()
    coordinator.sync(ids[0], 1, {ids[0]: b"0", ids[1]: b"1"})
    again = coordinator.join(instance="b")
    assert coordinator.group.pending_sync == {again.member_id}
    coordinator.sync(again.member_id, 1, instance="b")
    assert coordinator.group.sync_timer.deadline == float("inf")


def test_a_static_member_that_does_not_rejoin_stays_until_its_session_ends(coordinator):
    leader, absent = coordinator.form(instances=["a", "b"], session=30_000, rebalance=10_000)
    coordinator.join(leader, instance="a", session=30_000, rebalance=10_000)
    coordinator.advance(10_000)
    assert coordinator.state == "CompletingRebalance"
    assert absent in coordinator.group.members
    assert absent in coordinator.group.pending_sync


def test_an_absent_static_leader_is_replaced_by_a_member_that_rejoined(coordinator):
    coordinator.form(instances=["a", "b"], session=30_000, rebalance=10_000)
    follower = coordinator.group.static["b"]
    parked = coordinator.join(follower, RANGE, ROUND_ROBIN, session=30_000, rebalance=10_000)
    coordinator.advance(10_000)
    assert parked.leader == follower
    assert {member.group_instance_id for member in parked.members} == {"a", "b"}


def test_a_round_of_absent_static_members_waits_for_another_rebalance_timeout(coordinator):
    coordinator.form(instances=["a", "b"], session=60_000, rebalance=10_000)
    dynamic, reply = coordinator.join_new(session=30_000, rebalance=10_000)
    assert reply.parked
    coordinator.leave(dynamic)
    coordinator.advance(10_000)
    assert (coordinator.state, coordinator.group.generation) == ("PreparingRebalance", 1)
    again = coordinator.join(instance="a")
    coordinator.advance(10_000)
    assert again.generation_id == 2


def test_the_last_static_members_session_ends_such_a_round(coordinator):
    coordinator.form(instances=["a"], session=10_000, rebalance=6_000)
    dynamic, _ = coordinator.join_new()
    coordinator.leave(dynamic)
    coordinator.advance(10_000)
    assert coordinator.state == "Empty"


def test_such_a_round_with_a_rebalance_timeout_of_zero_does_not_spin(coordinator):
    coordinator.form(instances=["a"])
    coordinator.join(instance="a", rebalance=0)
    dynamic, _ = coordinator.join_new(rebalance=0)
    coordinator.leave(dynamic)
    coordinator.service.fire(coordinator.now)
    assert coordinator.armed("join") == {"": 1}


def test_an_admin_removes_a_static_member_by_its_instance_id(coordinator):
    coordinator.form(instances=["a", "b"])
    assert coordinator.left(("", "b")) == [0]
    assert "b" not in coordinator.group.static
    assert coordinator.causes()[-1] == "ADMIN_REMOVED"


def test_an_instance_id_of_a_removed_member_is_free_again(coordinator):
    coordinator.form(instances=["a", "b"])
    coordinator.left(("", "b"))
    assert coordinator.join(instance="b").parked
    assert coordinator.group.state == "PreparingRebalance"


def test_a_known_member_id_with_an_unknown_instance_id_is_unknown(coordinator):
    leader, _ = coordinator.form()
    assert coordinator.heartbeat(leader, 1, instance="x") == 25


def test_a_description_shows_the_client_of_the_first_join(coordinator):
    coordinator.form(instances=["a"])
    coordinator.client = coordinator.client._replace(client_host="/10.0.0.1")
    coordinator.join(instance="a")
    assert coordinator.describe().members[0].client_host == "/127.0.0.1"
