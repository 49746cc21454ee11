"""Consume, transform, produce: the reads, writes and commits of one transaction count together or not at all."""

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

pytestmark = pytest.mark.second_stage("real clients")


class Pipe:
    """Reads `source` and writes each value to `target`, a transaction for every call of `run`."""

    def __init__(self, bootstrap: str, name: str, source: str, target: str) -> None:
        common = {"bootstrap.servers": bootstrap}
        self.target = target
        self.consumer = Consumer(
            common
            | {
                "group.id": f"{name}-pipe",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self.consumer.subscribe([source])
        self.producer = Producer(common | {"transactional.id": f"{name}-id"})
        self.producer.init_transactions(30)

    def run(self, count: int, *, commit: bool) -> list[bytes]:
        """Move `count` records, commit or abort, and return them. Aborted records are read again."""
        self.producer.begin_transaction()
        values = []
        for message in self.consumer.consume(count, 30):
            assert message.error() is None
            values.append(message.value())
            self.producer.produce(self.target, message.value() + (b"+" if commit else b"-"))
        self.producer.flush(30)
        positions = [each for each in self.consumer.position(self.consumer.assignment()) if each.offset >= 0]
        self.producer.send_offsets_to_transaction(positions, self.consumer.consumer_group_metadata(), 30)
        if commit:
            self.producer.commit_transaction(30)
        else:
            self.producer.abort_transaction(30)
            for each in self.consumer.committed(self.consumer.assignment(), 30):
                self.consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))
        return values


def read(bootstrap: str, name: str, topic: str, isolation: str) -> list[bytes]:
    """Return all values in a topic of one partition."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": name, "isolation.level": isolation, "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            consumer.close()
            return values
        values.append(message.value())


def fill(bootstrap: str, topic: str, count: int) -> list[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap})
    values = [b"%03d" % n for n in range(count)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    return values


def test_a_transaction_consumes_transforms_and_produces(
    bootstrap: str, name: str, make_topic: Callable[..., str]
) -> None:
    source, target = make_topic(1, "-in"), make_topic(1, "-out")
    values = fill(bootstrap, source, 30)
    pipe = Pipe(bootstrap, name, source, target)
    assert pipe.run(10, commit=True) == values[:10]
    assert pipe.run(10, commit=False) == values[10:20]
    assert pipe.run(20, commit=True) == values[10:30]
    (committed,) = pipe.consumer.committed([TopicPartition(source, 0)], 30)
    assert committed.offset == 30
    pipe.consumer.close()
    assert read(bootstrap, f"{name}-r", target, "read_committed") == [value + b"+" for value in values]
    everything = read(bootstrap, f"{name}-u", target, "read_uncommitted")
    assert sorted(everything) == sorted([v + b"+" for v in values] + [v + b"-" for v in values[10:20]])


def test_uncommitted_records_are_not_read(bootstrap: str, name: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(1)
    fill(bootstrap, topic, 1)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(30) == 0
    fill(bootstrap, topic, 2)
    assert read(bootstrap, f"{name}-r", topic, "read_committed") == [b"000"]
    assert len(read(bootstrap, f"{name}-u", topic, "read_uncommitted")) == 4
    producer.commit_transaction(30)
    assert read(bootstrap, f"{name}-r", topic, "read_committed") == [b"000", b"open", b"000", b"001"]


def test_a_second_producer_of_the_same_id_fences_the_first(
    bootstrap: str, name: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(1)
    first, second = (Producer({"bootstrap.servers": bootstrap, "transactional.id": name}) for _ in range(2))
    first.init_transactions(30)
    first.begin_transaction()
    first.produce(topic, b"of the first")
    assert first.flush(30) == 0
    second.init_transactions(30)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(30)
    assert refused.value.args[0].fatal()
    second.begin_transaction()
    second.produce(topic, b"of the second")
    second.commit_transaction(30)
    assert read(bootstrap, f"{name}-r", topic, "read_committed") == [b"of the second"]


def test_kafka_python_commits_and_aborts(bootstrap: str, name: str, make_topic: Callable[..., str]) -> None:
    from kafka import KafkaProducer
    from kafka import TopicPartition as At
    from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

    topic = make_topic(1)
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name, max_block_ms=30_000)
    producer.init_transactions()
    for offset, end in ((5, producer.commit_transaction), (9, producer.abort_transaction)):
        producer.begin_transaction()
        producer.send(topic, json.dumps(offset).encode()).get(30)
        offsets = {At(topic, 0): OffsetAndMetadata(offset, "", -1)}
        producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(f"{name}-group", -1, "", None))
        end()
    producer.close()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{name}-group"})
    (committed,) = consumer.committed([TopicPartition(topic, 0)], 30)
    consumer.close()
    assert committed.offset == 5
    assert read(bootstrap, f"{name}-r", topic, "read_committed") == [b"5"]
