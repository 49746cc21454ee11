"""Descriptions and changes of configurations."""

from __future__ import annotations

from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResult
from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.context import Cluster

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(cluster: Cluster, kind: int, name: str, *keys: str, **fields: bool) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(kind, name, list(keys) or None)
    (result,) = cluster.broker.configs.describe_configs(DescribeConfigsRequest(resources=[resource], **fields)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def value(cluster: Cluster, kind: int, name: str, key: str) -> tuple[str | None, int]:
    (config,) = describe(cluster, kind, name, key).configs
    return config.value, config.config_source


def alter(
    cluster: Cluster, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> int:
    resource = AlterConfigsResource(kind, name, [AlterableConfig(*change) for change in changes])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (response,) = cluster.broker.change(request, None, cluster.now).responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    assert bool(response.error_code) == bool(response.error_message)
    return response.error_code
