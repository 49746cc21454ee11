"""What a random script on a real Kafka has shown of groups that change their protocol."""

import pytest

from kafka_shim.apis.consumer_protocol import ConsumerProtocolAssignment, TopicPartition, assignment_to_bytes
from tests.groups.consumer.context import Cluster
from tests.groups.context import GROUP, subscription

RANGE = ("range", subscription("orders"))
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


def test_a_classic_group_whose_assignor_keeps_data_in_assignments_is_not_converted() -> None:
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
    assert (joined.error_code, joined.generation_id, joined.member_id) == (0, 1, "a")
    group = cluster.service.groups[GROUP]
    assert (group.type, group.state, group.generation) == ("classic", "Stable", 1)


def test_a_classic_member_behind_the_group_epoch_has_to_join_again_before_it_syncs() -> None:
    cluster = Cluster(orders=4)
    cluster.consumer("a", "orders").join()
    member_id = cluster.join("", RANGE).response.member_id
    joined = cluster.join(member_id, RANGE).response
    cluster.consumer("b", "orders").join()
    assert cluster.sync(member_id, joined.generation_id).error == 27
