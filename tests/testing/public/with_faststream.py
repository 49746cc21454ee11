"""Tests that people asked for in public, for FastStream. `test_frameworks.py` runs them."""

import asyncio

import pytest
from faststream import AckPolicy
from faststream.confluent import KafkaBroker as ConfluentBroker
from faststream.kafka import KafkaBroker

from kafka_shim.testing import AsyncCoordinator


@pytest.mark.asyncio
@pytest.mark.kafka_coordinator(topics={"orders": 1})
async def test_a_record_with_a_failed_handler_comes_again(kafka_coordinator_async: AsyncCoordinator) -> None:
    """With NACK_ON_ERROR the offset of a record is committed when its handler has succeeded, in order.

    https://github.com/ag2ai/faststream/issues/2618 (FastStream with aiokafka, 2025)
    """
    kafka = kafka_coordinator_async
    broker = KafkaBroker(kafka.bootstrap)
    tries: list[str] = []

    @broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR)
    async def bill(order: str) -> None:
        tries.append(order)
        if len(tries) < 3:
            raise ValueError("not yet")

    kafka.produce("orders", "one", "two")
    await broker.start()
    await kafka.group("billing").caught_up()
    assert tries == ["one", "one", "one", "two"]
    await broker.stop()


@pytest.mark.asyncio
@pytest.mark.kafka_coordinator(topics={"orders": 1})
async def test_nothing_is_committed_while_a_handler_runs(kafka_coordinator_async: AsyncCoordinator) -> None:
    """With ACK nothing is committed before the handler ends, ten times as long as the interval of automatic commits.

    https://github.com/ag2ai/faststream/issues/2610 (FastStream with confluent-kafka, 2025)
    """
    kafka = kafka_coordinator_async
    broker = ConfluentBroker(kafka.bootstrap)
    began, may_end = asyncio.Event(), asyncio.Event()

    @broker.subscriber(
        "orders",
        group_id="billing",
        auto_offset_reset="earliest",
        ack_policy=AckPolicy.ACK,
        auto_commit_interval_ms=100,
    )
    async def bill(order: str) -> None:
        began.set()
        await may_end.wait()

    kafka.produce("orders", "one")
    await broker.start()
    await began.wait()
    await kafka.group("billing").no_commit_for(1)
    may_end.set()
    await kafka.group("billing").caught_up()
    await broker.stop()
