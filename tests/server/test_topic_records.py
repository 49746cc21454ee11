"""Topics and settings from clients outlive the server, as groups do, if its store does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
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
from kafka_shim.apis.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker import documents
from kafka_shim.broker.settings import Settings
from kafka_shim.broker.topics import Node as Address
from kafka_shim.lab.replay import Replay
from kafka_shim.persistence.postgres import PostgresStore
from kafka_shim.persistence.records import DocumentKey
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.persistence.store import Store, StoreError
from kafka_shim.server.cluster import Cluster, ClusterConfig
from kafka_shim.server.compose import make_cluster
from kafka_shim.server.journal import Journal
from kafka_shim.server.server import the_only
from kafka_shim.testing import CoordinatorServer
from tests import postgres
from tests.server.shared import processes
from tests.server.test_durability import SlowStore
from tests.server.wire import Client, Wire, cluster, request
from tests.waiting import until, until_in_trio

TOPIC, BROKER, GROUP = 2, 4, 32
"""Types of resources with settings."""
MIN_ISR = "min.insync.replicas"
"""A value that every cluster of Kafka 4.2 sets itself."""
DECLARED = {"declared": 3, "kept": 1}
LEVELS_OF_42 = {"metadata.version": 29, "share.version": 1}

needs_postgresql = pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed")
postgresql = [needs_postgresql, pytest.mark.second_stage("PostgreSQL")]


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
    """Return every topic with its id, number of partitions and settings."""
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
    with (
        opened(lambda: SqliteStore(path / "offsets.db", 50)) as store,
        CoordinatorServer(topics=topics, store=store, config=config) as server,
        Client(server.bootstrap) as client,
    ):
        yield client


@contextmanager
def opened(make: Callable[[], Store]) -> Iterator[Store]:
    """A store, open until the block ends."""
    store = make()
    store.open()
    try:
        yield store
    finally:
        store.close()


def test_topics_and_settings_outlive_a_restart_on_sqlite(tmp_path: Path) -> None:
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


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres.postgres_server() as url:
        yield url


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=[needs_postgresql, pytest.mark.second_stage("PostgreSQL")])]
)
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """A function that opens the same store again and again."""
    if request.param == "sqlite":
        return lambda: SqliteStore(tmp_path / "offsets.db", 50)
    url = request.getfixturevalue("database")
    postgres.empty(url)
    return lambda: PostgresStore(url, 50)


def of_groups(count: int, operation: int = 0) -> bytes:
    """A request that sets (0) or deletes (1) a value of so many groups."""
    value = [AlterableConfig("consumer.session.timeout.ms", operation, "50000")]
    resources = [AlterConfigsResource(GROUP, f"g{number}", value) for number in range(count)]
    return request(IncrementalAlterConfigsRequest(resources), 1)


def test_a_change_of_groups_describes_only_these_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []
    of_group = documents.of_group

    def counted(settings: Settings, group_id: str) -> dict[tuple[str, str], str]:
        described.append(group_id)
        return of_group(settings, group_id)

    with opened(lambda: SqliteStore(tmp_path / "offsets.db", 50)) as store:
        made = cluster(store)
        made.begin_topics([])
        monkeypatch.setattr(documents, "of_group", counted)
        for count, operation in ((40, 0), (1, 0), (2, 1)):
            described.clear()
            Wire(made).receive(of_groups(count, operation))
            assert described == [f"g{number}" for number in range(count)]
        records = [(key, value) for _, key, value in made.outbox.records if isinstance(key, DocumentKey)]
        assert [(key.name, value is None) for key, value in records if key.kind == documents.GROUP] == [
            *((f"g{number}", False) for number in range(40)),
            ("g0", True),
            ("g1", True),
        ]


@asynccontextmanager
async def posing_as(release: str, make_store: Callable[[], Store]) -> AsyncIterator[Wire]:
    """A client of a cluster of this release on the store."""
    with opened(make_store) as store:
        cluster = make_cluster([Address(1, "localhost", 9092)], ClusterConfig(release=release), store)
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await cluster.loaded.wait()
            yield Wire(cluster)
            await cluster.durability.flushed()
            nursery.cancel_scope.cancel()


async def ask(wire: Wire, message: Message, version: int, kind: type[Any]) -> Any:
    wire.receive(request(message, version), wire.cluster.clock())
    await until_in_trio(lambda: wire.sent)
    return wire.answer(kind, version)[1]


async def cluster_of(wire: Wire) -> tuple[int, str]:
    """Return the level of metadata.version, and the id of the cluster."""
    features = (await ask(wire, ApiVersionsRequest("test", "1"), 4, ApiVersionsResponse)).finalized_features
    (level,) = (each.max_version_level for each in features if each.name == "metadata.version")
    return level, (await ask(wire, MetadataRequest([]), 12, MetadataResponse)).cluster_id


async def test_an_older_release_refuses_a_store_until_its_levels_are_lowered(make_store: Callable[[], Store]) -> None:
    async with posing_as("4.2", make_store) as wire:
        level, cluster_id = await cluster_of(wire)
        assert level == 29
    async with posing_as("4.4", make_store) as wire:
        assert await cluster_of(wire) == (33, cluster_id)
    with pytest.raises(ExceptionGroup) as refused:
        async with posing_as("4.2", make_store):
            pass
    error = the_only(refused.value)
    assert isinstance(error, StoreError)
    assert str(error) == (
        "The store is one of Kafka 4.4, with metadata.version 33, share.version 2, which Kafka 4.2 does not support: "
        "start with --as-version 4.4, where these levels can be lowered first."
    )
    async with posing_as("4.4", make_store) as wire:
        lower = [FeatureUpdateKey(name, level, upgrade_type=2) for name, level in LEVELS_OF_42.items()]
        answer = await ask(wire, UpdateFeaturesRequest(feature_updates=lower), 2, UpdateFeaturesResponse)
        assert answer.error_code == 0
    for release in ("4.2", "4.4"):
        async with posing_as(release, make_store) as wire:
            assert await cluster_of(wire) == (29, cluster_id)


@pytest.mark.second_stage("PostgreSQL")
@needs_postgresql
def test_topics_and_settings_outlive_a_restart_on_postgresql(database: str) -> None:
    postgres.empty(database)
    options = ("--lease", "1", *(f"--topic={name}:{count}" for name, count in DECLARED.items()))
    with processes(database, *options, nodes=(1,)) as (process,):
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
    """Start a cluster that keeps its topics in this store."""
    config = ClusterConfig(topics=DECLARED, lasting=True, **parts)
    cluster = make_cluster([Address(1, "localhost", 9092)], config, store)
    async with trio.open_nursery() as nursery:
        await store.take_format(cluster, nursery)
        yield cluster
        store.let_go(1000)
        nursery.cancel_scope.cancel()


def topics_of(cluster: Cluster) -> dict[str, tuple[bytes, int]]:
    return {topic.name: (topic.id, len(topic.partitions)) for topic in cluster.topics.all()}


async def test_a_topic_shows_once_it_is_durable_and_a_failed_change_is_undone() -> None:
    store = SlowStore()
    async with lasting(store) as cluster:
        maker, reader, now = Wire(cluster), Wire(cluster), cluster.clock()
        maker.receive(request(made("orders", 2), 7), now)
        reader.receive(request(metadata("orders"), 12), now)
        await until_in_trio(lambda: store.batches)
        # A request about a topic waits on when groups move.
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


async def test_a_replay_begins_with_the_topics_of_the_store(tmp_path: Path) -> None:
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
