"""A consumer loses its assignment during a slow batch.

When a group rebalances, a consumer learns it from its heartbeats, which go on in the background, but it can join again
only inside `poll`. The group waits for a consumer that works on a batch for `max.poll.interval.ms` at most, and then
goes on without it. Its partitions then belong to another consumer, so the coordinator refuses its commit.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from kafka import KafkaConsumer
from kafka.errors import CommitFailedError

from kafka_shim.testing import CoordinatorServer

from .conftest import Consume, Produce


def work(consumer: KafkaConsumer, handle) -> None:  # type: ignore[no-untyped-def]
    """The application: one batch, and a commit when it is done."""
    for records in consumer.poll(timeout_ms=10_000).values():
        for record in records:
            handle(record.value)
    consumer.commit()


@pytest.mark.kafka_coordinator(topics={"orders": 4})
def test_a_slow_batch_costs_the_assignment(
    kafka_coordinator: CoordinatorServer, consumer: Consume, produce: Produce
) -> None:
    produce("orders", b"a big order")
    group = kafka_coordinator.group("billing")
    batch_began, may_end = Event(), Event()

    def slowly(value: bytes) -> None:
        batch_began.set()
        may_end.wait(15)

    with ThreadPoolExecutor() as pool:
        # The first consumer has all partitions, and begins a long batch.
        busy = consumer("busy", session_timeout_ms=45_000, max_poll_interval_ms=60_000)
        batch = pool.submit(work, busy, slowly)
        assert batch_began.wait(10)

        # From here on the test controls the coordinator's clock. A second member joins, so all have to join again.
        kafka_coordinator.clock.freeze()
        kafka_coordinator.puppet("billing", ["orders"], client_id="newcomer", rebalance_timeout=60)
        group.next("state", to="PreparingRebalance", cause="NEW_MEMBER")

        # Half a minute later the busy consumer still sends heartbeats; error 27 asks it to join again.
        kafka_coordinator.clock.advance(30)
        group.next("exchange", from_now=True, api="Heartbeat", client_id="busy", error=27)

        # After a minute, the longest max.poll.interval.ms in the group, the group goes on without it.
        kafka_coordinator.clock.advance(30)
        group.stable(members=["newcomer"], owners={"newcomer": {"orders": range(4)}})

        # Now the batch ends. Its commit comes too late.
        may_end.set()
        with pytest.raises(CommitFailedError):
            batch.result(10)

    # So the newcomer will handle the order again: handling has to be idempotent, or batches shorter.
    assert not [
        event for event in kafka_coordinator.events("billing") if event["event"] == "commit" and not event["error"]
    ]
