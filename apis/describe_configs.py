"""DescribeConfigs (32): the configuration of topics, brokers and groups.

v0  the first; of the source of a value only `is_default`
v1  the source of each value, and its synonyms (KIP-226)
v2  throttle time is taken after the answer is sent
v3  type and documentation of each value (KIP-569)
v4  flexible
"""

from typing import Final

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int8, int16, int32, string


class DescribeConfigsResource(Struct):
    """`resource_type`: 2 topic, 4 broker, 8 broker logger, 32 group. Null keys mean all."""

    resource_type: int = field(int8)
    resource_name: str = field(string)
    configuration_keys: list[str] | None = field(array(string), nullable="0+")


class DescribeConfigsRequest(Message, key=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = field(array(DescribeConfigsResource))
    include_synonyms: bool = field(boolean, versions="1+")
    include_documentation: bool = field(boolean, versions="3+")


class DescribeConfigsSynonym(Struct):
    name: str = field(string, versions="1+")
    value: str | None = field(string, versions="1+", nullable="0+")
    source: int = field(int8, versions="1+")


class DescribeConfigsResourceResult(Struct):
    """`config_source`: 1 topic, 2 broker, 4 broker's file, 5 default, 8 group."""

    name: str = field(string)
    value: str | None = field(string, nullable="0+")
    read_only: bool = field(boolean)
    config_source: int = field(int8, versions="1+", default=-1, ignorable=True)
    is_default: bool = field(boolean, versions="0")
    is_sensitive: bool = field(boolean)
    synonyms: list[DescribeConfigsSynonym] = field(array(DescribeConfigsSynonym), versions="1+", ignorable=True)
    config_type: int = field(int8, versions="3+", ignorable=True)
    documentation: str | None = field(string, versions="3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configs: list[DescribeConfigsResourceResult] = field(array(DescribeConfigsResourceResult))


class DescribeConfigsResponse(Message, key=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+"):
    throttle_time_ms: int = field(int32)
    results: list[DescribeConfigsResult] = field(array(DescribeConfigsResult))


DEFAULT_CONFIG: Final = 5
"""The `config_source` of a default value."""


def shape(response: DescribeConfigsResponse, version: int) -> DescribeConfigsResponse:
    """In version 0, set `is_default` from the source."""
    if version == 0:
        for result in response.results:
            for config in result.configs:
                config.is_default = config.config_source == DEFAULT_CONFIG
    return response


def error(request: DescribeConfigsRequest, code: int) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=code, error_message=None, resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        ]
    )


API = Api(
    ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", DescribeConfigsRequest, DescribeConfigsResponse, error, shape=shape
)
