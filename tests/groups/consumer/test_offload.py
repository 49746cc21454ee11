"""A target assignment that takes too long for the event loop: the requests that wait, and the moment it counts."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_shim.apis.consumer_protocol import ConsumerProtocolAssignment, TopicPartition, assignment_to_bytes
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.groups.assignors.spec import AssignorError
from kafka_shim.groups.consumer.migration.conversion import MANY_MEMBERS
from kafka_shim.groups.consumer.target import LARGE
from kafka_shim.groups.interface import MORE, Computation, whole
from tests.groups.consumer.context import GROUP, Cluster
from tests.groups.consumer.offloading import Offloading
from tests.groups.consumer.safety import check_records


def grown() -> Offloading:
    """A group of one member with so many partitions that its assignment is computed elsewhere."""
    cluster = Offloading(t=LARGE)
    a = cluster.joins("a")
    cluster.compute()
    assert a.member_epoch == 2
    assert cluster.consumer_group.state == "Stable"
    return cluster


def test_only_requests_that_may_change_the_group_wait_in_line() -> None:
    cluster = grown()
    b, c = cluster.joins("b"), cluster.joins("c")
    assert b.parked
    assert c.parked
    assert len(cluster.outbox.computations) == 1, "one computation at a time"
    assert (cluster.ask("a", 2).error, cluster.ask("a", 2).member_epoch) == (E.NONE, 2), "a steady one is answered"
    cluster.compute()
    assert (b.member_epoch, c.parked) == (3, True)
    cluster.compute()
    assert c.member_epoch == 4
    assert max(cluster.assigned().values()) - min(cluster.assigned().values()) == 1


def test_an_offloaded_assignment_has_the_result_of_a_direct_one() -> None:
    cluster, other = grown(), Cluster(t=LARGE)
    other.consumer("a", "t", assignor="range", rebalance_timeout_ms=9000).join()
    joined = [cluster.joins(name) for name in "bcd"]
    for reply, name in zip(joined, "bcd", strict=True):
        cluster.compute()
        expected = other.consumer(name, "t", assignor="range", rebalance_timeout_ms=9000)
        answer = expected.join()
        assert (reply.member_epoch, reply.assignment) == (answer.member_epoch, answer.assignment)
    assert cluster.consumer_group.targets == other.consumer_group.targets
    assert cluster.consumer_group.target_owners == other.consumer_group.target_owners
    assert cluster.written == other.written
    assert not cluster.outbox.computations
    check_records(cluster)


def test_a_result_for_a_group_that_has_changed_is_dropped() -> None:
    cluster = grown()
    b = cluster.joins("b")
    cluster.create("t", LARGE + 10)
    cluster.compute()
    assert b.parked, "the topic has grown: another question"
    cluster.advance(44_000)
    cluster.ask("a", 2)
    cluster.advance(2_000)
    assert "a" in cluster.consumer_group.members
    cluster.compute()
    assert b.member_epoch == 3
    assert sum(cluster.assigned().values()) == LARGE + 10


def test_a_member_that_expires_during_the_computation_has_nothing() -> None:
    cluster = grown()
    cluster.advance(44_000)
    b = cluster.joins("b")
    cluster.advance(2_000)
    assert list(cluster.consumer_group.members) == [], "a is gone, b has not come yet"
    cluster.compute()
    assert b.parked
    cluster.compute()
    assert b.member_epoch == 4
    assert cluster.assigned() == {"b": LARGE}


def test_waiting_requests_are_answered_when_the_partition_moves() -> None:
    cluster = grown()
    b, c = cluster.joins("b"), cluster.joins_as_classic_member("c")
    computations = cluster.outbox.computations
    cluster.service.unload(cluster.consumer_group.partition, cluster.now)
    cluster.settle()
    assert (b.error, c.error) == (E.NOT_COORDINATOR, E.NOT_COORDINATOR)
    for each in computations:
        each.finish(whole(each), cluster.now)
    assert cluster.outbox.records == []
    assert cluster.outbox.replies == []


def test_a_failing_assignor_fails_the_request() -> None:
    cluster = grown()
    b, c = cluster.joins("b"), cluster.joins("c")
    (computation,) = cluster.outbox.computations
    cluster.outbox.computations = []
    computation.finish(AssignorError("it is tired"), cluster.now)
    cluster.settle()
    assert (b.error, b.error_message) == (
        E.UNKNOWN_SERVER_ERROR,
        "Failed to compute a new target assignment for epoch 3: it is tired",
    )
    cluster.compute()
    assert c.member_epoch == 3, "the next in line is served"


def test_members_of_both_protocols_wait_in_one_line() -> None:
    cluster = grown()
    b, c, leaving = cluster.joins("b"), cluster.joins_as_classic_member("c"), cluster.ask("a", -1)
    assert b.parked
    assert c.parked
    assert leaving.parked
    cluster.compute()
    cluster.compute()
    assert (b.member_epoch, c.generation_id, c.member_id) == (3, 4, "c")
    assert leaving.member_epoch == -1
    assert sorted(cluster.consumer_group.members) == ["b", "c"]


def test_patterns_over_many_topics_are_resolved_elsewhere() -> None:
    cluster = Offloading(**{f"t{number}": 1 for number in range(10_000)})
    joined = cluster.joins("a", server_assignor=None, subscribed_topic_names=None, subscribed_topic_regex="t1.*")
    assert isinstance(joined.response, ConsumerGroupHeartbeatResponse)
    assert joined.member_epoch == 1
    cluster.advance(0)
    assert cluster.consumer_group.group_epoch == 1
    assert cluster.ask("a", 1).member_epoch == 1, "a heartbeat does not wait for it"
    cluster.advance(0)
    assert len(cluster.outbox.computations) == 1, "nor has it resolved twice"
    cluster.compute()
    assert cluster.consumer_group.group_epoch == 2
    assert cluster.ask("a", 1, topic_partitions=[]).member_epoch == 2
    assert cluster.assigned() == {"a": 1111}


def test_a_group_that_has_gone_awaits_no_resolution() -> None:
    cluster = Offloading(**{f"t{number}": 1 for number in range(10_000)})
    cluster.joins("a", server_assignor=None, subscribed_topic_names=None, subscribed_topic_regex="t1.*")
    cluster.advance(0)
    (resolution,) = cluster.outbox.computations
    assert resolution.is_awaited
    cluster.service.unload(cluster.consumer_group.partition, cluster.now)
    assert not resolution.is_awaited


def test_resolutions_share_the_names_of_topics_until_they_change() -> None:
    cluster = Offloading(t=1)
    shard = next(iter(cluster.service.shards.values()))
    names = shard.topic_names()
    assert shard.topic_names() is names
    cluster.create("u", 1)
    assert shard.topic_names() == ["t", "u"]
    assert names == ["t"]


def of_pattern(pattern: str, topics: list[str]) -> list[Computation]:
    """The computations that a group with a pattern leaves to others."""
    cluster = Offloading(**dict.fromkeys(topics, 1))
    cluster.joins("a", server_assignor=None, subscribed_topic_names=None, subscribed_topic_regex=pattern)
    cluster.advance(0)
    return cluster.outbox.computations


def test_a_pattern_that_takes_long_is_resolved_elsewhere_though_topics_are_few() -> None:
    assert of_pattern("((a|b)?){900}", ["a" * 248, "b" * 248])


def test_a_pattern_with_many_names_is_resolved_elsewhere() -> None:
    names = "".join(f"(?P<n{number}>a?)" for number in range(250))
    assert of_pattern(names, ["a" * 248])
    assert not of_pattern(names.replace("?P<n", "").replace(">", ""), ["a" * 248])


@pytest.mark.parametrize("pattern", ["t1.*", ".*", "orders-(eu|us)-[0-9]+", "t|" * 50 + "t"])
def test_an_ordinary_pattern_over_a_few_hundred_topics_is_resolved_at_once(pattern: str) -> None:
    assert not of_pattern(pattern, [f"topic-{number}-of-orders" for number in range(200)])


def test_a_resolution_has_a_part_for_so_many_steps() -> None:
    topics = [f"{number:04}" + "a" * 240 for number in range(1000)]
    (resolution,) = of_pattern("0((0|1|a)?){900}", topics)
    parts = 0
    while (result := resolution.compute()) is MORE:
        parts += 1
    assert parts > 10
    ((_, resolved),) = result.items()
    assert resolved.topics == frozenset(each for each in topics if set(each) <= set("01a"))


def test_a_new_group_is_made_with_its_computed_assignment() -> None:
    cluster = Offloading(t=LARGE)
    a, b = cluster.joins("a"), cluster.joins("b")
    assert (a.parked, b.parked) == (True, True)
    assert GROUP not in cluster.service.groups
    cluster.compute()
    assert (a.member_epoch, b.parked) == (2, True)
    cluster.compute()
    assert b.member_epoch == 3
    check_records(cluster)


def test_a_new_group_sees_a_topic_that_changes_during_its_computation() -> None:
    cluster = Offloading(t=LARGE)
    a = cluster.joins("a")
    cluster.create("t", LARGE + 10)
    cluster.compute()
    assert a.parked, "another question"
    cluster.compute()
    assert a.member_epoch == 2
    assert cluster.assigned() == {"a": LARGE + 10}


def test_a_group_made_during_the_computation_comes_first() -> None:
    cluster = Offloading(t=LARGE)
    a = cluster.joins("a")
    cluster.join_new()
    cluster.compute()
    assert (a.error, a.error_message) == (E.UNKNOWN_SERVER_ERROR, f"Group {GROUP} has no generation yet.")


def test_requests_for_a_new_group_are_answered_when_the_partition_moves() -> None:
    cluster = Offloading(t=LARGE)
    a = cluster.joins("a")
    computations = cluster.outbox.computations
    cluster.service.unload(cluster.service.partition_of(GROUP), cluster.now)
    cluster.settle()
    assert a.error == E.NOT_COORDINATOR
    for each in computations:
        each.finish(whole(each), cluster.now)
    assert cluster.outbox.records == []


# Upgrades


def classic() -> tuple[Offloading, list[str]]:
    """A stable classic group with so many members that it is converted elsewhere, and their ids; each has a
    partition."""
    cluster = Offloading(topic=MANY_MEMBERS + 1)
    ids = cluster.prepare(MANY_MEMBERS + 1)
    cluster.end_round()
    shares = {
        member_id: assignment_to_bytes(ConsumerProtocolAssignment([TopicPartition("topic", [number])]), 1)
        for number, member_id in enumerate(ids)
    }
    leader = cluster.group.leader
    assert leader is not None
    cluster.sync(leader, 1, shares)
    assert cluster.group.state == "Stable"
    return cluster, ids


NEWCOMER: Any = {"server_assignor": None, "subscribed_topic_names": ["topic"]}


def test_a_classic_group_of_many_members_is_converted_elsewhere() -> None:
    (cluster, ids), (other, _) = classic(), classic()
    other.outbox.offloads = False
    new, expected = cluster.joins("new", **NEWCOMER), other.joins("new", **NEWCOMER)
    assert new.parked
    assert cluster.heartbeat(ids[0], 1) == E.NONE, "the classic group goes on meanwhile"
    cluster.compute()
    assert (
        (new.member_epoch, new.assignment) == (expected.member_epoch, expected.assignment) == (2, expected.assignment)
    )
    assert cluster.written == other.written
    assert cluster.consumer_group.targets == other.consumer_group.targets
    check_records(cluster)


def test_a_classic_group_that_changes_during_its_conversion_is_converted_again() -> None:
    cluster, ids = classic()
    new = cluster.joins("new", **NEWCOMER)
    assert cluster.left(ids[7]) == [E.NONE]
    cluster.compute()
    assert new.parked, "it is another group"
    cluster.compute()
    assert new.member_epoch == 2
    assert set(cluster.consumer_group.members) == {*ids, "new"} - {ids[7]}


def test_a_failed_conversion_is_reported_after_the_attempt() -> None:
    cluster, ids = classic()
    cluster.group.members[ids[5]].assignment = b"0"
    new = cluster.joins("new", **NEWCOMER)
    cluster.compute()
    assert new.error == E.GROUP_ID_NOT_FOUND
    assert "the embedded consumer protocol is malformed" in new.error_message


def test_conversion_and_assignment_are_computed_one_after_the_other() -> None:
    cluster, _ = classic()
    cluster.create("topic", LARGE)
    new = cluster.joins("new", **NEWCOMER)
    cluster.compute()
    assert (new.parked, cluster.group.state) == (True, "Stable")
    cluster.compute()
    assert new.member_epoch == 2
    assert sum(cluster.assigned().values()) == LARGE
    check_records(cluster)
