"""Three processes on one PostgreSQL database, and a real client of each: a change of topics by one reaches all."""

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

from kafka_shim.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from kafka_shim.apis.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests import postgres
from tests.server.places import confirm_places
from tests.server.shared import processes
from tests.server.wire import Client
from tests.waiting import PATIENCE_S, until

pytestmark = [
    pytest.mark.second_stage("several servers on PostgreSQL"),
    pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed"),
]

NODES = (1, 2, 3)


@pytest.fixture(scope="module")
def bootstraps() -> Iterator[list[str]]:
    """The bootstrap server for the client of each process."""
    with postgres.postgres_server() as url, processes(url, "--lease", "3", "--topic", "declared:6") as started:
        yield [process.bootstrap for process in started]


@pytest.fixture(scope="module")
def admins(bootstraps: list[str]) -> list[AdminClient]:
    made = [AdminClient({"bootstrap.servers": bootstrap}) for bootstrap in bootstraps]
    for admin in made:
        until(lambda admin=admin: len(admin.list_topics(timeout=5).brokers) == len(NODES))
    return made


def shown(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    """Return the partitions of a topic with their leaders at this very process; none for an unknown topic.

    Real clients ask any process.
    """
    with Client(bootstrap) as client:
        metadata = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        (found,) = client.ask(metadata, 9, MetadataResponse).topics
        return [(each.partition_index, each.leader_id) for each in found.partitions]


def test_each_process_is_the_broker_that_all_name(bootstraps: list[str], admins: list[AdminClient]) -> None:
    assert len({confirm_places(bootstrap, len(NODES)) for bootstrap in bootstraps}) == 1


def all_show(bootstraps: list[str], topic: str, partitions: int) -> None:
    """Wait until every process shows this number of partitions, and all agree."""

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


def test_all_processes_show_a_quota_that_one_was_given(bootstraps: list[str]) -> None:
    request = AlterClientQuotasRequest([EntryData([EntityData("user", None)], [OpData("request_percentage", 50.0)])])
    with Client(bootstraps[0]) as client:
        assert client.ask(request, 1, AlterClientQuotasResponse).entries[0].error_code == 0
    for bootstrap in bootstraps:
        with Client(bootstrap) as client:
            answer = client.ask(DescribeClientQuotasRequest(), 1, DescribeClientQuotasResponse)
            assert [(each.key, each.value) for entry in answer.entries for each in entry.values] == [
                ("request_percentage", 50.0)
            ]
    request.entries[0].ops[0].remove = True
    with Client(bootstraps[1]) as client:
        assert client.ask(request, 1, AlterClientQuotasResponse).entries[0].error_code == 0


def test_a_topic_declared_by_all_processes_is_one_topic(bootstraps: list[str]) -> None:
    all_show(bootstraps, "declared", 6)


def test_all_processes_show_the_offsets_topic_from_the_start(bootstraps: list[str]) -> None:
    until(lambda: {leader for _, leader in shown(bootstraps[0], "__consumer_offsets")} == set(NODES))
    all_show(bootstraps, "__consumer_offsets", 50)


def test_every_client_writes_and_reads_a_topic_that_one_process_creates(
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


def test_every_process_refuses_to_create_a_topic_twice(admins: list[AdminClient]) -> None:
    create(admins[0], "only-once", 1)
    for admin in admins:
        with pytest.raises(KafkaException, match="already exists"):
            create(admin, "only-once", 2)


def test_three_concurrent_creations_make_one_topic(bootstraps: list[str], admins: list[AdminClient]) -> None:
    futures = [admin.create_topics([NewTopic("raced", n + 1, 1)])["raced"] for n, admin in enumerate(admins)]
    refused = [future.exception(20) for future in futures]
    assert [error is None for error in refused].count(True) == 1
    partitions = [error is None for error in refused].index(True) + 1
    all_show(bootstraps, "raced", partitions)


def test_a_requested_topic_is_created_for_all_processes(bootstraps: list[str]) -> None:
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


def test_a_deleted_topic_takes_its_offsets_in_every_process(bootstraps: list[str], admins: list[AdminClient]) -> None:
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
