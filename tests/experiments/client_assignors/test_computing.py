"""The choice of the computing member, checks of its assignment, and failures in between."""

from __future__ import annotations

import pytest

from kafka_shim.apis.consumer_group_heartbeat import TopicPartitions
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.experiments.client_assignors.choice import computers, elect
from kafka_shim.experiments.client_assignors.messages import (
    HEARTBEAT,
    ClientAssignor,
    ClientAssignorHeartbeatRequest,
    InstalledMember,
)
from kafka_shim.experiments.client_assignors.records import assignors_to_bytes
from kafka_shim.groups.consumer.member import Member as MemberOfGroup
from kafka_shim.groups.consumer.target import LARGE
from kafka_shim.groups.interface import PARKED, Client
from kafka_shim.trace.causes import Cause
from tests.experiments.client_assignors.context import EVEN, Cluster, Member, settle
from tests.groups.consumer.context import HOST
from tests.groups.consumer.safety import check_records
from tests.groups.context import GROUP, Reply

ORDERS = {("orders", number) for number in range(4)}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(orders=4)


def settled(cluster: Cluster, *names: str) -> list[Member]:
    members = [cluster.member(name) for name in names]
    for member in members:
        assert member.join().error_code == 0
    settle(*members)
    return members


def orders(cluster: Cluster, *numbers: int) -> list[TopicPartitions]:
    topic_id = cluster.topics.topic_id("orders")
    assert topic_id is not None
    return [TopicPartitions(topic_id, list(numbers))]


# Choice of the computing member


def test_the_first_member_has_an_epoch_and_nothing_until_it_has_computed(cluster: Cluster) -> None:
    member = cluster.member("a")
    answer = member.join()
    assert (answer.member_epoch, answer.should_compute_assignment, answer.assignment.assigned) == (1, True, [])
    group = cluster.assigned_group
    assert (group.group_epoch, group.target_epoch, group.state) == (2, 1, "Assigning")
    assert (group.protocol, group.leader) == ("even", "a")
    assert member.compute() == 0
    assert (group.target_epoch, group.state, group.leader) == (2, "Reconciling", None)
    answer = member.heartbeat()
    assert (answer.member_epoch, answer.should_compute_assignment, member.owned) == (2, False, ORDERS)
    assert group.state == "Stable"
    assert [(e["cause"], e["generation"]) for e in cluster.of("epoch")] == [(Cause.NEW_MEMBER, 2)]
    assert cluster.delegations() == [("a", "requested"), ("a", "prepared"), ("a", "installed")]
    (target,) = cluster.of("target")
    assert (target["assignor"], target["assignments"]) == ("even", {"a": {"orders": [0, 1, 2, 3]}})


def test_a_computation_gets_the_present_group(cluster: Cluster) -> None:
    first = settled(cluster, "a")[0]
    second = cluster.member("b", assignors=(ClientAssignor("even", 0, 3, 1, 0, b"weight 2"),), instance_id="two")
    second.join()
    assert second.should_compute
    assert second.prepare() == 0
    given = second.given
    assert (given.group_epoch, given.assignor_name) == (3, "even")
    assert [(topic.topic_name, topic.partitions) for topic in given.topics] == [("orders", 4)]
    seen = {each.member_id: each for each in given.members}
    assert [(each.member_epoch, each.instance_id) for each in seen.values()] == [(2, None), (2, "two")]
    assert seen["a"].target == orders(cluster, 0, 1, 2, 3)
    assert (seen["b"].target, seen["b"].assignor) == ([], second.assignors[0])
    assert first.owned == ORDERS


def test_a_partition_waits_for_its_revocation(cluster: Cluster) -> None:
    first = settled(cluster, "a")[0]
    second = cluster.member("b")
    second.join()
    assert second.compute() == 0
    answer = second.heartbeat()
    assert (answer.assignment.assigned, answer.assignment.pending) == ([], orders(cluster, 1, 3))
    assert second.owned == set()
    first.heartbeat()
    assert first.assigned == {("orders", 0), ("orders", 2)}
    first.obey()
    assert second.heartbeat().assignment.pending == []
    assert (first.owned, second.owned) == ({("orders", 0), ("orders", 2)}, {("orders", 1), ("orders", 3)})


def test_one_member_computes_at_a_time_and_hears_so_until_it_is_done(cluster: Cluster) -> None:
    a, b, c = settled(cluster, "a", "b", "c")
    cluster.create("orders", 8)
    assert [each.heartbeat().should_compute_assignment for each in (b, a, c, b)] == [True, False, False, True]
    assert a.prepare() == E.UNKNOWN_MEMBER_ID
    assert a.install({}).error_code == E.UNKNOWN_MEMBER_ID
    assert b.compute() == 0
    assert [each.heartbeat().should_compute_assignment for each in (b, a, c)] == [False, False, False]


def test_an_assignment_for_the_epoch_before_is_installed_and_the_next_is_due_at_once(cluster: Cluster) -> None:
    a, b = settled(cluster, "a", "b")
    cluster.create("orders", 6)
    assert a.heartbeat().should_compute_assignment
    a.prepare()
    late = cluster.member("c")
    late.join()
    group = cluster.assigned_group
    epoch = group.group_epoch
    assert a.install().error_code == 0
    assert (group.target_epoch, group.group_epoch, group.state) == (epoch - 1, epoch, "Assigning")
    assert group.targets.keys() == {"a", "b"}
    assert b.heartbeat().should_compute_assignment
    settle(a, b, late)
    assert [len(each.owned) for each in (a, b, late)] == [2, 2, 2]


def test_another_member_computes_after_the_first_leaves(cluster: Cluster) -> None:
    a, b = settled(cluster, "a", "b")
    cluster.create("orders", 6)
    assert a.heartbeat().should_compute_assignment
    a.leave()
    assert b.heartbeat().should_compute_assignment
    assert ("a", "member gone") in cluster.delegations()
    settle(b)
    assert b.owned == {("orders", number) for number in range(6)}


def test_another_member_computes_after_the_first_expires(cluster: Cluster) -> None:
    a, b = settled(cluster, "a", "b")
    cluster.create("orders", 6)
    assert a.heartbeat().should_compute_assignment
    cluster.advance(29_000)
    assert not b.heartbeat().should_compute_assignment
    cluster.advance(16_000)
    assert b.heartbeat().should_compute_assignment
    assert [event["cause"] for event in cluster.of("epoch")][-1] == Cause.SESSION_EXPIRED


def test_a_member_that_takes_too_long_is_passed_over_and_stays(cluster: Cluster) -> None:
    a, b = settled(cluster, "a", "b")
    cluster.create("orders", 6)
    assert a.heartbeat().should_compute_assignment
    assert a.prepare() == 0
    cluster.advance(29_999)
    assert a.heartbeat().should_compute_assignment
    cluster.advance(1)
    assert not a.heartbeat().should_compute_assignment
    assert b.heartbeat().should_compute_assignment
    assert a.install().error_code == E.UNKNOWN_MEMBER_ID
    cluster.advance(30_000)
    # Now all members were too slow, so all may try again.
    assert a.heartbeat().should_compute_assignment
    assert [member for member, change in cluster.delegations() if change == "timed out"] == ["a", "b"]
    assert set(cluster.assigned_group.members) == {"a", "b"}


def test_no_timer_of_a_computation_outlives_it(cluster: Cluster) -> None:
    (a,) = settled(cluster, "a")
    assert cluster.armed("delegation") == {}
    cluster.create("orders", 6)
    a.heartbeat()
    assert cluster.armed("delegation") == {"": 30_000.0}
    a.leave()
    assert cluster.delete(GROUP) == [(GROUP, 0)]
    assert cluster.armed("delegation") == {}
    assert not any(cluster.durable.values())


# Checks of an assignment


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        ({"a": (0, 1, 2, 3), "b": (), "z": ()}, "member z was not in the group"),
        ({"a": (0, 1, 2, 4), "b": ()}, "a partition that it does not subscribe to"),
        ({"a": (0, 1, -1), "b": ()}, "a partition that it does not subscribe to"),
        ({"a": (0, 1, 2), "b": (2, 3)}, "members a and b get one partition"),
        ({"a": (0, 0), "b": ()}, "members a and a get one partition"),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(cluster: Cluster, shares: dict[str, tuple[int]], why: str) -> None:
    a, _ = settled(cluster, "a", "b")
    a.full(client_assignors=[ClientAssignor("even", 0, 0, 1, 0, b"")])
    assert a.prepare() == 0
    before = cluster.assigned_group.target_epoch
    answer = a.install({member_id: orders(cluster, *numbers) for member_id, numbers in shares.items()})
    assert answer.error_code == E.INVALID_REQUEST
    assert why in answer.error_message
    assert cluster.assigned_group.target_epoch == before
    # It may hand in another.
    assert a.install().error_code == 0


def test_an_assignment_is_for_the_epoch_that_was_prepared(cluster: Cluster) -> None:
    member = cluster.member("a")
    member.join()
    answer = member.install({}, group_epoch=2)
    assert (answer.error_code, "was not prepared" in answer.error_message) == (E.INVALID_REQUEST, True)
    assert member.prepare() == 0
    for wrong in (1, 3):
        assert member.install(group_epoch=wrong).error_code == E.INVALID_REQUEST
    twice = [InstalledMember("a", [], 0, b"")] * 2
    assert "twice" in member.install(members=twice).error_message
    unreadable = [InstalledMember("a", [], 1, b"")]
    assert "cannot read metadata of version 1" in member.install(members=unreadable).error_message
    other = [TopicPartitions(bytes(16), [0])]
    assert member.install({"a": other}).error_code == E.INVALID_REQUEST
    assert member.install().error_code == 0


def test_unknown_members_and_stale_epochs_may_not_compute(cluster: Cluster) -> None:
    nobody = cluster.member("x")
    assert (nobody.prepare(), nobody.install({}).error_code) == (E.GROUP_ID_NOT_FOUND, E.GROUP_ID_NOT_FOUND)
    (a,) = settled(cluster, "a")
    assert (nobody.prepare(), nobody.install({}).error_code) == (E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID)
    assert (a.prepare(), a.install({}).error_code) == (E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID)
    cluster.create("orders", 6)
    a.heartbeat()
    assert a.prepare(member_epoch=a.epoch - 1) == E.STALE_MEMBER_EPOCH
    assert a.install({}, member_epoch=a.epoch + 1).error_code == E.STALE_MEMBER_EPOCH


def test_a_member_missing_in_an_assignment_gets_nothing(cluster: Cluster) -> None:
    a, b = settled(cluster, "a", "b")
    cluster.create("orders", 6)
    a.heartbeat()
    a.prepare()
    assert a.install({"a": orders(cluster, *range(6))}).error_code == 0
    settle(a, b)
    assert (len(a.owned), b.owned) == (6, set())


def test_an_error_of_the_assignor_reaches_all_members_and_moves_nothing(cluster: Cluster) -> None:
    a, b = settled(cluster, "a", "b")
    had = a.owned, b.owned
    cluster.create("orders", 6)
    a.heartbeat()
    a.prepare()
    assert a.install({}, error=7).error_code == 0
    settle(a, b)
    assert (a.owned, b.owned) == had
    assert (a.last.error, b.last.error) == (7, 7)
    assert cluster.assigned_group.state == "Stable"
    cluster.create("orders", 7)
    settle(a, b)
    assert (a.last.error, b.last.error) == (0, 0)
    assert len(a.owned | b.owned) == 7


def test_metadata_for_a_member_reaches_it_with_its_epoch(cluster: Cluster) -> None:
    reads = (ClientAssignor("even", 0, 2, 0, 0, b""),)
    a = cluster.member("a", assignors=reads)
    a.join()
    a.prepare()
    topics = orders(cluster, 0, 1, 2, 3)
    assert a.install(members=[InstalledMember("a", topics, 2, b"standby tasks")]).error_code == 0
    a.heartbeat()
    assert (a.last.metadata_version, a.last.metadata, a.last.error) == (2, b"standby tasks", 0)
    cluster.crash()
    check_records(cluster)
    a.full()
    assert (a.last.metadata, a.owned, a.should_compute) == (b"standby tasks", ORDERS, False)


# Choice of the assignor, and members' metadata


def test_other_metadata_begins_an_epoch(cluster: Cluster) -> None:
    a, b = settled(cluster, "a", "b")
    epoch = cluster.assigned_group.group_epoch
    a.full()
    assert cluster.assigned_group.group_epoch == epoch
    a.heartbeat(client_assignors=[ClientAssignor("even", 0, 0, 1, 0, b"lag 90")])
    assert cluster.assigned_group.group_epoch == epoch + 1
    assert [(e["cause"], e["trigger"]) for e in cluster.of("epoch")][-1] == (Cause.SUBSCRIPTION_CHANGED, "a")
    settle(a, b)


@pytest.mark.parametrize(
    ("assignor", "why"),
    [
        (ClientAssignor(" ", 0, 0, 0, 0, b""), "a name of its own"),
        (EVEN, "a name of its own"),
        (ClientAssignor("other", 1, 2, 0, 3, b""), "wrote metadata of version 3"),
        (ClientAssignor("other", 1, 2, 0, 0, b""), "wrote metadata of version 0"),
    ],
)
def test_assignors_that_cannot_be_are_refused(cluster: Cluster, assignor: ClientAssignor, why: str) -> None:
    answer = cluster.member("a", assignors=(EVEN, assignor)).join()
    assert (answer.error_code, why in answer.error_message) == (E.INVALID_REQUEST, True)
    assert GROUP not in cluster.service.groups


def test_invalid_heartbeats_are_refused(cluster: Cluster) -> None:
    member = cluster.member("a", assignor="none")
    assert member.join().error_code == E.UNSUPPORTED_ASSIGNOR
    assert member.leave().error_code == E.GROUP_ID_NOT_FOUND
    assert cluster.member(" ").join().error_code == E.INVALID_REQUEST


def test_the_older_version_of_an_assignor_does_not_compute_for_a_newer_one(cluster: Cluster) -> None:
    old = cluster.member("a", assignors=(ClientAssignor("even", 0, 1, 0, 1, b""),))
    new = cluster.member("b", assignors=(ClientAssignor("even", 0, 2, 0, 2, b""),))
    old.join()
    assert old.compute() == 0
    assert new.join().should_compute_assignment
    assert not old.heartbeat().should_compute_assignment
    assert new.compute() == 0
    new.leave()
    settle(old)
    assert old.owned == ORDERS


def test_the_coordinator_assigns_where_members_have_no_assignor_in_common(cluster: Cluster) -> None:
    a = cluster.member("a")
    a.join()
    assert a.should_compute
    b = cluster.member("b", assignors=(ClientAssignor("other", 0, 0, 0, 0, b""),))
    assert not b.join().should_compute_assignment
    group = cluster.assigned_group
    assert (group.protocol, group.target_epoch) == ("uniform", group.group_epoch)
    assert a.prepare() == E.UNKNOWN_MEMBER_ID
    assert cluster.delegations()[-1] == ("a", "overtaken")
    settle(a, b)
    assert (len(a.owned), len(b.owned)) == (2, 2)


def test_the_coordinator_assigns_as_long_as_a_member_of_the_released_protocol_is_there(cluster: Cluster) -> None:
    (a,) = settled(cluster, "a")
    plain = cluster.consumer("p", "orders")
    plain.join()
    settle(a)
    plain.obey()
    settle(a)
    plain.obey()
    assert (len(a.owned), len(plain.owned), cluster.assigned_group.protocol) == (2, 2, "uniform")
    plain.leave()
    settle(a)
    assert (a.owned, cluster.assigned_group.protocol) == (ORDERS, "even")


def member_with(name: str, *assignors: ClientAssignor) -> MemberOfGroup:
    return MemberOfGroup(name, extension=assignors_to_bytes(assignors))


def test_members_elect_the_assignor() -> None:
    x, y, z = (ClientAssignor(name, 0, 0, 0, 0, b"") for name in "xyz")
    assert elect([]) is None
    assert elect([member_with("a")]) is None
    assert elect([member_with("a", x, y), member_with("b", y, x), member_with("c", z, y, x)]) == "y"
    assert elect([member_with("a", x, y), member_with("b", y, x)]) == "x"
    assert elect([member_with("a", x, y), member_with("b", y)]) == "y"
    low, high = ClientAssignor("x", 0, 1, 0, 0, b""), ClientAssignor("x", 1, 2, 0, 2, b"")
    both = [member_with("a", low), member_with("b", high)]
    assert computers(both, "x") == set()
    assert elect(both) is None
    wide = member_with("c", ClientAssignor("x", 0, 2, 0, 1, b""))
    assert computers([*both, wide], "x") == {"c"}
    assert elect([*both, wide]) == "x"


# Static members, failovers, sizes


def test_the_successor_of_a_static_member_gets_its_computed_assignment(cluster: Cluster) -> None:
    (a,) = settled(cluster, "a")
    static = cluster.member("s", instance_id="one")
    static.join()
    settle(a, static)
    cluster.create("orders", 6)
    assert a.heartbeat().should_compute_assignment
    a.prepare()
    static.leave(-2)
    again = cluster.member("t", instance_id="one")
    assert again.join().error_code == 0
    assert a.install().error_code == 0
    settle(a, again)
    assert (len(a.owned), len(again.owned)) == (3, 3)


def test_a_failover_preserves_installed_assignments_and_restarts_open_computations(cluster: Cluster) -> None:
    a, b = settled(cluster, "a", "b")
    cluster.crash()
    check_records(cluster)
    assert not a.heartbeat().should_compute_assignment
    assert cluster.assigned_group.state == "Stable"
    cluster.create("orders", 6)
    assert a.heartbeat().should_compute_assignment
    a.prepare()
    cluster.crash()
    assert a.install().error_code == E.UNKNOWN_MEMBER_ID
    assert b.heartbeat().should_compute_assignment
    settle(a, b)
    assert (len(a.owned), len(b.owned)) == (3, 3)
    check_records(cluster)


def test_too_large_metadata_is_refused_and_changes_nothing(cluster: Cluster) -> None:
    large = bytes(cluster.topics.max_batch_bytes)
    assert cluster.member("a", assignors=(ClientAssignor("even", 0, 0, 0, 0, large),)).join().error_code == -1
    assert GROUP not in cluster.service.groups
    (a,) = settled(cluster, "a")
    cluster.create("orders", 6)
    a.heartbeat()
    a.prepare()
    epoch = cluster.assigned_group.target_epoch
    assert a.install(members=[InstalledMember("a", [], 0, large)]).error_code == -1
    assert cluster.assigned_group.target_epoch == epoch
    assert a.install().error_code == 0


def test_a_group_shows_its_computing_member(cluster: Cluster) -> None:
    a, _ = settled(cluster, "a", "b")
    cluster.create("orders", 6)
    a.heartbeat()
    shown = cluster.assigned_group.describe()
    assert (shown.leader, shown.protocol, shown.state) == ("a", "even", "Assigning")
    assert cluster.described().assignor_name == "even"


def test_a_heartbeat_waits_while_the_coordinator_assigns_elsewhere() -> None:
    """Without assignors of its own a member is assigned by the coordinator, which leaves much to a worker."""
    cluster = Cluster(orders=LARGE)
    first = cluster.member("a", assignors=(), assignor="range")
    assert first.join().member_epoch == 2
    cluster.outbox.offloads = True
    second = cluster.member("b", assignors=(), assignor="range")
    exchange = Reply(0, cluster.client, cluster.now, cluster.service, None)
    request = ClientAssignorHeartbeatRequest(
        GROUP, "b", 0, rebalance_timeout_ms=1000, subscribed_topic_names=second.topics, topic_partitions=[]
    )
    parked = cluster.service.ask(request, HEARTBEAT.error, Client("b", HOST), exchange, cluster.now)
    assert parked is PARKED
    (computation,) = cluster.outbox.computations
    computation.finish(computation.compute(), cluster.now)
    cluster.parked.add(exchange)
    cluster.settle()
    assert (exchange.error, exchange.member_epoch, exchange.should_compute_assignment) == (0, 3, False)


def test_an_assignment_of_the_coordinator_ends_the_computation() -> None:
    cluster = Cluster(orders=4)
    first = cluster.member("a")
    first.join()
    assert first.prepare() == E.NONE
    other = cluster.member("b", assignors=())
    other.join()
    epoch = cluster.assigned_group.target_epoch
    assert epoch == cluster.assigned_group.group_epoch
    assert first.install().error_code == E.UNKNOWN_MEMBER_ID
    first.obey()
    assert not first.should_compute
    assert cluster.assigned_group.target_epoch == epoch
    assert cluster.delegations() == [("a", "requested"), ("a", "prepared"), ("a", "overtaken")]
