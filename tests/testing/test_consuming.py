"""The wait for consumers that have their positions: what is produced after it reaches them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from kafka import KafkaConsumer

from kafka_shim.lab.interception import Unmatchable
from kafka_shim.testing import AsyncCoordinator, CoordinatorServer, NotReached, polling

pytestmark = pytest.mark.second_stage("real clients")


def of_kafka_python(server: CoordinatorServer, name: str) -> Any:
    return KafkaConsumer("orders", bootstrap_servers=server.bootstrap, group_id="billing", client_id=name)


def of_confluent_kafka(server: CoordinatorServer, name: str, **settings: str) -> Any:
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "billing", "client.id": name, **settings})
    consumer.subscribe(["orders"])
    return consumer


def of_the_consumer_protocol(server: CoordinatorServer, name: str) -> Any:
    return of_confluent_kafka(server, name, **{"group.protocol": "consumer"})


@pytest.mark.parametrize("make", [of_kafka_python, of_confluent_kafka, of_the_consumer_protocol])
def test_a_record_reaches_consumers_that_begin_at_the_end(make: Callable[[CoordinatorServer, str], Any]) -> None:
    with CoordinatorServer(topics={"orders": 4}) as server, closing(make(server, "one")) as first:
        with polling(first) as polled:
            server.group("billing").consuming(members=1)
            server.produce("orders", "a", partition=0)
            polled.wait_records(1)
        with closing(make(server, "two")) as second, polling(first, second) as polled:
            server.group("billing").consuming(members=["one", "two"])
            for number in range(4):
                server.produce("orders", str(number), partition=number)
            assert len(polled.wait_records(4)) == 4


def test_a_record_reaches_aiokafka() -> None:
    async def test() -> None:
        async with AsyncCoordinator(topics={"orders": 2}) as server:
            consumer = AIOKafkaConsumer("orders", bootstrap_servers=server.bootstrap, group_id="billing")
            await consumer.start()
            try:
                await server.group("billing").consuming(members=1)
                server.produce("orders", "a", partition=1)
                assert (await consumer.getone()).value == b"a"
            finally:
                await consumer.stop()

    asyncio.run(test())


def test_a_failed_wait_names_the_partitions_that_are_not_fetched() -> None:
    with CoordinatorServer(topics={"orders": 2}) as server:
        server.puppet("billing", ["orders"], client_id="idle")
        server.group("billing").stable(members=1)
        with pytest.raises(NotReached) as failure:
            server.group("billing").consuming(members=1, timeout=0.1)
        text = str(failure.value)
        assert "each partition to be fetched by its owner, with members=1" in text
        assert "idle does not fetch orders-0 yet." in text
        assert "idle does not fetch orders-1 yet." in text


def test_a_share_group_has_no_positions() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.share_puppet("pool", ["orders"])
        server.group("pool").stable(members=1)
        with pytest.raises(Unmatchable, match="pool is a share group: only classic and consumer groups have positions"):
            server.group("pool").consuming()
