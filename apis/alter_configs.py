"""AlterConfigs (33): replaces the whole configuration of topics, brokers and groups (KIP-133).

A setting that the request leaves out returns to its default. IncrementalAlterConfigs (44)
replaced this API; old clients still send it.

v0  the first
v1  throttle time is taken after the answer is sent
v2  flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int8, int16, int32, string


class AlterableConfig(Struct):
    name: str = field(string)
    value: str | None = field(string, nullable="0+")


class AlterConfigsResource(Struct):
    """`resource_type`: 2 topic, 4 broker, 8 broker logger, 32 group."""

    resource_type: int = field(int8)
    resource_name: str = field(string)
    configs: list[AlterableConfig] = field(array(AlterableConfig))


class AlterConfigsRequest(Message, key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource] = field(array(AlterConfigsResource))
    validate_only: bool = field(boolean)


class AlterConfigsResourceResponse(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    resource_type: int = field(int8)
    resource_name: str = field(string)


class AlterConfigsResponse(Message, key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field(int32)
    responses: list[AlterConfigsResourceResponse] = field(array(AlterConfigsResourceResponse))


def error(request: AlterConfigsRequest, code: int) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code, error_message=None, resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        ]
    )


API = Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", AlterConfigsRequest, AlterConfigsResponse, error)
