"""Rewinding a group that is alive, with unmodified clients."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from confluent_kafka import Consumer
from kafka import KafkaConsumer, KafkaProducer
from kafka.coordinator.assignors.range import RangePartitionAssignor

from kafka_shim.lab.rewind import CannotRewind
from kafka_shim.testing import CoordinatorServer

PARTITIONS = 24
BEFORE = 40
REWOUND = 15


class Log:
    """The consumed offsets of each partition, in order."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.consumed: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}

    def add(self, partition: int, offset: int) -> None:
        with self.changed:
            self.consumed[partition].append(offset)
            self.changed.notify_all()

    def wait(self, condition: Callable[[list[int]], bool]) -> None:
        def holds() -> bool:
            return all(condition(offsets) for offsets in self.consumed.values())

        with self.changed:
            assert self.changed.wait_for(holds, 40), self.consumed


@contextmanager
def thread(run: Callable[[threading.Event], None]) -> Iterator[None]:
    stop = threading.Event()
    running = threading.Thread(target=run, args=(stop,))
    running.start()
    try:
        yield
    finally:
        stop.set()
        running.join()


def with_kafka_python(bootstrap: str, log: Log) -> Callable[[threading.Event], None]:
    def run(stop: threading.Event) -> None:
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=bootstrap, group_id="billing", auto_offset_reset="earliest",
            auto_commit_interval_ms=100, heartbeat_interval_ms=200, max_poll_records=20,
            partition_assignment_strategy=[RangePartitionAssignor],
        )  # fmt: skip
        # When a poll ends within a join, kafka-python may ignore every later one.
        consumer.partitions_for_topic("orders")
        while not stop.is_set():
            for partition, records in consumer.poll(timeout_ms=1000).items():
                for record in records:
                    log.add(partition.partition, record.offset)
        consumer.close()

    return run


def with_confluent(bootstrap: str, log: Log) -> Callable[[threading.Event], None]:
    def run(stop: threading.Event) -> None:
        consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100, "heartbeat.interval.ms": 200, "partition.assignment.strategy": "range",
        })  # fmt: skip
        consumer.subscribe(["orders"])
        while not stop.is_set():
            record = consumer.poll(0.05)
            if record is not None and not record.error():
                log.add(record.partition(), record.offset())
        consumer.close()

    return run


def with_aiokafka(bootstrap: str, log: Log) -> Callable[[threading.Event], None]:
    async def consume(stop: threading.Event) -> None:
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=bootstrap, group_id="billing", auto_offset_reset="earliest",
            auto_commit_interval_ms=100, heartbeat_interval_ms=200, partition_assignment_strategy=[AioRange],
        )  # fmt: skip
        await consumer.start()
        while not stop.is_set():
            for partition, records in (await consumer.getmany(timeout_ms=50, max_records=20)).items():
                for record in records:
                    log.add(partition.partition, record.offset)
        await consumer.stop()

    return lambda stop: asyncio.run(consume(stop))


def fill(producer: KafkaProducer, records: int) -> None:
    for partition in range(PARTITIONS):
        for _ in range(records):
            producer.send("orders", b"x", partition=partition)
    producer.flush()


def test_six_members_of_three_clients_restart_without_old_commits() -> None:
    log = Log()
    with CoordinatorServer(topics={"orders": PARTITIONS}) as server, ExitStack() as stack:
        producer = KafkaProducer(bootstrap_servers=server.bootstrap, linger_ms=5)
        fill(producer, BEFORE)
        for client in (with_kafka_python, with_confluent, with_aiokafka) * 2:
            stack.enter_context(thread(client(server.bootstrap, log)))
        group = server.group("billing")
        before = group.stable(members=6, timeout=40)
        log.wait(lambda offsets: BEFORE - 1 in offsets)
        cut = server.call(lambda: server.kit.history.seen)
        assert server.rewind("billing", {("orders", partition): REWOUND for partition in range(PARTITIONS)}) == 6
        # Under load: a producer adds records all the time.
        fill(producer, 10)
        group.stable(members=6, generation=before.generation + 2, timeout=40)
        log.wait(lambda offsets: offsets.count(BEFORE + 9) >= 1 and offsets.count(BEFORE - 1) >= 2)
        for partition in range(PARTITIONS):
            group.committed("orders", partition, at_least=BEFORE + 10, timeout=20)
        for offsets in log.consumed.values():
            again = len(offsets) - 1 - offsets[::-1].index(REWOUND)
            assert again > offsets.index(REWOUND)
            assert offsets[again:] == list(range(REWOUND, BEFORE + 10))
        later = server.call(lambda: [event for _, _, event in server.kit.history.since(cut, "billing")])
        accepted = [event for event in later if event["event"] == "commit" and not event["error"]]
        rewound = next(number for number, event in enumerate(accepted) if event["member_id"] == "")
        assert all(event["generation"] > before.generation for event in accepted[rewound + 1 :])
        producer.close()


def test_an_empty_group_is_rewound_too() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        puppet = server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        puppet.commit({("orders", 0): 9})
        server.group("billing").committed("orders", 0, at_least=9)
        puppet.leave()
        server.group("billing").empty()
        assert server.rewind("billing", {("orders", 0): 3}) == 0
        assert server.group("billing").committed("orders", 0) == 3


def test_a_dead_member_is_waited_for_no_longer_than_its_session() -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        server.puppet("billing", ["orders"], client_id="good")
        dead = server.puppet("billing", ["orders"], client_id="dead", session_timeout=0.5)
        server.group("billing").stable(members=2)
        dead.crash()
        assert server.rewind("billing", {("orders", 0): 3}) == 2
        server.group("billing").stable(members=["good"], owners={"good": {"orders": range(4)}})


@pytest.mark.parametrize(
    ("group", "offsets", "message"),
    [
        ("other", {}, "no such group"),
        ("billing", {("orders", 7): 0}, "no partition orders-7"),
        ("billing", {("orders", 0): -2}, "not -2"),
    ],
)
def test_an_impossible_rewind_changes_nothing(group: str, offsets: dict[tuple[str, int], int], message: str) -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.puppet("billing", ["orders"])
        before = server.group("billing").stable(members=1)
        with pytest.raises(CannotRewind, match=message):
            server.rewind(group, offsets)
        assert server.group("billing").now == before
