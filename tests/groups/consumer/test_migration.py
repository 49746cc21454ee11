"""What a random script on a real Kafka has shown of groups that change their protocol."""

from tests.groups.consumer.context import Cluster
from tests.groups.context import subscription


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
