"""The command, the plugin and the extras with the lowest version of each dependency that pyproject.toml allows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.once import made_once
from tests.packaging.conftest import THIS, Distribution, Environment, install
from tests.postgres import binaries, postgres_server

pytestmark = [
    pytest.mark.everything("an environment of the lowest versions"),
    pytest.mark.skipif(THIS != "3.11", reason="the lowest versions have wheels for Python 3.11 alone"),
]
TESTS = """
import json
import urllib.request


def test_a_member_joins(kafka_coordinator):
    kafka_coordinator.create_topic("orders", 2)
    kafka_coordinator.puppet("billing", ["orders"])
    kafka_coordinator.group("billing").stable(members=1)


def test_the_control_server_answers(kafka_coordinator_factory):
    server = kafka_coordinator_factory(control=True, topics={"orders": 1})
    server.puppet("billing", ["orders"])
    server.group("billing").stable(members=1)
    groups = json.load(urllib.request.urlopen(server.control_url + "/v1/groups"))
    assert "billing" in json.dumps(groups)
"""

TESTS_OF_CLIENTS = """
import asyncio

from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from kafka import KafkaConsumer

from kafka_shim.testing import CoordinatorServer


def settings_of(server, client):
    return server.client_settings(client, "alice", "SCRAM-SHA-256")


def secured():
    return CoordinatorServer(topics={"orders": 1}, security="SASL_SSL", users={"alice": "secret"})


def test_kafka_python():
    with secured() as server:
        server.produce("orders", b"one")
        settings = {"bootstrap_servers": server.bootstrap, "group_id": "g", "auto_offset_reset": "earliest"}
        consumer = KafkaConsumer("orders", **settings, **settings_of(server, "kafka-python"))
        assert next(consumer).value == b"one"
        consumer.close()


def test_aiokafka():
    async def read(server):
        settings = {"bootstrap_servers": server.bootstrap, "group_id": "g", "auto_offset_reset": "earliest"}
        consumer = AIOKafkaConsumer("orders", **settings, **settings_of(server, "aiokafka"))
        await consumer.start()
        try:
            return (await consumer.getone()).value
        finally:
            await consumer.stop()

    with secured() as server:
        server.produce("orders", b"one")
        assert asyncio.run(read(server)) == b"one"


def test_confluent_kafka():
    with secured() as server:
        server.produce("orders", b"one")
        settings = {"bootstrap.servers": server.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings | settings_of(server, "confluent-kafka"))
        consumer.subscribe(["orders"])
        assert consumer.poll(20).value() == b"one"
        consumer.close()
"""
KEEPS = """
import sys

from kafka_shim.testing import CoordinatorServer

with CoordinatorServer(store=sys.argv[1], topics={"orders": 1}) as server:
    server.seed_offsets("billing", {("orders", 0): 7})
with CoordinatorServer(store=sys.argv[1], topics={"orders": 1}) as server:
    assert server.group("billing").committed("orders", 0) == 7
"""


@pytest.fixture(scope="session")
def lowest(shared: Path, distribution: Distribution) -> Environment:
    folder = shared / "lowest"
    made_once(folder, lambda: install(sys.executable, folder, distribution.wheel, "old/lowest.txt"))
    return Environment(folder, THIS)


def test_the_plugin_works(lowest: Environment, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    assert "2 passed" in lowest.run("pytest", "-p", "no:cacheprovider", "test_it.py", cwd=tmp_path)


@pytest.mark.parametrize("command", ["serve", "why", "groups", "offsets", "topics", "trace", "replay", "conformance"])
def test_a_command_starts(lowest: Environment, tmp_path: Path, command: str) -> None:
    """click 8.1 has neither types in brackets nor an exception for a command without arguments."""
    assert f"kafka-shim {command}" in lowest.run("kafka-shim", command, "--help", cwd=tmp_path)


def test_a_mistake_is_one_sentence(lowest: Environment, tmp_path: Path) -> None:
    assert "No such command" in lowest.run("kafka-shim", "nothing", cwd=tmp_path, code=2)


def test_cases_pass(lowest: Environment, tmp_path: Path) -> None:
    output = lowest.run("kafka-shim", "conformance", "--case", "sync/round/*", cwd=tmp_path)
    assert "0 not as expected" in output


def test_clients_read_by_tls_and_scram(lowest: Environment, tmp_path: Path) -> None:
    (tmp_path / "test_clients.py").write_text(TESTS_OF_CLIENTS)
    assert "3 passed" in lowest.run("pytest", "-p", "no:cacheprovider", "test_clients.py", cwd=tmp_path)


@pytest.mark.skipif(binaries() is None, reason="PostgreSQL's initdb is not installed")
def test_postgresql_keeps_offsets(lowest: Environment, tmp_path: Path) -> None:
    (tmp_path / "keeps.py").write_text(KEEPS)
    with postgres_server() as url:
        lowest.run("python", "keeps.py", url, cwd=tmp_path)
