"""Join rounds, protocol vote, leader and generation: semantics 2.2 to 2.5."""

import pytest

from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.member import Member
from kafka_shim.groups.classic.states import TimerKind
from kafka_shim.groups.timers import Timer
from tests.groups.context import RANGE, ROUND_ROBIN, subscription

STICKY = ("sticky", subscription("topic"))


def test_the_first_member_leads_generation_1_and_gets_the_members(coordinator):
    reply = coordinator.join(version=3)
    coordinator.end_round()
    assert (reply.error, reply.generation_id, reply.leader, reply.protocol_name) == (0, 1, reply.member_id, "range")
    assert [(member.member_id, member.metadata) for member in reply.members] == [(reply.member_id, RANGE[1])]


def test_v4_and_later_get_an_id_first_and_join_with_it(coordinator):
    first = coordinator.join(version=4)
    assert (first.error, first.generation_id) == (79, -1)
    assert first.member_id.startswith("client-")
    second = coordinator.join(first.member_id, version=4)
    coordinator.end_round()
    assert second.member_id == first.member_id


def test_a_second_member_makes_the_group_rebalance_and_only_the_leader_gets_the_members(coordinator):
    (leader,) = coordinator.form(1)
    follower, joined = coordinator.join_new()
    assert coordinator.state == "PreparingRebalance"
    assert coordinator.heartbeat(leader, 1) == 27
    rejoined = coordinator.join(leader)
    assert (rejoined.generation_id, joined.generation_id) == (2, 2)
    assert {member.member_id for member in rejoined.members} == {leader, follower}
    assert joined.members == []
    assert joined.leader == leader


def test_a_later_round_ends_when_all_members_have_joined(coordinator):
    leader, follower = coordinator.form()
    first = coordinator.join(leader)
    assert first.parked
    second = coordinator.join(follower)
    assert (first.generation_id, second.generation_id) == (2, 2)


def test_a_pending_id_holds_a_round_back_until_it_joins(coordinator):
    leader, follower = coordinator.form()
    pending = coordinator.join().member_id
    coordinator.join(leader)
    parked = coordinator.join(follower)
    assert parked.parked
    coordinator.join(pending)
    assert parked.generation_id == 2
    assert len(coordinator.group.members) == 3


def test_a_pending_id_that_leaves_releases_the_round(coordinator):
    leader, follower = coordinator.form()
    pending = coordinator.join().member_id
    coordinator.join(leader)
    parked = coordinator.join(follower)
    assert coordinator.left(pending) == [0]
    assert parked.generation_id == 2


def test_a_pending_id_that_expires_releases_the_round(coordinator):
    leader, follower = coordinator.form(session=30_000)
    coordinator.join(session=6000)
    coordinator.join(leader)
    parked = coordinator.join(follower)
    coordinator.advance(5999)
    assert parked.parked
    coordinator.advance(1)
    assert parked.generation_id == 2


def test_a_pending_id_does_not_hold_a_round_back_beyond_the_rebalance_timeout(coordinator):
    leader, follower = coordinator.form(session=1_800_000, rebalance=7000)
    coordinator.join(session=1_800_000)
    coordinator.join(leader, rebalance=7000)
    parked = coordinator.join(follower, rebalance=7000)
    coordinator.advance(7000)
    assert parked.generation_id == 2


def test_a_late_dynamic_member_is_dropped_after_the_longest_rebalance_timeout(coordinator):
    leader, late = coordinator.form(session=100_000, rebalance=20_000)
    rejoined = coordinator.join(leader, session=100_000, rebalance=5000)
    coordinator.advance(19_999)
    assert rejoined.parked
    coordinator.advance(1)
    assert [member.member_id for member in rejoined.members] == [leader]
    assert coordinator.heartbeat(late, 2) == 25


def test_r23_a_dropped_members_timer_does_not_rebalance_again(coordinator):
    """KAFKA-7196."""
    leader, late = coordinator.form(session=10_000, rebalance=5000)
    coordinator.join(leader, rebalance=5000)
    coordinator.advance(5000)
    coordinator.sync(leader, 2, {leader: b"all"})
    for _ in range(4):
        coordinator.advance(3000)
        assert coordinator.heartbeat(leader, 2) == 0
    assert coordinator.causes() == ["NEW_MEMBER", "LEADER_REJOINED"]
    assert late not in coordinator.armed("session")


def test_a_newcomer_does_not_prolong_the_round(coordinator):
    leader, _late = coordinator.form(session=100_000, rebalance=10_000)
    rejoined = coordinator.join(leader, rebalance=10_000)
    coordinator.advance(9000)
    _, joined = coordinator.join_new(rebalance=10_000)
    coordinator.advance(1000)
    assert (rejoined.generation_id, joined.generation_id) == (2, 2)


def test_the_oldest_member_alone_succeeds_a_lost_leader(coordinator):
    leader, second, third = coordinator.form(3)
    coordinator.leave(leader)
    replies = [coordinator.join(third), coordinator.join(second)]
    assert {reply.leader for reply in replies} == {second}
    assert [bool(reply.members) for reply in replies] == [False, True]


def test_a_member_that_rejoined_replaces_a_leader_that_did_not(coordinator):
    leader, second, third = coordinator.form(3, session=100_000, rebalance=5000)
    coordinator.join(second, RANGE, ROUND_ROBIN, rebalance=5000)
    parked = coordinator.join(third, rebalance=5000)
    coordinator.advance(5000)
    assert parked.leader == second
    assert leader not in coordinator.group.members


def test_the_protocol_with_most_first_votes_among_those_all_support_wins(coordinator):
    for protocols in ([RANGE, ROUND_ROBIN], [ROUND_ROBIN, RANGE], [STICKY, ROUND_ROBIN, RANGE]):
        coordinator.join("", *protocols, version=3)
    coordinator.end_round()
    assert coordinator.group.protocol == "roundrobin"


def test_a_tie_goes_to_the_first_in_the_order_of_a_java_hash_map(coordinator):
    leader = coordinator.join("", ROUND_ROBIN, RANGE, version=3)
    coordinator.join("", RANGE, ROUND_ROBIN, version=3)
    coordinator.end_round()
    assert leader.protocol_name == "range"


def elected(offers):
    """Return the winner among members that offer these protocols; the first member leads."""
    group = ClassicGroup("group", 0)
    for number, names in enumerate(offers):
        session = Timer(TimerKind.SESSION, 0, "group", str(number))
        protocols = tuple((name, b"") for name in names)
        group.add(Member(str(number), None, "", "", 1000, 1000, protocols, session), "consumer")
    return group.select_protocol()


@pytest.mark.parametrize(
    ("names", "winner"),
    [
        (("range", "roundrobin"), "range"),
        (("cooperative-sticky", "sticky"), "sticky"),
        (("consumer", "uniform"), "uniform"),
        (("eager", "compatible"), "compatible"),
        # "Aa" and "BB" have one hash code, so the rule for ties decides.
        (("Aa", "BB"), "Aa"),
        (("BB", "Aa"), "BB"),
    ],
)
def test_a_tie_has_this_winner(names, winner):
    one, other = names
    assert elected([(one, other), (other, one)]) == winner


def test_a_map_of_more_than_twelve_names_grows_and_reorders_them():
    names = [f"p{number}" for number in range(1, 14)]

    # p12 comes first of all in 16 buckets, p1 in 32.
    assert elected([(name, *names) for name in ("p1", "p12")]) == "p12"
    assert elected([(name, *names) for name in names]) == "p1"


def test_a_group_that_all_have_left_in_a_round_lets_a_pending_id_join_and_lead(coordinator):
    ids = coordinator.form(2)
    late = coordinator.join().member_id
    coordinator.join(ids[0])
    coordinator.left(*ids)
    assert coordinator.state == "PreparingRebalance"
    newcomer = coordinator.join()
    assert newcomer.error == 79
    coordinator.left(newcomer.member_id)
    answer = coordinator.join(late)
    assert (answer.error, answer.generation_id, answer.leader) == (0, 2, late)


def test_the_leader_is_given_the_metadata_of_the_selected_protocol(coordinator):
    chosen = ("roundrobin", subscription("chosen"))
    leader = coordinator.join("", RANGE, chosen, version=3)
    coordinator.join("", ("roundrobin", subscription("other")), version=3)
    coordinator.end_round()
    assert [member.metadata for member in leader.members] == [chosen[1], subscription("other")]


def test_a_member_needs_one_protocol_that_all_others_support(coordinator):
    coordinator.join("", RANGE, ROUND_ROBIN, version=3)
    coordinator.join("", STICKY, ROUND_ROBIN, version=3)
    assert coordinator.join("", RANGE, version=3).error == 23
    assert coordinator.join("", ROUND_ROBIN, version=3).parked


def test_a_member_that_leaves_takes_its_vote_with_it(coordinator):
    first = coordinator.join("", RANGE, version=3)
    coordinator.end_round()
    assert coordinator.join("", ROUND_ROBIN, version=3).error == 23
    coordinator.leave(first.member_id)
    assert coordinator.join("", ROUND_ROBIN, version=3).parked


def test_protocols_named_twice_count_once(coordinator):
    coordinator.join("", RANGE, RANGE, version=3)
    coordinator.join("", RANGE, version=3)
    coordinator.end_round()
    assert coordinator.group.protocol == "range"


def test_an_empty_group_takes_any_protocol_type(coordinator):
    ids = coordinator.form()
    coordinator.leave(*ids)
    assert coordinator.join(protocol_type="connect", version=3).parked
    assert coordinator.group.protocol_type == "connect"


def test_a_repeated_join_replaces_the_parked_one_which_is_answered_27(coordinator):
    leader, follower = coordinator.form()
    first = coordinator.join(leader)
    second = coordinator.join(leader)
    assert (first.error, first.member_id) == (27, leader)
    assert second.parked
    coordinator.join(follower)
    assert second.generation_id == 2


def test_protocols_in_another_order_are_a_change(coordinator):
    leader = coordinator.join("", RANGE, ROUND_ROBIN, version=3)
    follower = coordinator.join("", RANGE, ROUND_ROBIN, version=3)
    coordinator.end_round()
    coordinator.sync_all([leader.member_id, follower.member_id])
    assert coordinator.join(follower.member_id, RANGE, ROUND_ROBIN).error == 0
    assert coordinator.join(follower.member_id, ROUND_ROBIN, RANGE).parked


def test_the_generation_counts_the_empty_group_too(coordinator):
    ids = coordinator.form()
    coordinator.leave(*ids)
    assert (coordinator.group.generation, coordinator.group.protocol, coordinator.group.leader) == (2, None, None)


def test_v0_has_one_timeout_for_both(coordinator):
    reply = coordinator.join(version=0, session=7000, rebalance=-1)
    coordinator.end_round()
    assert coordinator.group.members[reply.member_id].rebalance_timeout_ms == 7000


def test_a_changed_timeout_counts_from_the_next_join_on(coordinator):
    leader, _ = coordinator.form(session=10_000)
    coordinator.join(leader, session=20_000)
    assert coordinator.group.members[leader].session_timeout == 20.0
