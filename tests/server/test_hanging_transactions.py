"""Transactions in the log of a process after a pause: another process led its partitions for that time."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests import postgres
from tests.server.shared import Process, processes
from tests.server.wire import Client
from tests.waiting import PATIENCE_S, until

pytestmark = [
    pytest.mark.second_stage("several servers on PostgreSQL"),
    pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed"),
]

PARTITIONS = 6
LEASE_S = 6
"""Long enough for a busy machine, and the time that the test waits."""


@pytest.fixture
def pair() -> Iterator[list[Process]]:
    with (
        postgres.postgres_server() as url,
        processes(url, "--lease", str(LEASE_S), "--topic", f"t:{PARTITIONS}", nodes=(1, 2)) as made,
    ):
        until(lambda: len({tuple(leaders(process)) for process in made}) == 1)
        yield made


def leaders(process: Process) -> list[int]:
    """Return the leader of each partition of `t`, as a process sees it."""
    with Client(process.bootstrap) as client:
        answer = client.ask(MetadataRequest([MetadataRequestTopic(name="t")]), 9, MetadataResponse)
    return [each.leader_id for each in sorted(answer.topics[0].partitions, key=lambda each: each.partition_index)]


def written(process: Process, name: str, value: bytes, partition: int) -> Producer:
    """Return a producer after one record of an open transaction."""
    producer = Producer({"bootstrap.servers": process.bootstrap, "transactional.id": name, "socket.timeout.ms": 3000})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t", value, partition=partition)
    assert producer.flush(PATIENCE_S) == 0
    return producer


def committed_values(process: Process, partition: int) -> list[bytes | None]:
    config = {
        "bootstrap.servers": process.bootstrap,
        "group.id": "r",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(config)
    consumer.assign([TopicPartition("t", partition, 0)])
    values = []
    try:
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF
                return values
            values.append(message.value())
    finally:
        consumer.close()


def ends(process: Process, partition: int) -> tuple[int, int]:
    """Return the last stable offset and the end of the log."""
    offsets = []
    for level in ("read_committed", "read_uncommitted"):
        consumer = Consumer({"bootstrap.servers": process.bootstrap, "group.id": "r", "isolation.level": level})
        offsets.append(consumer.get_watermark_offsets(TopicPartition("t", partition), PATIENCE_S)[1])
        consumer.close()
    return offsets[0], offsets[1]


def test_log_of_a_process_that_slept_ends_what_has_ended(pair: list[Process]) -> None:
    awake, victim = pair
    partition = leaders(awake).index(victim.node_id)
    first, second, third = (written(awake, name, name.encode(), partition) for name in ("first", "second", "third"))
    victim.signal(signal.SIGSTOP)
    try:
        until(lambda: set(leaders(awake)) == {awake.node_id})
        first.commit_transaction(PATIENCE_S)
        second.abort_transaction(PATIENCE_S)
    finally:
        victim.signal(signal.SIGCONT)
    until(lambda: leaders(awake)[partition] == leaders(victim)[partition] == victim.node_id)
    # Three records and two markers; the transaction of the third record is open.
    until(lambda: ends(awake, partition) == (2, 5))
    third.commit_transaction(PATIENCE_S)
    until(lambda: ends(awake, partition) == (6, 6))
    assert committed_values(awake, partition) == [b"first", b"third"]
