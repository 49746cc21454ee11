"""Process of one member of a lesson: a consumer of a real client library that polls, works, and polls again.

It translates the lesson's options into each library's configuration. Run as `python -m kafka_shim.learn.member JSON`,
it closes its consumer on SIGTERM. It imports no other part of the package.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final

POLL_SECONDS: Final = 0.1
LONG_POLL_SECONDS: Final = 1.0
"""For kafka-python; `_kafka_python` gives the reason."""
_stopped = threading.Event()


def main() -> None:
    """Consume until SIGTERM."""
    script = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda number, frame: _stopped.set())
    CLIENTS[script["client"]](script)


def _kafka_python(script: Mapping[str, Any]) -> None:
    import kafka
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    consumer = kafka.KafkaConsumer(
        *script["topics"],
        **_config(script),
        partition_assignment_strategy=[assignors[name] for name in script["protocols"]],
    )
    # A leader that does not know its topics assigns nothing, and joins again when it does. If a poll ends in the middle
    # of that join, kafka-python 3.0 may stop its heartbeats and never join again. So the consumer fetches the metadata
    # before it joins, and its polls are long.
    for topic in script["topics"]:
        consumer.partitions_for_topic(topic)
    while not _stopped.is_set():
        consumer.poll(timeout_ms=_ms(LONG_POLL_SECONDS))
        _work(script)
    consumer.close()


def _aiokafka(script: Mapping[str, Any]) -> None:
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}

    async def consume() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            *script["topics"],
            **_config(script),
            rebalance_timeout_ms=_ms(script["rebalance"]),
            partition_assignment_strategy=[assignors[name] for name in script["protocols"]],
        )
        await consumer.start()
        while not _stopped.is_set():
            await consumer.getmany(timeout_ms=_ms(POLL_SECONDS))
            await asyncio.sleep(script["think"])
        await consumer.stop()

    asyncio.run(consume())


def _confluent(script: Mapping[str, Any]) -> None:
    import confluent_kafka

    config = {
        "bootstrap.servers": script["bootstrap"],
        "group.id": script["group"],
        "client.id": script["name"],
        "max.poll.interval.ms": _ms(max(script["rebalance"], script["session"])),
    }
    if script["instance"]:
        config["group.instance.id"] = script["instance"]
    if script["protocol"] == "consumer":
        # The coordinator chooses the session timeout and the assignor.
        config["group.protocol"] = "consumer"
    else:
        config["session.timeout.ms"] = _ms(script["session"])
        config["heartbeat.interval.ms"] = _ms(script["heartbeat"])
        config["partition.assignment.strategy"] = ",".join(script["protocols"])
    consumer = confluent_kafka.Consumer(config)
    consumer.subscribe(script["topics"])
    while not _stopped.is_set():
        consumer.poll(POLL_SECONDS)
        _work(script)
    consumer.close()


CLIENTS: Final = {"kafka-python": _kafka_python, "aiokafka": _aiokafka, "confluent-kafka": _confluent}
"""By the name of the package on the package index."""


def _config(script: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that kafka-python and aiokafka share."""
    return {
        "bootstrap_servers": script["bootstrap"],
        "group_id": script["group"],
        "client_id": script["name"],
        "group_instance_id": script["instance"],
        "session_timeout_ms": _ms(script["session"]),
        "heartbeat_interval_ms": _ms(script["heartbeat"]),
        "max_poll_interval_ms": _ms(script["rebalance"]),
    }


def _work(script: Mapping[str, Any]) -> None:
    """Wait for the time that a batch takes, or until SIGTERM."""
    if script["think"]:
        _stopped.wait(script["think"])


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


if __name__ == "__main__":
    main()
