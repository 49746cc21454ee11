"""The settings of topics, groups and brokers, name by name as a running Kafka describes them."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kafka_shim.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kafka_shim.broker.setting import ConfigType, Setting
from kafka_shim.broker.settings import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS
from kafka_shim.conformance.targets import open_target
from kafka_shim.conformance.targets.base import TargetError
from tests.server.wire import Client

DEFAULT = 5
OF_TARGET = {"advertised.listeners", "controller.listener.names", "log.dirs", "node.id", "process.roles"}
"""What every broker must be told."""


@pytest.fixture(scope="module")
def kafka() -> Iterator[Client]:
    target = open_target("kafka")
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


def described(kafka: Client, kind: int, name: str) -> dict[str, DescribeConfigsResourceResult]:
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)], True)
    (found,) = kafka.ask(request, 4, DescribeConfigsResponse).results
    assert found.error_code == 0
    return {each.name: each for each in found.configs}


def facts(name: str, setting: Setting, default: str | None) -> tuple[Any, ...]:
    return name, setting.type, not setting.dynamic, setting.type is ConfigType.PASSWORD, default


def facts_of_kafka(found: DescribeConfigsResourceResult, default: str | None) -> tuple[Any, ...]:
    return found.name, found.config_type, found.read_only, found.is_sensitive, default


def test_brokers(kafka: Client) -> None:
    theirs = {
        facts_of_kafka(
            each,
            None
            if each.name in OF_TARGET
            else next((synonym.value for synonym in each.synonyms if synonym.source == DEFAULT), None),
        )
        for each in described(kafka, 4, "1").values()
    }
    ours = {facts(name, each, each.default) for name, each in BROKER_SETTINGS.items() if not each.internal}
    assert ours == theirs


def test_topics(kafka: Client) -> None:
    found = described(kafka, 2, "t")
    theirs = {facts_of_kafka(each, each.value) for each in found.values()}
    assert {facts(name, each, each.default) for name, each in TOPIC_SETTINGS.items()} == theirs


def test_groups(kafka: Client) -> None:
    found = described(kafka, 32, "g")
    theirs = {facts_of_kafka(each, each.value) for each in found.values()}
    assert {facts(name, each.setting, each.setting.default) for name, each in GROUP_SETTINGS.items()} == theirs
