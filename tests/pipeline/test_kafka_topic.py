"""`__consumer_offsets` of a running server, read by Spark's own connector; `test_resolved.py` reads a real Kafka's."""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.sql import SparkSession

from kafka_shim.pipeline.cli import cli
from kafka_shim.pipeline.run import Inputs, build
from kafka_shim.pipeline.schemas import PLACES
from kafka_shim.pipeline.sources.kafka_topic import offsets_topic, reach, reading
from kafka_shim.pipeline.sources.places import Unreadable
from kafka_shim.pipeline.warehouse import Warehouse
from kafka_shim.testing import CoordinatorServer

GROUPS = 3
COMMITS = 3
SHORT = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}


def commit(bootstrap: str, group: str, *offsets: int) -> None:
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    for offset in offsets:
        client.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    client.close()


def test_a_running_server_fills_the_tables(connector: SparkSession, tmp_path: Path) -> None:
    # Partition 1 is empty.
    with CoordinatorServer(topics={"orders": 1}, config={"offsets.topic.num.partitions": "4"}) as server:
        for number in range(GROUPS):
            commit(server.bootstrap, f"group-{number}", number)
        # A partition's log is created on the first request for it.
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        latest = {TopicPartition("__consumer_offsets", number): OffsetSpec.latest() for number in range(4)}
        ends = [each.result().offset for each in admin.list_offsets(latest).values()]
        assert sorted(ends) == [0, 1, 1, 1]
        for number in range(GROUPS):
            commit(server.bootstrap, f"group-{number}", *range(number + 1, number + COMMITS))
        warehouse = Warehouse(connector, str(tmp_path), only={*PLACES, "offset_history"})
        with warehouse.change("run"):
            build(warehouse, Inputs((), (), kafka=server.bootstrap))
        groups = {each.group_id for each in admin.list_consumer_groups().result().valid}
    # Reading writes nothing into the topic.
    assert groups == {f"group-{number}" for number in range(GROUPS)}
    history = (
        warehouse.read("offset_history")
        .select("group_id", "committed_offset")
        .orderBy("group_id", "position")
        .collect()
    )
    expected = [(f"group-{number}", number + more) for number in range(GROUPS) for more in range(COMMITS)]
    assert sorted(map(tuple, history)) == sorted(expected)
    assert warehouse.read("quarantine").isEmpty()
    assert warehouse.read("gaps").isEmpty()


def test_a_missing_topic_is_one_sentence(connector: SparkSession) -> None:
    # The topic does not exist before the first search for a coordinator.
    with (
        CoordinatorServer() as server,
        pytest.raises(Unreadable, match=rf"^__consumer_offsets of {server.bootstrap} cannot be read: [^\n]+$"),
    ):
        offsets_topic(connector, server.bootstrap, SHORT)


def test_a_silent_server_is_one_sentence_in_time(connector: SparkSession) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bootstrap = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreadable, match=rf"^__consumer_offsets of {bootstrap} cannot be read: [^\n]+$"):
            offsets_topic(connector, bootstrap, SHORT)


def test_a_silent_coordinator_is_one_sentence_in_time(connector: SparkSession) -> None:
    with CoordinatorServer(topics={"orders": 1}, config={"offsets.topic.num.partitions": "1"}) as server:
        commit(server.bootstrap, "group", 1)
        server.fault("drop", "FindCoordinator", times=None)
        with pytest.raises(Unreadable, match=r" cannot be read: no answer in 4 s$"):
            offsets_topic(connector, server.bootstrap, SHORT)
        server.clear_faults()
        assert offsets_topic(connector, server.bootstrap).count() == 1


def test_a_dying_server_is_one_sentence_in_time(connector: SparkSession) -> None:
    with CoordinatorServer(topics={"orders": 1}, config={"offsets.topic.num.partitions": "1"}) as server:
        commit(server.bootstrap, "group", 1)
        rows = offsets_topic(connector, server.bootstrap, SHORT)
    with (
        pytest.raises(Unreadable, match=rf"^__consumer_offsets of {server.bootstrap} cannot be read: [^\n]+$"),
        reading(server.bootstrap),
    ):
        rows.count()


def test_an_unreachable_address_is_refused_before_spark_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"127.0.0.1:{server.getsockname()[1]}"
        # One address that accepts connections is enough.
        reach(f"nonsense,{nobody}")
    for command in ("run", "report"):
        done = CliRunner().invoke(cli, [command, "--kafka", nobody, "--out", str(tmp_path)])
        assert done.exit_code == 2
        assert done.output == f"Error: {nobody} cannot be reached: Connection refused\n"
    for wrong in ("nonsense", "[::1", "host:99999"):
        with pytest.raises(Unreadable, match="cannot be reached"):
            reach(wrong)
