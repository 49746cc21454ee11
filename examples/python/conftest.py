"""Fixtures of the examples: producers and consumers of kafka-python that are closed after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from kafka_shim.testing import CoordinatorServer

Consume = Callable[..., KafkaConsumer]
Produce = Callable[..., None]


@pytest.fixture
def produce(kafka_coordinator: CoordinatorServer) -> Iterator[Produce]:
    """Write values to partition 0: `produce("orders", b"first", b"second")`."""
    with ExitStack() as stack:
        producer = KafkaProducer(bootstrap_servers=kafka_coordinator.bootstrap)
        stack.callback(producer.close)

        def write(topic: str, *values: bytes) -> None:
            for value in values:
                producer.send(topic, value, partition=0).get(10)

        yield write


@pytest.fixture
def consumer(kafka_coordinator: CoordinatorServer) -> Iterator[Consume]:
    """Create consumers of topic `orders` in group `billing`; keywords are settings of kafka-python."""
    with ExitStack() as stack:

        def make(name: str = "billing-1", **settings: Any) -> KafkaConsumer:
            created = KafkaConsumer(
                "orders",
                bootstrap_servers=kafka_coordinator.bootstrap,
                group_id="billing",
                client_id=name,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=100,
                **settings,
            )
            stack.callback(created.close, timeout_ms=2000)
            return created

        yield make
