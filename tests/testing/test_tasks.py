"""Nineteen tasks of a test's author, each as such a person writes it with the documentation alone."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import FencedInstanceIdError

from kafka_shim.testing import AsyncCoordinator, CoordinatorServer, polling
from kafka_shim.testing.scenarios import zombie


def of_kafka_python(server: CoordinatorServer, client_id: str = "mine", **settings: Any) -> KafkaConsumer:
    defaults = {"group_id": "billing", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    defaults |= {"bootstrap_servers": server.bootstrap, "client_id": client_id, "heartbeat_interval_ms": 100}
    return KafkaConsumer("orders", **(defaults | settings))


def of_confluent(server: CoordinatorServer, **settings: Any) -> Consumer:
    defaults = {"bootstrap.servers": server.bootstrap, "group.id": "billing", "client.id": "mine", "log_level": 0}
    consumer = Consumer(defaults | {"auto.offset.reset": "earliest", "enable.auto.commit": False} | settings)
    consumer.subscribe(["orders"])
    return consumer


@pytest.mark.kafka_coordinator(topics={"orders": 2})
def test_all_is_processed_and_committed(kafka_coordinator: CoordinatorServer) -> None:
    kafka_coordinator.produce("orders", "a", "b", "c", key="customer-7")
    seen: list[bytes] = []
    with closing(of_kafka_python(kafka_coordinator)) as consumer:
        while len(seen) < 3:
            for records in consumer.poll(500).values():
                seen += [record.value for record in records]
        consumer.commit()
        kafka_coordinator.group("billing").caught_up()
    assert seen == [b"a", b"b", b"c"]
    assert sum(kafka_coordinator.lag("billing").values()) == 0


@pytest.mark.kafka_coordinator(topics={"orders": 4})
def test_a_second_consumer_gets_its_part_and_gives_it_back(kafka_coordinator: CoordinatorServer) -> None:
    one, two = of_kafka_python(kafka_coordinator, "one"), of_kafka_python(kafka_coordinator, "two")
    group = kafka_coordinator.group("billing")
    with closing(one), polling(one):
        group.stable(owners={"one": {"orders": range(4)}})
        with closing(two), polling(two):
            now = group.stable(members=["one", "two"])
            owners = [now.owner("orders", number) for number in range(4)]
            assert {owner.client_id for owner in owners if owner} == {"one", "two"}
        group.stable(owners={"one": {"orders": range(4)}})


@pytest.mark.kafka_coordinator(topics={"orders": 1})
def test_a_refused_commit_is_tried_again(kafka_coordinator: CoordinatorServer) -> None:
    fault = kafka_coordinator.fault("error", "OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", times=2)
    kafka_coordinator.produce("orders", "a")
    with closing(of_kafka_python(kafka_coordinator)) as consumer:
        assert next(consumer).value == b"a"
        consumer.commit()
    assert fault.fired == 2
    assert kafka_coordinator.group("billing").committed("orders", 0) == 1


@pytest.mark.kafka_coordinator(topics={"orders": 1})
def test_the_answer_to_a_commit_is_lost(kafka_coordinator: CoordinatorServer) -> None:
    fault = kafka_coordinator.fault("close", "OffsetCommit", when="applied")
    kafka_coordinator.produce("orders", "a")
    with closing(of_kafka_python(kafka_coordinator)) as consumer:
        next(consumer)
        consumer.commit()
    assert fault.fired == 1
    assert kafka_coordinator.group("billing").committed("orders", 0) == 1


@pytest.mark.kafka_coordinator(topics={"orders": 4})
def test_a_static_member_returns_without_a_rebalance(kafka_coordinator: CoordinatorServer) -> None:
    group = kafka_coordinator.group("billing")
    kafka_coordinator.puppet("billing", ["orders"], client_id="other")
    first = of_kafka_python(kafka_coordinator, "first", group_instance_id="pod-1")
    with polling(first):
        before = group.stable(members=["pod-1", "other"]).generation
    kafka_coordinator.kill("first")
    first.close(timeout_ms=500)
    second = of_kafka_python(kafka_coordinator, "second", group_instance_id="pod-1")
    with closing(second), polling(second):
        group.no_rebalance_for(heartbeats=3)
        assert group.stable(members=["pod-1", "other"]).generation == before


@pytest.mark.kafka_coordinator(topics={"orders": 2})
def test_of_two_with_one_instance_id_the_first_is_fenced(kafka_coordinator: CoordinatorServer) -> None:
    """kafka-python 3.0 is silent after a heartbeat that says so; a request of its user raises the error."""
    kafka_coordinator.produce("orders", "a")
    first = of_kafka_python(kafka_coordinator, "one", group_instance_id="pod-1")
    with polling(first, raises=FencedInstanceIdError) as polled:
        polled.wait_records(1)
        second = of_kafka_python(kafka_coordinator, "two", group_instance_id="pod-1")
        with closing(second), polling(second) as other:
            other.wait_records(1)
            with pytest.raises(FencedInstanceIdError):
                polled.call(first.commit)
    first.close(timeout_ms=500)


@pytest.mark.kafka_coordinator(topics={"orders": 2})
def test_who_does_not_poll_loses_its_partitions(kafka_coordinator: CoordinatorServer) -> None:
    group = kafka_coordinator.group("billing")
    with closing(of_kafka_python(kafka_coordinator, max_poll_interval_ms=1000)) as slow:
        with polling(slow):
            group.stable(owners={"mine": {"orders": [0, 1]}})
        assert group.empty().state == "Empty"


@pytest.mark.kafka_coordinator(topics={"orders": 1}, brokers=2)
def test_the_coordinator_dies_and_the_consumer_goes_on(kafka_coordinator: CoordinatorServer) -> None:
    group = kafka_coordinator.group("billing")
    with closing(of_kafka_python(kafka_coordinator)) as consumer, polling(consumer) as polled:
        group.stable(members=["mine"])
        kafka_coordinator.kill_broker(kafka_coordinator.coordinator_of("billing"))
        kafka_coordinator.produce("orders", "after it")
        assert polled.wait_records(1)[0].value == b"after it"
        polled.call(consumer.commit)
        assert group.committed("orders", 0, at_least=1) == 1


@pytest.mark.kafka_coordinator(topics={"orders": 1})
def test_a_consumer_begins_where_its_group_was_and_is_rewound(kafka_coordinator: CoordinatorServer) -> None:
    kafka_coordinator.produce("orders", *"abcdef")
    kafka_coordinator.seed_offsets("billing", {("orders", 0): 4})
    with closing(of_kafka_python(kafka_coordinator)) as consumer, polling(consumer) as polled:
        assert [record.value for record in polled.wait_records(2)] == [b"e", b"f"]
        kafka_coordinator.rewind("billing", {("orders", 0): 2})
        assert [record.value for record in polled.wait_records(6)][2:] == [b"c", b"d", b"e", b"f"]


@pytest.mark.kafka_coordinator(topics={"orders-eu": 1})
def test_a_pattern_finds_a_new_topic(kafka_coordinator: CoordinatorServer) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka_coordinator.bootstrap,
            "group.id": "billing",
            "client.id": "mine",
            "group.protocol": "consumer",
        }
    )
    consumer.subscribe(["^orders-.*"])
    group = kafka_coordinator.group("billing")
    with polling(consumer):
        group.owns("mine", {"orders-eu": [0]})
        kafka_coordinator.create_topic("orders-us")
        kafka_coordinator.clock.advance(10)
        now = group.owns("mine", {"orders-eu": [0], "orders-us": [0]})
        assert now.generation > 1
    consumer.close()


@pytest.mark.kafka_coordinator(topics={"orders": 1, "orders.dlt": 1})
def test_poison_goes_to_the_dead_letters(kafka_coordinator: CoordinatorServer) -> None:
    kafka_coordinator.produce("orders", "good", "poison", "good")
    producer = KafkaProducer(bootstrap_servers=kafka_coordinator.bootstrap)
    with closing(producer), closing(of_kafka_python(kafka_coordinator)) as consumer:
        for _ in range(3):
            record = next(consumer)
            if record.value == b"poison":
                producer.send("orders.dlt", record.value, headers=[("cause", b"poison")]).get(10)
            consumer.commit()
        kafka_coordinator.group("billing").caught_up("orders")
    (letter,) = kafka_coordinator.records("orders.dlt")
    assert (letter.value, dict(letter.headers)) == (b"poison", {"cause": b"poison"})


@pytest.mark.kafka_coordinator(topics={"orders": 4})
def test_a_consumer_that_was_away_takes_part_again(kafka_coordinator: CoordinatorServer) -> None:
    group = kafka_coordinator.group("billing")
    kafka_coordinator.puppet("billing", ["orders"], client_id="heir")
    with closing(of_kafka_python(kafka_coordinator)) as consumer, polling(consumer):
        before = group.stable(members=["mine", "heir"]).generation
        kafka_coordinator.play(zombie, "billing", "mine")
        assert group.stable(members=["mine", "heir"]).generation > before


def test_offsets_survive_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'offsets.db'}"
    with CoordinatorServer(topics={"orders": 1}, store=store) as server:
        server.produce("orders", "a", "b")
        with closing(of_kafka_python(server)) as consumer:
            assert [next(consumer).value, next(consumer).value] == [b"a", b"b"]
            consumer.commit()
    with CoordinatorServer(topics={"orders": 1}, store=store) as server:
        assert server.group("billing").committed("orders", 0) == 2


@pytest.mark.kafka_coordinator(topics={"orders": 1})
def test_a_commit_in_the_test(kafka_coordinator: CoordinatorServer) -> None:
    kafka_coordinator.produce("orders", "a", "b")
    consumer = of_confluent(kafka_coordinator)
    with polling(consumer) as polled:
        polled.wait_records(2)
        consumer.commit(asynchronous=False)
        kafka_coordinator.group("billing").caught_up()
        assert kafka_coordinator.lag("billing") == {("orders", 0): 0}
    consumer.close()


@pytest.mark.kafka_coordinator(topics={"orders": 4})
def test_a_consumer_of_the_new_protocol_takes_over(kafka_coordinator: CoordinatorServer) -> None:
    group = kafka_coordinator.group("billing")
    doomed = kafka_coordinator.consumer_puppet("billing", ["orders"], client_id="doomed")
    consumer = of_confluent(kafka_coordinator, **{"group.protocol": "consumer"})
    with polling(consumer):
        group.stable(members=["doomed", "mine"])
        doomed.crash()
        kafka_coordinator.expire("billing", "doomed")
        assert len(group.stable(owners={"mine": {"orders": range(4)}}).members) == 1
    consumer.close()


@pytest.mark.kafka_coordinator(topics={"orders": 4})
def test_a_cooperative_consumer_keeps_what_stays(kafka_coordinator: CoordinatorServer) -> None:
    lost: list[int] = []
    settings = {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 100}
    consumer = of_confluent(kafka_coordinator, **settings)
    consumer.subscribe(["orders"], on_revoke=lambda _, partitions: lost.extend(p.partition for p in partitions))
    group = kafka_coordinator.group("billing")
    with polling(consumer):
        before = group.owns("mine", {"orders": range(4)}).generation
        puppet = kafka_coordinator.puppet("billing", ["orders"], client_id="new", protocols=["cooperative-sticky"])
        now = group.stable(members=["mine", "new"], generation=before + 2)  # one rebalance revokes, one assigns
        assert sorted(lost) == puppet.owned["orders"] == now.called("new")[0].owned["orders"]
        assert len(now.called("mine")[0].owned["orders"]) == 2
    consumer.close()


@pytest.mark.kafka_coordinator(topics={"orders": 1, "results": 1})
def test_a_transaction_that_is_aborted_shows_nothing(kafka_coordinator: CoordinatorServer) -> None:
    kafka_coordinator.produce("orders", "a")
    consumer = of_confluent(kafka_coordinator)
    producer = Producer({"bootstrap.servers": kafka_coordinator.bootstrap, "transactional.id": "billing-1"})
    producer.init_transactions(10)
    with polling(consumer) as polled:
        polled.wait_records(1)
        producer.begin_transaction()
        producer.produce("results", b"a")
        metadata = polled.call(consumer.consumer_group_metadata)
        producer.send_offsets_to_transaction([TopicPartition("orders", 0, 1)], metadata, 10)
        producer.abort_transaction(10)
        assert kafka_coordinator.records("results") == []
        assert kafka_coordinator.lag("billing") == {("orders", 0): 1}
    consumer.close()


@pytest.mark.kafka_coordinator(topics={"orders": 1})
def test_a_released_record_comes_again(kafka_coordinator: CoordinatorServer) -> None:
    kafka_coordinator.set_config({"share.auto.offset.reset": "earliest"}, group="billing")
    kafka_coordinator.produce("orders", "a")
    settings = {"bootstrap.servers": kafka_coordinator.bootstrap, "group.id": "billing"}
    consumer = ShareConsumer(settings | {"share.acknowledgement.mode": "explicit"})
    consumer.subscribe(["orders"])

    def acknowledged(kind: AcknowledgeType) -> tuple[bytes, int]:
        records: list[Any] = []
        while not records:
            records += consumer.poll(1.0)
        consumer.acknowledge(records[0], kind)
        consumer.commit_sync()
        return records[0].value(), records[0].delivery_count()

    assert acknowledged(AcknowledgeType.RELEASE) == (b"a", 1)
    assert acknowledged(AcknowledgeType.ACCEPT) == (b"a", 2)
    consumer.close()


def test_a_consumer_of_an_event_loop_catches_up() -> None:
    async def test() -> None:
        async with AsyncCoordinator(topics={"orders": 2}) as kafka:
            consumer = AIOKafkaConsumer(
                "orders",
                bootstrap_servers=kafka.bootstrap,
                group_id="billing",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=100,
            )
            await consumer.start()
            kafka.produce("orders", "a", "b", "c")
            async with polling(consumer) as polled:
                await polled.wait_records(3)
                await polled.call(consumer.commit)
                await kafka.group("billing").caught_up()
                assert sum(kafka.lag("billing").values()) == 0
            await consumer.stop()

    asyncio.run(test())
