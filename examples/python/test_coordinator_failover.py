"""The coordinator fails over to another broker.

One broker coordinates each group. When that broker dies, another one reads the group from the log of
`__consumer_offsets` and carries on: members, generation and offsets are the same, so there is no rebalance. Clients
have to find the new coordinator, and may get errors until it has read the log.
"""

import pytest
from kafka import TopicPartition

from kafka_shim.testing import CoordinatorServer, polling

from .conftest import Consume, Produce


@pytest.mark.kafka_coordinator(topics={"orders": 2}, brokers=3)
def test_a_group_survives_the_death_of_its_coordinator(
    kafka_coordinator: CoordinatorServer, consumer: Consume, produce: Produce
) -> None:
    produce("orders", b"before")
    group = kafka_coordinator.group("billing")
    billing = consumer()
    with polling(billing) as polled:
        polled.wait_records(1)
        before = group.stable(members=1)
        billing.commit()

        # The next coordinator needs a moment to load the group; until then it answers COORDINATOR_LOAD_IN_PROGRESS.
        kafka_coordinator.load_takes(0.2)
        dead = kafka_coordinator.coordinator_of("billing")
        kafka_coordinator.kill_broker(dead)
        assert kafka_coordinator.coordinator_of("billing") != dead

        # The consumer finds the new coordinator and keeps its member id.
        group.next("exchange", api="Heartbeat", error=0, node=lambda node: node != dead)
        assert group.stable(members=1) == before
        assert group.committed("orders", 0) == 1
        produce("orders", b"after")
        assert [record.value for record in polled.wait_records(2)] == [b"before", b"after"]
    billing.commit()
    assert billing.committed(TopicPartition("orders", 0)) == 2
