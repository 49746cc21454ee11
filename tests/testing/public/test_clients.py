"""Tests that people asked for in public, each with its thread, for clients of Python and for Django.

`test_frameworks.py` has those for frameworks, `LostPartitionsTest.java` the one for Java and `seek.test.js` that for
KafkaJS, which `../languages` run.
"""

import asyncio
import threading
from contextlib import closing
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaError, KafkaException
from django.conf import settings
from django.core.management import BaseCommand, call_command
from django.test import override_settings
from kafka import KafkaConsumer

from kafka_shim.testing import AsyncCoordinator, CoordinatorServer, polling, watching

pytestmark = pytest.mark.second_stage("real clients and their timeouts")

REBALANCES = (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS)


def of_kafka_python(server: CoordinatorServer, **settings: Any) -> KafkaConsumer:
    defaults = {"bootstrap_servers": server.bootstrap, "group_id": "billing", "client_id": "mine"}
    defaults |= {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 100}
    return KafkaConsumer("orders", **(defaults | settings))


def of_confluent(bootstrap: str, **callbacks: Any) -> Consumer:
    place = {"bootstrap.servers": bootstrap, "group.id": "billing", "client.id": "mine", "heartbeat.interval.ms": 100}
    consumer = Consumer(place | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["orders"], **callbacks)
    return consumer


@pytest.mark.kafka_coordinator(topics={"orders": 2})
def test_kafka_python_keeps_an_idle_session(kafka_coordinator: CoordinatorServer) -> None:
    """No record arrives for longer than the session timeout, and the next commit is accepted.

    https://github.com/dpkp/kafka-python/issues/2610 (kafka-python, 2025)
    """
    group = kafka_coordinator.group("billing")
    consumer = of_kafka_python(kafka_coordinator, session_timeout_ms=500)
    with closing(consumer), polling(consumer) as polled:
        group.owns("mine", {"orders": [0, 1]})
        group.no_rebalance_for(1)
        kafka_coordinator.produce("orders", "the first for a long time")
        polled.wait_records(1)
        polled.call(consumer.commit)
        group.caught_up()


@pytest.mark.kafka_coordinator(topics={"orders": 4})
def test_confluent_kafka_gives_partitions_up(kafka_coordinator: CoordinatorServer) -> None:
    """A rebalance calls `on_revoke`, without a second consumer in another thread.

    https://github.com/getsentry/snuba/pull/522 (confluent-kafka, 2019)
    """
    gone: list[int] = []
    group = kafka_coordinator.group("billing")
    consumer = of_confluent(
        kafka_coordinator.bootstrap, on_revoke=lambda _, partitions: gone.extend(each.partition for each in partitions)
    )
    with polling(consumer):
        group.owns("mine", {"orders": range(4)})
        kafka_coordinator.puppet("billing", ["orders"], client_id="other")
        now = group.stable(members=["mine", "other"])
        assert sorted(gone) == [0, 1, 2, 3]
        assert len(now.called("mine")[0].owned["orders"]) == 2
    consumer.close()


def test_aiokafka_returns_as_a_static_member() -> None:
    """A static member restarts without a rebalance; when it does not return, another takes its partitions.

    https://github.com/aio-libs/aiokafka/pull/941 (aiokafka, since 2023), where the test sleeps for 25 s
    """

    async def started(kafka: AsyncCoordinator, name: str) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=kafka.bootstrap,
            group_id="billing",
            client_id=name,
            group_instance_id=name,
            session_timeout_ms=25_000,
            heartbeat_interval_ms=100,
        )
        await consumer.start()
        return consumer

    async def test() -> None:
        async with AsyncCoordinator(topics={"orders": 4}) as kafka:
            group = kafka.group("billing")
            stays, restarts = await asyncio.gather(started(kafka, "stays"), started(kafka, "restarts"))
            async with polling(stays):
                async with polling(restarts):
                    before = (await group.stable(members=["stays", "restarts"])).generation
                await restarts.stop()
                restarts = await started(kafka, "restarts")
                async with polling(restarts):
                    await group.no_rebalance_for(heartbeats=3)
                    assert (await group.stable(members=["stays", "restarts"])).generation == before
                await restarts.stop()
                kafka.expire("billing", "restarts")
                await group.stable(owners={"stays": {"orders": range(4)}})
            await stays.stop()

    asyncio.run(test())


class Bill(BaseCommand):
    """A management command that consumes until `stop` is set; a rebalance before its commit does not end it."""

    def __init__(self, seen: list[bytes], stop: threading.Event) -> None:
        super().__init__()
        self.seen, self.stop = seen, stop

    def handle(self, **_: Any) -> None:
        consumer = of_confluent(settings.KAFKA_BOOTSTRAP)
        while not self.stop.is_set():
            message = consumer.poll(0.1)
            if message is None or message.error():
                continue
            self.seen.append(message.value())
            try:
                consumer.commit(message, asynchronous=False)
            except KafkaException as refused:
                if refused.args[0].code() not in REBALANCES:
                    raise
        consumer.close()


@pytest.fixture(scope="module")
def django() -> None:
    if not settings.configured:
        settings.configure(KAFKA_BOOTSTRAP="kafka.production:9092")


@pytest.mark.parametrize("error", ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"])
@pytest.mark.kafka_coordinator(topics={"orders": 1})
def test_a_command_of_django_survives_a_rebalance(
    kafka_coordinator: CoordinatorServer, django: None, error: str
) -> None:
    """The group rebalances between a poll and its commit; the command goes on, and no record is lost.

    https://github.com/PostHog/posthog/pull/68227 (Django with confluent-kafka, 2026)
    """
    seen: list[bytes] = []
    stop = threading.Event()
    refusal = kafka_coordinator.fault("error", "OffsetCommit", error=error)
    kafka_coordinator.produce("orders", "one")
    with override_settings(KAFKA_BOOTSTRAP=kafka_coordinator.bootstrap):
        command = threading.Thread(target=call_command, args=(Bill(seen, stop),), daemon=True)
        with watching(command):
            refusal.wait_fired()
            kafka_coordinator.produce("orders", "two")
            kafka_coordinator.group("billing").caught_up()
            stop.set()
        command.join()
    assert list(dict.fromkeys(seen)) == [b"one", b"two"]
