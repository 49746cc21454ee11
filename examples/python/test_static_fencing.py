"""A static member keeps its place over a restart; of two with the same id, the older one is fenced.

A consumer with a `group.instance.id` may be away for its session timeout without a rebalance: the next consumer with
the same id gets the same partitions. That is meant for restarts. If two consumers run at once with one id, say after a
deployment that started the new one first, the coordinator fences the older one, so that it cannot commit any more.
"""

import pytest
from kafka.errors import FencedInstanceIdError

from kafka_shim.testing import CoordinatorServer, polling

from .conftest import Consume, Produce

pytestmark = pytest.mark.kafka_coordinator(topics={"orders": 4})


def test_a_restart_within_the_session_causes_no_rebalance(
    kafka_coordinator: CoordinatorServer, consumer: Consume
) -> None:
    group = kafka_coordinator.group("billing")
    kafka_coordinator.puppet("billing", ["orders"], client_id="other")
    group.stable(members=["other"])
    first = consumer("first", group_instance_id="billing-a")
    with polling(first):
        before = group.stable(members=2)
    first.close()

    # A static member does not leave on close: the coordinator keeps its partitions for its session timeout.
    second = consumer("second", group_instance_id="billing-a")
    with polling(second):
        group.next("member", change="replaced")
        group.no_rebalance_for(heartbeats=2)
        after = group.stable(members=["billing-a", "other"])
    assert after.generation == before.generation
    assert after.called("billing-a")[0].owned == before.called("billing-a")[0].owned


def test_the_older_of_two_with_one_id_is_fenced(
    kafka_coordinator: CoordinatorServer, consumer: Consume, produce: Produce
) -> None:
    group = kafka_coordinator.group("billing")
    produce("orders", b"an order")
    older = consumer("older", group_instance_id="billing-a")
    assert older.poll(timeout_ms=10_000)
    newer = consumer("newer", group_instance_id="billing-a")
    with polling(newer) as polled:
        # The newer one takes its place, and gets the order, which is not committed yet.
        group.next("member", change="replaced")
        polled.wait_records(1)

        # Every request of the older one is refused. It cannot overwrite the newer one's commits.
        with pytest.raises(FencedInstanceIdError):
            older.commit()
    newer.commit()
    assert group.committed("orders", 0) == 1
