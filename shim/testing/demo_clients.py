"""Clients of the demo, each in its own process.

    python -m kafka_shim.testing.demo_clients ROLE BOOTSTRAP NAME

They use unmodified libraries as an application would. They report on standard output, one JSON object a line, and close
when standard input ends. A line `busy` there stops a kafka-python consumer from polling until a line `free`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import Any, Final

TOPIC: Final = "orders"
GROUP: Final = "billing"
PACE: Final = 0.005
"""Seconds between two records of the producer."""

_CONSUMER: Final[dict[str, Any]] = {
    "group_id": GROUP,
    "auto_offset_reset": "earliest",
    "enable_auto_commit": True,
    "auto_commit_interval_ms": 1000,
    "heartbeat_interval_ms": 300,
}
_SESSION_MS: Final = 30_000
"""For consumers that leave by themselves: long enough that a busy machine does not expel them."""
_SHORT_SESSION_MS: Final = 4_000
"""For the consumer that is killed: the others wait for the end of its session."""


def report(**fields: Any) -> None:
    """Write one report for the demo."""
    print(json.dumps(fields), flush=True)


def ended() -> threading.Event:
    """Return an event that is set when standard input ends."""
    event = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        event.set()

    threading.Thread(target=wait, daemon=True).start()
    return event


def produce(bootstrap: str, name: str) -> None:
    """Send numbered records until standard input ends."""
    from kafka import KafkaProducer

    stop = ended()
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id=name, linger_ms=5)
    number = 0
    while not stop.wait(PACE):
        producer.send(TOPIC, key=str(number % 97).encode(), value=str(number).encode())
        number += 1
        if number == 1:
            producer.flush()
            report(began=True)
    producer.flush()
    producer.close()
    report(sent=number)


def consume_with_kafka_python(bootstrap: str, name: str) -> None:
    """Consume with kafka-python until standard input ends."""
    from kafka import KafkaConsumer

    stop, free = threading.Event(), threading.Event()
    free.set()

    def obey() -> None:
        for line in sys.stdin:
            (free.clear if line.strip() == "busy" else free.set)()
        stop.set()
        free.set()

    threading.Thread(target=obey, daemon=True).start()
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=bootstrap, client_id=name, session_timeout_ms=_SESSION_MS, **_CONSUMER
    )
    # It knows the topic before it joins, and its polls are long: kafka-python 3.0 stops joining if a poll ends in the
    # middle of the join of a leader that does not know its topic yet.
    consumer.partitions_for_topic(TOPIC)
    while not stop.is_set():
        for partition, records in consumer.poll(timeout_ms=1000).items():
            report(consumed=[[partition.partition, record.offset, int(record.value)] for record in records])
        free.wait()
    consumer.close()


async def consume_with_aiokafka(bootstrap: str, name: str) -> None:
    """Consume with aiokafka until standard input ends."""
    from aiokafka import AIOKafkaConsumer

    stop = ended()
    consumer = AIOKafkaConsumer(
        TOPIC, bootstrap_servers=bootstrap, client_id=name, session_timeout_ms=_SHORT_SESSION_MS, **_CONSUMER
    )
    await consumer.start()
    try:
        while not stop.is_set():
            for partition, records in (await consumer.getmany(timeout_ms=100)).items():
                report(consumed=[[partition.partition, record.offset, int(record.value)] for record in records])
    finally:
        await consumer.stop()


def main(role: str, bootstrap: str, name: str) -> None:
    """Run one client of the demo."""
    if role == "producer":
        produce(bootstrap, name)
    elif role == "kafka-python":
        consume_with_kafka_python(bootstrap, name)
    else:
        asyncio.run(consume_with_aiokafka(bootstrap, name))


if __name__ == "__main__":
    main(*sys.argv[1:4])
