"""The starts of share groups that requests have set outlive the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import ShareConsumer

from kafka_shim.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    RequestPartition,
)
from kafka_shim.apis.alter_share_group_offsets import RequestTopic as AlteredTopic
from kafka_shim.apis.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_shim.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from kafka_shim.apis.delete_share_group_offsets import RequestTopic as DeletedTopic
from kafka_shim.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    RequestGroup,
    RequestTopic,
)
from kafka_shim.testing import CoordinatorServer, polling
from tests.server.wire import Client
from tests.test_cli import serving

TOPICS = {"orders": 2, "payments": 1}


@contextmanager
def server_on(folder: Path) -> Iterator[tuple[CoordinatorServer, Client]]:
    """Start a server on the store of this folder: it has no memory of earlier progress."""
    store = f"sqlite:{folder}/store.db"
    with CoordinatorServer(topics=TOPICS, store=store) as server, Client(server.bootstrap) as client:
        yield server, client


def alter(client: Client, topic: str, *starts: int) -> None:
    """Set the starts of the partitions of a topic, from the first on."""
    topics = [AlteredTopic(topic, [RequestPartition(index, start) for index, start in enumerate(starts)])]
    answer = client.ask(AlterShareGroupOffsetsRequest("pool", topics), 0, AlterShareGroupOffsetsResponse)
    assert answer.error_code == 0
    assert {each.error_code for each in answer.responses[0].partitions} == {0}


def starts_of(client: Client) -> list[int]:
    """Return the starts in both partitions of orders, and in that of payments."""
    topics = [RequestTopic("orders", [0, 1]), RequestTopic("payments", [0])]
    message = DescribeShareGroupOffsetsRequest([RequestGroup("pool", topics)])
    answer = client.ask(message, 1, DescribeShareGroupOffsetsResponse)
    return [each.start_offset for topic in answer.groups[0].topics for each in topic.partitions]


def test_starts_are_there_after_a_restart(tmp_path: Path) -> None:
    with server_on(tmp_path) as (_, client):
        alter(client, "orders", 3)
        alter(client, "payments", 7)
    with server_on(tmp_path) as (_, client):
        assert starts_of(client) == [3, -1, 7]
        alter(client, "orders", 5, 6)
    with server_on(tmp_path) as (server, client):
        assert starts_of(client) == [5, 6, 7]
        server.share_puppet("pool", ["orders"])
        server.group("pool").stable(members=1)
        assert starts_of(client) == [5, 6, 7]


def test_a_group_waits_until_the_new_log_gets_to_its_start(tmp_path: Path) -> None:
    with server_on(tmp_path) as (_, client):
        alter(client, "payments", 3)
    with server_on(tmp_path) as (server, _):
        settings = {"bootstrap.servers": server.bootstrap, "group.id": "pool"}
        consumer = ShareConsumer(settings)
        consumer.subscribe(["payments"])
        with closing(consumer), polling(consumer) as polled:
            server.group("pool").stable(members=1)
            server.produce("payments", *map(str, range(5)))
            assert [each.offset() for each in polled.wait_records(2)] == [3, 4]


@pytest.mark.parametrize("end", ["offsets", "topic", "group"])
def test_deleted_starts_are_gone_after_a_restart(tmp_path: Path, end: str) -> None:
    with server_on(tmp_path) as (server, client):
        alter(client, "orders", 3)
        alter(client, "payments", 7)
        if end == "offsets":
            message = DeleteShareGroupOffsetsRequest("pool", [DeletedTopic("orders")])
            client.ask(message, 0, DeleteShareGroupOffsetsResponse)
        elif end == "topic":
            server.call(partial(server.kit.cluster.delete_topic, "orders"))
        else:
            client.ask(DeleteGroupsRequest(["pool"]), 2, DeleteGroupsResponse)
    with server_on(tmp_path) as (_, client):
        assert starts_of(client) == [-1, -1, -1 if end == "group" else 7]


def test_an_answer_is_true_after_a_kill(tmp_path: Path) -> None:
    with serving("--topic", "orders:2", "--topic", "payments:1", folder=tmp_path) as (ready, process):
        with Client(ready["kafka"]) as client:
            alter(client, "orders", 3)
        process.kill()
    with serving("--topic", "orders:2", folder=tmp_path) as (ready, _), Client(ready["kafka"]) as client:
        assert starts_of(client) == [3, -1, -1]
