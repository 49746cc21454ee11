"""Three processes on one PostgreSQL database, and a real client of each: what one makes, grows or deletes all know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests import postgres
from tests.server.shared import processes
from tests.server.wire import Client
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed")

NODES = (1, 2, 3)


@pytest.fixture(scope="module")
def bootstraps() -> Iterator[list[str]]:
    """Where the client of each process begins."""
    with postgres.postgres_server() as url, processes(url, "--lease", "3", "--topic", "declared:6") as started:
        yield [process.bootstrap for process in started]


@pytest.fixture(scope="module")
def admins(bootstraps: list[str]) -> list[AdminClient]:
    made = [AdminClient({"bootstrap.servers": bootstrap}) for bootstrap in bootstraps]
    for admin in made:
        until(lambda admin=admin: len(admin.list_topics(timeout=5).brokers) == len(NODES))
    return made


def shown(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    """The partitions of a topic with their leaders, as this very process tells them; none if it knows no such topic.

    Real clients ask whichever process they like.
    """
    with Client(bootstrap) as client:
        metadata = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        (found,) = client.ask(metadata, 9, MetadataResponse).topics
        return [(each.partition_index, each.leader_id) for each in found.partitions]


def all_show(bootstraps: list[str], topic: str, partitions: int) -> None:
    """Wait until every process shows so many partitions, and all say the same of them."""

    def same() -> bool:
        answers = [shown(bootstrap, topic) for bootstrap in bootstraps]
        return len(answers[0]) == partitions and answers[0] == answers[1] == answers[2]

    until(same)


def create(admin: AdminClient, topic: str, partitions: int) -> None:
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)


def consumer(bootstrap: str, group: str, **config: Any) -> Consumer:
    common = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    return Consumer(common | {"topic.metadata.refresh.interval.ms": 200} | config)


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    reader = consumer(bootstrap, group)
    found = reader.committed([TopicPartition(topic, each) for each in range(partitions)], 20)
    reader.close()
    return [max(each.offset, -1) for each in found]


def test_what_all_have_declared_is_one_topic(bootstraps: list[str]) -> None:
    all_show(bootstraps, "declared", 6)


def test_what_one_process_creates_every_client_writes_and_reads(
    bootstraps: list[str], admins: list[AdminClient]
) -> None:
    create(admins[0], "created", 9)
    all_show(bootstraps, "created", 9)
    assert {leader for _, leader in shown(bootstraps[0], "created")} == set(NODES)
    for number, bootstrap in enumerate(bootstraps):
        producer = Producer({"bootstrap.servers": bootstrap})
        for partition in range(9):
            producer.produce("created", b"%d" % number, partition=partition)
        assert producer.flush(20) == 0
    for number, bootstrap in enumerate(bootstraps):
        reader = consumer(bootstrap, f"readers-{number}")
        reader.subscribe(["created"])
        read = []
        while len(read) < 27:
            message = reader.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None
            read.append((message.partition(), message.value()))
        assert sorted(read) == sorted((partition, b"%d" % each) for partition in range(9) for each in range(3))
        reader.commit(asynchronous=False)
        reader.close()
        assert committed(bootstraps[number - 1], f"readers-{number}", "created", 9) == [3] * 9


def test_a_topic_made_twice_is_refused_by_whichever_process(admins: list[AdminClient]) -> None:
    create(admins[0], "only-once", 1)
    for admin in admins:
        with pytest.raises(KafkaException, match="already exists"):
            create(admin, "only-once", 2)


def test_three_that_make_a_topic_at_once_make_one(bootstraps: list[str], admins: list[AdminClient]) -> None:
    futures = [admin.create_topics([NewTopic("raced", n + 1, 1)])["raced"] for n, admin in enumerate(admins)]
    refused = [future.exception(20) for future in futures]
    assert [error is None for error in refused].count(True) == 1
    partitions = [error is None for error in refused].index(True) + 1
    all_show(bootstraps, "raced", partitions)


def test_a_topic_that_is_asked_for_is_made_for_all(bootstraps: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstraps[1]})
    producer.produce("made-by-writing", b"x")
    assert producer.flush(20) == 0
    all_show(bootstraps, "made-by-writing", 1)


def test_a_topic_that_grows_rebalances_the_groups_of_every_process(
    bootstraps: list[str], admins: list[AdminClient]
) -> None:
    create(admins[0], "growing", 1)
    members = [consumer(bootstrap, f"growers-{n}") for n, bootstrap in enumerate(bootstraps)]
    for member in members:
        member.subscribe(["growing"])
    owned: dict[Consumer, int] = {}

    def all_own(partitions: int) -> bool:
        for member in members:
            member.poll(0.05)
            owned[member] = len(member.assignment())
        return set(owned.values()) == {partitions}

    until(lambda: all_own(1))
    admins[2].create_partitions([NewPartitions("growing", 4)])["growing"].result(20)
    until(lambda: all_own(4))
    for member in members:
        member.close()


def test_a_topic_that_is_deleted_takes_its_offsets_wherever_they_are(
    bootstraps: list[str], admins: list[AdminClient]
) -> None:
    create(admins[0], "deleted", 2)
    all_show(bootstraps, "deleted", 2)
    groups = [f"left-{n}" for n in range(6)]
    for n, group in enumerate(groups):
        writer = consumer(bootstraps[n % 3], group)
        writer.commit(offsets=[TopicPartition("deleted", p, 10 + n) for p in range(2)], asynchronous=False)
        writer.close()
    assert committed(bootstraps[0], groups[5], "deleted", 2) == [15, 15]
    admins[1].delete_topics(["deleted"])["deleted"].result(20)
    all_show(bootstraps, "deleted", 0)
    create(admins[2], "deleted", 2)
    all_show(bootstraps, "deleted", 2)
    for n, group in enumerate(groups):
        until(lambda n=n, group=group: committed(bootstraps[n % 3], group, "deleted", 2) == [-1, -1])


def test_a_value_of_a_topic_is_the_same_on_every_process(bootstraps: list[str], admins: list[AdminClient]) -> None:
    create(admins[0], "configured", 1)
    all_show(bootstraps, "configured", 1)
    entry = ConfigEntry("retention.ms", "1234", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "configured", incremental_configs=[entry])
    admins[1].incremental_alter_configs([resource])[resource].result(20)
    resource = ConfigResource(ResourceType.TOPIC, "configured")

    def value(admin: AdminClient) -> str:
        found: str = admin.describe_configs([resource])[resource].result(20)["retention.ms"].value
        return found

    for admin in admins:
        until(lambda admin=admin: value(admin) == "1234")
