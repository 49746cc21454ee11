"""A consumer loses its assignment during a slow batch.

When a group rebalances, a consumer hears of it by its heartbeats, which go on in the background, but it can join again
only inside `poll`. One that works on a batch meanwhile is waited for as long as its `max.poll.interval.ms`; then the
group goes on without it. Its records are another consumer's by then, so what it commits must be refused.
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
    begun, may_end = Event(), Event()

    def slowly(value: bytes) -> None:
        begun.set()
        may_end.wait(15)

    with ThreadPoolExecutor() as pool:
        # The first consumer has all partitions, and begins a batch that takes long.
        busy = consumer("busy", session_timeout_ms=45_000, max_poll_interval_ms=60_000)
        batch = pool.submit(work, busy, slowly)
        assert begun.wait(10)

        # From here on the coordinator's time is ours. A second member joins, so everybody has to join again.
        kafka_coordinator.clock.freeze()
        kafka_coordinator.puppet("billing", ["orders"], client_id="newcomer", rebalance_timeout=60)
        group.next("state", to="PreparingRebalance", cause="NEW_MEMBER")

        # Half a minute later the busy consumer is alive: it sends heartbeats, and is told (27) to join again.
        kafka_coordinator.clock.advance(30)
        group.next("exchange", from_now=True, api="Heartbeat", client_id="busy", error=27)

        # After a minute, the longest max.poll.interval.ms in the group, it is waited for no longer.
        kafka_coordinator.clock.advance(30)
        group.stable(members=["newcomer"], owners={"newcomer": {"orders": range(4)}})

        # Now the batch ends. Its commit comes too late.
        may_end.set()
        with pytest.raises(CommitFailedError):
            batch.result(10)

    # So the order will be handled once more, by the newcomer: handling has to be idempotent, or batches shorter.
    assert not [
        event for event in kafka_coordinator.events("billing") if event["event"] == "commit" and not event["error"]
    ]
