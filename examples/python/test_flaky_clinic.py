"""A clinic for flaky tests: a test that sleeps, the reason for its occasional failure, and the same test with waits.

The flaky test is the text `SLEEPING`. It guesses each wait: that a consumer has its partitions after two seconds, and
that the second consumer's rebalance is over after two more. On a busy machine, or with a coordinator that waits for
`group.initial.rebalance.delay.ms`, the guesses are wrong, and the test fails in a line that is not the cause:

    >       assert len(first.assignment()) == 2
    E       AssertionError: assert 4 == 2

And when it passes, it takes four seconds for a test of a few milliseconds.
"""

import pytest

from kafka_shim.testing import CoordinatorServer, polling

from .conftest import Consume, Produce

SLEEPING = """
import threading, time
from kafka import KafkaConsumer

def consumer_in_a_thread(bootstrap, name):
    settings = {"group_id": "billing", "client_id": name, "heartbeat_interval_ms": 100}
    consumer = KafkaConsumer("orders", bootstrap_servers=bootstrap, **settings)
    def poll():
        while not stop.is_set():
            consumer.poll(timeout_ms=500)
    threading.Thread(target=poll, daemon=True).start()
    return consumer

stop = threading.Event()

def test_two_consumers_share_the_partitions(bootstrap):
    first = consumer_in_a_thread(bootstrap, "first")
    time.sleep(2)
    assert len(first.assignment()) == 4
    second = consumer_in_a_thread(bootstrap, "second")
    time.sleep(2)
    assert len(first.assignment()) == 2
    assert len(second.assignment()) == 2
    stop.set()
"""


@pytest.mark.kafka_coordinator(topics={"orders": 4})
def test_two_consumers_share_the_partitions(
    kafka_coordinator: CoordinatorServer, consumer: Consume, produce: Produce
) -> None:
    """The same test with waits: each wait awaits an event, and its failure reports the events so far."""
    group = kafka_coordinator.group("billing")
    first, second = consumer("first"), consumer("second")
    with polling(first) as by_first, polling(second) as by_second:
        group.stable(members=2, owners={"first": {"orders": [0, 1]}, "second": {"orders": [2, 3]}})
        produce("orders", b"for the first")
        assert [record.value for record in by_first.wait_records(1)] == [b"for the first"]
    assert by_second.records == []


@pytest.mark.kafka_coordinator(topics={"orders": 4})
def test_two_consumers_share_the_partitions_on_a_slow_day(
    kafka_coordinator: CoordinatorServer, consumer: Consume, produce: Produce
) -> None:
    """Cause the delay that makes the sleeping test fail: the second consumer's JoinGroup takes three seconds."""
    slow = kafka_coordinator.fault("delay", "JoinGroup", seconds=3, client_id="second")
    test_two_consumers_share_the_partitions(kafka_coordinator, consumer, produce)
    assert slow.fired == 1
