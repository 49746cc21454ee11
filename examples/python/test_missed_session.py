"""A commit fails after a missed session.

The coordinator expels a consumer that sends nothing for its `session.timeout.ms`: its process was paused, its machine
asleep, its network down. The consumer learns this only from its next request. The coordinator then refuses its commit,
and the consumer has to join again.
"""

import pytest
from kafka import TopicPartition
from kafka.errors import CommitFailedError

from kafka_shim.testing import CoordinatorServer

from .conftest import Consume, Produce


@pytest.mark.kafka_coordinator(topics={"orders": 1})
def test_a_commit_after_a_missed_session_is_refused(
    kafka_coordinator: CoordinatorServer, consumer: Consume, produce: Produce
) -> None:
    produce("orders", b"first")
    group = kafka_coordinator.group("billing")
    billing = consumer(session_timeout_ms=45_000)
    (records,) = billing.poll(timeout_ms=10_000).values()
    before = group.stable(members=1)

    # 45 seconds pass for the coordinator, and none for the consumer: it could not have sent a heartbeat.
    kafka_coordinator.clock.freeze()
    kafka_coordinator.clock.advance(45)
    assert group.next("member", change="expired")["client_id"] == "billing-1"
    with pytest.raises(CommitFailedError):
        billing.commit()

    # The remedy is to poll: the consumer joins as a new member and gets the record again.
    (again,) = billing.poll(timeout_ms=10_000).values()
    assert [record.value for record in again] == [record.value for record in records] == [b"first"]
    assert group.stable(members=1).members[0].member_id != before.members[0].member_id
    billing.commit()
    assert billing.committed(TopicPartition("orders", 0)) == group.committed("orders", 0) == 1
