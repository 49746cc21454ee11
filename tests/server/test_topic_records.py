"""Topics and settings that clients have made outlive the server, as groups do, where its store does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kafka_shim.apis.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kafka_shim.apis.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafka_shim.apis.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import Node as Address
from kafka_shim.lab.replay import Replay
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.persistence.store import StoreError
from kafka_shim.server.cluster import Cluster, ClusterConfig, make_cluster
from kafka_shim.server.journal import Journal
from kafka_shim.testing import CoordinatorServer
from tests import postgres
from tests.server.shared import processes
from tests.server.test_durability import SlowStore
from tests.server.wire import Client, Wire, request
from tests.waiting import until, until_in_trio

TOPIC, BROKER, GROUP = 2, 4, 32
"""Types of resources with settings."""
MIN_ISR = "min.insync.replicas"
"""A value that every cluster of Kafka 4.2 has set by itself."""
DECLARED = {"declared": 3, "kept": 1}


def made(name: str, partitions: int = 1, **configs: str) -> CreateTopicsRequest:
    named = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreateTopicsRequest([CreatableTopic(name, partitions, 1, [], named)])


def metadata(*names: str) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names])


def change(client: Client) -> None:
    """Create, grow, delete and create again, configure."""
    for each in (made("orders", 2, retention_ms="60000"), made("short", 1), made("short-lived", 1)):
        assert client.ask(each, 7, CreateTopicsResponse).topics[0].error_code == 0
    grown = CreatePartitionsRequest([CreatePartitionsTopic("orders", 5, None), CreatePartitionsTopic("kept", 4, None)])
    assert [each.error_code for each in client.ask(grown, 3, CreatePartitionsResponse).results] == [0, 0]
    gone = DeleteTopicsRequest([DeleteTopicState("short"), DeleteTopicState("short-lived")])
    assert [each.error_code for each in client.ask(gone, 6, DeleteTopicsResponse).responses] == [0, 0]
    assert client.ask(made("short", 3), 7, CreateTopicsResponse).topics[0].error_code == 0
    # The first answer is UNKNOWN_TOPIC_OR_PARTITION (3); the topic is there some time later, as in Kafka.
    until(lambda: client.ask(metadata("auto"), 12, MetadataResponse).topics[0].error_code == 0)
    settings = [
        (TOPIC, "short", "cleanup.policy", "compact"),
        (GROUP, "billing", "consumer.session.timeout.ms", "50000"),
        (BROKER, "", "log.cleaner.threads", "2"),
    ]
    altered = [AlterConfigsResource(kind, name, [AlterableConfig(key, 0, text)]) for kind, name, key, text in settings]
    answer = client.ask(IncrementalAlterConfigsRequest(altered), 1, IncrementalAlterConfigsResponse)
    assert [each.error_code for each in answer.responses] == [0, 0, 0]


def shown(client: Client) -> dict[str, Any]:
    """Every topic with its id and number of partitions, and what was set."""
    client.ask(metadata("__consumer_offsets"), 12, MetadataResponse)
    topics = client.ask(MetadataRequest(None), 12, MetadataResponse).topics
    resources = [(TOPIC, "orders"), (TOPIC, "short"), (GROUP, "billing"), (BROKER, "")]
    described = [DescribeConfigsResource(kind, name, None) for kind, name in resources]
    found = client.ask(DescribeConfigsRequest(described), 4, DescribeConfigsResponse).results
    return {
        "topics": {topic.name: (topic.topic_id, len(topic.partitions)) for topic in topics},
        # 1, 3 and 8 are set for the topic, all brokers and the group.
        "set": [
            {each.name: each.value for each in one.configs if each.config_source in (1, 3, 8) and each.name != MIN_ISR}
            for one in found
        ],
    }


def check(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert after == before
    counts = {name: partitions for name, (_, partitions) in after["topics"].items()}
    assert counts == {
        "declared": 3,
        "kept": 4,
        "orders": 5,
        "short": 3,
        "auto": 1,
        "__consumer_offsets": 50,
    }
    assert after["set"] == [
        {"retention.ms": "60000"},
        {"cleanup.policy": "compact"},
        {"consumer.session.timeout.ms": "50000"},
        {"log.cleaner.threads": "2"},
    ]


@contextmanager
def client_of(path: Path, topics: dict[str, int]) -> Iterator[Client]:
    """A client of a server that has its store in a file."""
    config = {"auto.create.topics.enable": "true"}
    store = SqliteStore(path / "offsets.db", 50)
    store.open()
    with CoordinatorServer(topics=topics, store=store, config=config) as server, Client(server.bootstrap) as client:
        yield client
    store.close()


def test_what_clients_have_made_is_there_after_a_restart_on_sqlite(tmp_path: Path) -> None:
    with client_of(tmp_path, DECLARED) as client:
        change(client)
        before = shown(client)
    for _ in range(2):
        with client_of(tmp_path, DECLARED) as client:
            check(before, shown(client))
    # A declared topic has as many partitions as it is declared with, at least.
    with client_of(tmp_path, {"orders": 6, "short": 1}) as client:
        after = shown(client)["topics"]
        assert after["orders"] == (before["topics"]["orders"][0], 6)
        assert after["short"] == before["topics"]["short"]


@pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed")
def test_what_clients_have_made_is_there_after_a_restart_on_postgresql() -> None:
    options = ("--lease", "1", *(f"--topic={name}:{count}" for name, count in DECLARED.items()))
    with postgres.postgres_server() as url, processes(url, *options, nodes=(1,)) as (process,):
        with Client(process.bootstrap) as client:
            change(client)
            before = shown(client)
        process.kill()
        process.start()
        process.ready()
        with Client(process.bootstrap) as client:
            check(before, shown(client))


@asynccontextmanager
async def lasting(store: SlowStore, **parts: Any) -> AsyncIterator[Cluster]:
    """A cluster that keeps its topics in this store."""
    config = ClusterConfig(topics=DECLARED, lasting=True, **parts)
    cluster = make_cluster([Address(1, "localhost", 9092)], config, store)
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)
        await cluster.loaded.wait()
        yield cluster
        store.let_go(1000)
        nursery.cancel_scope.cancel()


def topics_of(cluster: Cluster) -> dict[str, tuple[bytes, int]]:
    return {topic.name: (topic.id, len(topic.partitions)) for topic in cluster.topics.all()}


async def test_a_topic_shows_once_it_is_durable_and_a_change_that_was_not_written_is_undone() -> None:
    store = SlowStore()
    async with lasting(store) as cluster:
        maker, reader, now = Wire(cluster), Wire(cluster), cluster.clock()
        maker.receive(request(made("orders", 2), 7), now)
        reader.receive(request(metadata("orders"), 12), now)
        await until_in_trio(lambda: store.batches)
        # Whoever waits for a topic waits on where groups move.
        cluster.ownership.give_up({1})
        assert (maker.sent, reader.sent) == (b"", b"")
        store.let_go()
        await until_in_trio(lambda: maker.sent and reader.sent)
        assert maker.answer(CreateTopicsResponse, 7)[1].topics[0].error_code == 0
        assert len(reader.answer(MetadataResponse, 12)[1].topics[0].partitions) == 2
        before = topics_of(cluster)
        store.failure = StoreError("The disk is full.")
        wires = [Wire(cluster) for _ in range(3)]
        for wire, message, version in zip(
            wires,
            (
                made("more"),
                DeleteTopicsRequest([DeleteTopicState("orders")]),
                CreatePartitionsRequest([CreatePartitionsTopic("kept", 4, None)]),
            ),
            (7, 6, 3),
            strict=True,
        ):
            wire.receive(request(message, version), now)
        assert topics_of(cluster).keys() == {"declared", "kept", "more"}
        store.let_go(2)
        await until_in_trio(lambda: all(wire.sent for wire in wires))
        errors = [
            wires[0].answer(CreateTopicsResponse, 7)[1].topics[0].error_code,
            wires[1].answer(DeleteTopicsResponse, 6)[1].responses[0].error_code,
            wires[2].answer(CreatePartitionsResponse, 3)[1].results[0].error_code,
        ]
        assert errors == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
        assert topics_of(cluster) == before


async def test_a_replay_begins_with_the_topics_that_the_store_had(tmp_path: Path) -> None:
    store = SlowStore()
    store.let_go(1000)
    async with lasting(store) as cluster:
        Wire(cluster).receive(request(made("orders", 2), 7), cluster.clock())
        await cluster.durability.flushed()
        before = topics_of(cluster)
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    async with lasting(store, journal=journal) as cluster:
        with journal:
            await trio.testing.wait_all_tasks_blocked()
        assert topics_of(cluster) == before
    with path.open("rb") as lines:
        replay = Replay(lines)
        replay.run()
    assert topics_of(replay.cluster) == before
