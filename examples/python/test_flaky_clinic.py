"""A clinic for flaky tests: one that sleeps, why it fails now and then, and what it looks like when it awaits.

The patient is in `SLEEPING`, as text, since it fails. Every wait in it is a guess: that a consumer has its partitions
after two seconds, that the second one's rebalance is over after two more. On a busy machine, or where a coordinator
waits for `group.initial.rebalance.delay.ms`, they are not, and the test fails in a line that has nothing to do with it:

    >       assert len(first.assignment()) == 2
    E       AssertionError: assert 4 == 2

On all other days it takes four seconds to test what takes a few milliseconds.
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
    """The same, healed: each wait is for what is to happen, and says what has happened instead if it does not."""
    group = kafka_coordinator.group("billing")
    first, second = consumer("first"), consumer("second")
    with polling(first) as by_first, polling(second) as by_second:
        group.stable(members=2, owners={"first": {"orders": [0, 1]}, "second": {"orders": [2, 3]}})
        produce("orders", b"for the first")
        assert [record.value for record in by_first.wait_records(1)] == [b"for the first"]
    assert by_second.records == []


@pytest.mark.kafka_coordinator(topics={"orders": 4})
def test_it_holds_on_a_slow_day_too(kafka_coordinator: CoordinatorServer, consumer: Consume, produce: Produce) -> None:
    """On demand, the day on which the sleeping one fails: the second consumer's JoinGroup takes three seconds."""
    slow = kafka_coordinator.fault("delay", "JoinGroup", seconds=3, client_id="second")
    test_two_consumers_share_the_partitions(kafka_coordinator, consumer, produce)
    assert slow.fired == 1
