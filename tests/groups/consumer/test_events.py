"""Trace events of consumer groups that no test of a rule covers."""

from kafka_shim.trace.causes import Cause
from tests.groups.consumer.context import Cluster, settle
from tests.groups.context import GROUP, subscription


def test_a_new_epoch_names_the_member_with_the_new_pattern() -> None:
    cluster = Cluster(orders=4)
    first, second = cluster.consumer("a", "orders"), cluster.consumer("b", regex="ord.*")
    first.join()
    second.join()
    cluster.advance(1)
    epochs = [(event["cause"], event["trigger"]) for event in cluster.of("epoch")]
    assert epochs[-1] == (Cause.SUBSCRIPTION_CHANGED, "b")
    # Three epochs, none of a member that left.
    assert cluster.service.counters.new_epochs["consumer"] == len(epochs)


def test_a_group_reconciles_while_a_static_member_is_away() -> None:
    cluster = Cluster(orders=4)
    member = cluster.consumer("a", "orders", instance_id="one")
    member.join()
    member.leave(-2)
    assert [event["to"] for event in cluster.of("state")][-2:] == ["Stable", "Reconciling"]
    cluster.consumer("b", "orders", instance_id="one").join()
    assert cluster.of("state")[-1]["to"] == "Stable"
    assert len(cluster.of("epoch")) == 1


def test_waiting_members_name_the_owners_of_their_partitions() -> None:
    cluster = Cluster(orders=4)
    first, second = cluster.consumer("a", "orders"), cluster.consumer("b", "orders")
    first.join()
    second.join()
    first.heartbeat()
    waits = [(event["member_id"], event["waits_for"]) for event in cluster.of("reconciliation") if event["waits_for"]]
    assert waits == [("b", ["a"])]
    settle(first, second)
    assert cluster.of("state")[-1]["to"] == "Stable"
    second.leave()
    assert cluster.service.counters.new_epochs["consumer"] == 2
    assert cluster.service.counters.rebalances[Cause.MEMBER_LEFT] == 1


def test_a_member_that_leaves_only_classic_members_behind_is_traced() -> None:
    cluster = Cluster(orders=4)
    cluster.consumer("a", "orders").join()
    member_id = cluster.join("", ("range", subscription("orders"))).response.member_id
    cluster.join(member_id, ("range", subscription("orders")))
    cluster.consumer("a", "orders").leave()
    assert type(cluster.service.groups[GROUP]).type == "classic"
    assert [(event["member_id"], event["change"]) for event in cluster.of("member")][-1] == ("a", "left")
    assert cluster.causes() == [Cause.PROTOCOL_CHANGED]


def test_a_successor_of_a_static_member_is_traced_as_its_replacement() -> None:
    cluster = Cluster(orders=4)
    holder = cluster.consumer("a", "orders", instance_id="one")
    holder.join()
    # Now it speaks the classic protocol, and a member with its instance id may take its place.
    cluster.join("a", ("range", subscription("orders")))
    cluster.consumer("b", "orders").join()
    cluster.consumer("b", "orders", instance_id="one").join()
    changes = [(event["member_id"], event["change"]) for event in cluster.of("member")]
    assert changes[-2:] == [("a", "fenced"), ("b", "replaced")]
