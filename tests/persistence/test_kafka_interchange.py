"""Offsets committed to a real Kafka are fetched from our coordinator, and the other way round.

The segments of `__consumer_offsets` move between the two; unmodified clients commit and fetch.
"""

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_shim.persistence.interchange import export_offsets, import_offsets
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.testing.server import CoordinatorServer

from .real_kafka import PARTITIONS, RealKafka

pytestmark = pytest.mark.second_stage("a real Kafka")

TOPIC = "orders"
GROUPS = [f"group-{n}" for n in range(12)]
T = TypeVar("T")
COMING = {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
SETTINGS = {"offsets.topic.num.partitions": str(PARTITIONS), "group.initial.rebalance.delay.ms": "0"}


def consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})


def patiently(ask: Callable[[], T]) -> T:
    """Repeat a request until the coordinator of a newly started broker is available."""
    limit = time.monotonic() + 30
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in COMING or time.monotonic() > limit:
                raise


def make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(30)


def commit(bootstrap: str) -> None:
    """Commit in each group: its number and the partition's, with metadata; group 11 deletes one offset."""
    for n, group in enumerate(GROUPS):
        each = consumer(bootstrap, group)
        for offset in (1, 100 * n):
            offsets = [TopicPartition(TOPIC, p, offset + p, metadata=f"m{n}") for p in range(3)]
            patiently(partial(each.commit, offsets=offsets, asynchronous=False))
        each.close()


def commit_in_transactions(bootstrap: str) -> None:
    """Commit offsets of groups 0 and 1 in transactions: committed, aborted, and left open."""
    for name, group, offset, end in (
        ("commits", GROUPS[0], 5000, Producer.commit_transaction),
        ("aborts", GROUPS[1], 6000, Producer.abort_transaction),
        ("hangs", GROUPS[2], 7000, Producer.flush),
    ):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        producer.init_transactions(30)
        producer.begin_transaction()
        of = consumer(bootstrap, group)
        producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, offset)], of.consumer_group_metadata(), 30)
        end(producer)
        of.close()


def committed(bootstrap: str) -> dict[tuple[str, int], tuple[int, str | None]]:
    """Return offset and metadata of every group and partition, as consumers fetch them."""
    offsets = {}
    for group in GROUPS:
        each = consumer(bootstrap, group)
        for got in patiently(lambda each=each: each.committed([TopicPartition(TOPIC, p) for p in range(3)], 30)):
            offsets[group, got.partition] = got.offset, got.metadata
        each.close()
    return offsets


EXPECTED = {(group, p): (100 * n + p, f"m{n}") for n, group in enumerate(GROUPS) for p in range(3)}


def test_offsets_of_a_real_kafka_are_fetched_from_us(tmp_path: Path) -> None:
    kafka = RealKafka(tmp_path)
    with kafka.running() as bootstrap:
        make_topic(bootstrap)
        commit(bootstrap)
        commit_in_transactions(bootstrap)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.delete_consumer_groups([GROUPS[5]])[GROUPS[5]].result(30)
    store = MemoryStore()
    imported = import_offsets(kafka.data, store, PARTITIONS, keep_topic_ids=False)
    assert (imported.files, imported.problems, imported.pending) == (PARTITIONS, [], 1)
    with CoordinatorServer(config=SETTINGS, topics={TOPIC: 3}, store=store) as server:
        got = committed(server.bootstrap)
    expected = EXPECTED | {(GROUPS[0], 0): (5000, ""), **{(GROUPS[5], p): (-1001, None) for p in range(3)}}
    assert {key: (offset, metadata or None) for key, (offset, metadata) in got.items()} == {
        key: (offset, metadata or None) for key, (offset, metadata) in expected.items()
    }


def test_our_offsets_are_fetched_from_a_real_kafka(tmp_path: Path) -> None:
    kafka = RealKafka(tmp_path)
    with kafka.running() as bootstrap:
        make_topic(bootstrap)
        # The first search for a coordinator creates the offsets topic; its id is in each folder's partition.metadata.
        assert committed(bootstrap)[GROUPS[0], 0][0] == -1001
    store = MemoryStore()
    with CoordinatorServer(config=SETTINGS, topics={TOPIC: 3}, store=store) as server:
        commit(server.bootstrap)
        commit_in_transactions(server.bootstrap)
    assert export_offsets(store, PARTITIONS, tmp_path / "ours", 1234, codec="zstd", keep_topic_ids=False) == 36
    for ours in (tmp_path / "ours").iterdir():
        theirs = kafka.data / ours.name
        for file in theirs.iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        shutil.copytree(ours, theirs, dirs_exist_ok=True)
    with kafka.running() as bootstrap:
        got = committed(bootstrap)
    expected = EXPECTED | {(GROUPS[0], 0): (5000, "")}
    assert {key: (offset, metadata or "") for key, (offset, metadata) in got.items()} == expected
