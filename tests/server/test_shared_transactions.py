"""Transactions that span processes: one database, three processes, unmodified producers and consumers."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_shim.apis.end_txn import EndTxnRequest, EndTxnResponse
from kafka_shim.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.persistence.batch import Record, write_batch
from kafka_shim.persistence.partition import partition_for
from tests import postgres
from tests.clients.test_transactions import Pipe, fill, read
from tests.server.shared import Process, processes
from tests.server.wire import Client
from tests.waiting import PATIENCE_S, until

pytestmark = [
    pytest.mark.second_stage("several servers on PostgreSQL"),
    pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed"),
]

TOPICS = ("in", "out")
GROUPS = [f"group-{n}" for n in range(12)]
PARTITIONS = 6


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres.postgres_server() as url:
        yield url


@pytest.fixture(scope="module")
def made(url: str) -> Iterator[list[Process]]:
    declared = [option for topic in ("in:1", "out:1", f"t:{PARTITIONS}") for option in ("--topic", topic)]
    with processes(url, "--lease", "3", *declared) as made:
        yield made


@pytest.fixture
def cluster(url: str, made: list[Process]) -> list[Process]:
    """Start three processes, each with a third of the partitions."""
    for process in made:
        process.start()
    for process in made:
        process.ready()
    query = (
        "SELECT count(*) FROM kafka_shim_leases leases JOIN kafka_shim_nodes USING (incarnation) "
        "WHERE leases.expires > now() GROUP BY incarnation"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        until(lambda: sorted(row[0] for row in connection.execute(query)) == [16, 17, 17])
    until(lambda: len({metadata_of(process) for process in made}) == 1)
    return made


def metadata_of(process: Process) -> str:
    """Return a process's view of the nodes and of the leaders."""
    topics = [MetadataRequestTopic(name=name) for name in ("t", "__consumer_offsets")]
    with Client(process.bootstrap) as client:
        answer = client.ask(MetadataRequest(topics), 9, MetadataResponse)
    return repr((answer.brokers, [[each.leader_id for each in topic.partitions] for topic in answer.topics]))


def owner(url: str, name: str) -> int:
    """Return the node that coordinates a group or a transactional id."""
    with psycopg.connect(url, autocommit=True) as connection:
        query = "SELECT node_id FROM kafka_shim_leases WHERE partition = %s"
        found = connection.execute(query, (partition_for(name, 50),)).fetchone()
    assert found is not None
    return int(found[0] or 0)


def producer(started: list[Process], name: str, at: int = 0) -> Producer:
    config = {"bootstrap.servers": started[at].bootstrap, "transactional.id": name, "socket.timeout.ms": 3000}
    made = Producer(config)
    made.init_transactions(PATIENCE_S)
    return made


def send_offsets(bootstrap: str, to: Producer, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    to.send_offsets_to_transaction([TopicPartition("t", 0, offset)], consumer.consumer_group_metadata(), PATIENCE_S)
    consumer.close()


def committed(bootstrap: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"})
    ends = time.monotonic() + PATIENCE_S
    while True:
        try:
            (found,) = consumer.committed([TopicPartition("t", 0)], PATIENCE_S)
        except KafkaException as error:
            # librdkafka asks once: where the coordinator is moving it is up to the application to ask again.
            if error.args[0].code() != KafkaError.NOT_COORDINATOR or time.monotonic() > ends:
                raise
            consumer.poll(0.1)
            continue
        consumer.close()
        return max(found.offset, -1)


def stable(bootstrap: str) -> list[tuple[int, int]]:
    """Return the last stable offset and the end of the log, by partition of `t`."""
    ends = []
    for level in ("read_committed", "read_uncommitted"):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "r", "isolation.level": level})
        ends.append([consumer.get_watermark_offsets(TopicPartition("t", p), 10)[1] for p in range(PARTITIONS)])
        consumer.close()
    return list(zip(*ends, strict=True))


def test_consume_transform_produce(cluster: list[Process]) -> None:
    bootstrap = cluster[0].bootstrap
    values = fill(bootstrap, "in", 30)
    pipe = Pipe(bootstrap, "pipe", "in", "out")
    assert pipe.run(10, commit=True) == values[:10]
    assert pipe.run(10, commit=False) == values[10:20]
    assert pipe.run(20, commit=True) == values[10:30]
    pipe.consumer.close()
    assert read(cluster[1].bootstrap, "r", "out", "read_committed") == [value + b"+" for value in values]
    everything = read(cluster[2].bootstrap, "u", "out", "read_uncommitted")
    assert sorted(everything) == sorted([v + b"+" for v in values] + [v + b"-" for v in values[10:20]])


def test_one_transaction_has_groups_and_partitions_of_all_processes(url: str, cluster: list[Process]) -> None:
    bootstrap = cluster[0].bootstrap
    assert {owner(url, group) for group in GROUPS} == {1, 2, 3}
    leaders = AdminClient({"bootstrap.servers": bootstrap}).list_topics("t", 10).topics["t"].partitions.values()
    assert len({partition.leader for partition in leaders}) > 1
    by_coordinator = {owner(url, name): name for name in (f"id-{n}" for n in range(20))}
    assert by_coordinator.keys() == {1, 2, 3}
    for name in by_coordinator.values():
        transactional = producer(cluster, name)
        before = [committed(bootstrap, group) for group in GROUPS]
        for offset, commit in ((before[0] + 1, True), (before[0] + 2, False)):
            transactional.begin_transaction()
            for partition in range(PARTITIONS):
                transactional.produce("t", b"%d" % commit, partition=partition)
            transactional.flush(PATIENCE_S)
            for group in GROUPS:
                send_offsets(bootstrap, transactional, group, offset)
            (transactional.commit_transaction if commit else transactional.abort_transaction)(PATIENCE_S)
        assert [committed(bootstrap, group) for group in GROUPS] == [before[0] + 1] * len(GROUPS)
    until(lambda: all(ends == log for ends, log in stable(bootstrap)))


def test_a_second_producer_at_another_process_fences_the_first(cluster: list[Process]) -> None:
    first = producer(cluster, "fenced")
    first.begin_transaction()
    first.produce("t", b"x")
    assert first.flush(PATIENCE_S) == 0
    second = producer(cluster, "fenced", at=1)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(PATIENCE_S)
    assert refused.value.args[0].fatal()
    second.begin_transaction()
    second.produce("t", b"y")
    second.commit_transaction(PATIENCE_S)


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_transaction_goes_on_when_its_coordinator_is_killed(url: str, cluster: list[Process], commit: bool) -> None:
    name = f"killed-{commit}"
    victim = cluster[owner(url, name) - 1]
    rest = [process for process in cluster if process is not victim]
    group = next(group for group in GROUPS if owner(url, group) != victim.node_id)
    before = committed(rest[0].bootstrap, group)
    transactional = producer(rest, name)
    transactional.begin_transaction()
    send_offsets(rest[0].bootstrap, transactional, group, before + 1)
    victim.kill()
    (transactional.commit_transaction if commit else transactional.abort_transaction)(PATIENCE_S)
    assert committed(rest[0].bootstrap, group) == before + commit
    assert owner(url, name) != victim.node_id


def test_a_coordinator_that_slept_ends_no_later_transaction(url: str, cluster: list[Process]) -> None:
    name = "slept"
    victim = cluster[owner(url, name) - 1]
    rest = [process for process in cluster if process is not victim]
    group = next(group for group in GROUPS if owner(url, group) != victim.node_id)
    before = committed(rest[0].bootstrap, group)
    transactional = producer(rest, name)
    transactional.begin_transaction()
    send_offsets(rest[0].bootstrap, transactional, group, before + 1)
    victim.signal(signal.SIGSTOP)
    try:
        # The request to commit is sent now; the process reads it when it wakes.
        transactional.commit_transaction(PATIENCE_S)
        transactional.begin_transaction()
        send_offsets(rest[0].bootstrap, transactional, group, before + 2)
    finally:
        victim.signal(signal.SIGCONT)
    with Client(victim.bootstrap) as client:
        init = InitProducerIdRequest(name, 60_000)
        assert client.ask(init, 4, InitProducerIdResponse).error_code == ErrorCode.NOT_COORDINATOR
    assert owner(url, name) != victim.node_id
    transactional.abort_transaction(PATIENCE_S)
    assert committed(rest[0].bootstrap, group) == before + 1


def test_a_decided_transaction_ends_when_the_coordinator_of_its_group_returns(url: str, cluster: list[Process]) -> None:
    name = "decided"
    coordinator = owner(url, name)
    group = next(group for group in GROUPS if owner(url, group) != coordinator)
    victim = cluster[owner(url, group) - 1]
    rest = [process for process in cluster if process is not victim]
    before = committed(rest[0].bootstrap, group)
    transactional = producer(rest, name)
    transactional.begin_transaction()
    send_offsets(rest[0].bootstrap, transactional, group, before + 1)
    victim.kill()
    transactional.commit_transaction(PATIENCE_S)
    assert committed(rest[0].bootstrap, group) == before + 1


def test_a_write_at_another_process_adds_its_partition(url: str, cluster: list[Process]) -> None:
    """Producers with `transaction.version` 2 write without AddPartitionsToTxn."""
    name = "adds-itself"
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(process.bootstrap)) for process in cluster]
        coordinator = clients[owner(url, name) - 1]
        init = InitProducerIdRequest(name, 60_000)
        # The partition may be loading, if it has just come here.
        until(lambda: coordinator.ask(init, 5, InitProducerIdResponse).error_code == 0)
        given = coordinator.ask(init, 5, InitProducerIdResponse)
        sender = (given.producer_id, given.producer_epoch)
        metadata = coordinator.ask(MetadataRequest([MetadataRequestTopic(name="t")]), 9, MetadataResponse)
        leaders = {each.partition_index: each.leader_id for each in metadata.topics[0].partitions}
        group = next(group for group in GROUPS if owner(url, group) != owner(url, name))
        before = committed(cluster[0].bootstrap, group)

        def write(partition: int, producer: tuple[int, int], sequence: int, version: int = 12) -> int:
            data = write_batch(
                [Record(0, 0, None, b"x")],
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=sequence,
                transactional=True,
            )
            topics = [TopicProduceData("t", partition_data=[PartitionProduceData(partition, data)])]
            leader = clients[leaders[partition] - 1]
            error = int(ErrorCode.NOT_ENOUGH_REPLICAS)
            # As producers do: the leader may not know yet where the coordinator is now.
            while error == ErrorCode.NOT_ENOUGH_REPLICAS:
                answer = leader.ask(ProduceRequest(name, -1, 1000, topics), version, ProduceResponse)
                error = int(answer.responses[0].partition_responses[0].error_code)
            return error

        assert write(0, sender, 0, version=9) in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE)
        assert [write(partition, sender, 0) for partition in leaders] == [0] * PARTITIONS
        assert [write(partition, sender, 1, version=9) for partition in leaders] == [0] * PARTITIONS
        offsets = [
            TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, before + 1, -1, "")])
        ]
        commit = TxnOffsetCommitRequest(name, group, *sender, topics=offsets)

        def is_accepted() -> bool:
            response = clients[owner(url, group) - 1].ask(commit, 5, TxnOffsetCommitResponse)
            return response.topics[0].partitions[0].error_code == ErrorCode.NONE

        until(is_accepted)
        ended = coordinator.ask(EndTxnRequest(name, *sender, True), 5, EndTxnResponse)
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, sender[0], sender[1] + 1)
        assert committed(cluster[0].bootstrap, group) == before + 1
        until(lambda: all(end == log for end, log in stable(cluster[0].bootstrap)))
        assert write(0, sender, 2) == ErrorCode.INVALID_PRODUCER_EPOCH
