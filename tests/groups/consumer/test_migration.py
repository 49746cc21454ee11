"""What a random script on a real Kafka has shown of groups that change their protocol."""

from tests.groups.consumer.context import Cluster
from tests.groups.context import GROUP, subscription


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
