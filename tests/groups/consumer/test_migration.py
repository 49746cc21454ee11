"""Groups that change their protocol, as a random script saw them on a real Kafka."""

import pytest

from kafka_shim.apis.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    assignment_from_bytes,
    assignment_to_bytes,
)
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.groups.consumer.context import Cluster
from tests.groups.context import GROUP, Reply, subscription

RANGE = ("range", subscription("orders"))
POLICIES = pytest.mark.parametrize("policy", ["bidirectional", "upgrade", "downgrade", "disabled"])
ALL = [TopicPartition("orders", [0, 1, 2, 3])]


def classic_group(policy: str, assignment: ConsumerProtocolAssignment) -> Cluster:
    """A classic group of one member that was assigned this."""
    cluster = Cluster("group.initial.rebalance.delay.ms=0", f"group.consumer.migration.policy={policy}", orders=4)
    member_id = cluster.join("", RANGE).response.member_id
    cluster.join(member_id, RANGE)
    cluster.advance(1)
    cluster.sync(member_id, 1, {member_id: assignment_to_bytes(assignment, 0)})
    return cluster


@pytest.mark.parametrize(
    ("policy", "error"), [("bidirectional", 0), ("upgrade", 0), ("downgrade", 69), ("disabled", 69)]
)
def test_a_classic_group_is_converted_where_the_policy_allows_it(policy: str, error: int) -> None:
    cluster = classic_group(policy, ConsumerProtocolAssignment(ALL))
    assert cluster.consumer("new", "orders").join().error_code == error
    assert cluster.service.groups[GROUP].type == ("classic" if error else "consumer")


@pytest.mark.parametrize(
    ("policy", "kind"), [("bidirectional", "classic"), ("downgrade", "classic"), ("upgrade", "consumer")]
)
def test_a_group_of_classic_members_alone_goes_back_where_the_policy_allows_it(policy: str, kind: str) -> None:
    cluster = Cluster(f"group.consumer.migration.policy={policy}", orders=4)
    newcomer = cluster.consumer("new", "orders")
    newcomer.join()
    member_id = cluster.join("", RANGE).response.member_id
    assert cluster.join(member_id, RANGE).error == 0
    newcomer.leave()
    assert cluster.service.groups[GROUP].type == kind


def test_no_classic_member_joins_a_consumer_group_where_the_policy_is_disabled() -> None:
    cluster = Cluster("group.consumer.migration.policy=disabled", orders=4)
    cluster.consumer("new", "orders").join()
    assert cluster.join("", RANGE).error == 23


@POLICIES
def test_an_empty_classic_group_becomes_a_consumer_group_under_any_policy(policy: str) -> None:
    cluster = classic_group(policy, ConsumerProtocolAssignment(ALL))
    assert cluster.left(*cluster.group.members) == [0]
    assert cluster.service.groups[GROUP].state == "Empty"
    assert cluster.consumer("new", "orders").join().error_code == 0
    assert cluster.service.groups[GROUP].type == "consumer"


@POLICIES
def test_an_empty_consumer_group_becomes_a_classic_one_under_any_policy(policy: str) -> None:
    cluster = Cluster("group.initial.rebalance.delay.ms=0", f"group.consumer.migration.policy={policy}", orders=4)
    newcomer = cluster.consumer("new", "orders")
    newcomer.join()
    newcomer.leave()
    member_id = cluster.join("", RANGE).response.member_id
    joined = cluster.join(member_id, RANGE)
    cluster.advance(1)
    assert (joined.error, cluster.service.groups[GROUP].type) == (0, "classic")


@POLICIES
def test_a_group_of_offsets_alone_becomes_a_consumer_group_under_any_policy(policy: str) -> None:
    cluster = Cluster(f"group.consumer.migration.policy={policy}", orders=4)
    commit = OffsetCommitRequest(GROUP, -1, "", topics=[])
    commit.topics = [OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, 5)])]
    committed = cluster.service.commit(commit, cluster.now, unknown_group_is_69=True)
    assert committed.topics[0].partitions[0].error_code == 0
    assert cluster.consumer("new", "orders").join().error_code == 0
    shard = cluster.service.shards[cluster.service.partition_of(GROUP)]
    assert (cluster.service.groups[GROUP].type, shard.offsets.of(GROUP)["orders"][0].offset) == ("consumer", 5)


@pytest.mark.parametrize("instance", [None, "one"], ids=["dynamic", "static"])
@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"], ids=["eager", "cooperative"])
def test_a_live_classic_member_gives_up_half_to_a_newcomer_and_keeps_half(protocol: str, instance: str | None) -> None:
    cluster = Cluster("group.initial.rebalance.delay.ms=0", orders=4)
    everything = {("orders", number) for number in range(4)}
    owned = {"orders": [0, 1, 2, 3]} if protocol == "cooperative-sticky" else None

    def join(member_id: str) -> Reply:
        return cluster.join(member_id, (protocol, subscription("orders", owned=owned)), instance=instance)

    first = join("")
    # A member with an instance id joins at once, the other gets an id first.
    joined = first if first.parked else join(first.response.member_id)
    cluster.advance(1)
    member_id = joined.response.member_id
    cluster.sync(
        member_id,
        1,
        {member_id: assignment_to_bytes(ConsumerProtocolAssignment(ALL), 0)},
        instance=instance,
        protocol_name=protocol,
    )
    newcomer = cluster.consumer("new", "orders")
    newcomer.join()
    assert newcomer.assigned == set()
    generation, kept = 1, everything
    for _ in range(10):
        assert not kept & newcomer.assigned
        if cluster.heartbeat(member_id, generation, instance=instance) == 27:
            if owned is not None:
                owned = {"orders": sorted(number for _, number in kept)}
            # An eager member gives everything up before it joins again.
            generation = join(member_id).response.generation_id
            synced = cluster.sync(member_id, generation, instance=instance, protocol_name=protocol)
            assert synced.error == 0
            assignment = assignment_from_bytes(synced.response.assignment)
            assert assignment is not None
            kept = {(each.topic, number) for each in assignment.assigned_partitions for number in each.partitions}
        newcomer.obey()
    assert (len(kept), len(newcomer.assigned), kept | newcomer.assigned) == (2, 2, everything)


def test_a_classic_group_with_data_of_its_assignor_is_not_converted() -> None:
    cluster = classic_group("bidirectional", ConsumerProtocolAssignment(ALL, b"data"))
    assert cluster.consumer("new", "orders").join().error_code == 69


def test_parked_joins_are_called_back_even_if_the_group_cannot_be_converted() -> None:
    cluster = Cluster("group.initial.rebalance.delay.ms=0", orders=4)
    first = cluster.join("", ("range", subscription("orders"))).response.member_id
    cluster.join(first, ("range", subscription("orders")))
    cluster.advance(1)
    cluster.sync(first, 1, {first: b"no assignment of a consumer"})
    second = cluster.join("", ("range", subscription("orders"))).response.member_id
    parked = cluster.join(second, ("range", subscription("orders")))
    assert parked.parked
    assert cluster.consumer("new", "orders").join().error_code == 69
    assert parked.error == 27


def test_a_join_that_a_consumer_group_refuses_is_not_told_its_member_id() -> None:
    cluster = Cluster(orders=4)
    cluster.consumer("a", "orders", instance_id="one").join()
    refused = cluster.join("other", ("range", subscription("orders")), instance="one").response
    assert (refused.error_code, refused.member_id) == (82, "")


def test_a_static_member_that_goes_back_to_the_classic_protocol_under_its_id_takes_the_group_with_it() -> None:
    cluster = Cluster(orders=4)
    cluster.consumer("a", "orders", instance_id="one").join()
    joined = cluster.join("a", ("range", subscription("orders")), instance="one").response
    assert (joined.error_code, joined.generation_id, joined.member_id) == (0, 2, "a")
    group = cluster.service.groups[GROUP]
    assert (group.type, group.state, group.generation) == ("classic", "Stable", 2)


def test_a_classic_member_behind_the_group_epoch_has_to_join_again_before_it_syncs() -> None:
    cluster = Cluster(orders=4)
    cluster.consumer("a", "orders").join()
    member_id = cluster.join("", RANGE).response.member_id
    joined = cluster.join(member_id, RANGE).response
    cluster.consumer("b", "orders").join()
    assert cluster.sync(member_id, joined.generation_id).error == 27


def test_a_group_does_not_go_back_while_a_member_that_joined_with_no_topic_has_no_target() -> None:
    cluster = Cluster(release="4.2", orders=4)
    newcomer = cluster.consumer("new", "orders")
    newcomer.join()
    nothing = ("range", subscription())
    member_id = cluster.join("", nothing).response.member_id
    assert cluster.join(member_id, nothing).error == 0
    cluster.sync(member_id, 1)
    # Kafka runs into a null there, wherever the group is to go back.
    assert newcomer.leave().error_code == -1
    assert cluster.leave(newcomer.member_id).error_code == -1
    for _ in range(10):
        cluster.advance(5_000)
        assert cluster.heartbeat(member_id, 1) == 0
    assert cluster.service.groups[GROUP].type == "consumer"
    # With a topic it has a target, and the timer of the session that ended tries again.
    assert cluster.join(member_id, RANGE).error == 0
    cluster.advance(500)
    assert cluster.service.groups[GROUP].type == "classic"
