"""The settings of topics, groups and brokers, compared by name with those that a running Kafka describes."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kafka_shim.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kafka_shim.apis.releases import rules_of
from kafka_shim.broker.setting import ConfigType, Setting
from kafka_shim.broker.settings import broker_settings, group_settings, topic_settings
from kafka_shim.conformance.targets import open_target
from kafka_shim.conformance.targets.base import TargetError
from tests.server.wire import Client

pytestmark = pytest.mark.second_stage("a real Kafka")

DEFAULT = 5
LACKING = {"4.3": {"max.decompressed.message.bytes"}}
"""Settings that 4.3.1 does not have, though 4.2.2 and 4.4.0 do: a fault of one release."""
OF_TARGET = {"advertised.listeners", "controller.listener.names", "log.dirs", "node.id", "process.roles"}
"""Settings that every broker needs and that differ between brokers."""


@pytest.fixture(scope="module", params=["4.2", "4.3", "4.4"])
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def kafka(release: str) -> Iterator[Client]:
    target = open_target(f"kafka:{release}")
    try:
        instance = target.start("default")
        with Client(f"{instance.host}:{instance.port}") as client:
            topic = CreateTopicsRequest([CreatableTopic("t", 1, 1, [], [])], 10_000)
            assert client.ask(topic, 7, CreateTopicsResponse).topics[0].error_code == 0
            yield client
    except TargetError as error:
        pytest.skip(str(error))
    finally:
        target.stop()


def ours(settings: Iterable[Setting], release: str) -> set[tuple[Any, ...]]:
    shown = (each for each in settings if not each.internal and each.name not in LACKING.get(release, ()))
    return {facts(each.name, each, each.default) for each in shown}


def described(kafka: Client, kind: int, name: str) -> dict[str, DescribeConfigsResourceResult]:
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)], True)
    (result,) = kafka.ask(request, 4, DescribeConfigsResponse).results
    assert result.error_code == 0
    return {each.name: each for each in result.configs}


def facts(name: str, setting: Setting, default: str | None) -> tuple[Any, ...]:
    return name, setting.type, not setting.dynamic, setting.type is ConfigType.PASSWORD, default


def facts_of_kafka(setting: DescribeConfigsResourceResult, default: str | None) -> tuple[Any, ...]:
    return setting.name, setting.config_type, setting.read_only, setting.is_sensitive, default


def test_broker_settings_equal_those_of_kafka(kafka: Client, release: str) -> None:
    kafkas = {
        facts_of_kafka(
            each,
            None
            if each.name in OF_TARGET
            else next((synonym.value for synonym in each.synonyms if synonym.source == DEFAULT), None),
        )
        for each in described(kafka, 4, "1").values()
    }
    assert ours(broker_settings(rules_of(release)).values(), release) == kafkas


def test_topic_settings_equal_those_of_kafka(kafka: Client, release: str) -> None:
    settings = described(kafka, 2, "t")
    kafkas = {facts_of_kafka(each, each.value) for each in settings.values()}
    assert ours(topic_settings(rules_of(release)).values(), release) == kafkas


def test_group_settings_equal_those_of_kafka(kafka: Client, release: str) -> None:
    settings = described(kafka, 32, "g")
    # The broker that the suite starts has intervals of 0, and groups inherit them.
    kafkas = {facts_of_kafka(each, each.synonyms[-1].value) for each in settings.values()}
    assert ours((each.setting for each in group_settings(rules_of(release)).values()), release) == kafkas
