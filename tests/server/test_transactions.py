"""Transactions across several brokers, and a coordinator that moves or ends in the middle."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kafka_shim.control.metrics import Metrics
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.stores import open_store
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.server import ServerConfig
from kafka_shim.testing.server import CoordinatorServer

GROUPS = [f"group-{n}" for n in range(6)]
"""Coordinated by three brokers among them."""


@pytest.fixture
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(brokers=3, topics={"t": 3}) as server:
        yield server


def producer(bootstrap: str, name: str = "id") -> Producer:
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    made.init_transactions(30)
    return made


def send_offsets(bootstrap: str, to: Producer, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    to.send_offsets_to_transaction([TopicPartition("t", 0, offset)], consumer.consumer_group_metadata(), 30)
    consumer.close()


def committed(bootstrap: str, group: str) -> int:
    """Return the stable offset of a group, -1 if there is none. librdkafka waits itself while it is unstable."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"})
    (found,) = consumer.committed([TopicPartition("t", 0)], 10)
    consumer.close()
    return max(found.offset, -1)


def records(bootstrap: str) -> int:
    """Return the number of readable records of `t`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "r", "enable.partition.eof": True})
    consumer.assign([TopicPartition("t", p, 0) for p in range(3)])
    count = ends = 0
    while ends < 3:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            ends += 1
        else:
            count += 1
    consumer.close()
    return count


def test_one_transaction_spans_groups_and_partitions_of_several_brokers(server: CoordinatorServer) -> None:
    transactional = producer(server.bootstrap)
    for offset, end in ((1, transactional.commit_transaction), (2, transactional.abort_transaction)):
        transactional.begin_transaction()
        for partition in range(3):
            transactional.produce("t", b"x", partition=partition)
        transactional.flush(30)
        for group in GROUPS:
            send_offsets(server.bootstrap, transactional, group, offset)
        end(30)
    assert [committed(server.bootstrap, group) for group in GROUPS] == [1] * len(GROUPS)
    assert records(server.bootstrap) == 3


@pytest.mark.parametrize("moved", ["id", GROUPS[0]], ids=["transactional id", "group"])
def test_a_transaction_survives_a_move_of_its_coordinator(server: CoordinatorServer, moved: str) -> None:
    transactional = producer(server.bootstrap)
    transactional.begin_transaction()
    send_offsets(server.bootstrap, transactional, GROUPS[0], 7)
    cluster = server.server.cluster
    partition = partition_for(moved, 50)
    owner = server.call(lambda: cluster.ownership.owners[partition])
    server.call(cluster.move_partition, partition, next(each for each in cluster.nodes if each != owner))
    transactional.commit_transaction(30)
    assert committed(server.bootstrap, GROUPS[0]) == 7


def test_repeated_markers_are_logged_and_counted(server: CoordinatorServer, caplog: pytest.LogCaptureFixture) -> None:
    transactional = producer(server.bootstrap)
    transactional.begin_transaction()
    send_offsets(server.bootstrap, transactional, GROUPS[0], 7)
    cluster = server.server.cluster
    partition = partition_for(GROUPS[0], 50)
    assert partition != partition_for("id", 50)
    cluster.loader.seconds = 0.5
    server.call(cluster.move_partition, partition, server.call(lambda: cluster.ownership.owners[partition]))
    transactional.commit_transaction(30)
    assert committed(server.bootstrap, GROUPS[0]) == 7
    line = "transaction 'id': markers of its commit are sent again, attempt 2: "
    assert f"{line}__consumer_offsets-{partition} (no process has loaded it)" in caplog.text
    page = server.call(Metrics(cluster).collect)
    counted = {each.name: each.samples[0].value for each in page if each.name == "kafka_shim_marker_retries"}
    assert counted["kafka_shim_marker_retries"] >= 1


def test_a_transaction_survives_the_end_of_the_process(tmp_path: Path) -> None:
    def serving(port: int) -> CoordinatorServer:
        config = ServerConfig(port=port, cluster=ClusterConfig(topics={"t": 3}))
        return CoordinatorServer(server_config=config, store=store)

    store = open_store(f"sqlite:{tmp_path / 'store'}", 50)
    with serving(0) as server:
        bootstrap = server.bootstrap
        commits, is_gone = producer(bootstrap, "commits"), producer(bootstrap, "is-gone")
        for each, group in ((commits, GROUPS[0]), (is_gone, GROUPS[1])):
            each.begin_transaction()
            send_offsets(bootstrap, each, group, 7)
    with serving(int(bootstrap.rpartition(":")[2])):
        commits.commit_transaction(30)
        assert committed(bootstrap, GROUPS[0]) == 7
        successor = producer(bootstrap, "is-gone")
        assert committed(bootstrap, GROUPS[1]) == -1
        successor.begin_transaction()
        send_offsets(bootstrap, successor, GROUPS[1], 8)
        with pytest.raises(KafkaException, match="fenced"):
            is_gone.commit_transaction(30)
        successor.commit_transaction(30)
        assert committed(bootstrap, GROUPS[1]) == 8
    store.close()
