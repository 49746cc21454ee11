"""Quotas that administrators set on a running server (KIP-546)."""

import json
from pathlib import Path

import pytest

from kafka_shim.apis import alter_client_quotas as altering
from kafka_shim.apis.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse, OpData
from kafka_shim.apis.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kafka_shim.broker import documents
from kafka_shim.broker.admin.quotas import MAX_BYTES, alter
from kafka_shim.broker.settings import Settings
from kafka_shim.conformance.processes import run
from kafka_shim.conformance.targets.base import TargetError
from kafka_shim.conformance.targets.kafka import NEWEST, class_path
from kafka_shim.persistence.stores import open_store
from kafka_shim.testing import CoordinatorServer
from tests.server.wire import Client

RATE = "producer_byte_rate"


def entry(value: float | None, **entity: str | None) -> altering.EntryData:
    """Return a change of the producer's rate of an entity; `_` stands for `-` in a type. None removes it."""
    names = [altering.EntityData(kind.replace("_", "-"), name) for kind, name in entity.items()]
    return altering.EntryData(names, [OpData(RATE, value or 0.0, value is None)])


def change(client: Client, *entries: altering.EntryData) -> list[int]:
    answer = client.ask(AlterClientQuotasRequest(list(entries)), 1, AlterClientQuotasResponse)
    return [each.error_code for each in answer.entries]


def described(client: Client, *components: ComponentData) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    answer = client.ask(DescribeClientQuotasRequest(list(components)), 1, DescribeClientQuotasResponse)
    return {
        tuple((e.entity_type, e.entity_name) for e in each.entity): {value.key: value.value for value in each.values}
        for each in answer.entries or ()
    }


def test_quotas_survive_a_restart(tmp_path: Path) -> None:
    expected = {(("client-id", "app"), ("user", None)): {RATE: 5.0}, (("user", "alice"),): {RATE: 7.0}}
    for is_first in (True, False):
        store = open_store(f"sqlite:{tmp_path / 'store.db'}", 50)
        with CoordinatorServer(store=store) as server, Client(server.bootstrap) as client:
            if is_first:
                entries = entry(5.0, user=None, client_id="app"), entry(6.0, user="alice"), entry(1.0, client_id="gone")
                assert change(client, *entries) == [0, 0, 0]
                assert change(client, entry(7.0, user="alice"), entry(None, client_id="gone")) == [0, 0]
            assert described(client) == expected
        store.close()


def test_quotas_take_a_bounded_number_of_bytes() -> None:
    settings = Settings()
    changes = []
    settings.on_changed.append(lambda: changes.append(len(settings.quotas)))
    name = "x" * 30_000
    request = AlterClientQuotasRequest([entry(1.0, user=f"{number}{name}") for number in range(100)])
    codes = [each.error_code for each in alter(request, settings).entries]
    accepted = MAX_BYTES // 30_102
    assert codes == [0] * accepted + [44] * (100 - accepted)
    assert changes == [accepted]
    documents.of_settings(settings)
    again = AlterClientQuotasRequest([entry(2.0, user=f"0{name}"), entry(None, user=f"1{name}"), entry(1.0, user=name)])
    assert [each.error_code for each in alter(again, settings).entries] == [0, 0, 0]
    assert len(settings.quotas) == accepted


def test_another_change_of_settings_keeps_the_quotas() -> None:
    settings = Settings()
    changes = []
    settings.on_quotas.append(lambda: changes.append(settings.quotas))
    alter(AlterClientQuotasRequest([entry(1.0, user=None, client_id="a")]), settings)
    (text,) = documents.of_settings(settings).values()
    assert json.loads(text) == {"quotas": [[[["client-id", "a"], ["user", None]], {RATE: 1.0}]]}
    settings.set_quotas({(("client-id", "a"), ("user", None)): {RATE: 1.0}})
    assert len(changes) == 1
    alter(AlterClientQuotasRequest([entry(None, user=None, client_id="a")]), settings)
    assert [len(each) for each in changes] == [1, 0]
    assert documents.of_settings(settings) == {}


@pytest.mark.second_stage("Kafka's tool of configurations")
def test_kafkas_tool_describes_quotas_of_users() -> None:
    try:
        jars = class_path(NEWEST["4.2"])
    except TargetError as error:
        pytest.skip(str(error))
    config = {
        "listeners": "OPEN://127.0.0.1:0,LOGIN://127.0.0.1:0",
        "listener.security.protocol.map": "OPEN:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    with CoordinatorServer(config=config, users={"alice": "wonderland"}) as server:
        with Client(server.bootstrap_of("OPEN")) as client:
            assert change(client, entry(1024.0, user="alice")) == [0]
        java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        tool = [*java, "-cp", jars, "kafka.admin.ConfigCommand", "--bootstrap-server", server.bootstrap_of("OPEN")]
        ended = run([*tool, "--describe", "--entity-type", "users"])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"Quota configs for user-principal 'alice' are {RATE}=1024.0" in ended.stdout
    assert "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=4096" in ended.stdout
